"""The architectures of the papers."""

from gnomon.models.convolutional import cnn
from gnomon.models.densenet import DenseNet, densenet40, densenet100, densenet201, densenet250
from gnomon.models.mlp import mlp
from gnomon.models.resnet import ResNet, resnet18, resnet34, resnet50
from gnomon.models.transformer import OneLayerTransformer
from gnomon.models.vgg import VGG, vgg11, vgg13

__all__ = [
    "VGG",
    "DenseNet",
    "OneLayerTransformer",
    "ResNet",
    "cnn",
    "densenet40",
    "densenet100",
    "densenet201",
    "densenet250",
    "mlp",
    "resnet18",
    "resnet34",
    "resnet50",
    "vgg11",
    "vgg13",
]
