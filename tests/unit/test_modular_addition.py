"""Modular addition: every pair once, its sum, and the split."""

import pytest
import torch

from gnomon.data import modular_addition
from gnomon.errors import RangeError


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("p", "fraction", "size"), [(2, 0.5, 2), (7, 0.3, 14), (10, 0.29, 29), (113, 0.3, 3830)])
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


def test_the_generator_decides_the_split():
    (one, _), (same, _), (other, _) = (modular_addition(11, generator=seeded(seed)) for seed in (0, 0, 1))
    torch.testing.assert_close(one, same)
    assert not one.tokens.equal(other.tokens)


@pytest.mark.parametrize("fraction", [0.0, 1.0, 0.01])
def test_both_sides_need_a_pair(fraction):
    with pytest.raises(RangeError, match=r"modular_addition\(fraction\): expected 1 to 24 of the 25 pairs, got"):
        modular_addition(5, fraction, generator=seeded())


def test_the_modulus_is_checked():
    with pytest.raises(RangeError, match=r"modular_addition\(p\): expected at least 2, whole and below 2³¹, got 1"):
        modular_addition(1, generator=seeded())
