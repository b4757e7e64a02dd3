"""The singular values, beside those of the whole Jacobian, on the zoo and with the shortcut that it may take."""

import pytest
import torch
from torch import nn

import gnomon
from gnomon.autodiff import forward, jacobian_gram
from gnomon.errors import RangeError
from gnomon.models import mlp
from tests.drawn import normal
from tests.zoo import BUILDERS, zoo


def whole(model, x):
    """The plainest way."""
    return torch.linalg.svdvals(gnomon.input_jacobian(model, x).flatten(2))


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("memory", [None, 1])
def test_they_are_those_of_the_jacobian(name, memory):
    model, x = zoo(name)
    with torch.no_grad():
        # Zeros among them come out as the root of the squares' rounding.
        torch.testing.assert_close(
            gnomon.singular_values(model, x, memory=memory), whole(model, x), rtol=1e-7, atol=1e-7
        )


@pytest.mark.parametrize("widths", [(7, 4, 5, 3), (7, 4, 1), (2, 8, 5), (7, 3), (5, 3, 8)])
def test_the_gradient_in_the_parameters_is_that_of_the_jacobian(widths):
    generator = torch.Generator().manual_seed(0)
    model, x = mlp(widths, generator=generator).double(), torch.randn(6, widths[0], generator=generator).double()
    wanted = torch.autograd.grad(whole(model, x).sum(), list(model.parameters()), allow_unused=True)
    got = torch.autograd.grad(gnomon.singular_values(model, x).sum(), list(model.parameters()), allow_unused=True)
    torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-6)


def test_a_dead_network_has_zeros_with_zero_gradients():
    model, x = mlp((3, 4, 2)), torch.randn(5, 3)
    with torch.no_grad():
        model[0].weight.zero_()
    values = gnomon.singular_values(model, x)
    torch.testing.assert_close(values, torch.zeros(5, 2))
    for grad in torch.autograd.grad(values.sum(), list(model.parameters()), materialize_grads=True):
        torch.testing.assert_close(grad, torch.zeros_like(grad))


@pytest.mark.parametrize(("widths", "side"), [((10, 4, 3), 3), ((10, 4, 9), 9), ((10, 4, 30), 10), ((3, 5, 4), 3)])
def test_gram_matrices_are_of_the_smaller_side(widths, side):
    """Also behind a narrower first layer, where outputs are more than inputs."""
    model, x = mlp(widths, generator=torch.Generator().manual_seed(0)).double(), normal(5, widths[0])
    products, scale = jacobian_gram(forward(model, x))
    assert products.shape == (5, side, side)
    expected = torch.linalg.svdvals(gnomon.input_jacobian(model, x))
    torch.testing.assert_close((products.diagonal(dim1=1, dim2=2).sum(1)).sqrt() * scale, expected.norm(dim=1))
    torch.testing.assert_close(gnomon.singular_values(model, x), expected, rtol=1e-6, atol=1e-6)


def test_norm_and_pc1_follow_from_them():
    model, x = zoo("conv")
    with torch.no_grad():
        jacobian, energy = gnomon.input_jacobian(model, x), gnomon.singular_values(model, x).square()
        torch.testing.assert_close(energy.sum(1).sqrt(), gnomon.jacobian_norm(jacobian))
        torch.testing.assert_close(energy[:, 0] / energy.sum(1), gnomon.explained_variance_ratio(jacobian))


def deep(depth):
    """Sigmoid layers, each of which makes the Jacobian some ten times smaller."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [layer for _ in range(depth) for layer in (nn.Linear(64, 64), nn.Sigmoid())]
        return nn.Sequential(*layers, nn.Linear(64, 10)).requires_grad_(False), torch.randn(20, 64)


@pytest.mark.parametrize("narrower", [False, True])
@pytest.mark.parametrize("size", [2.0**-83, 2.0**83])
def test_scaled_outputs_have_scaled_values_where_squares_are_beyond_float32(size, narrower):
    """By powers of two, so that there is no rounding."""
    model, x = mlp((8, 4 if narrower else 16, 3), generator=torch.Generator().manual_seed(0)), torch.randn(6, 8)

    def values_and_gradient():
        values = gnomon.singular_values(model, x)
        return values.detach(), torch.autograd.grad(values.sum(), model[0].weight)[0]

    expected = values_and_gradient()
    with torch.no_grad():
        model[2].weight *= size
    found = values_and_gradient()
    torch.testing.assert_close(found, tuple(each * size for each in expected), rtol=1e-6, atol=0)


@pytest.mark.parametrize("depth", [25, 32])
def test_of_a_deep_sigmoid_network(depth):
    model, x = deep(depth)
    found, expected = gnomon.singular_values(model, x), whole(model.double(), x.double())
    size = expected[:, :1]
    # Of squares: what is below 3e-4 of the first is noise.
    torch.testing.assert_close(found / size, expected / size, rtol=1e-4, atol=1e-3, check_dtype=False)


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_squares_beyond_the_range_of_float16(size):
    generator = torch.Generator().manual_seed(0)
    model, x = mlp((20, 30, 5), generator=generator).requires_grad_(False), torch.randn(40, 20, generator=generator)
    model[2].weight *= size
    for first in (model[0], nn.Linear(20, 15, bias=False).requires_grad_(False)):
        model[0], model[2].weight = first, nn.Parameter(model[2].weight[:, : len(first.weight)])
        model, x = model.half(), x.half()
        expected = torch.linalg.svdvals(gnomon.input_jacobian(model, x).detach().float())
        found = gnomon.singular_values(model, x).detach()
        torch.testing.assert_close(found.float() / size, expected / size, rtol=4e-3, atol=4e-3)


def test_samples_may_be_numbers():
    def curve(x):
        return torch.stack([x, x.square()], 1)

    x = torch.tensor([0.0, 1.0, 2.0])
    norms, operator = (1 + 4 * x.square()).sqrt(), gnomon.JacobianOperator(curve, x)
    torch.testing.assert_close(gnomon.singular_values(curve, x)[:, 0].detach(), norms)
    torch.testing.assert_close(gnomon.singular_values(curve, x, k=1).value[:, 0].detach(), norms)
    torch.testing.assert_close(gnomon.stable_rank(operator).value, torch.ones(3))
    torch.testing.assert_close(gnomon.explained_variance_ratio(operator).value, torch.ones(3))
    torch.testing.assert_close(gnomon.effective_rank(operator).value, torch.tensor(1.0))
    outer = (1 + 4 * x.square()).mean()[None, None]
    torch.testing.assert_close(gnomon.agop(operator).value.detach(), outer)
    sums = gnomon.AGOP()
    sums.update(curve, x)
    torch.testing.assert_close(sums.compute()[""].dense(), outer.double())


@pytest.mark.bad_input
def test_values_that_the_dtype_does_not_hold_are_refused():
    layer = nn.Linear(4, 4, bias=False).half().requires_grad_(False)
    layer.weight.fill_(6e4)
    with pytest.raises(
        RangeError,
        match=r"singular_values\(jacobian\): expected singular values that torch.float16 can hold, got larger",
    ):
        gnomon.singular_values(layer, torch.zeros(2, 4).half())
    layer.weight.fill_(torch.inf)
    with pytest.raises(
        RangeError, match=r"singular_values\(jacobian\): expected finite numbers, got nan at index \(0,\)"
    ):
        gnomon.singular_values(layer, torch.zeros(2, 4).half())
