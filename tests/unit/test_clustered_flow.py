"""The clustered flow against matrix exponentials, SciPy's integrator, automatic differentiation and a real network."""

import pytest
import torch
from scipy.integrate import solve_ivp

from gnomon.dynamics import ClusteredFlow
from gnomon.errors import EmptyError, RangeError, ShapeError
from tests.drawn import normal

TIMES = torch.tensor([0.0, 0.1, 1.0, 7.0], dtype=torch.float64)


def problem(n=20, q=4, c=3, seed=0):
    return normal(n, q, seed=seed) + 1, normal(n, c, seed=seed + 1), normal(c, q, seed=seed + 2)


def standard_loss(points, targets, weight):
    """Equation 9.3."""
    return (points @ weight.mT - targets).square().sum(1).mean() / 2


@pytest.mark.parametrize("seed", range(3))
def test_equation_9_10_with_matrix_exponentials(seed):
    points, targets, weight = problem(seed=seed)
    flow, scatter = ClusteredFlow(points, targets, weight), points.T @ points / 20
    best = targets.T @ torch.linalg.pinv(points.T)
    for time, found in zip(TIMES, flow.weight(TIMES), strict=True):
        decay = torch.matrix_exp(-time * scatter)
        torch.testing.assert_close(found, weight @ decay + best @ (torch.eye(4).double() - decay))
    torch.testing.assert_close(flow.limit, best)
    torch.testing.assert_close(flow.weight(torch.tensor([1e6]).double())[0], best)


@pytest.mark.parametrize("rank", [4, 2])
def test_integrator_and_loss_for_any_rank(rank):
    points, targets, weight = problem()
    points = points @ normal(4, rank, seed=8) @ normal(rank, 4, seed=9) / 4
    flow = ClusteredFlow(points, targets, weight)

    def field(_, state):
        at = torch.tensor(state.reshape(3, 4), requires_grad=True)
        return -torch.autograd.grad(standard_loss(points, targets, at), at)[0].flatten().numpy()

    initial = weight.flatten().numpy()
    solved = solve_ivp(field, (0, 7), initial, "LSODA", t_eval=TIMES.numpy(), rtol=1e-11, atol=1e-12)
    expected = torch.from_numpy(solved.y.T).view(4, 3, 4)
    torch.testing.assert_close(flow.weight(TIMES), expected, rtol=0, atol=1e-7)
    losses = torch.stack([standard_loss(points, targets, at) for at in flow.weight(TIMES)])
    torch.testing.assert_close(flow.loss(TIMES), losses)
    assert flow.rates.shape == (rank,)
    # No data: no motion, and the limit is the minimiser that lies nearest to the start.
    null = torch.eye(4).double() - flow.directions @ flow.directions.T
    torch.testing.assert_close(flow.weight(torch.tensor([1e9]).double())[0] @ null, weight @ null)
    missing = (targets - points @ weight.T).T @ torch.linalg.pinv(points.T, rtol=1e-10)
    torch.testing.assert_close(flow.limit, weight + missing)
    residual = flow.limit @ points.T - targets.T
    torch.testing.assert_close(residual @ points, torch.zeros(3, 4).double())
    torch.testing.assert_close(flow.least_loss, standard_loss(points, targets, flow.limit))


def test_fewer_samples_than_dimensions_are_fitted():
    points, targets, weight = problem(n=3, q=6)
    flow = ClusteredFlow(points, targets, weight)
    assert flow.least_loss < 1e-20
    assert flow.directions.shape == (6, 3)


def test_points_at_zero_move_nothing():
    points, targets, weight = problem()
    flow = ClusteredFlow(0 * points, targets, weight)
    assert flow.rates.shape == (0,)
    torch.testing.assert_close(flow.weight(TIMES), weight.expand(4, 3, 4))
    torch.testing.assert_close(flow.loss(TIMES), targets.square().sum(1).mean().expand(4) / 2)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_rounding_of_many_samples_is_no_data(seed, dtype):
    """Its eigenvalue in S grows with the root of their number; taken for data, it would rule the limit."""
    plane = normal(2, 5, seed=seed)
    points, targets = ((normal(10_000, 2, seed=seed) + 3) @ plane).to(dtype), normal(10_000, 2, seed=9).to(dtype)
    flow = ClusteredFlow(points, targets, torch.zeros(2, 5, dtype=dtype))
    assert flow.rates.shape == (2,)
    fit = (targets.double().T @ points.double()) @ torch.linalg.pinv(points.double().T @ points.double(), rtol=1e-6)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-2
    torch.testing.assert_close(flow.limit.double(), fit, rtol=tolerance, atol=tolerance)


def test_the_limit_has_the_digits_of_the_points_not_of_their_squares():
    """With a condition number of 1e6 S leaves four digits, X ten."""
    left, right = (torch.linalg.qr(normal(*shape, seed=7))[0] for shape in ((20, 4), (4, 4)))
    points = left @ torch.diag(torch.tensor([1.0, 0.1, 1e-3, 1e-6]).double()) @ right.T
    truth = normal(3, 4, seed=8)
    flow = ClusteredFlow(points, points @ truth.T, normal(3, 4, seed=9))
    torch.testing.assert_close(flow.limit, truth, rtol=1e-8, atol=1e-8)


def chain(points, layers, biases):
    """Equal-width ReLU layers on points in rows, without the last."""
    for weight, bias in zip(layers, biases, strict=True):
        points = torch.relu(points @ weight.T + bias)
    return points


def test_it_keeps_its_start_where_the_caller_trains_the_weight():
    points, targets, weight = problem()
    flow = ClusteredFlow(points, targets, weight)
    before = flow.weight(TIMES)
    weight -= 1
    torch.testing.assert_close(flow.weight(TIMES), before, rtol=0, atol=0)


def test_a_direction_with_little_data_takes_no_digits_from_the_weight():
    """Its limit is 1e9 away: added to what is left of the way, it left an error of 1e-7, at time 0 too."""
    turn = torch.linalg.qr(normal(3, 3, seed=4))[0]
    values, targets, weight = torch.tensor([2.0, 1.0, 1e-9]).double(), normal(3, 2, seed=5), normal(2, 3, seed=6)
    flow, start = ClusteredFlow(torch.diag(values) @ turn.T, targets, weight), weight @ turn
    moved = -torch.expm1(-TIMES[:, None, None] * values**2 / 3) * (targets.T / values - start)
    torch.testing.assert_close(flow.weight(TIMES), (start + moved) @ turn.T, rtol=0, atol=1e-14)
    torch.testing.assert_close(flow.weight(TIMES[:1])[0], weight, rtol=0, atol=0)


def test_a_direction_with_little_data_takes_no_digits_from_the_loss():
    """Computed at the limit, 1e12 away, the least loss shifted all others: by 4e-6 at time 0."""
    left, turn = torch.linalg.qr(normal(8, 3, seed=3))[0], torch.linalg.qr(normal(3, 3, seed=4))[0]
    points = left @ torch.diag(torch.tensor([1.0, 0.5, 1e-12]).double()) @ turn.T
    targets, weight = normal(8, 2, seed=5), normal(2, 3, seed=6)
    flow = ClusteredFlow(points, targets, weight)
    losses = torch.stack([standard_loss(points, targets, at) for at in flow.weight(TIMES)])
    torch.testing.assert_close(flow.loss(TIMES), losses, rtol=1e-13, atol=0)


def test_it_is_the_flow_of_a_network_in_which_nothing_is_truncated():
    """Equations 9.1 to 9.7: of the product of all weights, which is what the loss (9.3) depends on, and alone."""
    points, targets, _ = problem(q=2, c=2)
    layers = [torch.eye(2).double() + 0.1 * normal(2, 2, seed=k) for k in (3, 4)]
    # Each layer adds ten and the next takes it off again, so that cumulative biases keep all points positive.
    shifts = [torch.full((2,), 10.0).double()]
    shifts.append(torch.full((2,), 15.0).double() - layers[1] @ shifts[0])
    for layer in layers:
        layer.requires_grad_()
    product = (layers[1] @ layers[0]).detach()
    last = normal(2, 2, seed=5).requires_grad_()
    hidden = chain(points, layers, shifts)
    assert (hidden > 0).all()
    outputs = (hidden - 15.0) @ last.T
    whole = (last @ product).detach().requires_grad_()
    torch.testing.assert_close(outputs, points @ whole.T)
    printed = (outputs - targets).square().sum(1).mean() / 2
    velocity = -torch.autograd.grad(standard_loss(points, targets, whole), whole)[0]
    flow = ClusteredFlow(points, targets, whole.detach())
    step = 1e-6
    moved = flow.weight(torch.tensor([step]).double())[0] - whole.detach()
    torch.testing.assert_close(moved / step, velocity, rtol=1e-4, atol=1e-4)
    # The last layer's own weight moves otherwise, and the cumulative weight too, against 9.6 and 9.7.
    own, first = torch.autograd.grad(printed, (last, layers[0]))
    assert (own @ product + velocity).abs().max() > 0.01
    assert first.abs().max() > 0.01


def test_class_averages_by_scaling_the_samples():
    """The loss 2.22 is a sum over classes of averages; its flow is not 9.7 where these differ in size."""
    points, targets, weight = problem(n=12)
    sizes = torch.tensor([2, 10]).repeat_interleave(torch.tensor([2, 10])).double()
    factors = (12 / sizes).sqrt()[:, None]
    flow = ClusteredFlow(factors * points, factors * targets, weight)
    at = weight.clone().requires_grad_()
    by_class = sum(standard_loss(points[part], targets[part], at) for part in (slice(0, 2), slice(2, 12)))
    torch.testing.assert_close(flow.loss(TIMES[:1])[0], by_class.detach())
    velocity = -torch.autograd.grad(by_class, at)[0]
    moved = flow.weight(torch.tensor([1e-6]).double())[0] - weight
    torch.testing.assert_close(moved / 1e-6, velocity, rtol=1e-4, atol=1e-4)
    plain = ClusteredFlow(points, targets, weight).weight(torch.tensor([1e-6]).double())[0] - weight
    assert (plain / 1e-6 - velocity).abs().max() > 0.1


def test_the_loss_decreases_and_each_direction_has_its_rate():
    points, targets, weight = problem()
    flow = ClusteredFlow(points, targets, weight)
    times = torch.linspace(0, 50, 200, dtype=torch.float64)
    assert (flow.loss(times).diff() <= 0).all()
    left = (flow.weight(times[:3]) - flow.limit) @ flow.directions
    torch.testing.assert_close((left[1] / left[0]).log(), (-times[1] * flow.rates).expand(3, 4))
    torch.testing.assert_close(flow.rates, torch.linalg.svdvals(points) ** 2 / 20)


def test_invariances_dtype_and_gradients():
    points, targets, weight = problem()
    flow = ClusteredFlow(points, targets, weight)
    turn = torch.linalg.qr(normal(4, 4, seed=6))[0]
    turned = ClusteredFlow(points @ turn.T, targets, weight @ turn.T)
    torch.testing.assert_close(turned.weight(TIMES), flow.weight(TIMES) @ turn.T)
    twice = ClusteredFlow(points.repeat(2, 1), targets.repeat(2, 1), weight)
    torch.testing.assert_close(twice.weight(TIMES), flow.weight(TIMES))
    single = ClusteredFlow(points.float(), targets.float(), weight.float()).weight(TIMES.float())
    torch.testing.assert_close(single, flow.weight(TIMES).float(), rtol=1e-4, atol=1e-4)

    def outputs(points, targets, weight):
        flow = ClusteredFlow(points, targets, weight)
        return flow.weight(TIMES), flow.loss(TIMES), flow.limit, flow.least_loss

    assert torch.autograd.gradcheck(outputs, [tensor.requires_grad_() for tensor in (points, targets, weight)])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("of_times", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_the_dtype_is_that_of_the_points_single_precision_at_least(dtype, of_times):
    given, times = [part.to(dtype) for part in problem()], TIMES.to(of_times)
    flow, exact = ClusteredFlow(*given), ClusteredFlow(*(part.double() for part in given))
    pairs = (
        (flow.weight(times), exact.weight(times.double())),
        (flow.loss(times), exact.loss(times.double())),
        (flow.limit, exact.limit),
        (flow.rates, exact.rates),
    )
    for found, expected in pairs:
        torch.testing.assert_close(found, expected.float(), rtol=1e-4, atol=1e-4)


def test_units_whose_squares_the_dtype_does_not_hold_are_refused():
    """Rates of 0 or infinity: weights that stand still, or NaN."""
    points, targets, weight = (part.float() for part in problem())
    for size in (1e-25, 1e25):
        with pytest.raises(
            RangeError, match=r"ClusteredFlow\(points\): expected singular values whose squares torch.fl"
        ):
            ClusteredFlow(size * points, targets, weight / size)
    with pytest.raises(
        RangeError, match=r"ClusteredFlow\(points, targets, weight\): expected a loss that torch.float32"
    ):
        ClusteredFlow(points, targets, 1e25 * weight)
    # The squares of the weights alone are beyond it; the loss is not.
    plain, times = ClusteredFlow(points, targets, weight), torch.tensor([0.0, 0.5])
    wide = ClusteredFlow(1e-17 * points, 1e3 * targets, 1e20 * weight)
    torch.testing.assert_close(1e-6 * wide.loss(1e34 * times), plain.loss(times))


@pytest.mark.bad_input
def test_bad_input_is_named():
    points, targets, weight = problem()
    with pytest.raises(EmptyError, match=r"ClusteredFlow\(points\): expected at least one sample, got none"):
        ClusteredFlow(points[:0], targets[:0], weight)
    with pytest.raises(ShapeError, match=r"ClusteredFlow\(targets\): expected 20 samples as in points, got 19"):
        ClusteredFlow(points, targets[1:], weight)
    with pytest.raises(
        ShapeError, match=r"ClusteredFlow\(weight\): expected \(c, q\).*got \(4, 3\), \(20, 4\), \(20, 3"
    ):
        ClusteredFlow(points, targets, weight.T)
    with pytest.raises(
        RangeError, match=r"ClusteredFlow: expected one dtype, got points torch.float64, targets torch.fl"
    ):
        ClusteredFlow(points, targets.float(), weight)
    with pytest.raises(RangeError, match=r"ClusteredFlow\(weight\): expected finite numbers, got nan"):
        ClusteredFlow(points, targets, weight * torch.nan)
    with pytest.raises(RangeError, match=r"ClusteredFlow.loss: expected times from 0 on, got -1.0"):
        ClusteredFlow(points, targets, weight).loss(-torch.ones(1).double())
    with pytest.raises(EmptyError, match=r"ClusteredFlow.weight\(times\): expected at least one sample, got none"):
        ClusteredFlow(points, targets, weight).weight(TIMES[:0])
