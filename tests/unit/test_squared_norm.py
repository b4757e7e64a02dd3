"""The squared norm from random vectors: its interval, by plain loops over all pairs and rings of them."""

import itertools
import math
from dataclasses import astuple, replace

import pytest
import torch
from scipy.special import stdtrit

from gnomon.linalg import Krylov, SquaredNorm, interval, krylov, share_of, squared_norm
from gnomon.linalg._squared_norm import BLOCK
from gnomon.measure._estimates import WORTH, Accuracy, FirstAndNorm, norm_from_square, squared_norm_of
from gnomon.measure._stacked import first_and_norm_of_all, squared_norm_of_all
from tests.drawn import normal, orthogonal
from tests.unit.test_agop_estimates import products
from tests.unit.test_estimates import of_matrix


def interval_of(mean, share, largest, count, degrees):
    """As of equal directions, each with the share `largest`, that account for what varies: Wilson and Hilferty 1931."""
    largest = max(share, min(largest, share**0.5))
    varies, variance = mean * share / largest, 2 * largest**2 / (9 * count * share)
    quantiles = [(1 - variance + z * variance**0.5) ** 3 for z in stdtrit(degrees, [0.975, 0.025])]
    return mean, *(mean - varies + varies / quantile for quantile in quantiles)


def written_out(rows, captured):
    """The estimate and its interval from rows zᵀA, of which those of a block are compared with each other."""
    pairs, rings = (
        [of for block in rows.split(BLOCK) for of in itertools.combinations(block, many)] for many in (2, 3)
    )
    fourth = sum(float(a @ b) ** 2 for a, b in pairs) / len(pairs)
    squared = sum(float(a @ a * (b @ b)) for a, b in pairs) / len(pairs)
    sixth = sum(float(a @ b * (b @ c) * (c @ a)) for a, b, c in rings) / len(rings)
    share = min(1, fourth / squared)
    largest = min(1, sixth / (fourth * squared**0.5)) + (share / len(rings)) ** 0.5
    mean = float(rows.square().sum()) / len(rows)
    return [captured + part for part in interval_of(mean, share, largest, len(rows), len(pairs))]


@pytest.mark.parametrize("deflated", [False, True])
@pytest.mark.parametrize("steep", [1.5, 0.1])
def test_it_is_that_of_all_pairs_and_rings(steep, deflated):
    """Of three samples with random vectors of their own, after one block and after two."""
    values = (-steep * torch.arange(12, dtype=torch.float64)).exp()
    matrix = orthogonal(12) @ values.diag()
    of = of_matrix(matrix, 3)
    known = krylov(of, 1, 0.3, 8) if deflated else None
    for count in (BLOCK, 2 * BLOCK):
        found = squared_norm(of, torch.zeros(3).double(), count, known)
        draws = torch.cat([of.normal(1 + block, BLOCK) for block in range(count // BLOCK)], 1)
        for i, z in enumerate(draws):
            inside, captured = torch.zeros_like(matrix), 0.0
            if known:
                inside = known.basis[i].mT @ known.basis[i]
                captured = float((known.basis[i] @ matrix).square().sum())
            value, low, high = written_out((z - z @ inside) @ matrix, captured)
            square = found.scale[i] ** 2
            got = torch.stack([found.value[i], found.low[i], found.high[i]]) * square
            torch.testing.assert_close(got, torch.tensor([value, low, high]).double())
        assert found.passes.tolist() == [count] * 3


def test_each_of_many_matrices_has_vectors_of_its_own_and_their_sum_an_interval():
    """Pairs are those of one matrix's vectors, beside the product of the pairs' sums of squared lengths."""
    jacobian = normal(3, 20, 6) * torch.tensor([3.0, 1.0, 1.0])[:, None, None]
    known = Krylov(
        orthogonal(6)[None, :2], torch.tensor([2.0]), torch.tensor([5.0]), *torch.ones(2, 1, 1), torch.tensor([4])
    )
    known = Krylov(*(each.double() for each in astuple(known)[:-1]), known.passes)

    def parts():
        return iter([products(jacobian)])

    found = squared_norm_of_all(parts, 3, known, torch.zeros(1).double(), 2 * BLOCK)
    basis = known.basis[0]
    blocks = []
    for count in (BLOCK, 2 * BLOCK):
        rows = products(jacobian).normal(count, BLOCK) @ jacobian / 2
        blocks.append(rows - rows @ basis.mT @ basis)
    fourth = squared = 0.0
    for rows in blocks:
        for a, b in itertools.combinations(range(BLOCK), 2):
            fourth += sum(float(own[a] @ own[b]) ** 2 for own in rows)
            squared += float(rows[:, a].square().sum() * rows[:, b].square().sum())
    mean = sum(float(rows.square().sum()) for rows in blocks) / (2 * BLOCK)
    share = fourth / squared
    expected = [5 + part for part in interval_of(mean, share, share, 2 * BLOCK, 3 * 2 * math.comb(BLOCK, 2))]
    got = torch.cat([found.value, found.low, found.high])
    torch.testing.assert_close(got, torch.tensor(expected).double())
    assert (found.scale.tolist(), found.passes.tolist()) == ([2], [2 * BLOCK])


def stacked(n):
    return normal(n, 20, 6) * (-torch.arange(6)).exp()


@pytest.mark.parametrize(("n", "some"), [(3, 8), (15, 5), (90, 2)])
def test_of_many_matrices_few_vectors_of_each_are_taken_until_the_tolerance_is_met(n, some):
    """Some in any case."""
    jacobian = stacked(n)
    known = Krylov(torch.zeros(1, 1, 6), torch.ones(1), torch.zeros(1), *torch.ones(2, 1, 1), torch.tensor([4]))
    known = Krylov(*(each.double() for each in astuple(known)[:-1]), known.passes)

    def passes(tolerance, most):
        found = squared_norm_of_all(lambda: iter([products(jacobian)]), n, known, torch.tensor([tolerance]), most)
        return found, int(found.passes)

    first, count = passes(0.0, 1)
    assert count == some
    off = float(first.relative())
    assert [passes(share * off, 10 * some)[1] for share in (1.01, 0.99)] == [some, 2 * some]


@pytest.mark.parametrize("most", [16, 40])
def test_passes_of_many_matrices_are_those_that_were_made(most):
    jacobian, passes = stacked(5), []
    of = products(jacobian)
    of = replace(
        of,
        left=lambda v: passes.append(1) or (v[:, None] @ jacobian)[:, 0],
        right=lambda u: passes.append(1) or (jacobian @ u[:, :, None])[:, :, 0],
    )
    first, other = (
        first_and_norm_of_all(lambda: iter([of]), (5, 20, 6), jacobian, Accuracy.of(1e-6, most, seed))
        for seed in (0, 1)
    )
    assert int(first.norm.passes) + int(other.norm.passes) == len(passes)
    assert most // 2 <= len(passes) / 2 <= most
    assert first.first != other.first  # relative to a scale that the seed decides
    if most == 40:
        steep = torch.linalg.svdvals(jacobian.flatten(0, 1))[:1].square()
        torch.testing.assert_close(first.first * first.norm.scale**2, steep)


def by_hand(value, low, high):
    """Of two samples, at a scale of 3."""
    return SquaredNorm(torch.full((2,), 3.0), *map(torch.tensor, (value, low, high)), torch.tensor([8, 16]))


def test_a_share_is_at_most_one_and_of_nothing_one():
    found = share_of(torch.tensor([2.0, 4.1, 0.0, 0.0]), torch.tensor([4.0, 4.0, 4.0, 0.0]))
    assert found.tolist() == [0.5, 1, 0, 1]
    mean, low, high = interval(torch.zeros(1), torch.ones(1), torch.ones(1), 8, 28)
    assert mean == low == high == 0
    # If no two vectors say anything of each other, nothing varies.
    assert [float(each) for each in interval(torch.ones(1), torch.zeros(1), torch.zeros(1), 8, 28)] == [0.125] * 3


def test_what_follows_from_an_interval():
    """The farther end counts, of the root too; a norm of zero is known."""
    found = by_hand([4.0, 4.0], [1.0, 3.0], [9.0, 25.0])
    torch.testing.assert_close(found.relative(), torch.tensor([3.0, 5.25]))
    assert by_hand([0.0, 4.0], [0.0, 4.0], [0.0, 4.0]).relative().tolist() == [0, 0]
    root = norm_from_square(found)
    torch.testing.assert_close(root.value, torch.tensor([6.0, 6.0]))
    torch.testing.assert_close(root.error, torch.tensor([3.0, 9.0]))
    torch.testing.assert_close(
        norm_from_square(by_hand([4.0, 4.0], [1.0, 3.0], [5.0, 5.0])).error[0], torch.tensor(3.0)
    )
    assert root.passes.tolist() == [8, 16]
    assert Accuracy.of(0.5, None, 0).of_squares == 1.25  # (3/2)² - 1
    assert Accuracy.of(0.5, None, 0).passes == 256


def test_quotients_are_farthest_off_where_both_parts_are():
    norm_of_both = by_hand([8.0, 8.0], [6.0, 8.0], [10.0, 9.0])
    both = FirstAndNorm(torch.tensor([2.0, 7.9]), torch.tensor([1.25, 1.01]), norm_of_both)
    share, rank = both.share(), both.stable_rank()
    torch.testing.assert_close(share.value, torch.tensor([0.25, 7.9 / 8]))
    torch.testing.assert_close(share.error, torch.tensor([2.5 / 6 - 0.25, (7.9 - 7.9 / 1.01 * 8 / 9) / 8]))
    torch.testing.assert_close(rank.value, torch.tensor([4.0, 8 / 7.9]))
    torch.testing.assert_close(rank.error, torch.tensor([10 / 1.6 - 4, 9 * 1.01 / 7.9 - 8 / 7.9]))
    # A share is at most 1, and a rank at least 1, at the ends too.
    beyond = FirstAndNorm(torch.tensor([9.0, 0.0]), torch.tensor([2.0, 1.0]), by_hand([8.0] * 2, [4.0] * 2, [9.0] * 2))
    torch.testing.assert_close(beyond.share().value, torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(beyond.share().error, torch.tensor([0.5, 0.0]))
    torch.testing.assert_close(beyond.stable_rank().value, torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(beyond.stable_rank().error, torch.tensor([1.0, 0.0]))


def test_what_the_first_value_leaves_of_the_accuracy_is_the_norms():
    """At least a quarter of it; of zeros all, and passes add up."""
    known = Krylov(
        torch.zeros(3, 1, 4),
        torch.tensor([2.0, 2.0, 1.0]),
        torch.zeros(3),
        torch.tensor([[8.0], [8.0], [0.0]]),
        torch.tensor([[0.4], [4.0], [0.0]]),
        torch.tensor([4, 6, 2]),
    )
    asked = []

    def norm_to(tolerance):
        asked.append(tolerance)
        return SquaredNorm(torch.ones(3), *torch.ones(3, 3), torch.tensor([8, 16, 8]))

    found = FirstAndNorm.beside(known, 0.2, norm_to)
    torch.testing.assert_close(asked[0], torch.tensor([1.2 / 1.05 - 1, 0.05, 0.2]))
    torch.testing.assert_close(found.apart, torch.tensor([1.05, 1.5, 1.0]))
    torch.testing.assert_close(found.first, torch.tensor([16 * 1.05, 16 * 1.5, 0.0]))
    assert found.norm.passes.tolist() == [12, 22, 10]


@pytest.mark.parametrize(("rtol", "known", "worse"), [(0.1, 2, 1), (0.15, 9, 0)])
def test_directions_are_taken_out_where_that_helps(rtol, known, worse):
    """Of twelve samples, with as many known by random vectors alone, and as many that it leaves farther off."""
    of, accuracy = of_matrix(normal(20, 20), 12), Accuracy.of(rtol, 48, 0)
    plain = squared_norm(of, torch.full((12,), accuracy.of_squares).double(), 48, worth=WORTH)
    found = squared_norm_of(of, accuracy)
    enough, same = plain.relative() <= accuracy.of_squares, found.relative() == plain.relative()
    assert int(enough.sum()) == known
    assert int((same & ~enough).sum()) == worse
    assert (found.relative() <= plain.relative()).all()
    for mine, others in zip(astuple(found)[:-1], astuple(plain)[:-1], strict=True):
        torch.testing.assert_close(mine[enough | same], others[enough | same], rtol=0, atol=0)
    assert torch.equal(found.passes == plain.passes, enough)


def counted(matrix, n):
    """Products, and a list of as many entries as there were products with each sample's matrix."""
    of, passes = of_matrix(matrix, n), []
    left, right = of.left, of.right
    return replace(of, left=lambda v: passes.append(1) or left(v), right=lambda u: passes.append(1) or right(u)), passes


def test_each_sample_ends_for_itself_where_it_is_known_or_where_knowing_it_is_not_worth_it():
    of = of_matrix(normal(20, 20), 2)
    once = squared_norm(of, torch.full((2,), 9.0).double(), 64)
    again = squared_norm(of, torch.tensor([9.0, 0.0]).double(), 16)
    assert (once.passes.tolist(), again.passes.tolist()) == ([8, 8], [8, 16])
    for first, both in zip(astuple(once), astuple(again), strict=True):
        torch.testing.assert_close(both[0], first[0], rtol=0, atol=0)
    # As many as the square of the error over the tolerance, times those so far: 24.
    tolerance = once.relative() * (8 / 24) ** 0.5
    assert squared_norm(of, tolerance, 16, worth=24.1).passes.tolist() == [16, 16]
    assert squared_norm(of, tolerance, 16, worth=23.9).passes.tolist() == [8, 8]


def test_a_block_is_taken_whatever_is_allowed():
    """Of nothing the norm would be known to be zero."""
    assert squared_norm(of_matrix(torch.eye(3), 2), torch.ones(2), 1).passes.tolist() == [BLOCK] * 2


@pytest.mark.parametrize("most", [16, 24, 40, 64])
def test_passes_are_those_that_were_made_and_no_more_than_allowed(most):
    """With the norm alone, with a first value before it, and in stages where few directions carry the norm."""
    matrix = (-2 * torch.arange(40, dtype=torch.float64)).exp().diag() + 0.03 * normal(40, 40)
    accuracy = Accuracy.of(1e-3, most, 0)
    for of_norm in (squared_norm_of, lambda of, accuracy: FirstAndNorm.of(of, accuracy).norm):
        of, passes = counted(matrix, 1)
        found = of_norm(of, accuracy)
        assert found.passes.tolist() == [len(passes)]
        assert most // 2 <= len(passes) <= most
