"""What the weights alone show."""

import math
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


def test_tail_of_a_power_law_has_its_exponent():
    """Singular values whose squares are the quantiles of a power law of exponent 2.5, beyond 1."""
    quantiles = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
    tails = gnomon.heavy_tails({"weight": quantiles.pow(-1 / 1.5).sqrt().diag()})
    assert abs(tails.alpha[0] - 2.5) < 0.02
    assert tails.tail[0] > 900
    assert tails.distance[0] < 0.01


def test_random_bulk_ends_at_its_edge_and_what_is_added_stands_out():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(400, 200, generator=generator, dtype=torch.float64)
    tails = gnomon.heavy_tails({"weight": weight})
    torch.testing.assert_close(tails.edge, torch.linalg.matrix_norm(weight, 2).square()[None], rtol=0.03, atol=0)
    assert tails.spikes == 0
    rows, columns = (torch.randn(3, d, generator=generator, dtype=torch.float64) for d in (400, 200))
    assert gnomon.heavy_tails({"weight": weight + rows.mT @ columns}).spikes == 3


def test_no_tail_where_no_eigenvalues_differ():
    tails = gnomon.heavy_tails({"zero": torch.zeros(3, 4), "equal": torch.eye(5), "one": torch.ones(1, 7)})
    assert tails.alpha.tolist() == [float("inf")] * 3
    assert tails.tail.tolist() == tails.smallest.tolist() == tails.distance.tolist() == [0, 0, 0]


def test_a_tail_has_all_eigenvalues_of_one_size_or_none():
    """From the second of the three ones on, the distance would be the least, 0.21; there is no such tail."""
    tails = gnomon.heavy_tails({"weight": torch.tensor([1.0, 1, 1, 2, 4, 8]).double().sqrt().diag()})
    assert tails.tail == 3
    torch.testing.assert_close(tails.alpha, 1 + 3 / torch.tensor([8.0]).double().log())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_eigenvalues_that_rounding_tells_apart_are_no_tail(dtype):
    generator = torch.Generator().manual_seed(0)
    turned = torch.linalg.qr(torch.randn(64, 64, generator=generator, dtype=dtype))[0]
    spiked = turned + 2 * turned[:1].mT @ turned[:1] @ turned
    tails = gnomon.heavy_tails({"turned": turned, "spiked": spiked})
    assert tails.alpha[0] == float("inf")
    assert tails.tail[0] == tails.smallest[0] == 0
    assert 1 < tails.alpha[1] < 100


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_shapes_of_spectra_stay_up_to_the_ends_of_the_dtype(dtype):
    """By powers of two, so that there is no rounding; squares of the singular values, or their sum, are beyond it."""
    weight = torch.randn(40, 30, generator=torch.Generator().manual_seed(0)).to(dtype)
    weight[0] *= 6
    limits, usual = torch.finfo(dtype), {"w": weight}
    tails, spectra = gnomon.heavy_tails(usual), gnomon.layer_spectra(usual)
    assert (int(tails.spikes), int(tails.tail) > 2) == (1, True)
    for power in (2 + math.frexp(limits.tiny)[1], math.frexp(limits.max)[1] - 7):
        ends = {"w": weight * 2.0**power}
        at_end = gnomon.heavy_tails(ends)
        for name in ("alpha", "distance", "tail", "spikes"):
            torch.testing.assert_close(getattr(at_end, name), getattr(tails, name))
        assert at_end.edge.tolist() == at_end.smallest.tolist() == [0 if power < 0 else math.inf]
        for name in ("stable_rank", "effective_rank"):
            torch.testing.assert_close(getattr(gnomon.layer_spectra(ends), name), getattr(spectra, name))


def test_parameters_without_entries_count_nothing():
    parameters = {"w": torch.tensor([3.0, 4.0]), "empty": torch.zeros(0, 2)}
    torch.testing.assert_close(gnomon.parameter_norm(parameters), torch.tensor(5.0))
    start = {name: part.clone() * 0 for name, part in parameters.items()}
    torch.testing.assert_close(gnomon.distance_from_start(parameters, start), torch.tensor(5.0))
    torch.testing.assert_close(gnomon.parameter_norm({"empty": torch.zeros(0)}), torch.tensor(0.0))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_dtype_changes_no_number(dtype):
    features, weight = torch.tensor([[0.0, 1.0, 2.0]]), torch.randn(20, 30, generator=torch.Generator().manual_seed(0))
    network = mlp((6, 8, 3), generator=torch.Generator().manual_seed(0))
    x, labels = torch.randn(40, 6, generator=torch.Generator().manual_seed(1)), torch.arange(40) % 3

    def read():
        return (
            gnomon.heavy_tails({"w": weight.double()}).distance,
            gnomon.activation_sparsity(features),
            gnomon.dead_units(features),
            gnomon.hessian_trace(network, x, labels, passes=16).value,
            gnomon.local_learning_coefficient(network, x, labels, seed=0, draws=4, burn_in=1).estimate.value,
        )

    usual = read()
    torch.set_default_dtype(dtype)
    try:
        again = read()
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(again, usual, rtol=0, atol=0)


@pytest.mark.bad_input
def test_a_state_dict_with_a_counter_is_refused_in_favour_of_the_parameters():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    with pytest.raises(
        RangeError, match=r"heavy_tails\(parameters\['1.num_batches_tracked'\]\): .* Pass dict\(model\.named_par"
    ):
        gnomon.heavy_tails(model.state_dict())
