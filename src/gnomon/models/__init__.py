"""The architectures of the papers."""

from gnomon.models.convolutional import cnn
from gnomon.models.mlp import mlp
from gnomon.models.resnet import ResNet, resnet18
from gnomon.models.transformer import OneLayerTransformer

__all__ = ["OneLayerTransformer", "ResNet", "cnn", "mlp", "resnet18"]
