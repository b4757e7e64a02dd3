"""The exact flow of the bias against SciPy's integrator with events, automatic differentiation and small steps."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from gnomon.dynamics import bias_flow
from gnomon.errors import EmptyError, RangeError, ShapeError
from tests.drawn import normal, orthogonal

TIMES = torch.tensor([0.0, 0.3, 1.0, 2.5, 6.0, 30.0], dtype=torch.float64)
EYE = torch.eye(1, dtype=torch.float64)


def cluster(n, q, seed):
    """Points, target, bias and rotation, with cuts on both sides of their targets and points on both sides of both."""
    return normal(n, q, seed=seed), normal(q, seed=seed + 10), normal(q, seed=seed + 20), orthogonal(q, seed + 30)


def on_a_line(points, target, cut, times=TIMES):
    """One component; the cut is minus the bias."""
    column, goal, beta = (torch.tensor(values, dtype=torch.float64) for values in (points, [target], [-cut]))
    return bias_flow(column[:, None], goal, beta, EYE, times)


def loss(points, target, beta, rotation):
    """The Euclidean loss of the truncated points, to the letter."""
    truncated = torch.relu((points + beta) @ rotation.mT) @ rotation - beta
    return (truncated - target).square().sum(1).mean() / 2


def integrated(points, target, cut, times):
    """One component by SciPy, stopped at each event; the right side between them counts points on each side of it."""
    points, time, found, events = np.sort(points), 0.0, [], {}
    up = cut < target
    while len(found) < len(times):
        share = (points <= cut if up else points < cut).mean()
        ahead = points[points > cut] if up else points[points < cut][::-1]

        def crossed(_, c, ahead=ahead):
            return c[0] - ahead[0] if len(ahead) else 1.0

        crossed.terminal = True
        due = times[len(found) :]
        solved = solve_ivp(
            lambda _, c, share=share: share * (target - c),
            (time, times[-1] + 1),
            [cut],
            "DOP853",
            t_eval=due,
            events=crossed,
            rtol=1e-13,
            atol=1e-15,
        )
        found += np.array(solved.y).flatten().tolist()
        if solved.status == 1:
            time, cut = solved.t_events[0][0], ahead[0]
            events[cut] = time
        else:
            break
    return np.array(found), events


@pytest.mark.parametrize("seed", range(4))
def test_equal_to_the_integrator_with_events(seed):
    points, target, beta, rotation = cluster(25, 3, seed)
    flow = bias_flow(points, target, beta, rotation, TIMES)
    rotated, goals, cuts = (rotation @ points.T).numpy(), (rotation @ target).numpy(), -(rotation @ beta).numpy()
    for r in range(3):
        expected, events = integrated(rotated[r], goals[r], cuts[r], TIMES.numpy())
        torch.testing.assert_close((-flow.beta @ rotation.T)[:, r], torch.from_numpy(expected), rtol=0, atol=1e-10)
        assert bool(flow.rising[r]) == (cuts[r] < goals[r])
        for i, point in enumerate(rotated[r]):
            here = point <= cuts[r] if flow.rising[r] else point > cuts[r]
            wanted = 0.0 if here else events.get(point, math.inf)
            # Events after the last time are not integrated.
            if wanted < math.inf or flow.passed[i, r] <= TIMES[-1]:
                assert flow.passed[i, r].item() == pytest.approx(wanted, abs=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_its_motion_is_the_gradient_of_the_loss(seed):
    points, target, beta, rotation = cluster(25, 3, seed)
    times = torch.linspace(0.01, 3, 7, dtype=torch.float64, requires_grad=True)
    flow = bias_flow(points, target, beta, rotation, times)
    for r in range(3):
        velocity = torch.autograd.grad(flow.beta[:, r].sum(), times, retain_graph=True)[0]
        for k in range(7):
            at = flow.beta[k].detach().requires_grad_()
            value = loss(points, target, at, rotation)
            torch.testing.assert_close(flow.loss[k].detach(), value.detach())
            torch.testing.assert_close(velocity[k], -torch.autograd.grad(value, at)[0][r])
    shares = ((points + flow.beta[:, None].detach()) @ rotation.T <= 0).double().mean(1)
    torch.testing.assert_close(flow.rate, shares)


def test_rising_follows_the_papers_recursion():
    """Equations 4.47 to 4.50, from a cut on the first point."""
    points, target, time = [0.0, 1.0, 1.5, 3.0], 5.0, 0.0
    flow = on_a_line(points, target, 0.0)
    for n in range(1, 4):
        time += 4 / n * math.log((target - points[n - 1]) / (target - points[n]))
        assert flow.passed[n, 0].item() == pytest.approx(time, rel=1e-14)
    assert flow.passed[0, 0] == 0
    late = on_a_line(points, target, 0.0, torch.tensor([time + 2.0], dtype=torch.float64))
    assert late.rate[0, 0] == 1
    assert (target + late.beta[0, 0]).item() == pytest.approx(2 * math.exp(-2), rel=1e-13)


def test_points_at_the_target_and_beyond_are_never_reached_from_below():
    flow = on_a_line([-1.0, 2.0, 3.0, 0.5], 2.0, 0.0, torch.tensor([1e3]).double())
    assert flow.passed.flatten().tolist() == [0.0, math.inf, math.inf, pytest.approx(4 * math.log(2 / 1.5))]
    assert flow.rate[0, 0] == 0.5
    torch.testing.assert_close(flow.beta[0], -torch.tensor([2.0]).double())
    torch.testing.assert_close(flow.limit, -torch.tensor([2.0]).double())


def test_falling_releases_points_and_keeps_those_at_the_target():
    flow = on_a_line([-1.0, 0.0, 1.0, 3.0], 0.0, 2.0, torch.tensor([0.0, 1.0, 4.0]).double())
    released = 4 / 3 * math.log(2)
    assert flow.passed.flatten().tolist() == [math.inf, math.inf, pytest.approx(released), 0.0]
    assert flow.rate.flatten().tolist() == [0.75, 0.5, 0.5]
    assert flow.beta[-1, 0].item() == pytest.approx(-math.exp(-(4 - released) / 2), rel=1e-13)
    assert flow.limit.abs().max() == 0


def test_falling_with_all_points_above_the_target_stops_on_the_least():
    """Where the right side jumps to 0, small gradient steps come to rest too, within one step of the point."""
    points, target, cut = [1.0, 1.5, 4.0], 0.0, 2.0
    flow = on_a_line(points, target, cut, torch.tensor([0.0, 0.5, 1e3]).double())
    stop = 3 / 2 * math.log(2 / 1.5) + 3 * math.log(1.5)
    assert flow.passed.flatten().tolist() == [pytest.approx(stop), pytest.approx(3 / 2 * math.log(2 / 1.5)), 0.0]
    torch.testing.assert_close(flow.rate.flatten(), torch.tensor([2 / 3, 1 / 3, 0]).double())
    torch.testing.assert_close(flow.beta[2], -torch.ones(1).double())
    torch.testing.assert_close(flow.limit, -torch.ones(1).double())
    step, column = 1e-3, torch.tensor(points, dtype=torch.float64)[:, None]
    beta = torch.tensor([-cut], dtype=torch.float64, requires_grad=True)
    for _ in range(3000):
        slope = torch.autograd.grad(loss(column, torch.zeros(1).double(), beta, EYE), beta)[0]
        beta = (beta - step * slope).detach().requires_grad_()
    assert slope == 0
    torch.testing.assert_close(beta.detach(), flow.limit, rtol=0, atol=step)


def test_at_rest():
    """Nothing truncated (equation 4.44), and a cut on its target."""
    for points, target, cut in (([1.0, 2.0], 5.0, 0.5), ([1.0, 2.0], -5.0, 0.5), ([0.0, 1.0], 0.5, 0.5)):
        flow = on_a_line(points, target, cut)
        torch.testing.assert_close(flow.beta, torch.full((6, 1), -cut).double())
        torch.testing.assert_close(flow.limit, -torch.tensor([cut]).double())
        assert not ((flow.passed > 0) & (flow.passed < math.inf)).any()
        moves = 0.5 if target == cut else 0.0
        assert flow.rate.unique().tolist() == [moves]
        assert flow.rising == (target >= cut)


def test_a_point_at_the_cut_is_truncated_and_where_the_cut_falls_released_at_once():
    rises = on_a_line([0.0, 1.0], 3.0, 0.0)
    assert rises.rate[0, 0] == 0.5
    assert rises.passed[0, 0] == 0
    assert rises.limit == -3
    falls = on_a_line([0.0, -1.0], -3.0, 0.0)
    assert falls.rate[0, 0] == 0.5
    assert falls.passed.flatten().tolist() == [0.0, pytest.approx(2 * math.log(1.5))]
    alone = on_a_line([0.0, 1.0], -3.0, 0.0)
    assert alone.rate[0, 0] == 0
    assert alone.limit == 0


def test_the_cut_through_a_point_is_seen_under_any_rotation():
    for seed in range(20):
        rotation, point = orthogonal(4, seed), normal(4, seed=seed)
        flow = bias_flow(point[None], point + normal(4, seed=seed + 1), -point, rotation, TIMES)
        assert (flow.passed == 0).all()


def test_coincident_points_are_passed_together_and_weigh_as_many():
    flow = on_a_line([0.0, 1.0, 1.0, 1.0, 2.0], 4.0, 0.5)
    assert flow.passed[1:4].unique().numel() == 1
    expected = 5 * math.log(3.5 / 3) + 5 / 4 * math.log(3 / 2)
    assert flow.passed[4, 0].item() == pytest.approx(expected)
    twice = on_a_line([0.0, 1.0, 2.0] * 2, 4.0, 0.5)
    torch.testing.assert_close(twice.beta, on_a_line([0.0, 1.0, 2.0], 4.0, 0.5).beta)


@pytest.mark.parametrize("seed", range(2))
def test_invariances_semigroup_and_limit(seed):
    points, target, beta, rotation = cluster(30, 4, seed)
    flow = bias_flow(points, target, beta, rotation, TIMES)
    turn = orthogonal(4, 77)
    turned = bias_flow(points @ turn.T, turn @ target, turn @ beta, rotation @ turn.T, TIMES)
    torch.testing.assert_close(turned.beta, flow.beta @ turn.T)
    torch.testing.assert_close(turned.passed, flow.passed)
    scaled = bias_flow(7 * points, 7 * target, 7 * beta, rotation, TIMES)
    torch.testing.assert_close(scaled.beta, 7 * flow.beta)
    torch.testing.assert_close(scaled.passed, flow.passed)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(bias_flow(points[order], target, beta, rotation, TIMES).passed, flow.passed[order])
    # From where it is after 1 the flow goes on.
    later = bias_flow(points, target, flow.beta[2], rotation, TIMES[2:] - 1)
    torch.testing.assert_close(later.beta, flow.beta[2:])
    assert (flow.loss.diff() <= 1e-15).all()
    end = bias_flow(points, target, beta, rotation, torch.tensor([1e5]).double())
    torch.testing.assert_close(end.beta[0], flow.limit)


@pytest.mark.parametrize("at_rest", [False, True])
def test_gradients(at_rest):
    points, target, beta, rotation = cluster(6, 2, 1)
    if at_rest:  # One component truncates nothing.
        points, target = points + 9 * rotation[0], target + 9 * rotation[0]
    arguments = [tensor.requires_grad_() for tensor in (points, target, beta)]

    def outputs(points, target, beta):
        flow = bias_flow(points, target, beta, rotation, TIMES[:4])
        return flow.beta, flow.loss, flow.limit, flow.passed[flow.passed.isfinite()]

    assert torch.autograd.gradcheck(outputs, arguments)


def test_gradients_are_finite_with_a_point_at_the_target():
    points = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64, requires_grad=True)
    flow = bias_flow(points, points.detach()[2], 0 * points.detach()[0], EYE, TIMES)
    slope = torch.autograd.grad(flow.beta.sum() + flow.passed[1].sum(), points)[0]
    assert slope.isfinite().all()
    assert slope[1] != 0


def test_a_small_gap_keeps_its_digits():
    """From the cut to a point that is 2^-40 away, with the target at 1: all of it is representable."""
    flow = on_a_line([0.0, 2.0**-40], 1.0, 0.0)
    assert flow.passed[1, 0].item() == pytest.approx(-2 * math.log1p(-(2.0**-40)), rel=1e-15, abs=0)


def test_ten_thousand_points_to_ten_digits():
    """The last of the events, against sums of logarithms without rounding errors that add up."""
    points = normal(10_000, 1)
    flow = bias_flow(points, 6 * torch.ones(1).double(), -points.min()[None], EYE, TIMES)
    ordered = np.sort(points[:, 0].numpy()).astype(np.longdouble)
    gaps = np.log((6 - ordered[:-1]) / (6 - ordered[1:])) * 10_000 / np.arange(1, 10_000)
    expected = np.concatenate([[0], np.cumsum(gaps)]).astype(float)
    torch.testing.assert_close(flow.passed.flatten().sort().values, torch.from_numpy(expected), rtol=1e-12, atol=0)
    single = bias_flow(points.float(), 6 * torch.ones(1), -points.min()[None].float(), EYE.float(), TIMES.float())
    assert single.beta.dtype == torch.float32
    torch.testing.assert_close(single.beta, flow.beta.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_counts_more_points_than_it_can_hold(dtype):
    points, one = normal(70_000, 1).to(dtype), torch.ones(1).to(dtype)
    given = (points, 4 * one, 0 * one, EYE.to(dtype), torch.tensor([0.0, 1.0, 3.0]).to(dtype))
    flow, exact = bias_flow(*given), bias_flow(*(part.double() for part in given))
    for name in ("times", "beta", "rate", "loss", "passed", "limit"):
        found = getattr(flow, name)
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), getattr(exact, name), rtol=torch.finfo(dtype).eps, atol=1e-5)
    with pytest.raises(RangeError, match=r"^bias_flow: expected a result that torch.float16 can hold, got one up to"):
        bias_flow(*(1000 * part.half() for part in given[:3]), EYE.half(), given[4].half())


@pytest.mark.bad_input
def test_bad_input_is_named():
    points, target, beta, rotation = cluster(5, 2, 0)
    with pytest.raises(EmptyError, match=r"bias_flow\(points\): expected at least one sample, got none"):
        bias_flow(points[:0], target, beta, rotation, TIMES)
    with pytest.raises(EmptyError, match=r"bias_flow\(times\): expected at least one sample, got none"):
        bias_flow(points, target, beta, rotation, TIMES[:0])
    with pytest.raises(ShapeError, match=r"bias_flow\(times\): expected one axis, got shape \(2, 6\)"):
        bias_flow(points, target, beta, rotation, TIMES.expand(2, 6))
    with pytest.raises(ShapeError, match=r"bias_flow\(target\): expected shape \(2,\), got \(3,\)"):
        bias_flow(points, torch.zeros(3).double(), beta, rotation, TIMES)
    with pytest.raises(ShapeError, match=r"bias_flow\(points\): expected shape \(5, 2\), got \(5, 2, 1\)"):
        bias_flow(points[..., None], target, beta, rotation, TIMES)
    with pytest.raises(RangeError, match=r"bias_flow\(rotation\): expected an orthogonal matrix.* 3.0e\+00 off"):
        bias_flow(points, target, beta, 2 * torch.eye(2).double(), TIMES)
    bias_flow(points, target, beta, (1 + 5e-9) * torch.eye(2).double(), TIMES)
    with pytest.raises(RangeError, match=r"bias_flow\(rotation\): expected an orthogonal matrix.* 2.0e-08 off"):
        bias_flow(points, target, beta, (1 + 1e-8) * torch.eye(2).double(), TIMES)
    with pytest.raises(RangeError, match=r"bias_flow\(beta\): expected torch.float64 as points have, got torch.float3"):
        bias_flow(points, target, beta.float(), rotation, TIMES)
    with pytest.raises(RangeError, match=r"bias_flow\(points\): expected a floating-point tensor, got torch.int64"):
        bias_flow(points.long(), target, beta, rotation, TIMES)
    with pytest.raises(RangeError, match=r"bias_flow\(times\): expected finite numbers, got inf"):
        bias_flow(points, target, beta, rotation, TIMES + torch.inf)
    with pytest.raises(RangeError, match=r"bias_flow\(target\): expected finite numbers, got nan"):
        bias_flow(points, target * torch.nan, beta, rotation, TIMES)
    with pytest.raises(
        RangeError, match=r"times from 0 on, got -1.0; times in torch.float64 as points, got torch.floa"
    ):
        bias_flow(points, target, beta, rotation, torch.tensor([1.0, -1.0]))


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 1e25), (torch.float64, 1e200)])
def test_a_loss_beyond_the_dtypes_range_is_refused(dtype, size):
    points, target, beta, rotation = (part.to(dtype) for part in cluster(5, 2, 0))
    times = TIMES.to(dtype)
    says = rf"bias_flow\(points, target, beta\): expected a loss that {dtype} can hold, got larger numbers"
    for given in ((points, target * size, beta), (points, target, beta * size), (points * size, target, beta)):
        with pytest.raises(RangeError, match=says):
            bias_flow(*given, rotation, times)
    # Its square is there, and so is the loss.
    assert bias_flow(points, target * size**0.5, beta, rotation, times).loss.isfinite().all()
