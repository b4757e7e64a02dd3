"""The architectures of the papers."""

from gnomon.models._convolutional import cnn
from gnomon.models._densenet import DenseNet, densenet40, densenet100, densenet201, densenet250
from gnomon.models._mlp import mlp
from gnomon.models._resnet import ResNet, resnet18, resnet34, resnet50
from gnomon.models._transformer import OneLayerTransformer
from gnomon.models._vgg import VGG, vgg11, vgg13

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
