"""Quantities of a layer's outputs, with and without the labels."""
