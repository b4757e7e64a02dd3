"""Settings of this project."""
