"""Quantities of the posterior around the parameters."""
