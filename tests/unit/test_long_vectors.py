"""Norms of millions of float32 entries: torch's own on a CPU is 1e-4 and more off, ours is right to rounding."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import gnomon
from gnomon.linalg import largest, length, norm, unit
from gnomon.steer._parameters import joint_norm
from tests.unit.processes import on_processes

ROUNDING = {"rtol": 3e-7, "atol": 0.0}
"""Some roundings of float32, 1.2e-7 each at most; torch's norm of 65,535 entries in a row is 5e-7 off."""


def long(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))


def test_the_norm_of_a_long_vector_is_right_to_rounding():
    for shape in ((8_000_003,), (2, 4_000_000), (3, 8_191), (3, 8_192), (3, 70_000)):
        v = long(*shape)
        expected = torch.linalg.vector_norm(v.double(), dim=-1).float()
        assert_close(norm(v), expected, **ROUNDING)
        assert_close(length(v), expected, **ROUNDING)
        assert_close(norm(unit(v)), (expected > 0).float(), **ROUNDING)


def test_its_gradient_is_the_direction_and_none_at_zero():
    v = long(70_000).double().requires_grad_()
    (gradient,) = torch.autograd.grad(norm(v), v, create_graph=True)
    assert_close(gradient, unit(v))
    (second,) = torch.autograd.grad(gradient @ torch.ones_like(v), v)
    ones = torch.ones_like(v)
    assert_close(second, (ones - (ones @ gradient) * gradient) / norm(v))
    zero = torch.zeros(70_000, requires_grad=True)
    assert_close(torch.autograd.grad(norm(zero), zero), (torch.zeros(70_000),))


def test_quantities_of_large_weights_and_features_are_right_in_float32():
    model = nn.Linear(3000, 3000)
    for parameter in model.parameters():
        nn.init.uniform_(parameter, 0.5, 1.5, generator=torch.Generator().manual_seed(0))
    weights = dict(model.named_parameters())
    wide = {name: weight.detach().double() for name, weight in weights.items()}
    assert_close(gnomon.parameter_norm(weights).double(), gnomon.parameter_norm(wide), **ROUNDING)
    one, two = long(2, 3010, 3000)
    assert_close(gnomon.start_cka(one, two).double(), gnomon.start_cka(one.double(), two.double()), rtol=1e-5, atol=0)
    assert_close(joint_norm(weights.values()).double(), gnomon.parameter_norm(wide), **ROUNDING)


@pytest.mark.parametrize("size", [1e-25, 1.0, 1e25])
def test_the_joint_norm_is_right_at_any_scale_and_of_long_parameters(size):
    # A long row of equal entries, whose squares a CPU adds up worst; no entries; and an axis less.
    entries = torch.full((10_000_000,), 0.3 * size), torch.empty(0, 3), torch.tensor(size)
    expected = (10_000_000 * (0.3 * size) ** 2 + size**2) ** 0.5
    assert_close(joint_norm(entries).item(), expected, rtol=1e-6, atol=0.0)
    assert_close(joint_norm(entry.bfloat16() for entry in entries[1:]), entries[2].bfloat16().float())


def test_the_joint_norm_of_what_has_none():
    assert_close(joint_norm([torch.zeros(3), torch.zeros(2, 2)]), torch.tensor(0.0))
    for entry in (math.inf, math.nan):
        assert not joint_norm([torch.ones(3), torch.tensor([1.0, entry])]).isfinite()


IMPORTS = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing import assert_close
from gnomon.steer._parameters import joint_norm
"""
SHARDED = """
whole = torch.arange(33.0).view(11, 3), torch.arange(5.0), torch.ones(())
mesh = init_device_mesh("cpu", (world,))
parts = [distribute_tensor(part, mesh, [Shard(0)]) for part in whole[:2]]
assert_close(joint_norm(parts).full_tensor(), joint_norm(whole[:2]))
assert_close(joint_norm([1e25 * part for part in parts]).full_tensor(), 1e25 * joint_norm(whole[:2]))
assert_close(joint_norm(whole), (whole[0].square().sum() + 30 + 1).sqrt())
"""


@pytest.mark.unchecked
def test_the_joint_norm_of_gradients_is_taken_where_they_are_sharded(tmp_path):
    on_processes(2, IMPORTS, SHARDED, tmp_path)


@pytest.mark.parametrize("size", [1e-19, 1e-20, 1e-22, 1e-25, 1e25])
def test_lengths_whose_squares_have_fewer_digits(size):
    rows = size * torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    assert_close(length(rows).double(), rows.double().norm(dim=1), rtol=1e-6, atol=0)


def test_the_largest_entry_is_by_absolute_value_and_1_for_zeros():
    x = torch.tensor([[[1.0, -3.0], [2.0, 0.5]], [[0.0, -0.0], [0.0, 0.0]], [[-1e-40, 0.0], [0.0, 0.0]]])
    x.requires_grad_()
    torch.testing.assert_close(largest(x), torch.tensor(3.0), rtol=0, atol=0)
    torch.testing.assert_close(largest(x, (1, 2)), torch.tensor([3.0, 1.0, 1e-40]), rtol=0, atol=0)
    torch.testing.assert_close(largest(x, -1, keepdim=True)[0], torch.tensor([[3.0], [2.0]]), rtol=0, atol=0)
    assert not largest(x).requires_grad
