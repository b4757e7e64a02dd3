"""The architectures of the papers."""

from gnomon.models.convolutional import cnn
from gnomon.models.mlp import mlp
from gnomon.models.transformer import OneLayerTransformer

__all__ = ["OneLayerTransformer", "cnn", "mlp"]
