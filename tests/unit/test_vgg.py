"""VGG for small images: its shapes, its size, and that its seed decides its weights."""

import pytest
import torch
from torch import nn

from gnomon.errors import RangeError
from gnomon.models import vgg11, vgg13

COUNTS = {vgg11: (1, 1, 2, 2, 2), vgg13: (2, 2, 2, 2, 2)}
every_network = pytest.mark.parametrize("network", COUNTS)


def made(network=vgg11, seed=0, **settings):
    return network(generator=torch.Generator().manual_seed(seed), **settings)


def parameters(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("network", "published"), [(vgg11, 132_868_840), (vgg13, 133_053_736)])
def test_it_has_the_published_number_of_parameters(network, published):
    """Torchvision's, with BatchNorm, less the three linear layers and the convolutions' biases, plus ten classes."""
    linear = 4096 * (7 * 7 * 512 + 1) + 4096 * 4097 + 1000 * 4097
    biases = sum(count * width for count, width in zip(COUNTS[network], (64, 128, 256, 512, 512), strict=True))
    expected = published - linear - biases + 10 * 513
    assert parameters(made(network)) == expected
    assert {vgg11: 9_228_362, vgg13: 9_413_066}[network] == expected


@every_network
@pytest.mark.parametrize(("width", "channels", "classes"), [(3, 1, 4), (8, 3, 10)])
def test_the_number_of_parameters_is_that_of_its_layers(network, width, channels, classes):
    expected, before = 0, channels
    for count, times in zip(COUNTS[network], (1, 2, 4, 8, 8), strict=True):
        for _ in range(count):
            expected += 9 * before * width * times + 2 * width * times
            before = width * times
    expected += before * classes + classes
    assert parameters(made(network, width=width, channels=channels, classes=classes)) == expected


@every_network
@pytest.mark.parametrize(
    ("size", "pooled"), [(28, (14, 7, 4, 2, 1)), (32, (16, 8, 4, 2, 1)), (96, (48, 24, 12, 6, 3)), (1, (1,) * 5)]
)
def test_shapes_through_the_stages(network, size, pooled):
    model, x = made(network, channels=1, classes=4, width=2).eval(), torch.randn(3, 1, size, size)
    sizes = []
    for layer in model.body:
        if isinstance(layer, nn.MaxPool2d):
            layer.register_forward_hook(lambda module, inputs, output: sizes.append(tuple(output.shape[1:])))
    assert model(x).shape == (3, 4)
    assert sizes == [(width, side, side) for width, side in zip((2, 4, 8, 16, 16), pooled, strict=True)]
    assert model.features(x).shape == (3, model.head.in_features) == (3, 16)
    torch.testing.assert_close(model.head(model.features(x)), model(x))


@every_network
@pytest.mark.parametrize("shape", [(1, 28, 28), (1, 32, 32), (3, 32, 32), (3, 96, 96)])
def test_images_of_every_data_set_fit(network, shape):
    model = made(network, channels=shape[0], width=2)
    assert model(torch.randn(2, *shape)).shape == (2, 10)


def test_on_multiples_of_32_nothing_but_whole_windows_is_pooled():
    model, x = made(width=2).double().eval(), torch.randn(2, 3, 64, 32, dtype=torch.float64)
    whole = nn.Sequential(*(nn.MaxPool2d(2) if isinstance(layer, nn.MaxPool2d) else layer for layer in model.body))
    torch.testing.assert_close(model.features(x), whole(x).mean((2, 3)), rtol=0, atol=1e-15)


def test_the_generator_decides_and_nothing_else():
    state = torch.get_rng_state()
    torch.testing.assert_close(dict(made(seed=3, width=2).state_dict()), dict(made(seed=3, width=2).state_dict()))
    assert not torch.equal(made(seed=3, width=2).head.weight, made(seed=4, width=2).head.weight)
    assert torch.equal(torch.get_rng_state(), state)


def test_convolutions_start_with_their_variance():
    weight = made().body[-4].weight
    # 512 x 512 x 9 draws: five standard errors of the variance are 0.5 %.
    torch.testing.assert_close(weight.var().item(), 2 / (512 * 9), rtol=0.005, atol=0)


@every_network
def test_bad_settings_are_listed_together(network):
    with pytest.raises(
        RangeError,
        match=rf"{network.__name__}: expected classes a whole number of at least 1, got 0; width .* at least 1, got -1",
    ):
        network(3, 0, width=-1)


@pytest.mark.bad_input
@every_network
@pytest.mark.parametrize("size", [2.5, 2.0])
def test_sizes_are_whole(network, size):
    with pytest.raises(
        RangeError, match=rf"{network.__name__}: expected width a whole number of at least 1, got {size!r}"
    ):
        network(width=size)
