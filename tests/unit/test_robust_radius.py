"""Theorem 3: the radius against an optimizer and by search, what the theorem needs and what it leaves out."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from gnomon import jacobian_alignment
from gnomon.errors import RangeError
from gnomon.measure import robust_radius
from tests.drawn import normal


def ratio(jacobian, x):
    return robust_radius(jacobian, x) / x.norm(dim=1)


@pytest.mark.parametrize("seed", range(5))
def test_equals_the_least_perturbation_that_an_optimiser_finds(seed):
    jacobian, x = normal(4, 5, seed=seed), normal(5, seed=seed + 100)
    y = int((jacobian @ x).argmax())
    lengths = []
    for other in set(range(4)) - {y}:
        row = (jacobian[y] - jacobian[other]).numpy()
        crossed = {"type": "ineq", "fun": lambda e, row=row: -row @ (x.numpy() + e), "jac": lambda e, row=row: -row}
        start = np.random.default_rng(seed).normal(size=5)
        found = minimize(lambda e: (e @ e, 2 * e), start, jac=True, constraints=crossed, options={"ftol": 1e-14})
        lengths.append(found.fun**0.5)
    assert robust_radius(jacobian[None], x[None]).item() == pytest.approx(min(lengths), rel=1e-6)


def test_the_prediction_changes_just_beyond_the_radius_and_not_before():
    jacobian, x = normal(200, 4, 5), normal(200, 5, seed=1).requires_grad_()
    radius = robust_radius(jacobian, x)
    predicted = torch.einsum("ncd,nd->nc", jacobian, x).argmax(1)
    # The radius falls fastest along the way to the nearest boundary.
    (away,) = torch.autograd.grad(radius.sum(), x)
    torch.testing.assert_close(away.norm(dim=1), torch.ones(200).double())
    for factor, same in ((1 - 1e-9, True), (1 + 1e-9, False)):
        moved = x - factor * radius[:, None] * away
        assert ((torch.einsum("ncd,nd->nc", jacobian, moved).argmax(1) == predicted) == same).all()
    for seed in range(50):
        step = torch.nn.functional.normalize(normal(200, 5, seed=seed + 2), dim=1) * radius[:, None] * (1 - 1e-9)
        assert (torch.einsum("ncd,nd->nc", jacobian, x + step).argmax(1) == predicted).all()


def test_aligned_jacobians_have_the_length_of_x():
    x, c = normal(50, 6), normal(50, 4, seed=1)
    torch.testing.assert_close(robust_radius(c[:, :, None] * x[:, None], x), x.norm(dim=1))


def ascend(build, start, x):
    """The largest radius, as a share of |x|, that gradient ascent finds from each start."""
    free = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([free], lr=0.05)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.995)
    for _ in range(2000):
        optimizer.zero_grad()
        share = ratio(build(free), x)
        (-share.sum()).backward()
        optimizer.step()
        schedule.step()
    return build(free).detach()


@pytest.mark.unchecked
def test_theorem_3_no_other_direction_survives_more():
    x = normal(5)
    entries = [(3.0, 1.0, -2.0), (-1.0, -2.0, -4.0), (1.0, 0.999, 0.0), (1.0, 0.0, 0.0)]
    many = normal(20000, 5, seed=1)
    for c in entries:
        random = torch.tensor(c).double()[:, None] * many[:, None]
        assert ratio(random, x.expand(20000, 5)).max() <= 1
    # Twenty starts for each, all at once.
    c = torch.tensor(entries).double().repeat_interleave(20, 0)
    some = (many[:20] * (many[:20] @ x).sign()[:, None]).repeat(4, 1)

    def rank_one(v):
        return c[:, :, None] * (v / v.norm(dim=1, keepdim=True))[:, None] * x.norm()

    best = ascend(rank_one, some, x.expand(80, 5))
    torch.testing.assert_close(ratio(best, x.expand(80, 5)), torch.ones(80).double(), rtol=0, atol=1e-4)
    torch.testing.assert_close(best, rank_one(x.expand(80, 5)), rtol=0, atol=0.05)


@pytest.mark.unchecked
def test_no_jacobian_of_any_rank_survives_more_than_a_step_to_zero():
    """The theorem's rank one is not needed: -x makes all outputs equal, whatever J."""
    x = normal(5).expand(10, 5)
    largest = ratio(normal(20000, 4, 5, seed=1), x[:1].expand(20000, 5)).max().item()
    assert round(largest, 3) == 0.947
    best = ascend(lambda jacobian: jacobian, normal(10, 4, 5, seed=2), x)
    share = ratio(best, x)
    assert share.max() <= 1 + 1e-12
    torch.testing.assert_close(share, torch.ones(10).double(), rtol=0, atol=1e-3)


def test_alignment_is_not_needed():
    """A row that all rows share leaves the radius as it is: c x^T + 1 r^T is as robust."""
    x, c, common = normal(1, 5), torch.tensor([2.0, -1.0, -3.0, 0.5]).double(), 3 * normal(1, 1, 5, seed=1)
    jacobian = c[:, None] * x[:, None] + common
    torch.testing.assert_close(ratio(jacobian, x), torch.ones(1).double())
    assert torch.linalg.matrix_rank(jacobian[0]) == 2
    assert round(jacobian_alignment(jacobian, x).item(), 3) == 0.899


@pytest.mark.parametrize("c", [(3.0, 3.0, 1.0), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)])
def test_a_largest_entry_that_stands_twice_leaves_no_robustness(c):
    x = normal(4, 5)
    jacobian = torch.tensor(c, dtype=torch.float64)[:, None] * x[:, None]
    torch.testing.assert_close(robust_radius(jacobian, x), torch.zeros(4).double())


def test_an_offset_can_do_better():
    """Theorem 3 needs B = 0: with an offset the boundary may lie further off than zero."""
    x = normal(5)
    jacobian, offset = torch.stack([x, -x]), torch.tensor([1.0, -1.0], dtype=torch.float64) * x.norm() ** 2
    assert robust_radius(jacobian[None], x[None]).item() == pytest.approx(x.norm().item())
    for share, predicted in ((-1.99, 0), (-2.01, 1)):
        assert (jacobian @ (x + share * x) + offset).argmax() == predicted


def test_one_output_cannot_change_its_mind():
    assert robust_radius(normal(3, 1, 5), normal(3, 5)).isinf().all()


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
def test_samples_of_any_size_have_their_radius(size):
    jacobian, x = normal(4, 3, 100), normal(4, 100)
    torch.testing.assert_close(robust_radius(jacobian, x * size), robust_radius(jacobian, x) * size)
    torch.testing.assert_close(robust_radius(jacobian * size, x), robust_radius(jacobian, x))


def test_a_radius_that_the_dtype_does_not_hold_is_refused():
    with pytest.raises(RangeError, match=r"robust_radius\(x\): expected a radius that torch.float32 can hold"):
        robust_radius(torch.eye(2)[None], torch.tensor([[3e38, -3e38]]))
