"""How the loss bends: closed forms, what is refused, and errors that hold."""

import copy
import gc
import itertools
import math
import weakref
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from scipy.stats import binom, t
from torch import nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.nn.utils.parametrizations import weight_norm

import gnomon
from gnomon import Probe
from gnomon.autodiff import GaussNewtonOperator, LossOperator
from gnomon.errors import RangeError, ShapeError, UnsupportedModuleError
from gnomon.linalg import generator_of, lanczos, unit
from gnomon.measure._curvature import accuracy_of_trace
from gnomon.measure._curvature import eigenvalues as largest
from gnomon.measure._curvature import trace as whole_trace
from gnomon.measure._estimates import Accuracy
from gnomon.measure.curvature._commutator_defect import _defect, _median
from gnomon.models import mlp
from tests.contract.of_curvature import gauss_newton, hessian
from tests.drawn import normal
from tests.zoo import BUILDERS, zoo

MATRICES = [
    (gnomon.hessian_eigenvalues, gnomon.hessian_trace, hessian),
    (gnomon.gauss_newton_eigenvalues, gnomon.gauss_newton_trace, gauss_newton),
]
both = pytest.mark.parametrize(("eigenvalues", "trace", "whole"), MATRICES, ids=["hessian", "gauss_newton"])


def network(*widths, **settings):
    return mlp(widths, bias=True, generator=torch.Generator().manual_seed(0), **settings).double().eval()


def samples(n, d, classes=3):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64), torch.arange(n) % classes


def diagonal(values):
    """The product with a matrix, and a vector like its own."""
    values = torch.tensor(values, dtype=torch.float64)
    return values.mul, torch.zeros_like(values)


def test_linear_regression_bends_as_its_inputs_do():
    r"""The Hessian of the mean squared error is $\frac2{nc}X^\top X\otimes I$, and so is the Gauss-Newton matrix."""
    x, _ = samples(40, 5)
    layer, targets = nn.Linear(5, 3, bias=False).double(), torch.zeros(40, 3, dtype=torch.float64)
    values = torch.linalg.eigvalsh(2 / (40 * 3) * x.T @ x).flip(0)
    for eigenvalues, trace, _ in MATRICES:
        found = eigenvalues(layer, x, targets, loss="mse", k=15)
        torch.testing.assert_close(found.value, values.repeat_interleave(3))
        torch.testing.assert_close(trace(layer, x, targets, loss="mse").value, 3 * values.sum())
    g = 2 / (40 * 3) * layer.weight.detach() @ x.T @ x
    expected = (g @ x.T @ x * g).sum() * 2 / (40 * 3) / g.square().sum()
    torch.testing.assert_close(gnomon.gradient_sharpness(layer, x, targets, loss="mse"), expected)


def test_a_network_of_relus_has_the_trace_of_its_gauss_newton_matrix():
    """Since it is linear in each single parameter."""
    (x, labels), model = samples(30, 4), network(4, 5, 4, 3)
    of = [trace(model, x, labels, passes=64).value for trace in (gnomon.hessian_trace, gnomon.gauss_newton_trace)]
    assert sum(parameter.numel() for parameter in model.parameters()) == 64
    torch.testing.assert_close(*of)


def test_the_gauss_newton_matrix_has_the_eigenvalues_of_the_kernel():
    (x, labels), model = samples(12, 4), network(4, 30, 3)
    kernel = gnomon.ntk(model, x, trace=False).detach().transpose(1, 2).flatten(0, 1).flatten(1)
    values = torch.linalg.eigvalsh(2 / len(kernel) * kernel).flip(0)
    found = gnomon.gauss_newton_eigenvalues(model, x, labels, loss="mse", k=4, rtol=1e-6)
    torch.testing.assert_close(found.value, values[:4])
    trace = gnomon.gauss_newton_trace(model, x, labels, loss="mse", rtol=0.1, passes=128)
    assert (trace.value - values.sum()).abs() <= trace.error <= 0.1 * trace.value
    assert trace.error > 0


@both
def test_any_chunks_and_any_mode_give_the_same(eigenvalues, trace, whole):
    (x, labels), model = samples(30, 4), network(4, 6, 3)
    value = torch.linalg.eigvalsh(whole(model, x, labels))[-1:]
    for memory in (20_000, None):
        found = eigenvalues(model, x, labels, rtol=1e-3, memory=memory)
        assert ((found.value - value).abs() <= found.error).all()
        with torch.inference_mode():
            again = eigenvalues(model, x, labels, rtol=1e-3, memory=memory)
        torch.testing.assert_close(again.value, found.value)
    with torch.no_grad():
        torch.testing.assert_close(trace(model, x, labels).value, whole(model, x, labels).trace())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("name", [*BUILDERS, "weight norm"])
def test_products_are_differences_of_gradients_and_of_outputs(name):
    """Central differences along a direction: torch.func's own second derivatives are wrong through layer norm."""
    if name == "weight norm":
        model, x = nn.Sequential(weight_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3)).double(), zoo("mlp")[1]
    else:
        model, x = zoo(name)
    labels = torch.arange(len(x)) % model(x).shape[1]
    losses = partial(functional.cross_entropy, reduction="none")
    parameters = [*model.parameters()]
    step = 1e-5

    def gradient_and_outputs(way):
        for parameter, part in zip(parameters, along, strict=True):
            parameter.data.add_(part, alpha=way * step)
        outputs = model(x)
        slopes = torch.autograd.grad(functional.cross_entropy(outputs, labels), parameters)
        for parameter, part in zip(parameters, along, strict=True):
            parameter.data.sub_(part, alpha=way * step)
        return torch.cat([slope.flatten() for slope in slopes]), outputs.detach()

    matrix, linear = (of(model, x, labels, losses, memory=None) for of in (LossOperator, GaussNewtonOperator))
    u = unit(matrix.gradient())
    along = matrix.vectors.parts(u)
    (gradient, outputs), (before, earlier) = gradient_and_outputs(1), gradient_and_outputs(-1)
    torch.testing.assert_close(matrix.multiply(u), (gradient - before) / (2 * step), rtol=1e-5, atol=1e-6)
    moved, p = (outputs - earlier) / (2 * step), model(x).detach().softmax(1)
    bent = ((p * moved.square()).sum(1) - (p * moved).sum(1).square()).mean()
    torch.testing.assert_close(u @ linear.multiply(u), bent, rtol=1e-5, atol=1e-8)
    sharpness = gnomon.gradient_sharpness(model, x, labels)
    torch.testing.assert_close(sharpness, u @ (gradient - before) / (2 * step), rtol=1e-5, atol=1e-6)


def defects_of_steps(model, x, labels, eta, *, batch, seed):
    """As their authors define them, of two steps of a size on nine pairs of batches."""
    start = parameters_to_vector(model.parameters()).detach()
    found = []

    def slope(at, rows):
        vector_to_parameters(at, model.parameters())
        slopes = torch.autograd.grad(functional.cross_entropy(model(x[rows]), labels[rows]), [*model.parameters()])
        return torch.cat([part.flatten() for part in slopes])

    for a, b in torch.randint(len(x), (9, 2, batch), generator=torch.Generator().manual_seed(seed)):
        of_a, of_b = slope(start, a), slope(start, b)
        first = start - eta * of_a - eta * slope(start - eta * of_a, b)
        second = start - eta * of_b - eta * slope(start - eta * of_b, a)
        found.append((first - second).norm() / ((eta * of_a).norm() * (eta * of_b).norm()))
    vector_to_parameters(start, model.parameters())
    return torch.stack(found).sort().values


def test_the_defect_is_the_limit_of_small_steps():
    torch.manual_seed(0)
    (x, labels), model = samples(40, 4), nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).double()
    steps = defects_of_steps(model, x, labels, 1e-4, batch=20, seed=5)
    defect = gnomon.commutator_defect(model, x, labels, batch=20, seed=5)
    torch.testing.assert_close(defect.value, steps[4], rtol=1e-3, atol=0)
    torch.testing.assert_close(defect.error, torch.maximum(steps[4] - steps[1], steps[7] - steps[4]), rtol=1e-2, atol=0)
    found = [gnomon.commutator_defect(model, x, labels, pairs=6, batch=batch).value for batch in (40, 99)]
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    ("m", "low", "high"), [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (12, 3, 10), (25, 8, 18), (2000, 956, 1045)]
)
def test_the_interval_of_a_median_is_that_of_the_tables(m, low, high):
    """Of the sign test: between these, counted from the least, in 95 % of cases."""
    assert 2 * binom.cdf(low - 1, m, 0.5) <= 0.05 < 2 * binom.cdf(low, m, 0.5)
    for values in (torch.arange(m).double().square(), torch.arange(m).double().sqrt()):
        found = _median(values.flip(0))
        torch.testing.assert_close(found.value, torch.quantile(values, 0.5))
        torch.testing.assert_close(
            found.error, torch.maximum(found.value - values[low - 1], values[high - 1] - found.value)
        )
        assert found.passes == 2 * m


class Quadratic(NamedTuple):
    """A batch whose loss has this Hessian and gradient."""

    matrix: torch.Tensor
    slope: torch.Tensor

    def gradient(self):
        return self.slope

    def multiply(self, vector):
        return self.matrix @ vector


@pytest.mark.unchecked  # its batches are stand-ins
def test_the_defect_of_two_batches_is_their_commutator_or_zero_where_one_is_fitted():
    a, b = (Quadratic(m + m.mT, m[0]) for m in (normal(4, 4), normal(4, 4, seed=1)))
    commutator = a.matrix @ b.slope - b.matrix @ a.slope
    torch.testing.assert_close(_defect(a, b), commutator.norm() / a.slope.norm() / b.slope.norm())
    fitted = b._replace(slope=0 * b.slope)
    assert _defect(a, fitted) == _defect(fitted, a) == 0


def test_steps_of_a_network_of_relus_have_no_limit_while_they_cross_kinks():
    """As docs/errata.md has it; and in single precision short steps end in rounding."""
    (x, labels), model = samples(200, 10), network(10, 60, 60, 3)
    smooth = nn.Sequential(*(nn.GELU() if isinstance(layer, nn.ReLU) else layer for layer in model))
    settings = {"batch": 100, "seed": 0}
    found = [float(defects_of_steps(model, x, labels, eta, **settings)[4]) for eta in (1e-1, 1e-2, 1e-3, 1e-4)]
    found += [float(gnomon.commutator_defect(model, x, labels, **settings).value)]
    found += [float(defects_of_steps(smooth, x, labels, 1e-3, **settings)[4])]
    found += [float(gnomon.commutator_defect(smooth, x, labels, **settings).value)]
    assert found == pytest.approx([4.69, 10.6, 3.02, 2.52, 2.52, 2.27, 2.27], rel=5e-3)
    single = smooth.float(), x.float(), labels
    assert defects_of_steps(*single, 1e-3, **settings)[4] > 2 * 2.27
    assert float(gnomon.commutator_defect(*single, **settings).value) == pytest.approx(2.27, rel=5e-3)


def test_where_the_loss_is_flat_all_is_zero_without_a_warning():
    (x, labels), model = samples(12, 4), network(4, 200, 3).float()
    model[-1].weight.data.zero_()
    model[-1].bias.data = torch.tensor([0.0, 1e4, 0.0])
    for quantity in (*(each for pair in MATRICES for each in pair[:2]), gnomon.commutator_defect):
        found = quantity(model, x.float(), torch.ones_like(labels))
        assert not found.value.any()
        assert not found.error.any()
    assert gnomon.gradient_sharpness(model, x.float(), torch.ones_like(labels)) == 0


def test_lanczos_knows_how_far_off_it_is():
    """Values so close together that few steps cannot tell them apart, and a space that ends early."""
    spread = [math.exp(-i / 30) for i in range(400)] + [-0.5] * 20
    for seed in range(20):
        found = lanczos(*diagonal(spread), 3, 0.02, 400, seed)
        off = found.values - torch.tensor(spread[:3], dtype=torch.float64)
        assert (off.abs() <= found.errors + 1e-12).all()
        assert (found.errors <= 0.02).all()
        assert found.passes < 100
    twice = lanczos(*diagonal([2.0, 2.0, 1.0, 1.0, 0.0, 0.0]), 3, 0.01, 100, 0)
    torch.testing.assert_close(twice.values, torch.tensor([2.0, 2.0, 1.0], dtype=torch.float64))
    few = lanczos(*diagonal(spread), 3, 1e-9, 2, 0)
    assert few.passes == 2
    assert few.errors[2].isinf()


@pytest.mark.unchecked
def test_estimates_hold_over_seeds():
    (x, labels), model = samples(60, 6), network(6, 20, 10, 3)
    whole = hessian(model, x, labels)
    value = torch.linalg.eigvalsh(whole)[-1]
    first = [gnomon.hessian_eigenvalues(model, x, labels, rtol=0.1, seed=seed) for seed in range(20)]
    traces = [gnomon.hessian_trace(model, x, labels, seed=seed) for seed in range(20)]
    assert sum(bool((each.value[0] - value).abs() <= each.error[0]) for each in first) >= 18
    assert sum(bool((each.value - whole.trace()).abs() <= each.error) for each in traces) >= 17
    assert all(each.error > 0 and each.passes <= 64 for each in traces)


def stand_in(matrix):
    """An operator of a matrix, and the memory for so many vectors."""
    p = len(matrix)
    vectors = SimpleNamespace(size=p, like=matrix[0], zeros=lambda: 0 * matrix[0])
    return SimpleNamespace(vectors=vectors, multiply=matrix.matmul), lambda many: many and 2 * 8 * p * many


@pytest.mark.unchecked
@pytest.mark.parametrize(
    ("p", "passes", "room", "steps", "count"),
    [
        (100, 40, None, 16, 24),
        (100, 20, None, 12, 8),
        (100, 40, 21, 5, 32),
        (100, 40, 3, 2, 32),
        (40, 40, None, 40, 0),
        (15, 40, 3, 15, 0),
        (30, 40, 20, 4, 32),
    ],
)
def test_the_trace_is_that_in_a_space_and_that_of_vectors_beside_it(p, passes, room, steps, count):
    """In the whole space, if products and memory suffice for it; errors from all pairs of a block of eight."""
    matrix = normal(p, p)
    matrix = matrix + matrix.mT - 3 * torch.eye(p)
    operator, memory_for = stand_in(matrix)

    def found_to(rtol, sign=1):
        operator.multiply = (sign * matrix).matmul
        return whole_trace("", operator, Accuracy.of(rtol, passes, 2), memory_for(room), requested=rtol > 1)

    found = found_to(1e-9)
    basis = torch.cat(lanczos(matrix.matmul, matrix[0], 0, 0, steps, 2).basis)
    beside = torch.eye(p) - basis.mT @ basis
    generator = generator_of(2, 1)
    blocks = [torch.randn(8, p, generator=generator).double() @ beside for _ in range(count // 8)]
    values = [float(z @ matrix @ z) for block in blocks for z in block]
    squares = [float(a @ matrix @ b) ** 2 for block in blocks for a, b in itertools.combinations(block, 2)]
    expected = float((basis @ matrix @ basis.mT).trace()) + sum(values) / max(1, count)
    error = t.ppf(0.975, count - 1) * (2 * sum(squares) / len(squares) / count) ** 0.5 if count else 0
    assert (float(found.value), float(found.error)) == pytest.approx((expected, error))
    assert found.passes == steps + count
    # It ends at an error relative to the size of the value, whichever sign this has.
    for sign in (1, -1):
        assert found_to(1e9, sign).passes == steps + min(count, 8)


@pytest.mark.unchecked
def test_errors_of_small_eigenvalues_are_measured_by_a_tenth_of_the_largest():
    """Relative to these values themselves a warning would say that they are larger than requested."""
    values = (-2 * torch.arange(24.0)).exp()
    operator, _ = stand_in(values.diag())
    found = largest("", operator, 4, Accuracy.of(0.05, None, 0), None)
    torch.testing.assert_close(found.error[1:], torch.tensor([0.05 * values[1], 0.005, 0.005]))
    assert found.passes < 24


def test_a_large_negative_eigenvalue_does_not_end_the_search_early():
    """It stops by the criterion by which it warns."""
    values = torch.cat([torch.linspace(0, 1, 40), torch.tensor([-300.0])])
    for seed in range(10):
        operator, _ = stand_in(values.diag())
        found = largest("", operator, 1, Accuracy.of(0.05, None, seed), None)  # without a warning
        assert found.error <= 0.05 * found.value
        assert abs(found.value - 1) <= found.error + 1e-4


def test_a_trace_of_which_no_accuracy_is_asked_takes_fewer_passes():
    assert [accuracy_of_trace(rtol, passes, 0).passes for rtol, passes in ((None, None), (None, 99), (0.1, None))] == [
        64,
        99,
        256,
    ]


def test_a_probe_reads_them_and_leaves_training_as_it_is():
    (x, _), model = samples(20, 4), network(4, 6, 2)
    targets = x[:, :2].sin()
    asked = [partial(quantity, loss="mse") for eigenvalues, trace, _ in MATRICES for quantity in (eigenvalues, trace)]
    asked += [partial(gnomon.gradient_sharpness, loss="mse"), partial(gnomon.commutator_defect, loss="mse", batch=10)]
    torch.manual_seed(0)
    before = torch.get_rng_state()
    probe = Probe(model, (x, targets), asked)
    reading, again = probe.read(), probe.read()
    assert reading == again
    assert torch.equal(torch.get_rng_state(), before)
    numbers = reading.scalars()
    assert numbers["hessian_eigenvalues.error"] <= 0.05 * numbers["hessian_eigenvalues"]
    assert "hessian_eigenvalues" in str(reading)
    with pytest.raises(RangeError, match=r"hessian_trace: \w+\(labels\): expected classes 0 to 1"):
        Probe(model, (x, x[:, 0]), [gnomon.hessian_trace])


@pytest.mark.parametrize("operator", [LossOperator, GaussNewtonOperator])
def test_no_graph_waits_for_the_garbage_collector(operator):
    """It comes when it likes, and a graph is most of what a reading takes."""
    (x, labels), model = samples(30, 4), network(4, 6, 3)
    matrix = operator(model, x, labels, partial(functional.cross_entropy, reduction="none"), memory=None)
    matrix.multiply(matrix.vectors.zeros())
    left = weakref.ref(matrix)
    gc.disable()
    try:
        del matrix
        assert left() is None
    finally:
        gc.enable()


def test_too_few_passes_are_said():
    (x, labels), model = samples(30, 4), network(4, 40, 3)
    with pytest.warns(RuntimeWarning, match="hessian_trace: expected an error of at most 0.001 of the value"):
        gnomon.hessian_trace(model, x, labels, rtol=1e-3, passes=32)
    with pytest.warns(RuntimeWarning, match="gauss_newton_eigenvalues: expected an error of at most 1e-09"):
        gnomon.gauss_newton_eigenvalues(model, x, labels, k=9, rtol=1e-9, passes=16)


@both
@pytest.mark.parametrize("passes", [16, 23, 24])
def test_few_passes_leave_some_for_what_the_krylov_space_lacks(eigenvalues, trace, whole, passes):
    """Twice the identity, of which 16 steps span 32 of 200."""
    layer, x = nn.Linear(100, 1, bias=False), 10 * torch.eye(100)
    found = trace(layer, x, torch.zeros(100, 1), loss="mse", passes=passes)
    assert found.passes <= passes
    assert abs(found.value - 200) <= found.error
    assert 0 < found.error < 50


@pytest.mark.bad_input
@both
def test_a_number_of_eigenvalues_is_whole(eigenvalues, trace, whole):
    (x, labels), model = samples(30, 4), network(4, 6, 3)
    with pytest.raises(RangeError, match=r"\(k\): expected 1 to .*, got 1.5"):
        eigenvalues(model, x, labels, k=1.5)
    with pytest.raises(RangeError, match=r"\(k\): expected 1 to 16, the parameters or the passes, got 17"):
        eigenvalues(model, x, labels, k=17, passes=16)


@both
def test_the_limit_that_bound_is_said(eigenvalues, trace, whole):
    (x, labels), model = samples(30, 4), network(4, 40, 3)
    vector = 8 * sum(parameter.numel() for parameter in model.parameters())
    within = partial(eigenvalues, model, x, labels, k=8, rtol=1e-9)
    with pytest.warns(RuntimeWarning, match=r"within 18 passes. Allow more passes.$"):
        assert within(passes=18, memory=64 * vector).passes == 18
    for passes in (None, 1000):
        with pytest.warns(RuntimeWarning, match=r"within the 17 passes that the memory allows. Allow more memory.$"):
            assert within(passes=passes, memory=34 * vector).passes == 17
    # Two for each eigenvalue are taken in any case.
    with pytest.warns(RuntimeWarning, match=r"within the 16 passes that the memory allows. Allow more memory.$"):
        assert within(memory=2 * vector).passes == 16


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos()


class Silent(Once):
    """Its derivative is a constant for torch, which does not say so."""

    @staticmethod
    def backward(ctx, gradient):
        return (gradient * ctx.saved_tensors[0].cos()).detach()


class Layer(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function.apply(x)


@pytest.mark.bad_input
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("function", [Once, Silent])
@pytest.mark.parametrize("quantity", [gnomon.hessian_trace, gnomon.gauss_newton_trace, gnomon.gradient_sharpness])
def test_layers_without_a_second_derivative_are_refused(quantity, function, dtype):
    (x, labels), model = samples(12, 4), nn.Sequential(nn.Linear(4, 8), Layer(function), nn.Linear(8, 3)).to(dtype)
    x = x.to(dtype)
    with pytest.raises(
        UnsupportedModuleError, match=r"_\w+\(model\): expected layers with a second derivative, got one"
    ):
        quantity(model, x, labels)


@pytest.mark.parametrize("quantity", [gnomon.hessian_trace, gnomon.gauss_newton_trace])
def test_layer_norm_of_large_numbers_in_half_precision_is_that_of_float32(quantity):
    """Their squares do not fit."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(mlp((8, 16), generator=generator), nn.LayerNorm(16), mlp((16, 3), generator=generator))
    model[0][0].weight.data.mul_(300)
    half, x = model.half(), (5 * torch.randn(20, 8, generator=generator)).half()
    assert model[0](x).abs().max() > 256
    found = quantity(half, x, torch.arange(20) % 3).value
    # To half precision's rounding: the weights are the same, the passes through the linear layers are not.
    single = copy.deepcopy(half).float()
    torch.testing.assert_close(found, quantity(single, x.float(), torch.arange(20) % 3).value, rtol=0.03, atol=0)


@pytest.mark.unchecked
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("quantity", [gnomon.hessian_trace, gnomon.gauss_newton_trace])
def test_networks_in_half_precision_are_not_taken_for_those_without_a_second_derivative(quantity, dtype):
    """Their products agree up to the rounding of half precision alone."""
    for seed in range(40):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(dtype)
        quantity(model, torch.randn(20, 4).to(dtype), torch.arange(20) % 3, passes=16)


class TwoPrecisions(nn.Module):
    """A first layer in float32, a last in float64."""

    def __init__(self):
        super().__init__()
        self.first, self.last = mlp((4, 5)), mlp((5, 3)).double()

    def forward(self, x):
        return self.last(self.first(x).tanh().double())


def test_layers_of_two_precisions_are_read_in_the_finer():
    torch.manual_seed(0)
    model, x, labels = TwoPrecisions(), torch.randn(8, 4), torch.arange(8) % 3
    found = gnomon.hessian_trace(model, x, labels, passes=500)
    expected = gnomon.hessian_trace(model.double(), x.double(), labels, passes=500)
    assert found.value.dtype == torch.float64
    torch.testing.assert_close(found.value, expected.value, rtol=1e-5, atol=0)


@pytest.mark.bad_input
def test_what_does_not_go_together_is_named():
    (x, labels), model = samples(12, 4), network(4, 6, 3)
    with pytest.raises(
        RangeError, match=r"hessian_trace\(loss\): expected 'cross_entropy', 'mse' or a function, got 'l1'"
    ):
        gnomon.hessian_trace(model, x, labels, loss="l1")
    for constant in (lambda logits, labels: logits.detach().square().sum(1), lambda logits, labels: labels.double()):
        for quantity in (gnomon.hessian_trace, gnomon.gauss_newton_eigenvalues):
            with pytest.raises(RangeError, match=r"\(loss\): expected a function of the outputs that autograd records"):
                quantity(model, x, labels, loss=constant)
    with pytest.raises(RangeError, match=r"centroid_rate\(loss\): expected a function of the outputs that autograd"):
        gnomon.centroid_rate(model, x, x, labels, loss=lambda logits, labels: logits.detach().sum())
    with pytest.raises(ShapeError, match=r"gradient_sharpness\(labels\): expected 12 samples as in x, got 11"):
        gnomon.gradient_sharpness(model, x, labels[1:])
    with pytest.raises(
        RangeError, match=r"hessian_eigenvalues\(k\): expected 1 to 51, the parameters or the passes, got 52"
    ):
        gnomon.hessian_eigenvalues(model, x, labels, k=52)
    with pytest.raises(
        RangeError,
        match=r"commutator_defect: expected pairs a whole number of at least 6, got 5; batch a .* least 1, got 0",
    ):
        gnomon.commutator_defect(model, x, labels, pairs=5, batch=0)
    with pytest.raises(
        UnsupportedModuleError, match=r"hessian_trace\(model\): expected parameters that require gradients"
    ):
        gnomon.hessian_trace(model.requires_grad_(False), x, labels)


def test_a_saturated_loss_is_read_whose_hessian_is_rounding():
    """In float32 such a Hessian is not symmetric, as that of a layer whose derivative is not differentiated."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 5))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(30)
    x = torch.randn(12, 6)
    labels = model(x).argmax(1)
    torch.testing.assert_close(gnomon.hessian_trace(model, x, labels).value, torch.tensor(0.0), atol=1e-3, rtol=0)


def test_a_reading_at_which_rounding_leaves_nothing_of_a_hessian_is_nan_and_training_goes_on():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
    x, labels = torch.randn(64, 16), torch.randint(0, 3, (64,))
    probe = gnomon.Probe(model, (x, labels), [gnomon.accuracy, gnomon.hessian_trace])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1e10)
    with pytest.warns(UserWarning, match="hessian_trace"):
        reading = probe(1)
    assert [*reading.missing] == ["hessian_trace"]
    assert "or numbers of which rounding leaves nothing. Replace that" in reading.missing["hessian_trace"]
    assert reading.values["accuracy"].isfinite().all()


def test_memorised_samples_have_the_curvature_that_they_have_in_float64():
    """Of p - p² at p near 1, single precision would leave little."""
    torch.manual_seed(0)
    x, labels = torch.randn(20, 5), torch.arange(20) % 3
    model = nn.Linear(5, 3)
    with torch.no_grad():
        model.weight.zero_()
        model.weight[:, :3] = 15 * torch.eye(3)
        x[:, :3] = functional.one_hot(labels, 3) + 0.1 * x[:, :3]
    exact = copy.deepcopy(model).double()
    assert functional.cross_entropy(exact(x.double()), labels) < 1e-4
    for quantity in (gnomon.hessian_trace, gnomon.gauss_newton_trace, gnomon.gradient_sharpness):
        single, double = (
            quantity(each, x.to(dtype), labels) for each, dtype in ((model, None), (exact, torch.float64))
        )
        values = [getattr(found, "value", found).double() for found in (single, double)]
        torch.testing.assert_close(*values, rtol=1e-4, atol=0)
