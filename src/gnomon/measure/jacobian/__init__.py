"""Quantities of the input Jacobian: norm, spectrum, alignment with the sample, and centroid (the sum of its rows)."""
