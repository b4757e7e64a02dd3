"""Densely connected networks for small images: their shapes, their sizes, and that the seed decides the weights."""

import pytest
import torch
from torch import nn

from gnomon.errors import RangeError, ShapeError
from gnomon.models import densenet40, densenet100, densenet201, densenet250

COUNTS = {
    densenet40: (12, 12, 12),
    densenet100: (16, 16, 16),
    densenet201: (6, 12, 48, 32),
    densenet250: (41, 41, 41),
}
DEPTHS = {densenet40: 40, densenet100: 100, densenet201: 201, densenet250: 250}
every_network = pytest.mark.parametrize("network", COUNTS)


def made(network, seed=0, **settings):
    return network(generator=torch.Generator().manual_seed(seed), **settings)


def parameters(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("network", "millions"), [(densenet40, 1.0), (densenet100, 0.8), (densenet250, 15.3)])
def test_it_has_the_number_of_parameters_of_table_2(network, millions):
    """Huang et al., table 2, for ten classes."""
    count = parameters(made(network))
    assert round(count / 1e6, 1) == millions
    assert count == {densenet40: 1_019_722, densenet100: 769_162, densenet250: 15_324_406}[network]


def test_densenet201_has_the_published_number_of_parameters():
    """Torchvision's, less its head and its stem with BatchNorm, plus a bare 3 x 3 stem and ten classes."""
    expected = 20_013_928 - 1000 * 1921 - (64 * 3 * 7 * 7 + 2 * 64) + 10 * 1921 + 64 * 3 * 3 * 3
    assert parameters(made(densenet201)) == expected == 18_104_330


@every_network
@pytest.mark.parametrize(("growth", "channels", "classes"), [(1, 1, 4), (6, 3, 10)])
def test_the_number_of_parameters_is_that_of_its_layers(network, growth, channels, classes):
    """Weights of the convolutions, two numbers a channel for BatchNorm, and the head, layer by layer."""
    bc = network is not densenet40
    width = 2 * growth if bc else 16
    expected = 9 * channels * width
    for block, count in enumerate(COUNTS[network]):
        if block > 0:
            out = width // 2 if bc else width
            expected += 2 * width + width * out
            width = out
        for _ in range(count):
            inner = 4 * growth
            added = width * inner + 2 * inner + 9 * inner * growth if bc else 9 * width * growth
            expected += 2 * width + added
            width += growth
    expected += 2 * width + width * classes + classes
    assert parameters(made(network, growth=growth, channels=channels, classes=classes)) == expected


@every_network
def test_it_is_as_deep_as_it_is_called(network):
    """Convolutions and the head, those of 1 x 1 counted."""
    model = made(network, growth=1)
    assert sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in model.modules()) == DEPTHS[network]


@pytest.mark.unchecked
@every_network
@pytest.mark.parametrize("shape", [(1, 28, 28), (1, 32, 32), (3, 32, 32), (3, 96, 96)])
def test_images_of_every_data_set_fit(network, shape):
    model = made(network, channels=shape[0], growth=1).eval()
    sides = []
    for layer in model.body:
        if isinstance(layer, nn.Sequential):
            layer.register_forward_hook(lambda module, inputs, output: sides.append(output.shape[2]))
    x = torch.randn(2, *shape)
    assert model(x).shape == (2, 10)
    assert sides == [shape[1] // 2**block for block in range(1, len(COUNTS[network]))]
    torch.testing.assert_close(model.head(model.features(x)), model(x))


@every_network
def test_images_too_small_are_named(network):
    least = 2 ** (len(COUNTS[network]) - 1)
    model = made(network, growth=1).eval()
    assert model(torch.randn(1, 3, least, least)).shape == (1, 10)
    with pytest.raises(
        ShapeError, match=rf"images of at least {least} x {least} pixels, got {least} x {least - 1}. Pad"
    ):
        model(torch.randn(1, 3, least, least - 1))


@pytest.mark.parametrize(("network", "inner"), [(densenet40, 1), (densenet100, 2)])
def test_a_layer_adds_to_what_it_is_given(network, inner):
    layer = made(network, growth=3).double().eval().body[1]
    x = torch.randn(2, 16 if inner == 1 else 6, 5, 5, dtype=torch.float64)
    y = x
    norms = [part for part in layer.modules() if isinstance(part, nn.BatchNorm2d)]
    convolutions = [part for part in layer.modules() if isinstance(part, nn.Conv2d)]
    assert len(norms) == len(convolutions) == inner
    for norm, convolution in zip(norms, convolutions, strict=True):
        y = convolution(torch.relu(norm(y)))
    torch.testing.assert_close(layer(x), torch.cat([x, y], 1))
    assert layer(x).shape[1] == x.shape[1] + 3


def test_between_blocks_half_of_the_channels_pass():
    for network, share in ((densenet40, 1), (densenet100, 2)):
        model = made(network, growth=4).eval()
        transition = next(layer for layer in model.body if isinstance(layer, nn.Sequential))
        x = torch.randn(1, transition[0][2].in_channels, 7, 7)
        expected = nn.functional.avg_pool2d(transition[0](x), 2)
        assert expected.shape[1:] == (x.shape[1] // share, 3, 3)
        torch.testing.assert_close(transition(x), expected)


def test_the_generator_decides_and_nothing_else():
    state = torch.get_rng_state()
    one, same, other = (made(densenet40, seed, growth=2) for seed in (3, 3, 4))
    torch.testing.assert_close(dict(one.state_dict()), dict(same.state_dict()))
    assert not torch.equal(one.head.weight, other.head.weight)
    assert torch.equal(torch.get_rng_state(), state)


@every_network
def test_bad_settings_are_listed_together(network):
    says = "expected channels a whole number of at least 1, got 0; growth a whole number of at least 1, got -1"
    with pytest.raises(RangeError, match=rf"{network.__name__}: {says}"):
        network(0, growth=-1)


@pytest.mark.bad_input
@every_network
@pytest.mark.parametrize("size", [1.5, 2.0])
def test_sizes_are_whole(network, size):
    with pytest.raises(
        RangeError, match=rf"{network.__name__}: expected growth a whole number of at least 1, got {size!r}"
    ):
        network(growth=size)
