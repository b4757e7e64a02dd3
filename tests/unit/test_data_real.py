"""The real MNIST, Fashion-MNIST and CIFAR-10, where GNOMON_DATA names the folder that holds them."""

import pytest
import torch
from torch.testing import assert_close

from gnomon.data import load_images, normalise

pytestmark = [pytest.mark.data, pytest.mark.once]

SETS = {  # name: split -> samples, and the shape of one
    "mnist": ({"train": 60_000, "test": 10_000}, (1, 28, 28)),
    "fashion_mnist": ({"train": 60_000, "test": 10_000}, (1, 28, 28)),
    "cifar10": ({"train": 50_000, "test": 10_000}, (3, 32, 32)),
}


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("name", SETS)
def test_counts_shapes_and_range(name, split):
    counts, shape = SETS[name]
    out = load_images(name, split)
    assert out.x.shape == (counts[split], *shape)
    assert out.x.dtype == torch.float32
    assert out.x.is_contiguous()
    assert (out.x.min(), out.x.max()) == (0, 1)
    assert_close((out.x[:100] * 255).round() / 255, out.x[:100], rtol=0, atol=1e-7)
    counts_of_classes = out.labels.bincount()
    assert len(counts_of_classes) == 10
    if name != "mnist":
        assert counts_of_classes.tolist() == [counts[split] // 10] * 10


def test_mnist_is_the_published_one_in_its_order():
    train = load_images("mnist", "train")
    assert train.labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert train.labels.bincount().tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    std, mean = torch.std_mean(train.x.double(), correction=0)
    assert mean.item() == pytest.approx(0.1307, abs=1e-4)
    assert std.item() == pytest.approx(0.3081, abs=1e-4)
    std, mean = torch.std_mean(normalise(train, 0.1307, 0.3081).x.double(), correction=0)
    assert mean.item() == pytest.approx(0, abs=1e-3)
    assert std.item() == pytest.approx(1, abs=1e-3)


def test_mnist_test_labels():
    assert load_images("mnist", "test", limit=10).labels.tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]


def test_fashion_mnist_is_the_published_one_in_its_order():
    train = load_images("fashion_mnist", "train")
    assert train.labels[:10].tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]
    std, mean = torch.std_mean(train.x.double(), correction=0)
    assert mean.item() == pytest.approx(0.2860, abs=1e-4)
    assert std.item() == pytest.approx(0.3530, abs=1e-4)


def test_cifar10_statistics():
    # The published ones of the lossless images; a recompressed copy stays within a few thousandths.
    x = load_images("cifar10", "train").x.double()
    assert_close(x.mean((0, 2, 3)), torch.tensor([0.4914, 0.4822, 0.4465]).double(), rtol=0, atol=1e-3)
    assert_close(x.std((0, 2, 3)), torch.tensor([0.2470, 0.2435, 0.2616]).double(), rtol=0, atol=4e-3)


@pytest.mark.parametrize("name", SETS)
def test_limit_is_the_beginning_of_the_whole(name):
    part = load_images(name, "test", limit=1030)
    whole = load_images(name, "test")
    assert_close(part.x, whole.x[:1030], rtol=0, atol=0)
    assert_close(part.labels, whole.labels[:1030], rtol=0, atol=0)
