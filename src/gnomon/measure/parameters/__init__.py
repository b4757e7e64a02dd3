"""Of the weights alone."""
