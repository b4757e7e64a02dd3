"""The empirical neural tangent kernel."""
