"""Regions of networks whose units are of very different sizes, and whose outputs cancel: rounding hides nothing."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from gnomon.errors import RangeError
from gnomon.regions import (
    Plane,
    _decision_boundary,
    boundary_distance,
    decision_boundary,
    local_complexity,
    plane_through,
    slice_regions,
)
from gnomon.regions._operations import PiecewiseLinear, joined
from tests.unit.test_regions import FLAT, require_exact

SAME = nn.Linear(2, 2, bias=False).double()
SAME.weight.data = torch.eye(2, dtype=torch.float64)


class Masked(nn.Module):
    """Maxima over groups of units, some of which a mask leaves out."""

    def __init__(self, mask, width):
        super().__init__()
        self.first, self.last = nn.Linear(4, width), nn.Linear(width // 4, 3)
        self.register_buffer("mask", torch.zeros(width))
        self.mask[::8] = mask

    def forward(self, x):
        return self.last((self.first(x) + self.mask).view(len(x), -1, 4).amax(2))


@pytest.mark.parametrize(("mask", "width"), [(-1e9, 40), (-1e9, 200), (-1e30, 40), (-torch.inf, 40)])
def test_a_mask_is_as_large_as_anybody_makes_it(mask, width):
    torch.manual_seed(0)
    model, plane = Masked(mask, width).double().eval(), plane_through(*torch.randn(3, 4, dtype=torch.float64))
    usual = copy.deepcopy(model)
    usual.mask.clamp_(min=-1e4)
    box = (-2.0, 2.0, -2.0, 2.0)
    assert len(require_exact(model, plane, box)) == len(slice_regions(usual, plane, box))


@pytest.mark.parametrize("small", [1e-12, 1e-16, 1e-30])
def test_a_unit_that_the_next_layer_enlarges_cuts_however_small_it_is(small):
    """The function relu(u) + relu(v), whatever the size of its second unit."""
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False)).double().eval()
    model[0].weight.data = torch.tensor([[1.0, 0.0], [0.0, small]], dtype=torch.float64)
    model[2].weight.data = torch.tensor([[1.0, 1 / small]], dtype=torch.float64)
    for box in ((-1.0, 1.0, -1.0, 1.0), (-1.0, 2.0, -1.0, 2.0)):
        assert len(require_exact(model, FLAT, box)) == 4
    points = torch.tensor([[0.7, 0.1], [0.2, -0.9]], dtype=torch.float64)
    torch.testing.assert_close(boundary_distance(model, points), torch.tensor([0.1, 0.2], dtype=torch.float64))
    assert local_complexity(model, torch.zeros(1, 2, dtype=torch.float64), 1.0)[0, 0] == 4


def test_a_unit_that_is_far_from_its_bend_hides_no_other():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 2)).double().eval()
    plane = Plane(torch.zeros(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)[:2])
    for bias in (-1e3, -1e14):
        model[0].bias.data[4] = bias
        assert len(require_exact(model, plane, (-2.0, 2.0, -2.0, 2.0))) == 24


@pytest.mark.parametrize("other", [-1e3, -1e9, -1e30])
def test_the_maximum_with_a_number_that_is_never_reached_is_the_data(other):
    class Largest(nn.Module):
        def forward(self, x):
            return torch.maximum(x.relu() - 0.3, torch.full_like(x, other))

    assert len(require_exact(nn.Sequential(Largest(), SAME), FLAT, (-1.0, 1.0, -1.0, 1.0))) == 4


@pytest.mark.parametrize("bound", [1e3, 1e9, 1e15, 3.4e38, torch.inf])
@pytest.mark.parametrize("name", ["maximum", "minimum", "max", "min"])
def test_maxima_and_minima_with_a_large_number_are_exact_in_either_order(name, bound):
    """A bound that is never reached, a vector or one number, leaves the regions of the ReLUs behind it."""
    torch.manual_seed(0)
    first, last = nn.Linear(2, 8), nn.Linear(8, 3)
    choose, bound = getattr(torch, name), -bound if name.startswith("max") else bound

    class Bounded(nn.Module):
        def __init__(self, order, shape):
            super().__init__()
            self.first, self.last, self.order, self.shape = first, last, order, shape

        def forward(self, x):
            given = self.first(x), torch.full(self.shape, bound)
            return self.last(choose(*given[:: self.order]).relu())

    wanted = slice_regions(nn.Sequential(first, nn.ReLU(), last).eval(), FLAT, (-3, 3, -3, 3))
    for order, shape in ((1, (8,)), (-1, (8,)), (-1, (1, 1)), (-1, ())):
        found = require_exact(Bounded(order, shape).eval(), FLAT, (-3.0, 3.0, -3.0, 3.0))
        assert len(found) == len(wanted) == 28


def antisymmetric(outputs):
    """A network of two equal halves, one subtracted from the other: it starts at zero, but does not stay there."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 100), nn.ReLU(), nn.Linear(100, outputs)).eval()
    with torch.no_grad():
        for part in (model[0].weight, model[0].bias):
            part[50:] = part[:50]
        model[2].weight[:, 50:] = -model[2].weight[:, :50]
        model[2].bias.zero_()
    return model


def test_outputs_that_cancel_are_read():
    model, half = antisymmetric(3), antisymmetric(3)
    half[2].weight.data[:, 50:] = 0
    x = torch.randn(4, 10, generator=torch.Generator().manual_seed(0))
    plane, box = plane_through(*x[:3]), (-3.0, 3.0, -3.0, 3.0)
    regions = slice_regions(model, plane, box)
    assert len(regions) == len(slice_regions(half, plane, box))
    assert regions.slopes.abs().max() < 1e-15
    torch.testing.assert_close(boundary_distance(model, x), boundary_distance(half, x))
    counts = (local_complexity(each, x, 0.1, generator=torch.Generator().manual_seed(1)) for each in (model, half))
    torch.testing.assert_close(*counts)


def test_a_sample_on_the_decision_boundary_is_read():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(10, 50), nn.ReLU(), nn.Linear(50, 1)).double().eval()
    above, below = torch.randn(2, 1, 10, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 3
    model[2].bias.data -= (model(above) + model(below))[0].detach() / 2
    for _ in range(100):
        middle = (above + below) / 2
        above, below = (middle, below) if model(middle) * model(above) > 0 else (above, middle)
    assert model(above).abs() < 1e-15
    near = boundary_distance(model, above + 1e-9)
    torch.testing.assert_close(boundary_distance(model, above), near, rtol=1e-5, atol=0)


def test_a_function_that_does_not_bend_has_no_boundary():
    x = torch.ones(1, 2)
    for function in (nn.LeakyReLU(1.0), nn.PReLU(3, init=1.0), nn.RReLU(1.0, 1.0), nn.Softshrink(0.0)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 3), function, nn.Linear(3, 2)).eval()
        assert boundary_distance(model, x).isinf().all(), function
        assert len(require_exact(model.double(), FLAT, (-1.0, 1.0, -1.0, 1.0))) == 1


def test_a_channel_that_does_not_bend_has_no_boundary_beside_others_that_do():
    model = nn.Sequential(nn.PReLU(2), nn.Linear(2, 2)).eval()
    model[0].weight.data = torch.tensor([1.0, 0.25])
    torch.testing.assert_close(boundary_distance(model, torch.tensor([[0.1, 5.0]])), torch.tensor([5.0]))
    regions = require_exact(model.double(), FLAT, (-1.0, 1.0, -1.0, 1.0))
    assert len(regions) == 2
    assert regions.unit_of(regions.polygons.labels.flatten())[1].unique().tolist() == [-1, 1]


def test_of_an_image_only_the_channels_that_bend_have_boundaries():
    """As in a network that applies the function to these alone."""
    torch.manual_seed(0)
    conv, slope, last = nn.Conv2d(1, 3, 2), torch.tensor([0.5, 1.0, -0.2]), nn.Linear(27, 2)

    class Alone(nn.Module):
        def forward(self, x):
            first, second, third = x.chunk(3, 1)
            return torch.cat([functional.leaky_relu(first, 0.5), second, functional.leaky_relu(third, -0.2)], 1)

    function = nn.PReLU(3)
    function.weight.data = slope
    one, other = (nn.Sequential(conv, part, nn.Flatten(), last).double().eval() for part in (function, Alone()))
    x = torch.randn(3, 1, 4, 4, dtype=torch.float64)
    torch.testing.assert_close(boundary_distance(one, x), boundary_distance(other, x))
    found, wanted = (slice_regions(model, plane_through(*x), (-2, 2, -2, 2)) for model in (one, other))
    assert len(found) == len(wanted) > 10
    require_exact(one, found.plane, (-2.0, 2.0, -2.0, 2.0))


def test_pieces_without_a_width_are_left_out():
    function = joined(PiecewiseLinear((0.0, 1.0, 1.0, 2.0), (0.0, 1.0, 7.0, 1.0, 3.0), (0.0, 0.0, 0.0, 0.0, -4.0)))
    assert function == PiecewiseLinear((0.0, 2.0), (0.0, 1.0, 3.0), (0.0, 0.0, -4.0))
    bent_once = joined(PiecewiseLinear((1.0, 1.0), (0.0, 7.0, 2.0), (0.0, 0.0, -2.0)))
    assert bent_once == PiecewiseLinear((1.0,), (0.0, 2.0), (0.0, -2.0))


def test_bounds_in_the_wrong_order_give_the_upper_as_in_torch():
    class Clamped(nn.Module):
        def forward(self, x):
            return x.clamp(2.0, 1.0) + x

    assert len(require_exact(nn.Sequential(Clamped(), SAME), FLAT, (-3.0, 3.0, -3.0, 3.0))) == 1


def test_a_distance_that_half_precision_does_not_hold_is_no_affine_network():
    model = nn.Sequential(nn.Linear(2, 1), nn.ReLU()).eval()
    model[0].weight.data, model[0].bias.data = torch.tensor([[1e-6, 0.0]]), torch.ones(1)
    torch.testing.assert_close(boundary_distance(model, torch.zeros(1, 2)), torch.tensor([1e6]))
    with pytest.raises(RangeError, match=r"a result that torch.float16 can hold, got one up to 1e\+06. Pass float32."):
        boundary_distance(model, torch.zeros(1, 2).half())


def test_a_plane_of_half_precision_is_looked_at_as_far_as_one_of_single():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 10), nn.ReLU(), nn.Linear(10, 2)).eval()
    found = slice_regions(model, Plane(torch.zeros(2).half(), torch.eye(2).half()), (-1000, 1000, -1000, 1000))
    assert len(found) == len(slice_regions(model, FLAT, (-1000, 1000, -1000, 1000)))


def test_a_last_layer_of_zeros_has_no_decision_boundary_and_takes_no_time(monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 30), nn.ReLU(), nn.Linear(30, 3)).eval()
    model[2].weight.data.zero_()
    model[2].bias.data.zero_()
    regions = slice_regions(model, FLAT, (-3, 3, -3, 3))
    monkeypatch.setattr(_decision_boundary, "cross", None)  # of an edge and all others
    assert decision_boundary(regions) == []
