"""Quantities of the effective data: what the layers of a network leave of its inputs."""
