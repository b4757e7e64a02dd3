"""Modular addition: every pair once, its sum, and the split."""

import numpy as np
import pytest
import torch

from gnomon.data import modular_addition
from gnomon.data._modular_addition import rounded_down
from gnomon.errors import RangeError


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("p", "fraction", "size"),
    [(2, 0.5, 2), (7, 0.3, 14), (10, 0.29, 29), (3, 1 / 3, 3), (113, 0.3, 3830), (5, 0.04, 1), (5, 0.96, 24)],
)
def test_every_pair_stands_once_on_one_side(p, fraction, size):
    train, test = modular_addition(p, fraction, generator=seeded())
    assert (len(train.tokens), len(test.tokens)) == (size, p * p - size)
    rows = [
        (*tokens, label)
        for side in (train, test)
        for tokens, label in zip(side.tokens.tolist(), side.labels.tolist(), strict=True)
    ]
    assert sorted(rows) == [(a, b, p, (a + b) % p) for a in range(p) for b in range(p)]
    assert train.tokens.dtype == test.labels.dtype == torch.int64


def test_defaults_are_the_papers():
    """30 % of all pairs modulo 113."""
    torch.testing.assert_close(modular_addition(generator=seeded()), modular_addition(113, 0.3, generator=seeded()))


def test_the_generator_decides_the_split():
    (one, _), (same, _), (other, _) = (modular_addition(11, generator=seeded(seed)) for seed in (0, 0, 1))
    torch.testing.assert_close(one, same)
    assert not one.tokens.equal(other.tokens)


@pytest.mark.parametrize("p", [3, 7, 10, 113, 1000, 9973, 10_000, 100_000])
def test_shares_are_rounded_down_but_not_by_an_error_of_rounding(p):
    for whole in range(1, 100):
        assert rounded_down(whole / 100, p**2) == p**2 * whole // 100
    for pairs in (1, 2, p, p**2 // 3, p**2 - 1):
        assert rounded_down(pairs / p**2, p**2) == pairs


@pytest.mark.bad_input
@pytest.mark.parametrize("p", [np.int64(11), np.uint8(11), torch.tensor(11)])
def test_whole_numbers_of_any_kind(p):
    torch.testing.assert_close(modular_addition(p, generator=seeded()), modular_addition(11, generator=seeded()))


@pytest.mark.parametrize("fraction", [-0.1, 1.1, 1e308, float("inf"), float("nan")])
def test_shares_are_from_0_to_1(fraction):
    with pytest.raises(RangeError, match=r"modular_addition\(fraction\): expected a share from 0 to 1, got"):
        modular_addition(5, fraction, generator=seeded())


@pytest.mark.parametrize("fraction", [0.0, 1.0, 0.01])
def test_both_sides_need_a_pair(fraction):
    with pytest.raises(RangeError, match=r"modular_addition\(fraction\): expected 1 to 24 of the 25 pairs, got"):
        modular_addition(5, fraction, generator=seeded())


@pytest.mark.bad_input
@pytest.mark.parametrize("p", [1, 5.0, 2**31])
def test_the_modulus_is_checked(p):
    with pytest.raises(
        RangeError, match=rf"modular_addition\(p\): expected a whole number of at least 2 and below 2³¹, got {p}"
    ):
        modular_addition(p, generator=seeded())


def test_the_largest_modulus_is_taken():
    with pytest.raises(RangeError, match=r"expected 1 to 4611686014132420608 of the 4611686014132420609 pairs, got 0"):
        modular_addition(2**31 - 1, 0.0, generator=seeded())
