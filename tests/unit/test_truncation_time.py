"""The bound of proposition 4.2 against sampled biases and rotations, and against the flow in small steps."""

import math

import pytest
import torch

from gnomon.dynamics import bias_flow, truncation_time_bound
from gnomon.dynamics._truncation_time import _highest_components
from gnomon.errors import EmptyError, RangeError, ShapeError

BOTH = ("sharp", "printed")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def uniform(*shape, seed=0):
    return torch.rand(*shape, generator=generator(seed), dtype=torch.float64)


def cluster(width=2, cut=2, scale=1.0, seed=0):
    """100 points, target, bias, rotation: all but a few deep in the negative sector, those cut in one component."""
    seen = -0.7 - 0.8 * uniform(100, width, seed=seed)
    for k in range(cut):
        seen[k, k % width] = -0.1 - 0.15 * uniform(1, seed=seed + 50 + k)[0]
    rotation, target = torch.linalg.qr(normal(width, width, seed=seed + 1))[0], normal(width, seed=seed + 2)
    ahead = scale * torch.full((width,), 0.5 / width**0.5, dtype=torch.float64)
    return scale * seen @ rotation + target, target, ahead @ rotation - target, rotation


CLUSTERS = [(cluster(), BOTH), (cluster(3, scale=0.5), BOTH), (cluster(cut=8, scale=2.0), BOTH[:1])]
"""Each with the estimates under which its hypotheses hold."""


def loss(points, target, beta, rotation):
    truncated = torch.relu((points + beta) @ rotation.T) @ rotation - beta
    return (truncated - target).square().sum(1).mean() / 2


def velocity(points, target, beta, rotation):
    """Of the bias, and the generator of the rotation's, by automatic differentiation on O(q)."""
    beta, rotation = beta.clone().requires_grad_(), rotation.clone().requires_grad_()
    of_beta, of_rotation = torch.autograd.grad(loss(points, target, beta, rotation), (beta, rotation))
    turn = (of_rotation @ rotation.T).detach()
    return -of_beta, (turn.T - turn) / 2


def until_truncated(points, target, beta, rotation, step=2e-3):
    """The time, the bias and the rotation when the last point is cut, in small steps of the flow."""
    time = 0.0
    while ((points + beta) @ rotation.T > 0).any():
        assert time < 5
        speed, turn = velocity(points, target, beta, rotation)
        beta, rotation = beta + step * speed, torch.matrix_exp(step * turn) @ rotation
        time += step
    return time, beta, rotation


def turned(rotation, radius, seed):
    """A rotation in a random plane of the row space, as far from the given one as the radius allows."""
    plane = torch.linalg.qr(normal(len(rotation), 2, seed=seed))[0]
    generator = plane[:, :1] @ plane[:, 1:].T
    found = torch.matrix_exp(2 * math.asin(radius / 2) * (generator - generator.T)) @ rotation
    torch.testing.assert_close(torch.linalg.matrix_norm(found - rotation, 2).item(), radius)
    return found


def test__highest_components_are_reached_and_not_exceeded():
    rotation = torch.linalg.qr(normal(3, 3, seed=1))[0]
    # Some lie so near to a row that it can be turned onto them.
    offsets = torch.cat([normal(10, 3), rotation + 0.1 * normal(3, 3, seed=2)])
    length, radius = offsets.norm(dim=1, keepdim=True), 0.3
    most = _highest_components(offsets, length, rotation, torch.tensor(radius).double())
    for seed in range(200):
        assert (offsets @ turned(rotation, radius, seed).T <= most + 1e-12).all()
    angle = 2 * math.asin(radius / 2)
    for i, offset in enumerate(offsets):
        for r, row in enumerate(rotation):
            # In the plane of the row and the offset, towards it and no further than onto it.
            aside = torch.nn.functional.normalize(offset - (offset @ row) * row, dim=0)
            far = min(angle, math.acos((offset @ row / length[i, 0]).item()))
            reached = offset @ (math.cos(far) * row + math.sin(far) * aside)
            torch.testing.assert_close(most[i, r], reached)
    every_way = _highest_components(offsets, length, rotation, torch.tensor(3.0).double())
    torch.testing.assert_close(every_way, length.expand(-1, 3))


def test__highest_components_of_points_beside_a_row_keep_their_digits():
    offsets = torch.tensor([[-1.0, 1e-9], [-1.0, 0.0]], dtype=torch.float64)
    radius = torch.tensor(0.3, dtype=torch.float64)
    length, angle = offsets.norm(dim=1, keepdim=True), 2 * math.asin(0.15)
    most = _highest_components(offsets, length, torch.eye(2).double(), radius)
    expected = torch.tensor([1e-9 * math.sin(angle), 0.0], dtype=torch.float64)
    torch.testing.assert_close(most[:, 0] + math.cos(angle), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("estimates", BOTH)
@pytest.mark.parametrize("case", CLUSTERS[:2])
def test_hypotheses_hold_at_sampled_biases_and_rotations(case, estimates):
    """Hypotheses 4.14 to 4.16, and the estimate 4.25 of the generator, with its factor 1/2."""
    points, target, beta, rotation = case[0]
    found = truncation_time_bound(*case[0], estimates=estimates)
    assert found.failed is None
    distance = (beta + target).norm()
    reach = distance * (1.1 if estimates == "printed" else 1.0)
    offsets, width = points - target, len(target)
    for seed in range(100):
        at = turned(rotation, found.eta2.item(), seed)
        direction = torch.nn.functional.normalize(normal(width, seed=seed + 7), dim=0)
        ahead = reach * direction * uniform(1, seed=seed) ** (1 / width)
        seen = offsets @ at.T + ahead
        assert (seen <= 0).double().mean(0).min() >= 1 - found.eta0
        mixed = (seen > 0).any(1) & (seen <= 0).any(1)
        moment = (mixed * seen.norm(dim=1)).mean()
        assert moment <= found.eta1
        assert (offsets @ at.T + found.gamma * distance * direction <= 1e-12).all()
        _, turn = velocity(points, target, ahead @ at - target, at)
        assert torch.linalg.matrix_norm(turn, 2) <= ahead.norm() * moment / 2 + 1e-15
        assert torch.linalg.matrix_norm(turn, 2) <= found.eta1_prime


@pytest.mark.parametrize("estimates", BOTH)
@pytest.mark.parametrize("case", CLUSTERS[:2])
def test_constants_and_bound_by_the_plainest_loop(case, estimates):
    points, target, beta, rotation = case[0]
    found = truncation_time_bound(*case[0], estimates=estimates)
    distance = (beta + target).norm().item()
    reach, angle = (1.1 if estimates == "printed" else 1.0) * distance, 2 * math.asin(found.eta2.item() / 2)
    most = []
    for offset in points - target:
        length = offset.norm().item()
        most.append([length * math.cos(max(math.acos(row @ offset / length) - angle, 0)) for row in rotation])
    eta0 = max(sum(row[r] > -reach for row in most) for r in range(len(target))) / len(points)
    lengths = [offset.norm().item() for offset in points - target]
    eta1 = sum(length + reach for row, length in zip(most, lengths, strict=True) if max(row) > -reach) / len(points)
    gamma = -max(map(max, most)) / distance
    if estimates == "printed":
        eta1_prime = 1.1 * distance * eta1
        bound = math.log(1 / gamma) / (1 - eta0 - eta1_prime)
        eta2 = eta1_prime * bound
    else:
        eta1_prime, bound = distance * eta1 / 2, math.log(1 / gamma) / (1 - eta0)
        eta2 = eta1_prime * (1 - gamma) / (1 - eta0)
    names = ("bound", "eta0", "eta1", "eta1_prime", "eta2", "gamma")
    for name, value in zip(names, (bound, eta0, eta1, eta1_prime, eta2, gamma), strict=True):
        assert getattr(found, name).item() == pytest.approx(value, rel=1e-5), name


def test_without_rotation_the_first_and_last_constant_are_exact():
    points, target, beta, rotation = cluster()
    found = truncation_time_bound(points, target, beta, rotation)
    seen, distance = (points - target) @ rotation.T, (beta + target).norm()
    worst = max((seen[:, r] + distance > 0).double().mean() for r in range(2))
    torch.testing.assert_close(found.eta0, worst)
    last = _highest_components(points - target, seen.norm(dim=1, keepdim=True), rotation, torch.zeros(()).double())
    torch.testing.assert_close(last, seen)
    assert 0.8 * -seen.max() / distance < found.gamma < -seen.max() / distance


@pytest.mark.parametrize("case", CLUSTERS)
def test_the_cluster_is_truncated_in_time_and_then_the_rotation_rests(case):
    """The conclusion: equations 4.18 to 4.21, and 4.29."""
    arguments, holding = case
    points, target, _, rotation = arguments
    time, beta, at = until_truncated(*arguments)
    assert time > 0.2
    for estimates in BOTH:
        found = truncation_time_bound(*arguments, estimates=estimates)
        assert (found.failed is None) == (estimates in holding)
        assert time <= found.bound
        if estimates in holding:
            assert torch.linalg.matrix_norm(at - rotation, 2) <= found.eta2
            assert found.bound < 6 * time
    sharp, printed = (truncation_time_bound(*arguments, estimates=estimates).bound for estimates in BOTH)
    assert sharp < printed
    speed, turn = velocity(points, target, beta, at)
    torch.testing.assert_close(speed, -(beta + target))
    assert turn.abs().max() == 0


@pytest.mark.parametrize("seed", range(3))
def test_the_rotation_does_not_change_the_decay_of_the_distance(seed):
    """Equation 4.23 as printed, with R' = ΩR; since Ω is antisymmetric, 4.27 need not subtract it."""
    points, target, beta = normal(40, 3, seed=seed), normal(3, seed=seed + 1), normal(3, seed=seed + 2)
    rotation = torch.linalg.qr(normal(3, 3, seed=seed + 3))[0]
    speed, turn = velocity(points, target, beta, rotation)
    ahead = rotation @ (beta + target)
    share = ((points + beta) @ rotation.T <= 0).double().mean(0)
    moved = turn @ ahead + rotation @ speed
    torch.testing.assert_close(moved, turn @ ahead - share * ahead)
    torch.testing.assert_close(2 * ahead @ moved, -2 * (share * ahead**2).sum())


def test_the_estimate_of_the_generator_needs_the_translation_hypothesis():
    """Equation 4.25 leaves out a product of x with itself, which matters where a point lies beyond the target."""
    points, target = torch.tensor([[5.0, -5.0]]).double(), torch.zeros(2).double()
    beta, rotation = torch.tensor([0.1, 0.1]).double(), torch.eye(2).double()
    _, turn = velocity(points, target, beta, rotation)
    printed = (points + beta).norm() * (beta + target).norm()
    assert torch.linalg.matrix_norm(turn, 2).item() == pytest.approx(12.505)
    assert printed.item() == pytest.approx(1.0002, abs=1e-4)
    assert truncation_time_bound(points, target, beta, rotation).failed is not None


def test_on_a_line_it_bounds_the_exact_flow():
    """There is nothing to turn, and the bound takes the least rate for the whole way."""
    points = torch.cat([-torch.full((9, 1), 0.3), torch.tensor([[-0.04]])]).double()
    target, beta, rotation = torch.zeros(1).double(), torch.tensor([0.1]).double(), torch.eye(1).double()
    found = truncation_time_bound(points, target, beta, rotation)
    exact = bias_flow(points, target, beta, rotation, torch.ones(1).double()).passed.max()
    torch.testing.assert_close(exact, torch.tensor(math.log(2.5) / 0.9).double())
    assert exact < found.bound < 1.001 * exact


def test_already_truncated_clusters_need_no_time():
    points, target, _, rotation = cluster(cut=0)
    found = truncation_time_bound(points, target, 0.1 * rotation[0] - target, rotation)
    assert str(found.bound.item()) == "0.0"
    assert found.eta2 == 0
    assert found.gamma == 1


def test_it_turns_with_the_input_space_and_depends_on_the_unit():
    points, target, beta, rotation = cluster()
    found = truncation_time_bound(points, target, beta, rotation)
    turn = torch.linalg.qr(normal(2, 2, seed=9))[0]
    moved = truncation_time_bound(points @ turn.T, turn @ target, turn @ beta, rotation @ turn.T)
    torch.testing.assert_close(moved.bound, found.bound)
    torch.testing.assert_close(moved.eta2, found.eta2)
    small = truncation_time_bound(points / 9, target / 9, beta / 9, rotation)
    assert small.bound < found.bound
    torch.testing.assert_close(small.eta0, found.eta0)
    single = truncation_time_bound(points.float(), target.float(), beta.float(), rotation.float())
    torch.testing.assert_close(single.bound, found.bound.float())


def test_the_bound_has_gradients():
    arguments = [tensor.requires_grad_() for tensor in cluster()[:3]]
    rotation = cluster()[3]
    assert torch.autograd.gradcheck(lambda *at: truncation_time_bound(*at, rotation).bound, arguments)


def test_the_bound_has_gradients_where_points_lie_on_the_axis_of_a_row():
    """On a line all do: log(0.1 / 0.05) / (1 - 1/3), but for the little that the radius adds."""
    points = torch.tensor([[-0.05], [-0.4], [-0.5]], dtype=torch.float64, requires_grad=True)
    zero, one = torch.zeros(1, dtype=torch.float64), torch.eye(1, dtype=torch.float64)
    bound = truncation_time_bound(points, zero, zero + 0.1, one).bound
    (slope,) = torch.autograd.grad(bound, points)
    wanted = torch.tensor([[30.0], [0.0], [0.0]], dtype=torch.float64)
    torch.testing.assert_close(slope, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("points", "ahead"),
    [([[-0.05], [-0.4], [-0.4]], [0.1]), ([[-0.1, -0.9], *9 * [[-0.9, -0.8]]], [0.15, 0.1])],
)
def test_half_precision_gives_the_bound_of_its_numbers_in_single(points, ahead, dtype):
    """Rounded to half precision, the first one's bound in bfloat16 is 1.03906, below 1.03971."""
    width = len(ahead)
    given = [torch.tensor(part).to(dtype) for part in (points, width * [0.0], ahead)] + [torch.eye(width).to(dtype)]
    for estimates in BOTH:
        found = truncation_time_bound(*given, estimates=estimates)
        exact = truncation_time_bound(*(part.double() for part in given), estimates=estimates)
        assert exact.failed is None
        for name in ("bound", "eta0", "eta1", "eta1_prime", "eta2", "gamma"):
            torch.testing.assert_close(getattr(found, name), getattr(exact, name).float())


def test_a_point_that_bfloat16_rounds_onto_its_cut_is_not_truncated():
    """At -0.99609375 + 1 it is above the cut, and stays there; offset and distance are both 1 in bfloat16."""
    arguments = torch.tensor([[-0.99609375]]), torch.tensor([0.00390625]), torch.ones(1), torch.eye(1)
    found = truncation_time_bound(*(part.bfloat16() for part in arguments))
    assert found.bound == math.inf
    assert found.failed == "concentration in the complement of the positive sector (4.14): eta_0 is not below 1"


@pytest.mark.parametrize(
    ("seen", "ahead", "reason"),
    [
        ([[-3.0, -3.0], [0.1, -3.0]], 0.5, "translation of all points into the negative sector (4.16)"),
        ([[-3.0, -3.0], [0.0, -3.0]], 0.5, "translation of all points into the negative sector (4.16)"),
        (
            [[-0.3, -0.3], [-0.3, -0.2]],
            0.5,
            "concentration in the complement of the positive sector (4.14): eta_0 is not below 1",
        ),
    ],
)
def test_the_hypothesis_that_fails_is_named(seen, ahead, reason):
    points, zero = torch.tensor(seen).double(), torch.zeros(2).double()
    for estimates in BOTH:
        found = truncation_time_bound(points, zero, zero + ahead, torch.eye(2).double(), estimates=estimates)
        assert found.bound == math.inf
        assert found.failed == reason


def test_a_rotation_that_is_not_held_is_named(monkeypatch):
    """The printed estimates fail by the rotation's part of the rate; and where the search would go on, it ends."""
    points = torch.cat([torch.full((9, 2), -30.0), torch.tensor([[-0.9, -30.0]])]).double()
    zero, identity = torch.zeros(2).double(), torch.eye(2).double()
    printed = truncation_time_bound(points, zero, zero + 0.7, identity, estimates="printed")
    assert printed.failed == "a small first moment in mixed sectors (4.15): eta_0 + eta_1' is not below 1"
    monkeypatch.setattr("gnomon.dynamics._truncation_time.STEPS", 1)
    ended = truncation_time_bound(*cluster())
    assert ended.failed == "no eta_2 holds the rotation's way (4.29)"
    assert ended.bound == math.inf


@pytest.mark.bad_input
def test_bad_input_is_named():
    points, target, beta, rotation = cluster()
    with pytest.raises(EmptyError, match=r"truncation_time_bound\(points\): expected at least one sample, got none"):
        truncation_time_bound(points[:0], target, beta, rotation)
    with pytest.raises(ShapeError, match=r"truncation_time_bound\(rotation\): expected shape \(2, 2\), got \(1, 2\)"):
        truncation_time_bound(points, target, beta, rotation[:1])
    with pytest.raises(RangeError, match=r"truncation_time_bound\(rotation\): expected an orthogonal matrix"):
        truncation_time_bound(points, target, beta, rotation + 0.01)
    with pytest.raises(RangeError, match=r"distance of beta from minus the target above 0, got 0.0"):
        truncation_time_bound(points, target, -target, rotation)
    with pytest.raises(RangeError, match=r"estimates 'sharp' or 'printed', got 'exact'"):
        truncation_time_bound(points, target, beta, rotation, estimates="exact")


@pytest.mark.parametrize("size", [1e25, 1e200])
def test_distances_whose_squares_the_dtype_does_not_hold_are_refused(size):
    dtype = torch.float32 if size < 1e100 else torch.float64
    points, target, beta, rotation = (part.to(dtype) for part in cluster())
    says = rf"\(points, target, beta\): expected squares of distances that {dtype} can hold, got larger numbers"
    for given in ((points * size, target, beta), (points, target * size, beta), (points, target, beta * size)):
        with pytest.raises(RangeError, match=says):
            truncation_time_bound(*given, rotation)
