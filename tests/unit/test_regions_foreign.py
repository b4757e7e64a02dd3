"""Regions of networks as public libraries write them: each map is the network's own, and autograd's derivative."""

import copy

import pytest
import torch
from torch import nn

from gnomon.errors import UnsupportedModuleError
from gnomon.regions import boundary_distance, plane_through, slice_regions
from tests.affine_networks import NETWORKS, affine
from tests.foreign import foreign
from tests.unit.test_regions import FLAT, SQUARE, require_exact

WIDER = {"BatchNormAct": 1, "tokens": 4, "assigned": 2, "ResNet": 0.15, "Inception": 0.2}
FOREIGN = (
    *("one module twice", "a shared PReLU", "pruned", "weight norm", "a weight made by a hook", "a child"),
    *("an extra parameter", "a constant row"),
)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_others_is_read_exactly(name):
    model, x = affine(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    reach = WIDER.get(name, 0.4)
    regions = require_exact(model, plane_through(*x), (-reach, 1.2 * reach, -reach, reach))
    assert len(regions) > 3
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.unchecked
@pytest.mark.parametrize("name", NETWORKS)
def test_up_to_the_boundary_a_network_of_others_is_affine(name):
    model, x = affine(name)
    distance = boundary_distance(model, x)
    assert (distance > 0).all()
    # Some of the input's 192 directions at a time.
    torch.testing.assert_close(boundary_distance(model, x, memory=2**19), distance, rtol=1e-9, atol=0)
    exact, origins = copy.deepcopy(model).double(), x.clone().requires_grad_()
    steps = torch.randn(3, 50, 192, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    steps = 0.999 * distance[:, None, None] * torch.nn.functional.normalize(steps, dim=2)
    outputs = exact(origins)
    near = exact((x[:, None] + steps.view(3, 50, 3, 8, 8)).flatten(0, 1)).unflatten(0, (3, 50))
    for k in range(4):
        (gradient,) = torch.autograd.grad(outputs[:, k].sum(), origins, retain_graph=True)
        straight = outputs[:, k, None] + (steps @ gradient.flatten(1)[..., None])[..., 0]
        torch.testing.assert_close(near[..., k], straight, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FOREIGN)
def test_weights_made_of_others_and_hooks_are_followed(name):
    model, x = foreign(name)
    regions = require_exact(model, plane_through(*x[:3]), (-2, 2, -2, 2.5))
    assert len(regions) > 3


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_a_part_in_another_language_is_an_error_and_not_a_wrong_map():
    scripted = torch.jit.trace(nn.Sequential(nn.ReLU(), nn.Linear(4, 2)), torch.randn(2, 4), check_trace=False)
    with pytest.raises(UnsupportedModuleError, match=r"one with different outputs\. Look for .* torch\.jit's"):
        slice_regions(nn.Sequential(nn.Linear(2, 4), scripted).eval(), FLAT, SQUARE)


def scaled(x):
    return 2 * x


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_a_network_that_holds_a_scripted_function_cannot_be_copied():
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU()).eval()
    model.unused = torch.jit.script(scaled)
    for read in (lambda: slice_regions(model, FLAT, SQUARE), lambda: boundary_distance(model, torch.rand(3, 2))):
        with pytest.raises(UnsupportedModuleError, match="Python can copy, got one that it cannot: ScriptFunction"):
            read()


def test_networks_made_in_inference_mode_are_read():
    with torch.inference_mode():
        model = nn.Sequential(nn.Linear(2, 5), nn.ReLU(inplace=True), nn.Linear(5, 2)).eval()
        inside = slice_regions(model, FLAT, SQUARE)
    torch.testing.assert_close(slice_regions(model, FLAT, SQUARE).areas, inside.areas)


class Assigned(nn.Module):
    """Puts a Python number into its data."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, x):
        hidden = self.first(x).clone()
        hidden[:, 0] = 0.1
        return self.last(hidden.relu())


def test_a_number_put_into_the_data_keeps_its_digits():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, x = Assigned(), torch.randn(3, 3)
    nn.init.constant_(model.last.weight[:, 0], 100)
    regions = require_exact(model, plane_through(*x), (-1, 1.5, -1, 1))
    assert len(regions) > 3
