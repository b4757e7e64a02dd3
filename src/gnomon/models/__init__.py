"""The architectures of the papers."""

from gnomon.models.mlp import mlp

__all__ = ["mlp"]
