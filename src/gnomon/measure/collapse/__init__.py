"""Quantities of the features, their class means and the classifier: neural collapse."""
