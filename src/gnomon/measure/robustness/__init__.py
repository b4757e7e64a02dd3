"""Quantities of the decision, and how far away another one is."""
