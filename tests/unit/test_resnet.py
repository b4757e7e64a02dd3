"""Residual networks for small images: their shapes, their sizes, and that the seed decides the weights."""

import pytest
import torch

from gnomon.errors import RangeError
from gnomon.models import resnet18, resnet34, resnet50

PUBLISHED = {resnet18: 11_689_512, resnet34: 21_797_672, resnet50: 25_557_032}
"""Parameters of torchvision's networks for 224 x 224 images and 1,000 classes."""
every_network = pytest.mark.parametrize("network", PUBLISHED)


def made(network=resnet18, seed=0, **settings):
    return network(generator=torch.Generator().manual_seed(seed), **settings)


def parameters(model):
    return sum(p.numel() for p in model.parameters())


@every_network
def test_it_has_the_published_number_of_parameters(network):
    """Torchvision's, less their head and stem, plus a 3 x 3 stem and ten classes."""
    model = made(network)
    expected = PUBLISHED[network] - (1000 - 10) * (model.head.in_features + 1) - 64 * 3 * (7 * 7 - 3 * 3)
    assert parameters(model) == expected
    assert {resnet18: 11_173_962, resnet34: 21_282_122, resnet50: 23_520_842}[network] == expected


@pytest.mark.parametrize(
    ("network", "counts", "expansion"),
    [(resnet18, (2, 2, 2, 2), 1), (resnet34, (3, 4, 6, 3), 1), (resnet50, (3, 4, 6, 3), 4)],
)
@pytest.mark.parametrize(("width", "channels", "classes"), [(3, 1, 4), (8, 3, 10)])
def test_the_number_of_parameters_is_that_of_its_layers(network, counts, expansion, width, channels, classes):
    """Weights of the convolutions, two numbers a channel for BatchNorm, and the head, stage by stage."""
    expected = 9 * channels * width + 2 * width
    before = width
    for stage, count in enumerate(counts):
        w = width * 2**stage
        out = expansion * w
        for block in range(count):
            if expansion == 1:
                expected += 9 * before * w + 9 * w * w + 4 * w
            else:
                expected += before * w + 9 * w * w + w * out + 4 * w + 2 * out
            if block == 0 and (stage > 0 or before != out):
                expected += before * out + 2 * out
            before = out
    expected += before * classes + classes
    assert parameters(made(network, width=width, channels=channels, classes=classes)) == expected


@pytest.mark.parametrize(("network", "times"), [(resnet18, 1), (resnet34, 1), (resnet50, 4)])
def test_shapes_through_the_stages(network, times):
    model, x = made(network, channels=1, classes=4, width=2).eval(), torch.randn(3, 1, 32, 32)
    sizes = []
    for block in model.blocks:
        block.register_forward_hook(lambda module, inputs, output: sizes.append(tuple(output.shape[1:])))
    assert model(x).shape == (3, 4)
    stages = [(2 * times, 32, 32), (4 * times, 16, 16), (8 * times, 8, 8), (16 * times, 4, 4)]
    counts = (2, 2, 2, 2) if network is resnet18 else (3, 4, 6, 3)
    assert sizes == [stage for stage, count in zip(stages, counts, strict=True) for _ in range(count)]
    assert model.features(x).shape == (3, model.head.in_features) == (3, 16 * times)
    torch.testing.assert_close(model.head(model.features(x)), model(x))


@every_network
@pytest.mark.parametrize("shape", [(1, 28, 28), (1, 32, 32), (3, 32, 32), (3, 96, 96), (3, 1, 1)])
def test_images_of_every_data_set_fit(network, shape):
    model = made(network, channels=shape[0], width=2).eval()
    assert model(torch.randn(2, *shape)).shape == (2, 10)


def test_a_block_is_its_two_ways():
    model, x = made(width=2).double().eval(), torch.randn(2, 2, 8, 8, dtype=torch.float64)
    plain, changing = model.blocks[0], model.blocks[2]
    inner = plain.bn2(plain.conv2(torch.relu(plain.bn1(plain.conv1(x)))))
    torch.testing.assert_close(plain(x), torch.relu(inner + x))
    inner = changing.bn2(changing.conv2(torch.relu(changing.bn1(changing.conv1(x)))))
    torch.testing.assert_close(changing(x), torch.relu(inner + changing.shortcut(x)))


def test_a_bottleneck_is_its_two_ways():
    model = made(resnet50, width=2).double().eval()
    for block, x in (
        (model.blocks[0], torch.randn(2, 2, 8, 8, dtype=torch.float64)),
        (model.blocks[1], torch.randn(2, 8, 8, 8, dtype=torch.float64)),
        (model.blocks[3], torch.randn(2, 8, 8, 8, dtype=torch.float64)),
    ):
        inner = torch.relu(block.bn2(block.conv2(torch.relu(block.bn1(block.conv1(x))))))
        torch.testing.assert_close(block(x), torch.relu(block.bn3(block.conv3(inner)) + block.shortcut(x)))
    assert [model.blocks[3].conv1.stride, model.blocks[3].conv2.stride] == [(1, 1), (2, 2)]


@every_network
def test_the_generator_decides_and_nothing_else(network):
    state = torch.get_rng_state()
    torch.testing.assert_close(
        dict(made(network, 3, width=2).state_dict()), dict(made(network, 3, width=2).state_dict())
    )
    assert not torch.equal(made(network, 3, width=2).head.weight, made(network, 4, width=2).head.weight)
    assert torch.equal(torch.get_rng_state(), state)


def test_convolutions_start_with_their_variance():
    weight = made(width=64).blocks[6].conv1.weight
    # 512 x 256 x 9 draws: five standard errors of the variance are 0.7 %.
    torch.testing.assert_close(weight.var().item(), 2 / (512 * 9), rtol=0.007, atol=0)


@every_network
def test_bad_settings_are_listed_together(network):
    with pytest.raises(
        RangeError,
        match=rf"{network.__name__}: expected channels a whole number of at least 1, got 0; width a .* least 1, got -1",
    ):
        network(0, width=-1)


@pytest.mark.bad_input
@every_network
@pytest.mark.parametrize("size", [2.5, 2.0])
def test_sizes_are_whole(network, size):
    with pytest.raises(
        RangeError, match=rf"{network.__name__}: expected width a whole number of at least 1, got {size!r}"
    ):
        network(width=size)
