"""ResNet-18 for small images: its shapes, its size, and that its seed decides its weights."""

import pytest
import torch

from gnomon.errors import RangeError
from gnomon.models import resnet18


def made(seed=0, **settings):
    return resnet18(generator=torch.Generator().manual_seed(seed), **settings)


def test_it_has_the_published_number_of_parameters():
    """11,173,962: torchvision's 11,689,512, less its head and stem, plus a 3 x 3 stem and ten classes."""
    expected = 11_689_512 - (512 * 1000 + 1000) + (512 * 10 + 10) - 64 * 3 * 7 * 7 + 64 * 3 * 3 * 3
    assert sum(p.numel() for p in made().parameters()) == expected == 11_173_962


def test_shapes_through_the_stages():
    model, x = made(channels=1, classes=4, width=2).eval(), torch.randn(3, 1, 32, 32)
    sizes = []
    for block in model.blocks:
        block.register_forward_hook(lambda module, inputs, output: sizes.append(tuple(output.shape[1:])))
    assert model(x).shape == (3, 4)
    assert sizes == [(2, 32, 32)] * 2 + [(4, 16, 16)] * 2 + [(8, 8, 8)] * 2 + [(16, 4, 4)] * 2
    torch.testing.assert_close(model.head(model.features(x)), model(x))


def test_a_block_is_its_two_ways():
    model, x = made(width=2).double().eval(), torch.randn(2, 2, 8, 8, dtype=torch.float64)
    plain, changing = model.blocks[0], model.blocks[2]
    inner = plain.bn2(plain.conv2(torch.relu(plain.bn1(plain.conv1(x)))))
    torch.testing.assert_close(plain(x), torch.relu(inner + x))
    inner = changing.bn2(changing.conv2(torch.relu(changing.bn1(changing.conv1(x)))))
    torch.testing.assert_close(changing(x), torch.relu(inner + changing.shortcut(x)))


def test_the_generator_decides_and_nothing_else():
    state = torch.get_rng_state()
    torch.testing.assert_close(dict(made(3, width=2).state_dict()), dict(made(3, width=2).state_dict()))
    assert not torch.equal(made(3, width=2).head.weight, made(4, width=2).head.weight)
    assert torch.equal(torch.get_rng_state(), state)


def test_convolutions_start_with_their_variance():
    weight = made(width=64).blocks[6].conv1.weight
    # 512 x 256 x 9 draws: five standard errors of the variance are 0.7 %.
    torch.testing.assert_close(weight.var().item(), 2 / (512 * 9), rtol=0.007, atol=0)


def test_bad_settings_are_listed_together():
    with pytest.raises(RangeError, match=r"resnet18: expected channels at least 1, got 0; width at least 1, got -1"):
        resnet18(0, width=-1)
