"""What is computed on an accelerator stays there: on a device that stands in for one, since there is none."""

import copy
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import gnomon
from gnomon import (
    SAM,
    CentralPath,
    ClusteredFlow,
    CollapsedFlow,
    DeepRFM,
    EgalitarianGradients,
    GrokAlign,
    GrokfastEMA,
    GrokfastMA,
    History,
    JacobianOperator,
    OrthoGrad,
    Probe,
    Reading,
    SpectralNormPenalty,
    TruncationFlow,
    WeightNormConstraint,
    accuracy,
    agop,
    bias_flow,
    centroid_alignment,
    effective_rank,
    explained_variance_ratio,
    jacobian_alignment,
    jacobian_norm,
    nc1,
    nearest_mean_disagreement,
    ntk,
    ntk_to_point,
    row_alignment,
    self_duality,
    snr_growth,
    stable_rank,
    vector_jacobian,
)
from gnomon.errors import RangeError
from gnomon.kernels import LaplaceKernel, ReLUFeatures
from gnomon.models import mlp
from gnomon.regions import (
    Plane,
    boundary_distance,
    decision_boundary,
    local_complexity,
    migration,
    plane_through,
    slice_regions,
)
from tests.contract import Sizes, Source
from tests.fuzz import callables
from tests.standin_device import DEVICE, REAL, WAITED, moved, standin
from tests.unit.test_regions import made
from tests.values import tensors
from tests.waits import WAITS
from tests.zoo import BUILDERS, zoo

MADE = {"OneLayerTransformer", "cnn", "digits", "mlp", "modular_addition", "resnet18", "xor_clusters"}
"""What they make is on the processor, from where its user moves it."""
EVERY = {name: (function, arguments) for name, function, arguments in callables() if "operator" not in name}


def both(compute, *given):
    """All tensors that come out here, and on the device."""
    here = list(tensors(compute(*copy.deepcopy(given))))
    with standin():
        there = list(tensors(compute(*moved(given))))
        assert [part.device for part in there] == [DEVICE] * len(here)
        assert {place for place in WAITED if place != "outside of gnomon"} <= WAITS, "a wait that tests/waits.py lacks"
        return here, [part.detach().cpu() for part in there]


FREE = {"ClusteredFlow"} if REAL else set()
"""What holds singular vectors, whose signs are another library's choice."""


@pytest.mark.unchecked
@pytest.mark.parametrize("name", sorted(set(EVERY) - MADE - FREE))
def test_everything_is_computed_where_its_arguments_are(name):
    function, arguments = EVERY[name]
    here, there = both(
        lambda given: [function(**given), given.get("self")], arguments(torch.Generator().manual_seed(0))
    )
    torch.testing.assert_close(there, here, equal_nan=True)


ESTIMATED = [jacobian_norm, explained_variance_ratio, stable_rank, jacobian_alignment, agop, effective_rank]
"""Of an operator."""


@pytest.mark.parametrize("quantity", ESTIMATED)
@pytest.mark.parametrize("outputs", [3, 160])
def test_estimates_are_made_where_the_network_is(quantity, outputs):
    """Of few outputs and of many, of which the random vectors are the same everywhere."""
    model, x = mlp((6, 8, outputs), generator=torch.Generator().manual_seed(0)), torch.ones(3, 6)

    def compute(model, x):
        operator = JacobianOperator(model, x)
        of = (operator, x) if quantity is jacobian_alignment else (operator,)
        return [quantity(*of), operator.matvec(x), operator.rmatvec(torch.ones_like(model(x)))]

    here, there = both(compute, model, x)
    torch.testing.assert_close(there, here)


class Averaged(nn.Module):
    """Convolutions and two heads, as DeiT has them, at several positions or one."""

    def __init__(self, outputs):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(2), nn.LayerNorm(9), nn.GELU())
        self.one, self.other = nn.Linear(4, outputs), nn.Linear(4, outputs)

    def forward(self, x):
        features = self.body(x).mT
        return (self.one(features) + self.other(features.tanh())) / 2


class First(Averaged):
    def forward(self, x):
        return super().forward(x)[:, 0]


@pytest.mark.unchecked
@pytest.mark.parametrize("outputs", [3, 160])
@pytest.mark.parametrize("network", [Averaged, First])
def test_probes_of_many_outputs_heads_and_positions_read_where_the_network_is(network, outputs):
    """Products with a convolution's Jacobian, and class statistics of classes without samples, among them."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = network(outputs)
    x = torch.randn(6, 2, 5, 5, generator=torch.Generator().manual_seed(1))
    several = network is Averaged
    labels = torch.arange(54).view(6, 9) % 3 if several else torch.arange(6) % 3
    quantities = [accuracy, nc1, self_duality, nearest_mean_disagreement, centroid_alignment, *ESTIMATED]
    quantities += [row_alignment] if outputs == 3 and not several else []

    def compute(model, x, labels):
        settings = {"head": ["one", "other"]} | ({"positions": "all"} if several else {})
        asked = quantities[:4] if several else quantities
        data = [(x, labels), [(x[:4], labels[:4]), (x[4:], labels[4:])]]
        return [Probe(model, each, asked, **settings).read().values for each in data]

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* classes without samples")
        here, there = both(compute, model, x, labels)
    torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dataset", [False, True])
def test_a_data_set_and_batches_on_the_processor_are_read_where_the_network_is(dataset):
    """Also where another split asks for them."""
    model, x = mlp((6, 8, 3), generator=torch.Generator().manual_seed(0)), torch.randn(9, 6)
    labels = torch.arange(9) % 3
    train = TensorDataset(x, labels) if dataset else [(x[:5], labels[:5]), (x[5:], labels[5:])]
    quantities = [accuracy, nc1, centroid_alignment, jacobian_norm]

    def compute(model, x, labels):
        data = {"train": train, "test": (x, labels)}
        probe = Probe(
            model,
            data,
            {"train": quantities, "test": [accuracy, partial(gnomon.centroid_rate, loss=functional.cross_entropy)]},
        )
        return probe.read().values

    here, there = both(compute, model, x, labels)
    torch.testing.assert_close(there, here)


@pytest.mark.parametrize("outputs", [3, 160])
def test_the_estimate_of_a_kernel_is_made_where_the_network_is(outputs):
    model, x = mlp((6, 8, outputs), generator=torch.Generator().manual_seed(0)), torch.ones(3, 6)
    here, there = both(lambda model, x: [ntk_to_point(model, x, x[0], rtol=0.2)], model, x)
    torch.testing.assert_close(there, here)


@pytest.mark.bad_input  # the labels of all polygons at once
@pytest.mark.parametrize("name", ["functions", "prelu", "BatchNorm", "max with a rim", "one dimension"])
def test_regions_of_any_network_are_found_where_it_is(name):
    model, plane = made(name)

    def compute(model, plane):
        regions = slice_regions(model, plane, (-1, 1, -0.5, 1))
        around = local_complexity(model, plane.origin[None], 0.5, generator=torch.Generator().manual_seed(0))
        near = boundary_distance(model, plane.origin[None])
        layer, unit = regions.unit_of(regions.polygons.labels)
        return [regions, regions.norms, layer, unit, decision_boundary(regions), around, near]

    here, there = both(compute, model, plane)
    torch.testing.assert_close(there, here)


@pytest.mark.parametrize("name", BUILDERS)
def test_any_network_is_read_where_it_is(name):
    def compute(model, x):
        penalties = [
            GrokAlign(1.0, generator=torch.Generator().manual_seed(0), **settings)(model, x)
            for settings in ({}, {"estimator": "exact"}, {"fraction": 0.5, "level": 1.0, "projections": 2})
        ]
        seldom = GrokAlign(1.0, generator=torch.Generator().manual_seed(0), every=2)
        penalties += [seldom(model, x), seldom(model, x)]
        labels = torch.zeros(len(x), dtype=torch.long, device=x.device)
        reading = Probe(model, (x, labels), [accuracy, explained_variance_ratio, ntk]).read()
        return [
            penalties,
            torch.autograd.grad(sum(penalties), list(model.parameters()), materialize_grads=True),
            reading.values,
        ]

    here, there = both(compute, *zoo(name))
    torch.testing.assert_close(there, here)


def test_the_exact_penalty_is_the_same_where_tensors_are_made_on_the_device_by_default():
    model, x = zoo("bias")
    exact = GrokAlign(1.0, estimator="exact")
    with standin():
        model_there, there = moved(model), moved(x)
        with torch.device(DEVICE):
            found = exact(model_there, there)
        torch.testing.assert_close(found.cpu(), exact(model, x))


@pytest.mark.unchecked
@pytest.mark.parametrize("name", sorted(set(EVERY) - MADE))
def test_everything_is_computed_where_tensors_are_made_on_the_device_by_default(name):
    function, arguments = EVERY[name]
    given = arguments(torch.Generator().manual_seed(0))
    with standin():
        there = moved(given)
        with torch.device(DEVICE):
            found = function(**there)
        assert {part.device for part in tensors(found)} <= {DEVICE}


def test_a_history_is_on_the_processor_wherever_tensors_are_made_by_default():
    history = History()
    history.append(Reading(3, {"loss": torch.tensor([1.0, 2.0])}, {}))
    with standin(), torch.device(DEVICE):
        assert history.to_pandas()["loss"].tolist() == [1.5]


@pytest.mark.parametrize("method", [GrokfastEMA, GrokfastMA])
def test_grokfast_remembers_where_the_gradients_are(method):
    def compute(model, x):
        grokfast = method(model.named_parameters())
        for _ in range(2):
            functional.mse_loss(model(x), torch.zeros_like(x[:, :3])).backward()
            grokfast()
        again = method(model.named_parameters())
        again.load_state_dict(grokfast.state_dict())
        again()
        return [parameter.grad for parameter in model.parameters()], again.state_dict()["memory"]

    here, there = both(compute, *zoo("mlp"))
    torch.testing.assert_close(there, here)


def test_rivals_compute_where_the_parameters_are():
    def compute(model, x):
        def backward():
            functional.mse_loss(model(x), torch.zeros_like(x[:, :3])).backward()

        backward()
        with SAM(model.parameters()).uphill():
            backward()
        for method in (OrthoGrad, EgalitarianGradients):
            method(model.parameters())()
        constraint = WeightNormConstraint(model.parameters(), 2.0)
        constraint()
        penalty = SpectralNormPenalty(model.parameters(), generator=torch.Generator().manual_seed(0))
        gradients = [parameter.grad for parameter in model.parameters()]
        return list(model.parameters()), gradients, penalty(), penalty.state_dict(), constraint.state_dict()

    here, there = both(compute, *zoo("mlp"))
    torch.testing.assert_close(there, here)


def test_a_deep_rfm_computes_on_the_device_that_it_is_told():
    x, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3

    def compute(device):
        model = DeepRFM(LaplaceKernel(2.0), ReLUFeatures(16), depth=2, device=device).fit(x, y)
        return model.transform(x), model.predict(x), model.decision_function(x)

    with standin():
        there = compute(DEVICE.type)
    for one, other in zip(compute("cpu"), there, strict=True):
        np.testing.assert_allclose(one, other)


def flows(s):
    """What solves for given times, and what the times are of."""
    points, weight = s.normal("n", "d"), s.normal("k", "d")
    clustered = ClusteredFlow(points, s.normal("n", "k"), weight)
    central, collapsed = CentralPath(s.normal("k", "n", "p")), CollapsedFlow(*(s.normal("k", "k") for _ in range(3)))
    beta, rotation, target, values = s.normal("d"), s.orthogonal("d"), s.normal("d"), s.normal("p").abs() + 0.1
    return {
        "snr_growth": (snr_growth, {"initial": values, "classes": 3, "samples": 10}),
        "bias_flow": (bias_flow, {"points": points, "target": target, "beta": beta, "rotation": rotation}),
        "weight": (ClusteredFlow.weight, {"self": clustered}),
        "loss": (ClusteredFlow.loss, {"self": clustered}),
        "closed_form": (CentralPath.closed_form, {"self": central}),
        "asymptote": (CentralPath.asymptote, {"self": central}),
        "flow": (CentralPath.flow, {"self": central}),
        "collapsed": (CollapsedFlow.flow, {"self": collapsed}),
        "propagators": (CollapsedFlow.propagators, {"self": collapsed}),
        "truncation": (
            TruncationFlow.flow,
            {"self": TruncationFlow(points, target), "beta": beta, "rotation": rotation},
        ),
    }


@pytest.mark.parametrize("name", flows(Source(Sizes(), torch.Generator().manual_seed(0))))
def test_times_may_be_on_the_processor(name):
    def compute(function, given):
        return function(**given, times=torch.tensor([0.1, 0.5], dtype=torch.float64))

    here, there = both(compute, *flows(Source(Sizes(), torch.Generator().manual_seed(0)))[name])
    torch.testing.assert_close(there, here)


def test_points_of_a_slice_may_be_on_the_processor():
    model, plane = made("mlp")
    points = torch.rand(9, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def compute(model, plane):
        regions = slice_regions(model, plane, (0, 1, 0, 1))
        return regions.region_of_points(points), regions.boundary_distance(points), migration(regions, regions, points)

    here, there = both(compute, model, plane)
    torch.testing.assert_close(there, here)


def test_what_is_on_two_devices_is_named():
    model, plane = made("mlp")
    x = torch.ones(3, 2, dtype=torch.float64)
    regions = slice_regions(model, plane, (0, 1, 0, 1))
    with standin():
        for where, call in (
            ("slice_regions", lambda: slice_regions(moved(model), plane, (0, 1, 0, 1))),
            ("boundary_distance", lambda: boundary_distance(moved(model), x)),
            ("local_complexity", lambda: local_complexity(moved(model), x, 0.1)),
        ):
            says = (
                rf"{where}\(model\): expected a network on cpu, where the inputs or the plane are, got one on {DEVICE}"
            )
            with pytest.raises(RangeError, match=says):
                call()
        with pytest.raises(
            RangeError, match=rf"vector_jacobian\(v\): expected a tensor on {DEVICE}, like x, got cpu. Move"
        ):
            vector_jacobian(moved(model), moved(x), torch.ones(3, dtype=torch.float64))
        with pytest.raises(
            RangeError, match=rf"Plane\(directions\): expected a tensor on cpu, like origin, got {DEVICE}"
        ):
            Plane(x[0], moved(plane.directions))
        with pytest.raises(RangeError, match=rf"plane_through\(x3\): expected a tensor on cpu, like x1, got {DEVICE}"):
            plane_through(x[0], x[1], moved(x[2]))
        with pytest.raises(RangeError, match=rf"region_of\(x\): expected a tensor on cpu, like plane, got {DEVICE}"):
            regions.region_of(moved(x))
        with pytest.raises(
            RangeError, match=rf"migration\(after\): expected a tensor on cpu, like before, got {DEVICE}"
        ):
            migration(regions, moved(regions), x[:, :2])


@pytest.mark.skipif(REAL, reason="only the stand-in notes where the processor waits for it")
def test_waits_for_a_value_are_noted():
    with standin():
        norms = jacobian_norm(torch.ones(3, 2, 4).to(DEVICE))
        assert "_checks.py:finite" in WAITED
        assert WAITED <= WAITS
        assert bool(norms.sum() > 0)
        assert "outside of gnomon" in WAITED
    root = Path(gnomon.__file__).parent
    for place in WAITS:
        file, _, function = place.partition(":")
        assert f"def {function.rpartition('.')[2]}(" in (root / file).read_text("utf-8"), place


def test_the_stand_in_refuses_what_an_accelerator_refuses():
    with standin():
        x = torch.ones(2, 3, device=DEVICE)
        for call in (
            lambda: x + torch.ones(3),
            lambda: torch.cat([x, torch.ones(1, 3)]),
            lambda: torch.ones(3)[x[0].long()],
            lambda: torch.randn(2, device=DEVICE, generator=torch.Generator()),
        ):
            with pytest.raises(
                RuntimeError, match=r"(?i)expected all tensors to be on the same device|expected a .*generator"
            ):
                call()
        with pytest.raises(RuntimeError):
            x.numpy()
        assert (x[torch.tensor([0, 1])] * torch.tensor(2.0)).tolist() == [[2.0] * 3] * 2
        assert torch.arange(3, device=DEVICE).device == x.T.device == torch.zeros_like(x).device == DEVICE
        assert x.cpu().device.type == "cpu"
