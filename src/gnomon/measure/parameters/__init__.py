"""Quantities of the weights alone."""
