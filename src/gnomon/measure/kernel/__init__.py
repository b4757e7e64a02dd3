"""Of the empirical neural tangent kernel."""
