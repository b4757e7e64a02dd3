"""ntk-regime: a sample's inner product with its centroid, and the neural tangent kernel that moves it (figure 3)."""
