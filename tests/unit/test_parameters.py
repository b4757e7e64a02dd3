"""What the weights alone show."""

from functools import partial

import pytest
import torch
from torch import nn

import gnomon
from gnomon import Probe
from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.models import mlp


def network():
    return mlp((3, 4, 2), bias=True, generator=torch.Generator().manual_seed(0))


def test_distance_grows_from_zero_while_a_network_trains():
    model, x = network(), torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    probe = Probe(model, (x, torch.arange(8) % 2), [partial(gnomon.distance_from_start, start=start)])
    assert probe.read().values["distance_from_start"] == 0
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 2
    expected = torch.tensor(2 * sum(part.numel() for part in start.values()) ** 0.5)
    torch.testing.assert_close(probe.read().values["distance_from_start"], expected)


def test_a_start_that_is_none_is_named():
    parameters = dict(network().named_parameters())
    start = {name: part.detach().clone() for name, part in parameters.items()}
    with pytest.raises(RangeError, match=r"start.: expected a copy, got the parameters themselves"):
        gnomon.distance_from_start(parameters, dict(parameters))
    with pytest.raises(RangeError, match=r"expected the names of parameters, got '0.bias' in one alone"):
        gnomon.distance_from_start(parameters, {name: start[name] for name in start if name != "0.bias"})
    with pytest.raises(ShapeError, match=r"start\['0.bias'\].: expected shape \(4,\), got \(2,\)"):
        gnomon.distance_from_start(parameters, start | {"0.bias": torch.ones(2)})


def test_spectra_of_convolutions_of_zeros_and_of_mixed_dtypes():
    model = nn.Sequential(nn.Conv2d(2, 6, 3), nn.Flatten(), nn.Linear(6, 4).half())
    nn.init.zeros_(model[2].weight)
    spectra = gnomon.layer_spectra(dict(model.named_parameters()))
    assert spectra.layers == ("0.weight", "2.weight")
    values = torch.linalg.svdvals(model[0].weight.detach().flatten(1))
    torch.testing.assert_close(spectra.stable_rank[0], values.square().sum() / values[0] ** 2)
    assert [float(field[1].detach()) for field in (spectra.norm, spectra.stable_rank, spectra.effective_rank)] == [
        0,
        0,
        0,
    ]
    with pytest.raises(EmptyError, match="expected a weight of two axes or more, got none"):
        gnomon.layer_spectra({"bias": torch.ones(3)})
