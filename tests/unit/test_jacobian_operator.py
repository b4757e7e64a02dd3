"""Products with the Jacobian, on the whole zoo, against the Jacobian itself."""

import pytest
import torch
from torch import nn

import gnomon
from gnomon import JacobianOperator
from gnomon.errors import EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.models import mlp
from tests.zoo import BUILDERS, zoo


class Once(torch.autograd.Function):
    """A square whose gradient has none."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("memory", [None, 1])
def test_products_are_those_with_the_jacobian(name, memory, generator):
    model, x = zoo(name)
    jacobian = gnomon.input_jacobian(model, x).detach()
    operator = JacobianOperator(model, x, memory=memory)
    u = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    v = torch.randn(jacobian.shape[:2], generator=generator, dtype=x.dtype)
    assert operator.shape == jacobian.shape
    torch.testing.assert_close(operator.matvec(u), (jacobian * u[:, None]).flatten(2).sum(2))
    torch.testing.assert_close(operator.rmatvec(v), torch.einsum("nc,nc...->n...", v, jacobian))


def test_products_are_the_same_in_float32_and_whatever_the_modes_around():
    model, x = zoo("conv", torch.float32)
    expected = JacobianOperator(model, x).matvec(x)
    with torch.inference_mode(), torch.autocast("cpu"):
        found = JacobianOperator(model, x.clone()).matvec(x.clone())
    assert found.dtype == torch.float32
    assert not expected.requires_grad
    torch.testing.assert_close(found, expected)


def test_what_cannot_be_differentiated_twice_is_said_and_has_products_from_the_left():
    model = nn.Sequential(nn.Linear(6, 4), nn.Module(), nn.Linear(4, 3))
    model[1].forward = Once.apply
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    operator = JacobianOperator(model, x)
    torch.testing.assert_close(operator.rmatvec(torch.ones(5, 3)), gnomon.centroid(model, x))
    expected = (
        r"JacobianOperator.matvec\(model\): expected layers with a second derivative, got .*\. Pass the Jacobian itself"
    )
    with pytest.raises(UnsupportedModuleError, match=expected):
        operator.matvec(x)


@pytest.mark.bad_input
def test_bad_arguments_are_named():
    model, x = zoo("mlp")
    operator = JacobianOperator(model, x)
    with pytest.raises(ShapeError, match=r"JacobianOperator.matvec\(u\): expected shape \(5, 6\), got \(5, 3\)"):
        operator.matvec(torch.ones(5, 3))
    with pytest.raises(ShapeError, match=r"JacobianOperator.rmatvec\(v\): expected shape \(5, 3\), got \(3,\)"):
        operator.rmatvec(torch.ones(3))
    with pytest.raises(RangeError, match=r"JacobianOperator.matvec\(u\): expected finite numbers, got nan"):
        operator.matvec(torch.full((5, 6), torch.nan))
    with pytest.raises(RangeError, match=r"JacobianOperator\(x\): expected a floating-point tensor, got torch.int64"):
        JacobianOperator(model, x.long())
    with pytest.raises(EmptyError, match=r"JacobianOperator\(x\): expected at least one sample, got none"):
        JacobianOperator(model, x[:0])
    with pytest.raises(UnsupportedModuleError, match=r"JacobianOperator\(model\): expected samples that do not mix"):
        JacobianOperator(lambda x: x - x.mean(0), x)


def test_a_jacobian_that_is_not_finite_is_said():
    model = mlp((6, 8, 3))
    model[0].weight.data[0, 0] = torch.nan
    with pytest.raises(RangeError, match=r"JacobianOperator.rmatvec\(jacobian\): expected finite numbers, got nan"):
        JacobianOperator(model, torch.ones(5, 6)).rmatvec(torch.ones(5, 3))


def test_the_graph_of_products_counts_towards_the_memory():
    """Chunks are smaller than those of a Jacobian of one output: the backward pass is kept too."""
    model, x = mlp((64, 64, 64, 1)), torch.zeros(4096, 64)
    parts = [part.shape[0] for part in JacobianOperator(model, x, memory=2**20).parts()]
    assert sum(parts) == len(x)
    assert 2 < max(parts) < 1024
