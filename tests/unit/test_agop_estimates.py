"""The AGOP of many outputs, estimated: its interval holds, and it is exact where that costs no more."""

import math
from dataclasses import replace

import pytest
import torch

import gnomon
from gnomon import Estimate, JacobianOperator, Probe
from gnomon.errors import RangeError
from gnomon.linalg import Products
from gnomon.measure._estimates import Accuracy
from gnomon.measure._outer_products import PAIRS, SOME, Drawn, mean_outer_product
from gnomon.measure._spread import spread
from tests.drawn import normal
from tests.unit.test_estimates import NETWORKS, OUTPUTS, every_network, many_outputs

SEEDS = 100
"""At each of two numbers of samples and of vectors, for each network."""


def jacobians(name, n):
    model, x = NETWORKS[name]()
    others = x + torch.randn(n - 1, *x.shape[1:], generator=torch.Generator().manual_seed(1)).double()
    return gnomon.input_jacobian(model, torch.cat([x, others])).detach().flatten(2)


def products(jacobian, seed=0):
    def right(u):
        return (jacobian @ u[:, :, None])[:, :, 0]

    def left(v):
        return (v[:, None] @ jacobian)[:, 0]

    return Products(tuple(jacobian.shape), jacobian, right, left, 0, seed)


def off(value, exact):
    return float(torch.linalg.matrix_norm(value - exact))


@pytest.mark.unchecked
@every_network
@pytest.mark.parametrize("n", [8, 32])
def test_the_95_percent_interval_holds_in_90_to_99_percent(name, n):
    jacobian = jacobians(name, n)
    exact = gnomon.agop(jacobian)
    held = []
    for seed in range(SEEDS):
        drawn = Drawn(n)
        for stop in (max(8, 2 * PAIRS // n), max(24, 3 * PAIRS // n)):
            drawn.add(iter([products(jacobian, seed)]), stop)
            held.append(off(drawn.mean(), exact / drawn.scale**2) <= drawn.error())
    assert 0.9 <= sum(held) / len(held) <= 0.99


@every_network
def test_it_ends_where_the_accuracy_is_met(name):
    jacobian = jacobians(name, 32)
    exact = gnomon.agop(jacobian)
    norm = float(torch.linalg.matrix_norm(exact))

    def never():
        raise AssertionError("exact, though an estimate costs less")

    for seed in range(20):
        found, size = mean_outer_product(
            lambda seed=seed: iter([products(jacobian, seed)]), never, (32, 10**6), Accuracy.of(0.2, 1000, seed)
        )
        assert found.error <= 0.2 * size
        assert float(size) == pytest.approx(norm, rel=0.2)
        assert off(found.value, exact) <= 1.5 * float(found.error)
        assert found.passes < 200


@pytest.mark.unchecked
@pytest.mark.parametrize("n", [4, 32])
def test_it_is_exact_up_to_the_products_that_the_error_after_the_first_lets_expect(n):
    """A tenth more than the square of the error over what is allowed times the vectors so far: 8, or 128 in all."""
    jacobian = normal(n, 30, 20)
    drawn = Drawn(n)
    drawn.add(iter([products(jacobian)]), max(8, 128 // n))
    needed = 1.1 * drawn.count * (drawn.error() / (0.05 * drawn.size())) ** 2
    for outputs, by_outputs in ((math.floor(needed), True), (math.ceil(needed), False)):
        accuracy = Accuracy.of(0.05, math.floor(needed), 0)
        found, _ = mean_outer_product(
            lambda: iter([products(jacobian)]), lambda: gnomon.agop(jacobian), (n, outputs), accuracy
        )
        assert (found.error == 0) == by_outputs
        assert not by_outputs or found.passes == drawn.count + outputs


def test_in_parts_it_is_the_same():
    jacobian = jacobians("untrained", 12)
    whole = products(jacobian)
    first, rest = (products(part) for part in jacobian.split([5, 7]))
    later = Products(rest.shape, rest.like, rest.right, rest.left, 5, 0)
    sums = Drawn(12), Drawn(12)
    for each, parts in zip(sums, ([whole], [first, later]), strict=True):
        each.add(iter(parts), 12)
    one, other = (each.scale for each in sums)
    torch.testing.assert_close(sums[0].mean() * one**2, sums[1].mean() * other**2)
    assert sums[0].noise() * one**4 == pytest.approx(sums[1].noise() * other**4)


def test_errors_follow_from_pairs_of_draws_and_the_spread_of_some_samples():
    """Each draw is in one pair at most, and of samples that come in parts the first ones are looked at."""
    jacobian = normal(SOME + 8, 5, 4)
    whole, (first, rest) = products(jacobian), (products(part) for part in jacobian.split([SOME - 4, 12]))
    drawn = Drawn(len(jacobian))
    later = replace(rest, first=SOME - 4)
    drawn_rows = torch.stack([whole.left(whole.normal(1 + k, 1)[:, 0]) for k in range(11)], 1)
    for stop, pairs in ((5, [(0, 1), (2, 3)]), (11, [(0, 1), (2, 3), (5, 6), (7, 8), (9, 10)])):
        drawn.add(iter([first, later]), stop)
        scale = 2.0 ** math.floor(math.log2(drawn_rows[:, :stop].abs().max()))
        rows = drawn_rows / scale
        found = torch.stack(
            [
                rows[:, a].square().sum(1) * rows[:, b].square().sum(1) + (rows[:, a] * rows[:, b]).sum(1).square()
                for a, b in pairs
            ]
        )
        mean = torch.einsum("nma,nmb->ab", rows[:, :stop], rows[:, :stop]) / (len(rows) * stop)
        noise = float(found.mean()) / (len(rows) * stop)
        assert drawn.scale == scale > 1
        torch.testing.assert_close(drawn.mean(), mean)
        assert drawn.noise() == pytest.approx(noise)
        assert drawn.size() == pytest.approx(float(mean.square().sum() - noise) ** 0.5)
        assert drawn.error() == pytest.approx(spread(rows[:SOME, :5]).width(noise, float(mean.square().sum())))


def test_an_estimate_is_near_the_agop_and_disturbs_nothing():
    model, x = many_outputs(64)
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    found = gnomon.agop(JacobianOperator(model, x), rtol=0.3)
    assert torch.equal(torch.random.get_rng_state(), before)
    exact = gnomon.agop(gnomon.input_jacobian(model, x)).detach()
    assert type(found) is Estimate
    assert found.value.dtype == torch.float32
    assert found.passes < OUTPUTS / 4
    assert 0 < found.error <= 0.31 * exact.norm()
    assert off(found.value, exact) <= 1.5 * float(found.error)
    again = gnomon.agop(JacobianOperator(model, x, memory=1), rtol=0.3)
    torch.testing.assert_close(again.value, found.value)


@pytest.mark.parametrize(("outputs", "passes"), [(OUTPUTS, 8 + OUTPUTS), (10, 10)])
def test_it_is_exact_where_that_takes_no_more_products(outputs, passes):
    model, x = many_outputs(20)
    model = torch.nn.Sequential(*model[:-1], torch.nn.Linear(64, outputs))
    found = gnomon.agop(JacobianOperator(model, x), rtol=0.001)
    torch.testing.assert_close(found.value, gnomon.agop(gnomon.input_jacobian(model, x)).detach())
    assert (float(found.error), int(found.passes)) == (0, passes)


def test_sums_over_parts_keep_the_digits_and_the_range_that_their_dtype_lacks():
    """Two samples a part, of 2,000 that are alike: in float32 their sum is 9e-6 off, or above the largest number."""
    layer = torch.nn.Linear(2, 3, bias=False)
    for size in (0.1, 1e18):
        torch.nn.init.constant_(layer.weight, size)
        found = gnomon.agop(JacobianOperator(layer, torch.ones(2000, 2), memory=1))
        torch.testing.assert_close(found.value, gnomon.agop(layer.weight.detach()[None]), rtol=1.5e-7, atol=0)


def test_an_accuracy_that_is_not_met_gives_the_estimate_its_error_and_a_warning():
    model, x = many_outputs()
    with pytest.warns(RuntimeWarning, match=r"agop: expected an error of at most 0.01 of the value, got up to 0\.\d+"):
        found = gnomon.agop(JacobianOperator(model, x), rtol=0.01, passes=40)
    assert int(found.passes) == 40
    assert math.isfinite(found.error)


def test_a_zero_jacobian_is_zero_without_an_error():
    found, size = mean_outer_product(
        lambda: iter([products(torch.zeros(3, OUTPUTS, 5))]), torch.zeros, (3, OUTPUTS), Accuracy.of(0.05, None, 0)
    )
    assert not found.value.any()
    assert (float(found.error), float(size)) == (0, 0)


def wide(outputs, dtype, size):
    """A linear layer with weights of this size, and three samples."""
    layer = torch.nn.Linear(4, outputs, bias=False, dtype=dtype)
    layer.weight.data = (normal(outputs, 4) * size).to(dtype)
    return layer, normal(3, 4).to(dtype)


@pytest.mark.bad_input
@pytest.mark.parametrize("outputs", [OUTPUTS, 100])
@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 1e20), (torch.float64, 1e160), (torch.bfloat16, 1e20)])
def test_an_agop_beyond_the_dtypes_range_is_refused(outputs, dtype, size):
    """And not for its cause: the Jacobian is finite."""
    model, x = wide(outputs, dtype, size)
    with pytest.raises(
        RangeError, match=rf"^agop(\(jacobian\))?: expected an? (estimate|result) that {dtype} can hold"
    ):
        gnomon.agop(JacobianOperator(model, x))
    with pytest.raises(RangeError, match=r"can hold, got"):
        Probe(model, x, [gnomon.agop]).read()
    model.weight.data[0, 0] = torch.nan
    with pytest.raises(RangeError, match=r"^agop\(jacobian\): expected finite numbers, got nan"):
        gnomon.agop(JacobianOperator(model, x))


@pytest.mark.parametrize("size", [2.0**-500, 2.0**-300, 2.0**150, 2.0**300, 2.0**500])
@pytest.mark.parametrize("rtol", [0.05, 0.3])
def test_errors_are_right_where_fourth_powers_of_products_are_beyond_the_dtype(size, rtol):
    """By powers of two, so that there is no rounding."""
    (model, x), (other, _) = wide(OUTPUTS, torch.float64, 1.0), wide(OUTPUTS, torch.float64, size)
    usual, large = (gnomon.agop(JacobianOperator(each, x), rtol=rtol) for each in (model, other))
    assert (usual.error > 0) == (rtol > 0.1)
    for name in ("value", "error"):
        torch.testing.assert_close(getattr(large, name) / size / size, getattr(usual, name))
    assert large.passes == usual.passes


@pytest.mark.parametrize("sizes", [(0.0, 2.0**-300), (2.0**-300, 1.0), (1.0, 2.0**-300), (2.0**-300, 2.0**300)])
def test_errors_are_right_where_later_samples_have_far_larger_or_smaller_products(sizes):
    """Beside the larger ones the others are 0."""
    jacobian, largest = normal(12, 30, 4), max(sizes)
    sums = Drawn(12), Drawn(12)
    for drawn, (one, other) in zip(sums, (sizes, [float(size == largest) for size in sizes]), strict=True):
        rest = replace(products(other * jacobian[5:]), first=5)
        drawn.add(iter([products(one * jacobian[:5]), rest]), 12)
    found, expected = sums
    assert found.scale == largest * expected.scale
    torch.testing.assert_close(found.mean(), expected.mean())
    assert found.size() == pytest.approx(expected.size())
    assert found.error() == pytest.approx(expected.error())


def test_an_agop_below_the_dtypes_range_is_zero():
    """As it is of a tensor."""
    found = gnomon.agop(JacobianOperator(*wide(OUTPUTS, torch.float32, 1e-25)), rtol=0.3)
    assert not found.value.any()
    assert found.error == 0


def test_a_probe_takes_products_where_nothing_looks_at_the_result():
    model, x = many_outputs(64)
    reading = Probe(model, x, [gnomon.agop, gnomon.jacobian_norm], rtol=0.3).read()
    assert type(reading.values["agop"]) is Estimate
    exact = Probe(model, x, [gnomon.agop, gnomon.effective_rank], rtol=0.3).read()
    assert off(reading.values["agop"].value, exact.values["agop"]) <= 1.5 * float(reading.values["agop"].error)
