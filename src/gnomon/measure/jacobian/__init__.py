"""Of the Jacobian in the input: norm, spectrum, alignment with the sample, and the centroid, the sum of its rows."""
