"""The real MNIST, Fashion-MNIST and CIFAR-10, where GNOMON_DATA names the folder that holds them."""

from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch.testing import assert_close

from gnomon.data import load_images

pytestmark = [pytest.mark.data, pytest.mark.unchecked]


@dataclass
class Published:
    """What is known of a part of a data set: which it is, the shape of an image, and of the images the rest."""

    split: str
    shape: tuple[int, ...]
    first: list[int]
    counts: list[int]
    means: list[float]
    deviations: list[float]
    tolerance: float


SETS = {
    "mnist": Published(
        "train",
        (1, 28, 28),
        [5, 0, 4, 1, 9, 2, 1, 3, 1, 4],
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        [0.1307],
        [0.3081],
        1e-4,
    ),
    "fashion_mnist": Published(
        "test", (1, 28, 28), [9, 2, 1, 1, 6, 1, 4, 6, 5, 7], [1000] * 10, [0.2868], [0.3524], 1e-4
    ),
    # Of the lossless images; a recompressed copy stays within a few thousandths.
    "cifar10": Published(
        "test", (3, 32, 32), [], [1000] * 10, [0.4942, 0.4851, 0.4504], [0.2467, 0.2429, 0.2616], 4e-3
    ),
}


@cache
def whole(name, split):
    """All of it, which takes seconds to read."""
    return load_images(name, split)


@pytest.mark.parametrize("name", SETS)
def test_images_are_the_published_ones_in_their_order(name):
    """The training images of MNIST; of the others, which take as many seconds more, those for the test."""
    known = SETS[name]
    found = whole(name, known.split)
    assert found.x.shape == (sum(known.counts), *known.shape)
    assert found.x.dtype == torch.float32
    assert found.x.is_contiguous()
    assert (found.x.min(), found.x.max()) == (0, 1)
    assert_close((found.x[:100] * 255).round() / 255, found.x[:100], rtol=0, atol=1e-7)
    assert found.labels[: len(known.first)].tolist() == known.first
    assert found.labels.bincount().tolist() == known.counts
    deviations, means = torch.std_mean(found.x, (0, 2, 3), correction=0)
    assert_close(means.tolist(), known.means, rtol=0, atol=min(known.tolerance, 1e-3))
    assert_close(deviations.tolist(), known.deviations, rtol=0, atol=known.tolerance)


@pytest.mark.parametrize("name", SETS)
def test_limit_is_the_beginning_of_the_whole(name):
    part, every = load_images(name, "test", limit=1030), whole(name, "test")
    assert every.x.shape == (10_000, *SETS[name].shape)
    assert (every.x.min(), every.x.max()) == (0, 1)
    if name == "mnist":
        assert every.labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert_close(part.x, every.x[:1030], rtol=0, atol=0)
    assert_close(part.labels, every.labels[:1030], rtol=0, atol=0)
