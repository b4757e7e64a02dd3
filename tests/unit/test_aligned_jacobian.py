"""Theorem 2: the closed form is the constrained minimiser that an independent optimizer finds."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.nn import functional

from gnomon import jacobian_alignment
from gnomon.dynamics import aligned_jacobian
from gnomon.errors import EmptyError, RangeError, ShapeError
from tests.drawn import normal


def loss_of(jacobian, x, label, loss):
    outputs = jacobian @ x
    if loss == "cross_entropy":
        return functional.cross_entropy(outputs[None], torch.tensor([label]))
    target = functional.one_hot(torch.tensor(label), len(outputs))
    return (outputs - target).square().sum()


def minimum(x, label, classes, norm, loss, seed):
    """SciPy's sequential quadratic programming, from a random start."""

    def with_gradient(flat):
        jacobian = torch.from_numpy(flat).view(classes, -1).requires_grad_()
        value = loss_of(jacobian, x, label, loss)
        return value.item(), torch.autograd.grad(value, jacobian)[0].flatten().numpy()

    ball = {"type": "ineq", "fun": lambda v: norm**2 - v @ v, "jac": lambda v: -2 * v}
    start = np.random.default_rng(seed).normal(size=classes * len(x)) / 10
    options = {"ftol": 1e-15, "maxiter": 2000}
    found = minimize(with_gradient, start, jac=True, constraints=ball, method="SLSQP", options=options)
    jacobian = torch.from_numpy(found.x).view(classes, -1)
    # The optimizer keeps the bound to about 1e-9 only.
    jacobian = jacobian * min(1.0, norm / float(jacobian.norm()))
    return jacobian, loss_of(jacobian, x, label, loss).item()


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("relative", [0.3, 0.95, 2.0])
def test_theorem_2_is_the_constrained_minimiser(loss, classes, relative):
    x, label = normal(4), 1
    norm = relative / float(x.norm())
    closed = aligned_jacobian(x[None], torch.tensor([label]), classes, norm, loss=loss)[0]
    lowest = loss_of(closed, x, label, loss).item()
    assert closed.norm() <= norm * (1 + 1e-12)
    for seed in range(3):
        found, value = minimum(x, label, classes, norm, loss, seed)
        assert lowest - 1e-12 <= value <= lowest + 1e-9
        if loss == "cross_entropy" or relative < 1:
            torch.testing.assert_close(found, closed, rtol=0, atol=1e-5 * norm)
        else:
            assert found.norm() > closed.norm() * (1 + 1e-3)


def test_above_its_bound_mse_takes_the_least_of_the_minimisers():
    """Jx = e_y is linear in J: its solution of least norm is the pseudo-inverse's."""
    x, labels = normal(5, 4), torch.tensor([0, 2, 1, 1, 0])
    closed = aligned_jacobian(x, labels, 3, 100.0, loss="mse")
    expected = functional.one_hot(labels, 3).double().unsqueeze(2) @ torch.linalg.pinv(x.unsqueeze(2))
    torch.testing.assert_close(closed, expected)
    proof = aligned_jacobian(x[:1], labels[:1], 3, 1e-3, loss="mse")[0] * 1e3 * math.sqrt(2) / x[0].norm()
    assert loss_of(proof, x[0], 0, "mse").item() == pytest.approx((math.sqrt(2) - 1) ** 2)


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
def test_it_is_aligned_bounded_and_of_the_shape_of_images(loss):
    x, labels = normal(6, 2, 3), torch.arange(6) % 4
    jacobian = aligned_jacobian(x, labels, 4, 0.1, loss=loss)
    assert jacobian.shape == (6, 4, 2, 3)
    torch.testing.assert_close(jacobian_alignment(jacobian, x), torch.ones(6).double())
    torch.testing.assert_close(jacobian.flatten(1).norm(dim=1), torch.full((6,), 0.1).double())
    torch.testing.assert_close(torch.einsum("ncij,nij->nc", jacobian, x).argmax(1), labels)
    centroid = jacobian.sum(1)
    if loss == "cross_entropy":
        torch.testing.assert_close(centroid, torch.zeros_like(centroid))
    assert aligned_jacobian(x.float(), labels, 4, 0.1, loss=loss).dtype == torch.float32


def test_multiplier_of_the_proof():
    """The proof prints the gradient of + lambda |A|^2 as - 2 lambda A: its multiplier is negative, the true one not."""
    x = functional.normalize(normal(4), dim=0)
    jacobian = aligned_jacobian(x[None], torch.tensor([0]), 10, 1.0)[0].requires_grad_()
    (gradient,) = torch.autograd.grad(loss_of(jacobian, x, 0, "cross_entropy"), jacobian)
    multiplier = -(gradient * jacobian).sum().item() / 2
    torch.testing.assert_close(gradient, -2 * multiplier * jacobian)
    outputs = jacobian @ x
    printed = ((outputs * outputs.softmax(0)).sum() - outputs[0]).item() / 2
    assert multiplier == pytest.approx(-printed)
    assert printed == pytest.approx(-0.400, abs=1e-3)
    without_brackets = (outputs * outputs.softmax(0)).sum().item() / 2 - outputs[0].item()
    assert without_brackets == pytest.approx(-0.874, abs=1e-3)


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("norm", [0.05, 50.0])
def test_gradient_also_at_zero(loss, norm):
    x, labels = normal(3, 4), torch.tensor([0, 1, 2])
    assert torch.autograd.gradcheck(lambda x: aligned_jacobian(x, labels, 3, norm, loss=loss), x.requires_grad_())
    zero = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    jacobian = aligned_jacobian(zero, labels, 3, norm, loss=loss)
    torch.testing.assert_close(jacobian, torch.zeros_like(jacobian))
    (gradient,) = torch.autograd.grad(jacobian.square().sum(), zero)
    torch.testing.assert_close(gradient, torch.zeros_like(zero))


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("classes", [2, 10])
def test_the_largest_norm_that_the_dtype_holds(loss, classes):
    """With inputs so small that the norm is a bound on both."""
    x, labels, norm = 1e-39 * normal(3, 4).float(), torch.tensor([0, 1, 1]), torch.finfo(torch.float32).max
    found = aligned_jacobian(x, labels, classes, norm, loss=loss).double() / norm
    expected = aligned_jacobian(x.double(), labels, classes, norm, loss=loss) / norm
    torch.testing.assert_close(found.flatten(1).norm(dim=1), torch.ones(3).double())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.bad_input
def test_bad_input_is_named():
    x, labels = normal(3, 4), torch.tensor([0, 1, 2])
    with pytest.raises(
        RangeError, match=r"expected classes a whole number of at least 2, got 1; norm finite and at least 0, "
    ):
        aligned_jacobian(x, labels, 1, -1.0)
    for classes in (2.5, 3.0, math.nan):
        with pytest.raises(
            RangeError, match=rf"aligned_jacobian: expected classes a whole number.*got {classes!r}\. Change"
        ):
            aligned_jacobian(x, labels, classes, 1.0)
    with pytest.raises(RangeError, match="loss 'cross_entropy' or 'mse', got 'hinge'"):
        aligned_jacobian(x, labels, 3, 1.0, loss="hinge")
    with pytest.raises(RangeError, match=r"aligned_jacobian\(labels\): expected classes 0 to 1, got 0 to 2"):
        aligned_jacobian(x, labels, 2, 1.0)
    with pytest.raises(ShapeError, match=r"aligned_jacobian\(labels\): expected shape \(3,\), got \(2,\)"):
        aligned_jacobian(x, labels[:2], 3, 1.0)
    with pytest.raises(EmptyError, match=r"aligned_jacobian\(x\): expected at least one sample"):
        aligned_jacobian(x[:0], labels[:0], 3, 1.0)
    with pytest.raises(EmptyError, match=r"aligned_jacobian\(x\): expected entries, got shape \(3, 0\)"):
        aligned_jacobian(x[:, :0], labels, 3, 1.0)
    with pytest.raises(RangeError, match=r"aligned_jacobian\(x\): expected finite numbers, got nan at index \(0, 0\)"):
        aligned_jacobian(x * torch.nan, labels, 3, 1.0)
