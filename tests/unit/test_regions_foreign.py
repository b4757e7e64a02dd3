"""Regions of networks as public libraries write them: each map is the network's own, and autograd's derivative."""

import pytest
import torch

from gnomon.regions import plane_through
from tests.affine_networks import NETWORKS, affine
from tests.unit.test_regions import require_exact

WIDER = {"BatchNormAct": 1, "tokens": 4, "assigned": 2, "ResNet": 0.15, "Inception": 0.2}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_others_is_read_exactly(name):
    model, x = affine(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    reach = WIDER.get(name, 0.4)
    regions = require_exact(model, plane_through(*x), (-reach, 1.2 * reach, -reach, reach))
    assert len(regions) > 3
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
