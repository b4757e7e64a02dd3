"""The average gradient outer product, and weights compared with it: the neural feature ansatz."""
