"""The networks of table 1 and the paper's setting, of mse-collapse and of mse-vs-ce."""

import dataclasses

from gnomon_lab.papers.mse_collapse._shared import GRID, Config

TABLE_1 = {
    "mnist-vgg11": (99.23, 99.59),
    "mnist-resnet18": (99.16, 99.70),
    "mnist-densenet40": (99.62, 99.70),
    "fashion_mnist-vgg11": (92.76, 92.95),
    "fashion_mnist-resnet18": (93.55, 93.76),
    "fashion_mnist-densenet250": (90.56, 92.95),
    "svhn-vgg13": (89.35, 93.91),
    "svhn-resnet34": (85.18, 92.65),
    "svhn-densenet40": (95.61, 95.23),
    "cifar10-vgg11": (83.13, 84.54),
    "cifar10-resnet50": (75.43, 76.39),
    "cifar10-densenet100": (91.77, 91.78),
    "stl10-vgg11": (60.43, 67.24),
    "stl10-resnet18": (59.35, 60.56),
    "stl10-densenet201": (58.74, 60.41),
}
"""The paper's networks: test accuracy, in percent, at the first epoch without training error and at the end."""
PAPER = Config((*TABLE_1,), None, None, 32, None, GRID, early=0, spacing=1, attack_spacing=1)
SINGLE = tuple(dataclasses.replace(PAPER, cases=(case,)) for case in TABLE_1)
"""The paper's setting with one network each: they share nothing."""
