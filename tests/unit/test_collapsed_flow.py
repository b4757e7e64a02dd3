"""The collapsed flow against automatic differentiation, a closed form, quadrature, and section 8 formula by formula."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from gnomon.dynamics import CollapsedFlow
from gnomon.dynamics import _integration as integration
from gnomon.dynamics._collapsed_flow import _integral
from gnomon.errors import ConvergenceError, EmptyError, RangeError, ShapeError
from tests.drawn import normal

TIMES = torch.tensor([0.1, 0.5, 1.0, 2.0, 3.0], dtype=torch.float64)
DEFINITE = {"positive": (0.3, 2.0), "negative": (2.0, 0.3)}
"""How large W and B start, so that the integral of motion is definite."""


def started(q=3, seed=0, weight=1.0, biases=1.0):
    """W, B and Y of such sizes, W and B nearly orthogonal."""
    turns = [torch.linalg.qr(normal(q, q, seed=seed + k))[0] + 0.1 * normal(q, q, seed=seed + 9 + k) for k in (1, 2)]
    return weight * turns[0], biases * turns[1], normal(q, q, seed=seed)


def close(found, expected, digits=8):
    torch.testing.assert_close(found, expected, rtol=10**-digits, atol=10**-digits)


def chain_loss(layers, biases, last, clusters, labels):
    """The standard loss (2.22) of cumulative weights and biases, through the truncation maps one after another."""
    total = torch.zeros((), dtype=torch.float64)
    for points, label in zip(clusters, labels.T, strict=True):
        for weight, bias in zip(layers, biases.T, strict=True):
            points = torch.relu((points + bias) @ weight.T) @ torch.linalg.inv(weight).T - bias
        total = total + (points @ last.T - label).square().sum(1).mean() / 2
    return total


def collapsed_chain():
    """Two clusters of unlike size in the plane, each cut to a point by its own map and left alone by the other."""
    spread = 0.1 * normal(7, 2)
    clusters = [spread[:3] - 2, spread[3:] + 1]
    layers = [torch.eye(2, dtype=torch.float64) * 1.5, -torch.eye(2, dtype=torch.float64)]
    biases = torch.tensor([[1.0, -0.5], [1.0, -0.4]], dtype=torch.float64)
    return layers, biases, normal(2, 2, seed=3), clusters, normal(2, 2, seed=4)


def test_its_field_is_the_gradient_of_the_standard_loss_of_a_collapsed_network():
    """Equations 8.2, 8.6 and 8.7: by class averages, unlike sizes weigh the same; cumulative weights do not move."""
    layers, biases, last, clusters, labels = collapsed_chain()
    inputs = [tensor.requires_grad_() for tensor in (last, biases, *layers)]
    loss = chain_loss(layers, biases, last, clusters, labels)
    gradients = torch.autograd.grad(loss, inputs)
    flow = CollapsedFlow(last, biases, labels)
    velocity = flow._velocity(torch.stack([flow.weight, flow.biases]))
    torch.testing.assert_close(loss.detach(), (flow.weight @ flow.biases + labels).square().sum() / 2)
    torch.testing.assert_close(velocity, -torch.stack(gradients[:2]))
    assert max(gradient.abs().max() for gradient in gradients[2:]) == 0
    # With the last layer's own weight in place of the product of all, the cumulative weight would move (8.4).
    own = (last @ torch.linalg.inv(layers[1])).detach()
    loss = chain_loss(layers, biases, own @ layers[1], clusters, labels)
    assert torch.autograd.grad(loss, layers[1])[0].abs().max() > 0.1


def test_the_network_may_leave_the_collapse_that_the_flow_assumes():
    """One point at -1.5: the bias passes 1.5 on its way to the root of 3, and the point is truncated no more."""
    one = torch.ones(1, 1, dtype=torch.float64)
    run = CollapsedFlow(one, one, -3 * one).flow(torch.tensor([0.05, 5.0]).double())
    assert run.biases[0] < 1.5 < run.biases[1]
    assert run.biases[1].item() == pytest.approx(math.sqrt(3))
    at_the_face = CollapsedFlow(one, one, -3 * one).flow(torch.tensor([math.log(6) / 6]).double())
    assert at_the_face.biases.item() == pytest.approx(1.5)
    for at, moves in zip(run.biases, (True, False), strict=True):
        bias = at.clone().requires_grad_()
        loss = chain_loss([one], bias, run.weight[1], [torch.tensor([[-1.5]]).double()], -3 * one)
        assert bool(torch.autograd.grad(loss, bias)[0] != 0) == moves


@pytest.mark.parametrize("seed", range(3))
def test_flow_follows_an_independent_integrator(seed):
    weight, biases, labels = started(3, seed)

    def field(_, state):
        inputs = [torch.tensor(part.reshape(3, 3), requires_grad=True) for part in np.split(state, 2)]
        loss = (inputs[0] @ inputs[1] + labels).square().sum() / 2
        return -torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, inputs)]).numpy()

    initial = torch.cat([weight.flatten(), biases.flatten()]).numpy()
    solved = solve_ivp(field, (0, 3), initial, "LSODA", t_eval=TIMES.numpy(), rtol=1e-10, atol=1e-12)
    expected = torch.from_numpy(solved.y.T).view(5, 2, 3, 3)
    run = CollapsedFlow(weight, biases, labels).flow(TIMES)
    close(run.weight, expected[:, 0], 6)
    close(run.biases, expected[:, 1], 6)
    close(run.loss, (expected[:, 0] @ expected[:, 1] + labels).square().sum((1, 2)) / 2, 6)


def test_balanced_diagonal_matrices_grow_logistically():
    r"""$B = -W$ and Y diagonal: $u = w^2$ solves $\dot u = 2u(y - u)$."""
    squares, goals = torch.tensor([0.1, 1.0, 5.0]).double(), torch.tensor([2.0, 3.0, 0.5]).double()
    start = torch.diag(squares.sqrt())
    run = CollapsedFlow(start, -start, torch.diag(goals)).flow(TIMES)
    expected = goals / (1 + (goals / squares - 1) * torch.exp(-2 * goals * TIMES[:, None]))
    close(run.weight, torch.diag_embed(expected.sqrt()))
    close(run.biases, -run.weight)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sizes", [*DEFINITE.values(), (1.0, 1.0)])
def test_the_integral_of_motion_is_conserved(seed, sizes):
    """Proposition 8.3."""
    flow = CollapsedFlow(*started(4, seed, *sizes))
    run = flow.flow(TIMES)
    assert run.drift.max() < 1e-8
    torch.testing.assert_close(_integral(run.weight[-1], run.biases[-1]), flow.integral, rtol=0, atol=1e-8)
    # It is the integrator's: a hundred times the tolerance, more drift.
    assert flow.flow(TIMES, rtol=1e-5).drift.max() > 10 * run.drift.max()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sizes", DEFINITE.values(), ids=DEFINITE)
def test_the_loss_decays_at_the_gap_or_faster_and_both_matrices_converge(seed, sizes):
    """Theorem 8.4, both cases, with the least eigenvalue itself for λ₀."""
    flow = CollapsedFlow(*started(3, seed, *sizes))
    values = torch.linalg.eigvalsh(flow.integral)
    signed = values[0] if sizes == DEFINITE["positive"] else -values[-1]
    torch.testing.assert_close(flow.spectral_gap, signed)
    assert signed > 0
    run = flow.flow(TIMES)
    assert (run.loss <= run.bound).all()
    assert (run.gap >= flow.spectral_gap).all()
    rate = -(run.loss.log().diff() / TIMES.diff())
    assert (rate >= 2 * torch.minimum(run.gap[1:], run.gap[:-1]) * (1 - 1e-2)).all()
    late = flow.flow(torch.tensor([20.0, 30.0]).double() / flow.spectral_gap)
    close(late.weight @ late.biases, -flow.labels.expand(2, 3, 3))
    close(late.weight[1], late.weight[0])
    close(late.biases[1], late.biases[0])


@pytest.mark.parametrize("rtol", [1e-13, 1e-3])
def test_at_the_bounds_of_the_tolerance_it_is_kept(rtol):
    """And SciPy does not warn of it, which would be an error here."""
    flow = CollapsedFlow(*started(3, 0))
    for found, exact in (
        (flow.flow(TIMES, rtol=rtol).weight, flow.flow(TIMES, rtol=1e-12).weight),
        (flow.propagators(TIMES, rtol=rtol).outer_weight, flow.propagators(TIMES, rtol=1e-12).outer_weight),
    ):
        torch.testing.assert_close(found, exact, rtol=0, atol=30 * max(rtol, 1e-12))


def test_without_a_definite_integral_nothing_is_promised():
    """At the origin everything stays, and the loss with it."""
    zero = torch.zeros(2, 2, dtype=torch.float64)
    flow = CollapsedFlow(zero, zero, torch.eye(2, dtype=torch.float64))
    assert flow.spectral_gap == 0
    run = flow.flow(TIMES)
    torch.testing.assert_close(run.loss, torch.ones(5).double())
    torch.testing.assert_close(run.bound, torch.ones(5).double())
    assert CollapsedFlow(*started(3, 0)).spectral_gap == 0


@pytest.mark.parametrize("seed", range(2))
def test_the_residual_factorises_with_the_outer_propagators_only(seed):
    """Equation 8.11: its propagators belong to WWᵀ and BᵀB, as in 8.8, not to WᵀW and BBᵀ, as in 8.9."""
    flow = CollapsedFlow(*started(3, seed))
    run, carried = flow.flow(TIMES), flow.propagators(TIMES)
    residual, start = run.weight @ run.biases + flow.labels, flow.weight @ flow.biases + flow.labels
    close(carried.outer_weight @ start @ carried.outer_biases, residual)
    printed = carried.inner_weight @ start @ carried.inner_biases
    wrong = (printed - residual).norm(dim=(1, 2)) / residual.norm(dim=(1, 2))
    assert (wrong[1:] > 0.3).all()
    assert wrong[2].item() == pytest.approx((1.076, 0.841)[seed], abs=1e-3)


@pytest.mark.parametrize("seed", range(2))
def test_duhamel_forms_hold_with_the_inner_propagators_and_a_minus(seed):
    """Equations 8.16 and 8.17, whose integrals are printed with a plus."""
    flow = CollapsedFlow(*started(3, seed))
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(24))
    times = torch.cat([(nodes + 1) / 2, torch.ones(1, dtype=torch.float64)])
    run, carried = flow.flow(times), flow.propagators(times)
    vw, vb = carried.inner_weight, carried.inner_biases
    inner_w = vw[-1] @ torch.linalg.solve(vw[:-1], run.weight[:-1].mT @ flow.labels)
    inner_b = torch.linalg.solve(vb[:-1], flow.labels @ run.biases[:-1].mT, left=False) @ vb[-1]
    by_weight, by_biases = ((weights[:, None, None] * inner).sum(0) / 2 for inner in (inner_w, inner_b))
    close(vw[-1] @ flow.biases - by_weight, run.biases[-1])
    close(flow.weight @ vb[-1] - by_biases, run.weight[-1])
    off = vw[-1] @ flow.biases + by_weight - run.biases[-1], flow.weight @ vb[-1] + by_biases - run.weight[-1]
    sizes = [float(part.norm()) for part in (*off, run.biases[-1], run.weight[-1])]
    assert sizes == pytest.approx(([3.80, 3.78, 2.15, 2.07], [2.60, 2.60, 1.74, 1.58])[seed], abs=5e-3)


def test_the_slope_of_the_loss_has_the_inner_product_of_the_biases_columns():
    """Errata: (8.33) is printed with BBᵀ, which here gives -1, at W = 0 and a residual Y = e₁e₁ᵀ that rests."""
    first, biases = torch.tensor([[1.0, 0.0], [0.0, 0.0]]).double(), torch.tensor([[0.0, 1.0], [0.0, 0.0]]).double()
    flow = CollapsedFlow(0 * first, biases, first)
    assert flow._velocity(torch.stack([flow.weight, flow.biases])).abs().max() == 0
    assert -torch.trace(first @ biases @ biases.T @ first.T) == -1


def test_propagators_grow_with_the_time_they_start_from():
    """Equation 8.10 is printed with a minus: a propagator that starts later has decayed less."""
    flow = CollapsedFlow(*started(3, 0))
    h = 1e-4
    times = torch.tensor([0.5 - h, 0.5, 0.5 + h, 1.0]).double()
    run, carried = flow.flow(times), flow.propagators(times)
    vw, vb = carried.inner_weight, carried.inner_biases
    from_w = vw[-1] @ torch.linalg.inv(vw[:3])
    from_b = torch.linalg.inv(vb[:3]) @ vb[-1]
    weight, biases = run.weight[1], run.biases[1]
    close((from_w[2] - from_w[0]) / (2 * h), from_w[1] @ weight.T @ weight, 5)
    close((from_b[2] - from_b[0]) / (2 * h), biases @ biases.T @ from_b[1], 5)


@pytest.mark.parametrize("seed", range(2))
def test_propagators_decay_at_the_gap(seed):
    """Lemma 8.1 for both kinds, and equation 8.35's bound of W with the exponent that its derivation gives."""
    flow = CollapsedFlow(*started(3, seed, *DEFINITE["positive"]))
    carried, run = flow.propagators(TIMES), flow.flow(TIMES)
    decay = torch.exp(-flow.spectral_gap * TIMES)
    for propagator in (carried.outer_biases, carried.inner_biases):
        assert (torch.linalg.matrix_norm(propagator, 2) <= decay).all()
    most = torch.linalg.matrix_norm(flow.labels, 2) + (2 * run.bound).sqrt()
    assert (torch.linalg.matrix_norm(run.weight, 2) <= most / flow.spectral_gap.sqrt()).all()


def test_it_keeps_its_start_while_the_network_trains_on():
    """The parameters that it was given change in place; the integral of motion must stay that of its start."""
    weight, biases, labels = started(3, 0)
    flow = CollapsedFlow(weight, biases, labels)
    for given in (weight, biases, labels):
        given.zero_()
    run = flow.flow(TIMES)
    assert run.drift.max() < 1e-8
    close(run.weight, CollapsedFlow(*started(3, 0)).flow(TIMES).weight)


def test_times_in_single_precision_leave_the_bound_in_double():
    run = CollapsedFlow(*started(3, 0, *DEFINITE["positive"])).flow(torch.tensor([0.0, 0.1]))
    assert run.bound.dtype == torch.float64
    close(run.bound[0], run.loss[0], 14)


def test_what_8_35_leaves_of_the_weight_falls_with_the_rate_once():
    r"""Its right side is printed with $e^{-2s\lambda_0}$: with $Y = 0$ and a small W nothing else is left of W."""
    one, times = torch.ones(1, 1, dtype=torch.float64), torch.tensor([2.0], dtype=torch.float64)
    flow = CollapsedFlow(0.1 * one, one, 0 * one)
    run, start = flow.flow(times), 0.1**2  # Tr|WB + Y|² at the start
    # b² - w² = g stays, so that u = w² solves a logistic equation, u' = -2u(u + g).
    gap = 0.99
    solved = gap * 0.01 * math.exp(-4 * gap) / (gap + 0.01 * (1 - math.exp(-4 * gap)))
    assert run.weight.item() == pytest.approx(math.sqrt(solved), rel=1e-8)
    left, root = run.weight.abs().item(), flow.spectral_gap.sqrt().item()
    decay = math.exp(-2 * flow.spectral_gap.item())
    assert left / (start / root * decay**2) == pytest.approx(71.7, rel=1e-3)
    assert left <= math.sqrt(start) / root * decay
    # (8.38), printed with c instead of its root, c_B = 1 at the start: W's speed is 0.1 there, and c is 0.01.
    assert flow._velocity(torch.stack([flow.weight, flow.biases]))[0].item() == pytest.approx(-math.sqrt(start))


@pytest.mark.parametrize("size", [1e-9, 1e-12])
def test_small_weights_grow_as_the_linear_flow(size):
    """Near 0 it is linear: with W = a and B = b times the identity and Y = -1, a + b grows as e^s and a - b falls."""
    eye, times = torch.eye(2, dtype=torch.float64), torch.tensor([1.0, 5.0], dtype=torch.float64)
    flow = CollapsedFlow(3 * size * eye, size * eye, -eye)
    run, carried = flow.flow(times), flow.propagators(times)
    expected = (2 * times.exp() + (-times).exp()) * size
    torch.testing.assert_close(run.weight[:, 0, 0], expected, rtol=1e-9, atol=0)
    both_below = CollapsedFlow(-3 * size * eye, -size * eye, -eye).flow(times)
    torch.testing.assert_close(both_below.weight[:, 0, 0], -expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(carried.outer_weight, eye.expand(2, 2, 2), rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_it_is_the_same_in_any_unit(size):
    weight, biases, labels = started(2, 3)
    run = CollapsedFlow(weight, biases, labels).flow(TIMES)
    other = CollapsedFlow(size * weight, size * biases, size**2 * labels).flow(TIMES / size**2)
    close(other.weight / size, run.weight)
    torch.testing.assert_close(other.loss / size**4, run.loss, rtol=1e-7, atol=0)


def test_symmetries():
    """Turning the outputs, the classes, or the space between them turns the flow."""
    weight, biases, labels = started(3, 5)
    left, middle, right = (torch.linalg.qr(normal(3, 3, seed=40 + k))[0] for k in range(3))
    run = CollapsedFlow(weight, biases, labels).flow(TIMES)
    turned = CollapsedFlow(left @ weight @ middle.T, middle @ biases @ right, left @ labels @ right).flow(TIMES)
    close(turned.weight, left @ run.weight @ middle.T)
    close(turned.biases, middle @ run.biases @ right)
    close(turned.loss, run.loss)


@pytest.mark.bad_input
def test_bad_input_is_named(monkeypatch):
    weight, biases, labels = started()
    with pytest.raises(ShapeError, match=r"CollapsedFlow\(biases\): expected a square matrix, the size of weight, got"):
        CollapsedFlow(weight, biases[:, :2], labels)
    with pytest.raises(EmptyError, match=r"CollapsedFlow\(weight\): expected at least one sample, got none"):
        CollapsedFlow(weight[:0, :0], biases, labels)
    with pytest.raises(RangeError, match=r"CollapsedFlow: expected biases in float64, got torch.float32"):
        CollapsedFlow(weight, biases.float(), labels)
    with pytest.raises(RangeError, match=r"CollapsedFlow\(labels\): expected finite numbers, got inf"):
        CollapsedFlow(weight, biases, labels + torch.inf)
    flow = CollapsedFlow(weight, biases, labels)
    with pytest.raises(RangeError, match=r"CollapsedFlow.flow: expected times from 0 on, strictly increasing, the"):
        flow.flow(TIMES.flip(0))
    with pytest.raises(RangeError, match=r"propagators: expected times from 0 on.*the last above 0, got \[0.0\]"):
        flow.propagators(TIMES[:1] * 0)
    for rtol in (0, 1e-20, 0.0011, 1e6, math.inf, math.nan):
        for solve in (flow.flow, flow.propagators):
            with pytest.raises(
                RangeError, match=rf"{solve.__name__}: expected rtol from 1e-13 to 0.001, got {rtol}\. Ch"
            ):
                solve(TIMES, rtol=rtol)

    class Failed:
        success, message = False, "step size too small"

    monkeypatch.setattr(integration, "solve_ivp", lambda *_, **__: Failed)
    with pytest.raises(ConvergenceError, match=r"expected the integration to finish, got step size too small"):
        flow.flow(TIMES)
