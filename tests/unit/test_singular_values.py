"""The singular values, beside those of the whole Jacobian, on the zoo and with the shortcut that it may take."""

import pytest
import torch

import gnomon
from gnomon.models import mlp
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


@pytest.mark.parametrize("widths", [(7, 4, 5, 3), (7, 4, 1), (2, 8, 5), (7, 3)])
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


def test_norm_and_pc1_follow_from_them():
    model, x = zoo("conv")
    with torch.no_grad():
        jacobian, energy = gnomon.input_jacobian(model, x), gnomon.singular_values(model, x).square()
        torch.testing.assert_close(energy.sum(1).sqrt(), gnomon.jacobian_norm(jacobian))
        torch.testing.assert_close(energy[:, 0] / energy.sum(1), gnomon.explained_variance_ratio(jacobian))
