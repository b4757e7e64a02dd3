"""The papers' convolutional network: its layers, its start, and what it promises."""

import math

import pytest
import torch
from torch import nn

from gnomon.errors import RangeError
from gnomon.models import cnn


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_default_is_the_papers_network():
    model = cnn(generator=seeded(0))
    convolutions = [layer for layer in model if isinstance(layer, nn.Conv2d)]
    assert [(c.in_channels, c.out_channels, c.stride[0]) for c in convolutions] == [
        (3, 32, 1), (32, 32, 2), (32, 64, 1), (64, 64, 2), (64, 128, 1), (128, 128, 2),
    ]  # fmt: skip
    assert {c.kernel_size for c in convolutions} == {(3, 3)}
    assert [(layer.in_features, layer.out_features) for layer in model if isinstance(layer, nn.Linear)] == [
        (128, 128), (128, 10),
    ]  # fmt: skip
    assert sum(isinstance(layer, nn.ReLU) for layer in model) == 7
    assert not any("bias" in name for name, _ in model.named_parameters())
    assert model(torch.ones(2, 3, 32, 32)).shape == (2, 10)


def test_weights_are_kaimings_by_fan_out():
    for weight in list(cnn(generator=seeded(0)).parameters())[:-1]:
        fan_out = weight.shape[0] * weight[0, 0].numel()
        width = 5 / math.sqrt(2 * weight.numel())  # five standard errors of the deviation of normal numbers
        torch.testing.assert_close(weight.std(), torch.tensor(math.sqrt(2 / fan_out)), rtol=width, atol=0)


def test_positively_homogeneous():
    model, x = cnn((1, 4, 6, 3), generator=seeded(0)).double(), torch.randn(5, 1, 16, 16, generator=seeded(1)).double()
    torch.testing.assert_close(model(3 * x), 3 * model(x))


def test_generator_decides_and_the_global_one_rests():
    before = torch.get_rng_state()
    first, again, other = (cnn((1, 2, 3), generator=seeded(seed)) for seed in (0, 0, 1))
    torch.testing.assert_close(torch.get_rng_state(), before)
    torch.testing.assert_close(list(first.parameters()), list(again.parameters()))
    assert not torch.equal(first[0].weight, other[0].weight)


@pytest.mark.parametrize(("widths", "sizes"), [((1, 2, 3), (7, 14)), ((3, 2, 2, 2, 4), (25, 56))])
def test_sizes_of_images(widths, sizes):
    model = cnn(widths, generator=seeded(0))
    for size in range(sizes[0], sizes[1] + 1):
        assert model(torch.ones(1, widths[0], size, size)).shape == (1, widths[-1])
    for size, message in ((sizes[0] - 1, "Output size is too small"), (sizes[1] + 1, "shapes cannot be multiplied")):
        with pytest.raises(RuntimeError, match=message):
            model(torch.ones(1, widths[0], size, size))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("widths", "says"),
    [
        ((), r"widths at least three, got \(\)"),
        ((3, 10), r"widths at least three, got \(3, 10\)"),
        ((3, 0, 10), "width a whole number of at least 1, got 0"),
        ((1.5, 3, 4), r"width a whole number of at least 1, got 1\.5"),
    ],
)
def test_widths_are_checked(widths, says):
    with pytest.raises(RangeError, match=rf"cnn: expected {says}\. Change it"):
        cnn(widths)
