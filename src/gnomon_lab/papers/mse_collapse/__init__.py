"""Neural collapse under the squared error: Han, Papyan, Donoho, arXiv:2106.02073."""
