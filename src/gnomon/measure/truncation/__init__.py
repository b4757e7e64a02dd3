"""Of the effective data that the layers of a network leave of its inputs."""
