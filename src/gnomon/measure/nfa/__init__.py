"""Of the average gradient outer product, and of weights beside it: the neural feature ansatz."""
