"""Flows of truncation maps against automatic differentiation, small steps, and what is solved exactly."""

import math

import pytest
import torch

import gnomon
from gnomon.errors import EmptyError, RangeError, ShapeError

TIMES = torch.tensor([0.0, 0.2, 0.7, 1.5, 3.0, 8.0], dtype=torch.float64)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def orthogonal(q, seed=0):
    return torch.linalg.qr(normal(q, q, seed=seed))[0]


def start(layers, q, seed):
    """β and R of each layer."""
    return 0.5 * normal(layers, q, seed=seed), torch.stack([orthogonal(q, seed=seed + 31 * k) for k in range(layers)])


def clusters(q, seed, each=7):
    """Points of three clusters of different sizes, their labels and the targets."""
    labels = torch.tensor([0] * each + [1] * (each - 3) + [2] * 2)
    return (
        normal(len(labels), q, seed=seed) + 2 * normal(3, q, seed=seed + 1)[labels],
        labels,
        normal(3, q, seed=seed + 2),
    )


def loss_of(points, labels, targets, beta, rotation):
    """The loss as it is defined, cluster by cluster and layer by layer."""
    images = points
    for b, r in zip(beta, rotation, strict=True):
        images = ((images + b) @ r.mT).relu() @ r - b
    squares = (images - targets[labels]).square().sum(1)
    return sum(squares[labels == k].mean() for k in range(len(targets))) / 2


def descent(points, labels, targets, beta, rotation):
    """The velocities of steepest descent: minus the gradient in β, and in R that projected to rotations of R."""
    beta, rotation = beta.clone().requires_grad_(), rotation.clone().requires_grad_()
    of_beta, of_rotation = torch.autograd.grad(loss_of(points, labels, targets, beta, rotation), [beta, rotation])
    turning = of_rotation @ rotation.detach().mT
    return -of_beta, -(turning - turning.mT) / 2 @ rotation.detach()


@pytest.mark.parametrize(("layers", "q"), [(1, 2), (2, 3), (3, 3), (4, 5)])
@pytest.mark.parametrize("seed", range(3))
def test_right_sides_are_steepest_descent(layers, q, seed):
    points, labels, targets = clusters(q, seed)
    beta, rotation = start(layers, q, seed)
    found = gnomon.GeneralFlow(points, labels, targets).velocity_at(beta, rotation)
    wanted = descent(points, labels, targets, beta, rotation)
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found[1], wanted[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("q", [1, 2, 3, 5])
def test_moments_give_the_steepest_descent_of_one_cluster(q):
    points, target = normal(9, q, seed=q), normal(q, seed=q + 1)
    beta, rotation = start(1, q, q)
    found = gnomon.TruncationFlow(points, target).velocity_at(beta[0], rotation[0])
    wanted = descent(points, torch.zeros(9, dtype=torch.long), target[None], beta, rotation)
    torch.testing.assert_close(found[0], wanted[0][0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found[1], wanted[1][0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_flow_is_the_limit_of_small_steps(seed):
    points, labels, targets = clusters(3, seed)
    beta, rotation = start(2, 3, seed)
    orbit = gnomon.GeneralFlow(points, labels, targets).flow(beta, rotation, TIMES[:3])
    errors = []
    for steps in (100, 1600):
        at, to, size = beta, rotation, 0.7 / steps
        for _ in range(steps):
            change, turn = descent(points, labels, targets, at, to)
            at, to = at + size * change, torch.linalg.matrix_exp(size * turn @ to.mT) @ to
        errors.append(float((at - orbit.beta[-1]).norm() + (to - orbit.rotation[-1]).norm()))
    assert errors[1] < 0.02
    # Linear in the step but for where in it a face is crossed: sixteen times finer is at least four times closer.
    assert errors[1] < errors[0] / 4


@pytest.mark.parametrize(("layers", "seed"), [(1, 0), (2, 1), (3, 2)])
def test_loss_falls_by_what_both_parts_take(layers, seed):
    points, labels, targets = clusters(3, seed)
    beta, rotation = start(layers, 3, seed)
    orbit = gnomon.GeneralFlow(points, labels, targets).flow(beta, rotation, TIMES)
    for place in range(len(TIMES)):
        plain = loss_of(points, labels, targets, orbit.beta[place], orbit.rotation[place])
        torch.testing.assert_close(orbit.loss[place], plain)
    torch.testing.assert_close(orbit.loss[0] - orbit.loss, orbit.decrease.sum(1), rtol=1e-8, atol=1e-10)
    assert (orbit.decrease.diff(dim=0) >= 0).all()
    assert (orbit.rates <= 0).all()
    defect = orbit.rotation @ orbit.rotation.mT - torch.eye(3)
    assert defect.abs().max() < 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_one_layer_and_one_cluster_is_the_truncation_flow(seed):
    points, target = normal(8, 2, seed=seed), 2 * normal(2, seed=seed + 1)
    beta, rotation = start(1, 2, seed)
    one = gnomon.TruncationFlow(points, target).flow(beta[0], rotation[0], TIMES)
    labels = torch.zeros(8, dtype=torch.long)
    general = gnomon.GeneralFlow(points, labels, target[None]).flow(beta, rotation, TIMES)
    torch.testing.assert_close(one.beta, general.beta[:, 0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(one.rotation, general.rotation[:, 0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(one.decrease, general.decrease, rtol=1e-8, atol=1e-9)
    assert (one.truncated == general.truncated[:, 0, 0]).all()


@pytest.mark.parametrize("n", [1, 2, 6])
def test_in_one_dimension_it_is_the_exact_flow_of_the_bias(n):
    points, target, eye = normal(n, 1, seed=n).sort(0).values, torch.tensor([3.0]).double(), torch.eye(1).double()
    beta = -points[0]
    flow = gnomon.TruncationFlow(points, target).flow(beta, eye, TIMES)
    exact = gnomon.bias_flow(points, target, beta, eye, TIMES)
    torch.testing.assert_close(flow.beta, exact.beta, rtol=1e-10, atol=1e-10)
    # (4.49): each next point is reached when so many are truncated already.
    time = 0.0
    for k in range(1, n):
        time += n / k * math.log(float((target - points[k - 1]) / (target - points[k])))
        torch.testing.assert_close(float(flow.crossings.times[flow.crossings.points == k]), time, rtol=1e-9, atol=0)


def collapsing():
    """A cluster most of which the map truncates, and the target far behind the apex: proposition 4.2's case."""
    points = 0.3 * normal(12, 2, seed=3) - 0.6
    return points, torch.tensor([2.0, 2.0]).double(), torch.tensor([0.5, 0.4]).double(), torch.eye(2).double()


def test_a_cluster_is_driven_into_the_negative_sector_and_stays():
    points, target, beta, rotation = collapsing()
    flow = gnomon.TruncationFlow(points, target)
    orbit = flow.flow(beta, rotation, torch.linspace(0, 6, 25).double())
    assert 0 < orbit.collapse < 6
    assert orbit.equilibrium == "truncated"
    after = orbit.times >= orbit.collapse
    first = after.nonzero()[0, 0]
    torch.testing.assert_close(orbit.rotation[after], orbit.rotation[first].expand(int(after.sum()), 2, 2))
    apart = orbit.beta[after] + target
    torch.testing.assert_close(apart, torch.exp(orbit.times[first] - orbit.times[after])[:, None] * apart[0])
    images = ((points + orbit.beta[-1]) @ orbit.rotation[-1].mT).relu()
    torch.testing.assert_close(images, torch.zeros_like(images))


def test_the_orbit_turns_and_shifts_with_the_data():
    points, target, beta, rotation = collapsing()
    turn, shift = orthogonal(2, seed=5), normal(2, seed=6)
    orbit = gnomon.TruncationFlow(points, target).flow(beta, rotation, TIMES)
    turned = gnomon.TruncationFlow(points @ turn.mT + shift, target @ turn.mT + shift)
    other = turned.flow(beta @ turn.mT - shift, rotation @ turn.mT, TIMES)
    torch.testing.assert_close(other.loss, orbit.loss)
    torch.testing.assert_close(other.beta, orbit.beta @ turn.mT - shift, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(other.collapse, orbit.collapse)


def test_proposition_4_1_untruncated_rests_and_truncated_keeps_its_rotation():
    points, target, eye = torch.tensor([[1.0, 2.0], [2.0, 1.0]]).double(), torch.ones(2).double(), torch.eye(2).double()
    flow = gnomon.TruncationFlow(points, target)
    rest = flow.flow(torch.zeros(2).double(), eye, TIMES)
    assert rest.equilibrium == "untruncated"
    torch.testing.assert_close(rest.beta, torch.zeros_like(rest.beta))
    torch.testing.assert_close(rest.rates, torch.zeros_like(rest.rates))
    moved = gnomon.TruncationFlow(points, 3 * target).flow(torch.full((2,), -2.5).double(), eye, TIMES)
    assert moved.equilibrium == "truncated"
    assert moved.collapse == 0
    torch.testing.assert_close(moved.beta + 3, 0.5 * torch.exp(-TIMES)[:, None].expand(-1, 2))
    torch.testing.assert_close(moved.rotation, eye.expand(len(TIMES), 2, 2))


def test_points_on_a_face_count_as_truncated_and_coincident_points_as_two():
    points, target, eye = (
        torch.tensor([[0.0], [0.0], [1.0]]).double(),
        torch.tensor([2.0]).double(),
        torch.eye(1).double(),
    )
    flow = gnomon.TruncationFlow(points, target)
    orbit = flow.flow(torch.zeros(1).double(), eye, torch.tensor([0.5]).double())
    torch.testing.assert_close(orbit.beta[0] + 2, 2 * torch.tensor([-1 / 3]).double().exp())
    assert orbit.truncated.tolist() == [[2]]


def test_clearance_is_the_least_height_of_others():
    points, target, beta, rotation = collapsing()
    flow = gnomon.TruncationFlow(points, target)
    orbit = flow.flow(beta, rotation, TIMES)
    others = normal(5, 2, seed=9) + 10
    wanted = [((others + b) @ r.mT).min() for b, r in zip(orbit.beta, orbit.rotation, strict=True)]
    torch.testing.assert_close(flow.clearance(others, orbit), torch.stack(wanted))


@pytest.mark.bad_input
def test_bad_input_is_named():
    points, target, beta, rotation = collapsing()
    flow = gnomon.TruncationFlow(points, target)
    with pytest.raises(
        RangeError, match=r"TruncationFlow.flow\(rotation\): expected orthogonal matrices, got an entry"
    ):
        flow.flow(beta, 2 * rotation, TIMES)
    with pytest.raises(RangeError, match=r"TruncationFlow.flow: expected times from 0 on, strictly increasing"):
        flow.flow(beta, rotation, TIMES.flip(0))
    with pytest.raises(ShapeError, match=r"expected \(..., 2\) and \(..., 2, 2\), as the points are"):
        flow.flow(beta[:1], rotation, TIMES)
    with pytest.raises(EmptyError, match=r"TruncationFlow\(points\)"):
        gnomon.TruncationFlow(points[:0], target)
    with pytest.raises(ShapeError, match=r"TruncationFlow\(target\): expected points \(n, q\) and a target \(q,\)"):
        gnomon.TruncationFlow(points, points)
    with pytest.raises(RangeError, match=r"TruncationFlow: expected points in float64"):
        gnomon.TruncationFlow(points.float(), target)
    with pytest.raises(EmptyError, match=r"GeneralFlow"):
        gnomon.GeneralFlow(points, torch.zeros(12, dtype=torch.long), torch.stack([target, target]))
