"""Regions of image classifiers from transformers, which no stand-in can be like."""

import pytest
import torch
import transformers
from torch import nn

from gnomon.errors import UnsupportedModuleError
from gnomon.regions import plane_through, slice_regions
from tests.unit.test_regions import require_exact

SMALL = {"embedding_size": 4, "hidden_sizes": [4, 6], "depths": [1, 1], "num_labels": 4}
NETWORKS = {
    "ResNet": lambda: transformers.ResNetForImageClassification(transformers.ResNetConfig(layer_type="basic", **SMALL)),
    "RegNet": lambda: transformers.RegNetForImageClassification(
        transformers.RegNetConfig(layer_type="x", groups_width=2, **SMALL)
    ),
    "MobileNet": lambda: transformers.MobileNetV2ForImageClassification(
        transformers.MobileNetV2Config(depth_multiplier=0.125, num_labels=4)
    ),
}


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).logits


def made(build):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Logits(build()).eval(), plane_through(*torch.randn(3, 3, 32, 32, dtype=torch.float64))


@pytest.mark.parametrize("name", NETWORKS)
def test_an_image_classifier_is_read_exactly(name):
    reach = 0.003 if name == "MobileNet" else 0.05
    assert len(require_exact(*made(NETWORKS[name]), (-reach, reach, -reach, reach), points=20)) > 2


def test_what_is_not_piecewise_affine_in_one_is_named_with_its_module_and_line():
    config = transformers.ConvNextConfig(hidden_sizes=[4, 4], depths=[1, 1], num_stages=2, num_labels=4)
    says = r"layer_norm in ConvNextLayerNorm at 'model.convnext.embeddings.\w+' \(modeling_convnext.py, line \d+\)"
    with pytest.raises(UnsupportedModuleError, match=says):
        slice_regions(*made(lambda: transformers.ConvNextForImageClassification(config)), (0, 1, 0, 1))
