"""Flows of truncation maps against automatic differentiation, small steps, and what is solved exactly."""

import math

import numpy as np
import pytest
import torch

import gnomon
from gnomon.dynamics import _integration
from gnomon.dynamics._clusters import Clusters
from gnomon.dynamics._filippov import Trajectory, _regularisation
from gnomon.dynamics._filippov._events import first_event
from gnomon.dynamics._filippov._regularisation import regularised_limit
from gnomon.errors import ConvergenceError, EmptyError, RangeError, ShapeError
from tests.drawn import normal, orthogonal

TIMES = torch.tensor([0.0, 0.2, 0.7, 1.5, 3.0, 8.0], dtype=torch.float64)


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
def test_a_truncation_flow_is_the_steepest_descent_of_one_cluster(q):
    points, target = normal(9, q, seed=q), normal(q, seed=q + 1)
    beta, rotation = start(1, q, q)
    found = gnomon.TruncationFlow(points, target).velocity_at(beta[0], rotation[0])
    wanted = descent(points, torch.zeros(9, dtype=torch.long), target[None], beta, rotation)
    torch.testing.assert_close(found[0], wanted[0][0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found[1], wanted[1][0], rtol=1e-12, atol=1e-12)


def test_moments_after_changes_are_those_from_scratch_to_the_last_bit():
    points, labels, targets = (part.numpy() for part in clusters(4, 0))
    beta, rotation = start(1, 4, 0)
    state = torch.cat([beta[:, None], rotation], 1).numpy()
    alpha, drawn = np.ones_like(points), np.random.default_rng(0)
    seasoned = Clusters(points, labels, targets)
    for _ in range(60):
        alpha[drawn.integers(len(alpha)), drawn.integers(4)] = drawn.choice([0.0, 0.3, 1.0])
        velocities = [each.velocity(alpha)(state) for each in (seasoned, Clusters(points, labels, targets))]
        np.testing.assert_array_equal(*velocities)


def test_only_coordinates_whose_coefficients_change_are_summed_again():
    """What makes an event cost O(n q²): of offsets that are NaN since, only the changed coordinate sees any."""
    held, alpha = Clusters(*(part.numpy() for part in clusters(3, 0))), np.ones((13, 3))
    before = held._second_moments(alpha)
    held._weighted[:] = np.nan
    alpha[2, 1] = 0
    after = held._second_moments(alpha)
    assert np.isnan(after[1]).all()
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])


def test_what_the_errata_say_of_a_point_in_a_mixed_sector():
    """Errata: R turns by second moments where the printed M is 0 (3.26); a map behind need not leave it alone (5.9)."""
    zero, eye = torch.zeros(2).double(), torch.eye(2).double()
    _, turn = gnomon.TruncationFlow(torch.tensor([[1.0, -1.0]]).double(), zero).velocity_at(zero, eye)
    assert turn.tolist() == [[0, 0.5], [-0.5, 0]]
    label, target = torch.zeros(1, dtype=torch.long), torch.tensor([[3.0, 0.0]]).double()
    flow = gnomon.GeneralFlow(torch.tensor([[-1.0, 1.0]]).double(), label, target)
    beta = torch.tensor([[0.0, 0.0], [1.0, -2.0]]).double()
    speed, _ = flow.velocity_at(beta, torch.stack([eye, eye]))
    assert ((torch.tensor([0.0, 1.0]) + beta[1]) > 0).tolist() == [True, False]
    assert speed[0].tolist() == [-3, 0]


def test_flows_keep_their_points_targets_and_labels():
    points, labels, targets = clusters(2, 0)
    given = [tensor.clone() for tensor in (points, labels, targets)]
    general, one = gnomon.GeneralFlow(*given), gnomon.TruncationFlow(given[0], given[2][0])
    for tensor in given:
        tensor += 5
    found = (general.points, general.labels, general.targets, one.points, one.target, one.targets)
    wanted = (points, labels, targets, points, targets[0], targets[:1])
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    beta, rotation = start(1, 2, 0)
    expected = descent(points, labels, targets, beta, rotation)
    torch.testing.assert_close(general.velocity_at(beta, rotation), expected, rtol=1e-12, atol=1e-12)


def drawn(layers, q, n, seed):
    """Points of two clusters that overlap, their labels, distant targets, and where the flow starts."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((n, q), (2, q), (layers, q), (layers, q, q))
    points, targets, beta, turn = (torch.randn(*s, generator=generator, dtype=torch.float64) for s in shapes)
    return points, torch.arange(n) % 2, 2 * targets, beta / 2, torch.linalg.qr(turn)[0]


def falls(points, labels, targets, beta, rotation, times):
    """The orbit, whose loss falls by what β and R take, and is as it is defined; points that slide stay on surfaces."""
    orbit = gnomon.GeneralFlow(points, labels, targets).flow(beta, rotation, times)
    for place in range(len(times)):
        plain = loss_of(points, labels, targets, orbit.beta[place], orbit.rotation[place])
        torch.testing.assert_close(orbit.loss[place], plain)
    torch.testing.assert_close(orbit.loss[0] - orbit.loss, orbit.decrease.sum(1), rtol=1e-9, atol=1e-11)
    assert (orbit.decrease.diff(dim=0) >= 0).all()
    assert (orbit.rates <= 0).all()
    defect = orbit.rotation @ orbit.rotation.mT - torch.eye(points.shape[1])
    assert defect.abs().max() < 1e-12
    return orbit


def slides(orbit):
    """Layer, point and coordinate of the points that start to slide."""
    events = orbit.events
    places = torch.stack([events.layers, events.points, events.coordinates], 1)
    return {tuple(place) for place in places[(events.coefficients > 0) & (events.coefficients < 1)].tolist()}


def stepped(points, labels, targets, beta, rotation, time, steps):
    """β and R after so many steps of projected gradient descent."""
    size = time / steps
    for _ in range(steps):
        change, turn = descent(points, labels, targets, beta, rotation)
        beta, rotation = beta + size * change, torch.linalg.matrix_exp(size * turn @ rotation.mT) @ rotation
    return beta, rotation


def far(orbit, state):
    """How far the end of an orbit is from β and R."""
    return float((state[0] - orbit.beta[-1]).norm() + (state[1] - orbit.rotation[-1]).norm())


@pytest.mark.unchecked
@pytest.mark.parametrize("seed", range(3))
def test_flow_is_the_limit_of_small_steps(seed):
    data = (*clusters(3, seed), *start(2, 3, seed))
    orbit = gnomon.GeneralFlow(*data[:3]).flow(*data[3:], TIMES[:3])
    coarse, fine = (far(orbit, stepped(*data, 0.7, steps)) for steps in (50, 800))
    assert fine < 0.03
    # Linear in the step but for where in it a surface is crossed: sixteen times finer is at least four times closer.
    assert fine < coarse / 4


@pytest.mark.unchecked
@pytest.mark.parametrize(("layers", "seed"), [(1, 0), (2, 1), (3, 2)])
def test_loss_falls_by_what_both_parts_take(layers, seed):
    falls(*clusters(3, seed, each=5), *start(layers, 3, seed), TIMES[:4])


SLIDING = [(2, 1, 3, 6), (2, 1, 3, 14), (2, 1, 3, 54), (2, 2, 4, 39), (3, 2, 4, 8)]
"""Points that slide in two layers at once, or that coincide behind the first layer and part again."""


@pytest.mark.unchecked
@pytest.mark.parametrize("case", SLIDING, ids=str)
def test_points_that_slide_in_several_layers_lower_the_loss_as_small_steps_do(case):
    data, times = drawn(*case), torch.tensor([0.0, 1.0, 4.0]).double()
    orbit = falls(*data, times)
    assert case[0] - 1 in {layer for layer, _, _ in slides(orbit)}
    assert far(orbit, stepped(*data, 4.0, 400)) < 0.02


@pytest.mark.unchecked
def test_points_of_interacting_clusters_cross_and_slide_as_in_small_steps():
    """Those of each cluster in each layer."""
    data = (*clusters(2, 8, each=5), *start(2, 2, 8))
    orbit = falls(*data, torch.tensor([0.0, 1.0]).double())
    met = zip(orbit.events.layers.tolist(), data[1][orbit.events.points].tolist(), strict=True)
    assert {*met} == {(layer, k) for layer in range(2) for k in range(3)}
    assert slides(orbit)
    coarse, fine = (far(orbit, stepped(*data, 1.0, steps)) for steps in (50, 800))
    assert fine < 0.001
    assert fine < coarse / 8


@pytest.mark.unchecked
@pytest.mark.parametrize("case", [(1, 2, 3, 2), (2, 1, 3, 14)], ids=["in a layer", "behind a truncation"])
def test_coincident_points_are_the_limit_of_points_that_part(case):
    """Points twice, or a little apart, cross and slide like points once."""
    points, labels, targets, beta, rotation = drawn(*case)
    times = torch.tensor([0.0, 1.0, 4.0]).double()
    once = falls(points, labels, targets, beta, rotation, times)
    twice = falls(points.repeat(2, 1), labels.repeat(2), targets, beta, rotation, times)
    moved = points.repeat(2, 1) + 1e-8 * normal(6, case[1], seed=1)
    apart = falls(moved, labels.repeat(2), targets, beta, rotation, times)
    assert slides(once)
    assert slides(twice) == {(layer, point + more, r) for layer, point, r in slides(once) for more in (0, 3)}
    torch.testing.assert_close(twice.beta, once.beta, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(apart.beta, once.beta, rtol=1e-6, atol=1e-6)
    assert (twice.truncated == 2 * once.truncated).all()


class Line(gnomon.GeneralFlow):
    """A point at the origin of the line, one layer, R = 1, and a velocity of β for a coefficient and a β."""

    def __init__(self, velocity):
        zero = torch.zeros(1, 1).double()
        super().__init__(zero, torch.tensor([0]), zero)
        self.of_beta = velocity

    def velocity(self, coefficients):
        def at(state):
            velocity = np.zeros_like(state)
            velocity[0, 0, 0] = self.of_beta(coefficients[0, 0, 0], state[0, 0, 0])
            return velocity

        return at


def solved(velocity, beta, until):
    """β at that time, and what happens at the surface on the way."""
    state = np.array([[[beta], [1.0]]])
    trajectory = Trajectory(Line(velocity), state, np.full((1, 1, 1), float(beta > 0)), 1e-10)
    while trajectory.now < until:
        trajectory.step(until)
    return float(trajectory.state[0, 0, 0]), [(time, alpha) for time, _, _, _, alpha in trajectory.events]


@pytest.mark.unchecked
def test_evaluations_are_counted_from_one_asked_for_time_to_the_next(monkeypatch):
    flow, at = gnomon.dynamics.GeneralFlow(*clusters(2, 0)), start(1, 2, 0)
    many = torch.linspace(0, 8, 17, dtype=torch.float64)
    whole = flow.flow(*at, many)
    monkeypatch.setattr(_integration, "EVALUATIONS", 600)
    with monkeypatch.context() as patch:
        patch.setattr(_integration, "AT_SURFACES", 0)
        with pytest.raises(ConvergenceError, match="within 600 evaluations, got to"):
            flow.flow(*at, many[-1:])
        torch.testing.assert_close(flow.flow(*at, many).beta, whole.beta, rtol=0, atol=0)
    # So many for each of 26 surfaces are allowed in any case.
    monkeypatch.setattr(_integration, "AT_SURFACES", 300)
    torch.testing.assert_close(flow.flow(*at, many[-1:]).beta, whole.beta[-1:], rtol=0, atol=1e-12)


@pytest.mark.unchecked
def test_a_velocity_without_end_is_reported():
    with pytest.raises(ConvergenceError, match=r"\(times\): expected the integration to finish, got at time (0\.99|1)"):
        solved(lambda alpha, beta: beta**2, 1.0, 2.0)


def test_surfaces_without_a_way_on_are_named(monkeypatch):
    """Both sides drive to the surface, and no combination of them stays."""
    monkeypatch.setattr(_regularisation, "ROUNDS", 2)
    with pytest.raises(
        ConvergenceError, match=r"a solution beyond time 0\.0, got none for \(layer, .*\) \[\(0, \[0\], 0\)\]"
    ):
        solved(lambda alpha, beta: 1.0 if alpha < 0.5 else -1.0, 0.0, 1.0)


@pytest.mark.unchecked
def test_points_that_are_taken_for_one_and_part_are_noticed(monkeypatch):
    points, labels, targets, beta, rotation = drawn(2, 1, 3, 54)
    monkeypatch.setattr(gnomon.GeneralFlow, "places", lambda flow, alpha: np.zeros(alpha.shape[:2], dtype=int))
    with pytest.raises(ConvergenceError, match="expected sliding points on their surfaces at time"):
        gnomon.GeneralFlow(points, labels, targets).flow(beta, rotation, TIMES)


def test_a_margin_that_is_back_at_the_node_is_seen_where_another_ends():
    """The first falls below 0 at 0.05 and is back at 0.11, the second falls below it at 0.08; nodes are at eighths."""

    def margins(time):
        return np.array([(time - 0.05) * (time - 0.11), 0.08 - time]).reshape(1, 2, 1)

    found = first_event(margins, np.full((1, 2, 1), -1e-12), 0.0, 1.0)
    np.testing.assert_allclose(found, 0.05, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("first", "wanted"), [(1e-13, 0.11), (2e-12, 0.2)])
def test_a_margin_no_farther_from_0_than_the_bound_ends_the_search_at_the_bound(first, wanted):
    found = first_event(lambda time: np.full((1, 1, 1), first - 1e-11 * time), np.full((1, 1, 1), -1e-12), 0.0, 8.0)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_a_surface_that_was_passed_before_the_search_is_an_error():
    bounds = np.full((1, 1, 1), -1e-12)
    with pytest.raises(
        ConvergenceError, match=r"surfaces ahead at time 0\.0, got one passed by 2\.0e-12 before\. Move"
    ):
        first_event(lambda time: 2 * bounds - time, bounds, 0.0, 1.0)


def test_a_margin_that_is_rounding_before_it_falls_ends_the_search():
    """SciPy's hundred iterations are two too few for this one, as for a flow of 600 points."""
    at = 4.6795973486021135e-06

    def margins(time):
        left = at - time
        rounding = -2.6e-14 < left <= 2.6e-14
        return np.full((1, 1, 1), 1e-22 if rounding else left * (1 - 0.01 * left))

    np.testing.assert_allclose(first_event(margins, np.full((1, 1, 1), -1e-9), 0.0, 8.0), at, rtol=0, atol=1e-13)


def test_slopes_of_speeds_of_degree_two_are_exact():
    """Newton's method would end at its limits with others too, later."""

    def speeds(alpha):
        return np.array([alpha[0] ** 2 + 3 * alpha[0] * alpha[1], 5 * alpha[1] - 2 * alpha[0]]), 0.0

    found = _regularisation._slopes(speeds, np.array([0.5, 0.25]))
    np.testing.assert_allclose(found, [[2 * 0.5 + 3 * 0.25, 3 * 0.5], [-2, 5]], rtol=0, atol=1e-14)


def test_newtons_method_finds_where_affine_speeds_are_zero():
    """Without it the regularised flow gets there too, after many more speeds."""
    slopes, rest = np.array([[-2.0, 1.0], [0.5, -1.0]]), np.array([0.3, 0.8])
    found = _regularisation._newton(lambda alpha: (slopes @ (alpha - rest), 1e-14), np.array([0.9, 0.1]))
    np.testing.assert_allclose(found, rest, rtol=0, atol=1e-12)


def test_points_cut_away_in_all_coordinates_are_in_one_place_behind_their_layer():
    points, labels, targets, _, _ = drawn(2, 2, 4, 0)
    alpha = np.array([[0, 0], [0, 0], [1, 0], [1, 0]], dtype=float)
    first, second = gnomon.GeneralFlow(points, labels, targets).places(np.stack([alpha, alpha]))
    assert len({*first}) == 4
    assert second[0] == second[1]
    assert len({*second}) == 3


def test_a_regularised_flow_that_leaves_slowly_arrives():
    """From next to where it would rest it leaves within some 4,000 steps, while the other coefficient comes to rest."""

    def speeds(alpha):
        return np.array([0.01 * (alpha[0] - 1) - 1e-8, 2 * (0.7 - alpha[1])]), 1e-14

    np.testing.assert_allclose(regularised_limit(speeds, np.array([1.0, 0.4])), [0, 0.7], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("velocity", "wanted"),
    [
        (lambda alpha, beta: -1 - alpha, (-1.0, [])),
        (lambda alpha, beta: 1 + alpha, (2.0, [(0.0, 1.0)])),
        (lambda alpha, beta: 1 - 4 * alpha, (0.0, [(0.0, 0.25)])),
        (lambda alpha, beta: 2 * alpha - 1, (-1.0, [])),
        (lambda alpha, beta: 0.0, (0.0, [])),
    ],
    ids=["down", "up", "to the surface", "off the surface", "nowhere"],
)
def test_a_point_that_starts_on_its_surface_is_truncated_unless_it_is_driven_up(velocity, wanted):
    place, found = solved(velocity, 0.0, 1.0)
    assert found == [pytest.approx(pair, abs=1e-9) for pair in wanted[1]]
    assert place == pytest.approx(wanted[0], abs=1e-9)


def test_a_point_slides_with_the_convex_combination_that_stays():
    """From 1 down with speed 2; below the surface up with speed 1."""
    place, found = solved(lambda alpha, beta: 1 - 3 * alpha, 1.0, 2.0)
    assert found == [pytest.approx((0.5, 1 / 3), abs=1e-9)]
    assert place == pytest.approx(0, abs=1e-9)


def beside_an_idle_map(points, labels, targets, beta, rotation, times):
    """The orbit of one map before another that truncates nothing: by all points, where a single map has moments."""
    q = points.shape[1]
    far = 1000 * torch.ones(1, q).double()
    maps = torch.cat([beta, far]), torch.cat([rotation, torch.eye(q).double()[None]])
    orbit = gnomon.GeneralFlow(points, labels, targets).flow(*maps, times)
    torch.testing.assert_close(orbit.beta[-1, 1:], far)
    return orbit


@pytest.mark.unchecked
@pytest.mark.parametrize("seed", range(3))
def test_a_single_map_flows_as_before_one_that_truncates_nothing(seed):
    points, labels, targets = clusters(2, seed, each=5)
    beta, rotation = start(1, 2, seed)
    one = gnomon.GeneralFlow(points, labels, targets).flow(beta, rotation, TIMES[:4])
    two = beside_an_idle_map(points, labels, targets, beta, rotation, TIMES[:4])
    torch.testing.assert_close(one.beta, two.beta[:, :1], rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(one.rotation, two.rotation[:, :1], rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(one.loss, two.loss, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(one.rates, two.rates, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(one.decrease, two.decrease, rtol=1e-8, atol=1e-9)
    assert (one.truncated == two.truncated[:, :1]).all()
    assert one.events.points.tolist() == two.events.points.tolist()


@pytest.mark.unchecked
@pytest.mark.parametrize("seed", range(2))
def test_a_truncation_flow_is_that_of_one_layer_and_one_cluster(seed):
    points, target = normal(6, 2, seed=seed), 2 * normal(2, seed=seed + 1)
    beta, rotation = start(1, 2, seed)
    one = gnomon.TruncationFlow(points, target).flow(beta[0], rotation[0], TIMES)
    two = beside_an_idle_map(points, torch.zeros(6, dtype=torch.long), target[None], beta, rotation, TIMES)
    torch.testing.assert_close(one.beta, two.beta[:, 0], rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(one.rotation, two.rotation[:, 0], rtol=1e-8, atol=1e-9)
    assert (one.truncated == two.truncated[:, 0, 0]).all()
    assert two.equilibrium is None
    assert two.collapse == math.inf


def test_several_clusters_that_one_map_truncates_decay_together():
    """At the rate of their number, to minus the mean of their targets."""
    points, target, beta, rotation = collapsing()
    data = points, torch.arange(12) % 3, torch.stack([target, target + 0.1, target - 0.2])
    orbit = gnomon.GeneralFlow(*data).flow(beta[None], rotation[None], TIMES)
    assert 0 < orbit.collapse < 1.5
    assert orbit.equilibrium == "truncated"
    left = orbit.beta[3:, 0] + data[2].mean(0)
    torch.testing.assert_close(left, torch.exp(-3 * (TIMES[3:] - 1.5))[:, None] * left[0])
    plain = beside_an_idle_map(*data, beta[None], rotation[None], TIMES)
    torch.testing.assert_close(orbit.beta, plain.beta[:, :1], rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(orbit.loss, plain.loss, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(orbit.rates, plain.rates, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(orbit.decrease, plain.decrease, rtol=1e-8, atol=1e-10)


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
        torch.testing.assert_close(float(flow.events.times[flow.events.points == k]), time, rtol=1e-9, atol=0)


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


def test_at_time_0_beta_is_what_was_given():
    """The shift of the data is undone without adding and taking off a number that is larger."""
    points, target = 5 + normal(12, 2, seed=3).sigmoid(), torch.tensor([5.5, 5.2]).double()
    flow, eye = gnomon.TruncationFlow(points, target), torch.eye(2).double()
    for beta in (torch.tensor([1e-17, -3e-10]), torch.tensor([0.1, 0.2])):
        given = beta.double()
        torch.testing.assert_close(flow.flow(given, eye, TIMES).beta[0], given, rtol=0, atol=0)


@pytest.mark.parametrize("far", [1e4, 1e8])
def test_far_from_the_origin_it_is_the_same_flow(far):
    """Heights lost their digits to those of x and β: no way on was found, or the flow took forever."""
    shift = far * torch.tensor([1.0, -2.0]).double()
    points, target, beta, rotation = collapsing()
    points, target, beta = points + shift, target + shift, beta - shift  # rounded here, not there and back
    orbit = gnomon.TruncationFlow(points - shift, target - shift).flow(beta + shift, rotation, TIMES)
    other = gnomon.TruncationFlow(points, target).flow(beta, rotation, TIMES)
    torch.testing.assert_close(other.loss, orbit.loss)
    torch.testing.assert_close(other.rotation, orbit.rotation)
    torch.testing.assert_close(other.collapse, orbit.collapse)
    torch.testing.assert_close(other.beta + shift, orbit.beta, rtol=0, atol=1e-15 * far)
    of_beta, of_rotation = gnomon.TruncationFlow(points, target).velocity_at(beta, rotation)
    near = gnomon.TruncationFlow(points - shift, target - shift).velocity_at(beta + shift, rotation)
    torch.testing.assert_close((of_beta, of_rotation), near)


@pytest.mark.parametrize("far", [1e4, 1e8])
def test_far_from_the_origin_several_layers_and_clusters_flow_the_same(far):
    shift = far * torch.tensor([1.0, -2.0]).double()
    points, labels, targets = clusters(2, 0)
    beta, rotation = start(2, 2, 0)
    points, targets, beta = points + shift, targets + shift, beta - shift  # rounded here, not there and back
    orbit = gnomon.GeneralFlow(points - shift, labels, targets - shift).flow(beta + shift, rotation, TIMES[:3])
    other = gnomon.GeneralFlow(points, labels, targets).flow(beta, rotation, TIMES[:3])
    torch.testing.assert_close(other.loss, orbit.loss)
    torch.testing.assert_close(other.rotation, orbit.rotation)
    torch.testing.assert_close(other.truncated, orbit.truncated)
    torch.testing.assert_close(other.beta + shift, orbit.beta, rtol=0, atol=1e-15 * far)


@pytest.mark.parametrize("number", [1, 3])
def test_a_single_place_and_a_target_close_to_it_keep_their_digits(number):
    """Points that coincide have no spread to round their origin to: whole numbers left heights of 1e-10 few digits."""
    unit = 2.0**-33
    points, rotation = torch.tensor([[0.4, 0.3]]).double().expand(number, 2), orthogonal(2, seed=0)
    target, beta = unit * normal(2, seed=1).round(decimals=1), unit * torch.tensor([1.0, 0.5]).double()
    target, beta = target + points[0], beta - points[0]  # rounded here, not there and back
    orbit = gnomon.TruncationFlow(0 * points, target - points[0]).flow(beta + points[0], rotation, TIMES)
    other = gnomon.TruncationFlow(points, target).flow(beta, rotation, TIMES)
    torch.testing.assert_close(other.loss, orbit.loss, rtol=1e-12, atol=0)
    torch.testing.assert_close(other.beta + points[0], orbit.beta, rtol=0, atol=1e-16)


def tight(target, size):
    """Three points of this size about the origin, where their map has its corner, and the flow to a target."""
    cluster = size * torch.tensor([[1.0, -2.1], [-1.2, 1.3], [2.3, 0.9]], dtype=torch.float64)
    flow = gnomon.TruncationFlow(cluster, torch.tensor(target, dtype=torch.float64))
    return flow.flow(torch.zeros(2).double(), torch.eye(2).double(), torch.tensor([1.0, 4.0]).double())


SLOW = ((-1.0, 0.5), 1e-7)
"""A point leaves its surface at 1e-14 of the largest speed, since the coefficient to slide with is 1 but for 1e-14."""


@pytest.mark.unchecked
@pytest.mark.parametrize(("target", "size"), [((1.0, -0.3), 1e-6), ((1.0, -0.3), 1e-8), ((-1.0, 0.5), 1e-9), SLOW])
def test_a_tight_cluster_far_from_its_target_flows_as_a_single_point(target, size):
    """Up to its size."""
    orbit, one = tight(target, size), tight(target, 0.0)
    for name in ("beta", "rotation", "loss"):
        torch.testing.assert_close(getattr(orbit, name), getattr(one, name), rtol=0, atol=3 * size)


@pytest.mark.unchecked
def test_tight_clusters_far_from_their_targets_lower_the_loss_in_several_layers():
    points, labels, targets, beta, rotation = drawn(2, 2, 4, 0)
    falls(1e-7 * points, labels, targets, 1e-7 * beta, rotation, TIMES[:4])


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


def test_points_on_a_surface_count_as_truncated_and_coincident_points_as_two():
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
def test_clearance_of_what_is_no_point_or_no_orbit_of_the_flow_is_refused():
    points, target, beta, rotation = collapsing()
    flow, times = gnomon.TruncationFlow(points, target), TIMES[:2]
    orbit = flow.flow(beta, rotation, times)
    for others in (points[:, :1], torch.cat([points, points], 1), points[None]):
        with pytest.raises(
            ShapeError, match=r"TruncationFlow.clearance\(others, orbit\): expected \(m, 2\) and an orbit"
        ):
            flow.clearance(others, orbit)
    with pytest.raises(
        ShapeError, match=r"clearance\(others\): expected at least 2 axes, samples first, got shape \(2,\)"
    ):
        flow.clearance(points[0], orbit)
    with pytest.raises(EmptyError, match=r"TruncationFlow.clearance\(others\): expected at least one sample, got none"):
        flow.clearance(points[:0], orbit)
    with pytest.raises(RangeError, match=r"TruncationFlow.clearance\(others\): expected finite numbers, got nan"):
        flow.clearance(points * torch.nan, orbit)
    with pytest.raises(RangeError, match=r"TruncationFlow.clearance: expected others in float64, got torch.float32"):
        flow.clearance(points.float(), orbit)
    general = gnomon.GeneralFlow(points, torch.zeros(len(points), dtype=torch.long), target[None])
    with pytest.raises(
        ShapeError, match=r"an orbit with beta \(t, 2\), got \(12, 2\) and beta \(2, 1, 2\)\. Pass points"
    ):
        flow.clearance(points, general.flow(beta[None], rotation[None], times))
    with pytest.raises(TypeError, match=r"TruncationFlow.clearance\(orbit\): expected a TruncationOrbit, got Tensor"):
        flow.clearance(points, orbit.beta)


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
    with pytest.raises(EmptyError, match=r"GeneralFlow\(labels\): expected points in every cluster, got none in 1"):
        gnomon.GeneralFlow(points, torch.zeros(12, dtype=torch.long), torch.stack([target, target]))
    with pytest.raises(RangeError, match=r"TruncationFlow\(target\): expected finite numbers, got nan at index \(0,\)"):
        gnomon.TruncationFlow(points, target * torch.nan)
    with pytest.raises(RangeError, match=r"TruncationFlow.flow: expected rtol from 1e-13 to 0.001, got 0"):
        flow.flow(beta, rotation, TIMES, rtol=0)
    with pytest.raises(ShapeError, match=r"TruncationFlow.flow\(times\): expected one axis, got shape \(1, 6\)"):
        flow.flow(beta, rotation, TIMES[None])
    for far in (1e75, 1e160):
        with pytest.raises(RangeError, match=r"expected points, targets, β up to 1e\+70 together, .* got \d.*e\+\d"):
            gnomon.TruncationFlow(points, far * target).flow(beta, rotation, TIMES)


@pytest.mark.bad_input
def test_bad_input_of_several_clusters_is_named():
    points, labels, targets, beta, rotation = drawn(2, 2, 4, 0)
    flow = gnomon.GeneralFlow(points, labels, targets)
    with pytest.raises(EmptyError, match=r"GeneralFlow.flow\(beta\): expected at least one"):
        flow.flow(beta[:0], rotation[:0], TIMES)
    with pytest.raises(ShapeError, match=r"GeneralFlow.flow\(beta, rotation\): .* got \(1, 2\) and \(2, 2, 2\)"):
        flow.flow(beta[:1], rotation, TIMES)
    with pytest.raises(RangeError, match=r"GeneralFlow.flow\(rotation\): expected finite numbers, got nan"):
        flow.flow(beta, rotation * torch.nan, TIMES)
    with pytest.raises(RangeError, match=r"GeneralFlow.velocity_at\(rotation\): expected orthogonal matrices"):
        flow.velocity_at(beta, 2 * rotation)
    with pytest.raises(EmptyError, match=r"GeneralFlow\(targets\): expected at least one"):
        gnomon.GeneralFlow(points, labels, targets[:0])
    with pytest.raises(RangeError, match=r"GeneralFlow\(labels\): expected classes 0 to 1, got 0 to 2"):
        gnomon.GeneralFlow(points, torch.tensor([0, 1, 2, 0]), targets)
    with pytest.raises(ShapeError, match=r"GeneralFlow\(targets\): expected points \(n, q\) and targets \(k, q\)"):
        gnomon.GeneralFlow(points, labels, targets[:, :1])
