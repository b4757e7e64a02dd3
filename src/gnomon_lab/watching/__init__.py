"""Runs and histories followed while they grow: files are read, never locked, and drawn in a page or a terminal."""
