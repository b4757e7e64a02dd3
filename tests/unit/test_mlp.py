"""Multilayer perceptrons: how large their weights are, and what is refused."""

import math

import numpy as np
import pytest
import torch

from gnomon.errors import RangeError
from gnomon.models import mlp


def seeded():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("scale", [0.0, 1.0, 3.0, 1e38])
def test_weights_are_uniform_within_their_bound(scale):
    weight = mlp((100, 50), scale=scale, generator=seeded())[0].weight
    bound = scale / math.sqrt(100)
    assert weight.abs().max().item() <= bound
    assert weight.abs().max().item() >= 0.999 * bound


@pytest.mark.bad_input
@pytest.mark.parametrize("width", [2.5, 2.0, 0, "2", 10**30])
def test_widths_are_whole(width):
    with pytest.raises(RangeError, match=rf"^mlp: expected width .*, got {width!r}\. Change it"):
        mlp((width, 3))


@pytest.mark.bad_input
def test_widths_of_any_kind():
    assert mlp((np.int64(2), torch.tensor(3)))[0].weight.shape == (3, 2)
    with pytest.raises(RangeError, match=r"^mlp: expected widths at least two, got \(2,\)"):
        mlp((2,))


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf, 1e300])
def test_scales_that_no_weight_has(scale):
    with pytest.raises(RangeError, match=r"^mlp: expected scale from 0 to 1\.7e\+38, got"):
        mlp((2, 3), scale=scale)
