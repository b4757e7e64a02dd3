"""Linear regions on a plane: closed forms, brute force, and the network itself at random points of every region."""

import copy
import dataclasses
import itertools
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from gnomon._budget import DEFAULT_BUDGET
from gnomon.errors import ConvergenceError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.models import mlp, resnet18
from gnomon.regions import Plane, boundary_distance, plane_through, slice_regions
from gnomon.regions._memory_plan import memory_plan
from gnomon.regions._slice_regions import _polygon, _verify
from gnomon.regions._split import _contending, _tolerances, evaluate, split_by_lines, split_by_maximum
from gnomon.regions._steps import network_of

FLAT = Plane(torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64))


class Residual(nn.Module):
    """Sums, a concatenation, and activations as functions."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 6), nn.Linear(6, 6)
        self.last = nn.Linear(18, 3)

    def forward(self, x):
        first = functional.leaky_relu(self.first(x), 0.2)
        second = torch.relu(self.second(first)) + first
        both = torch.cat([second, torch.abs(first - second)], 1)
        return self.last(torch.cat((both, functional.hardtanh(second, -0.5, 0.7)), dim=1))


class Pooled(nn.Module):
    """Max-pooling as a function, with padding."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 3, 3, padding=1), nn.Linear(27, 2)

    def forward(self, x):
        pooled = functional.max_pool2d(functional.relu(self.conv(x)), 3, stride=2, padding=1)
        return self.head(torch.flatten(pooled, 1))


def image(*layers, channels=3, side=5):
    """A convolution on 1 x 5 x 5 images, the given layers, and a linear layer."""
    body = nn.Sequential(nn.Conv2d(1, channels, 3, padding=1), *layers, nn.Flatten())
    with torch.no_grad():
        size = body.eval()(torch.zeros(1, 1, side, side)).shape[1]
    return nn.Sequential(*body, nn.Linear(size, 2))


def batch_norm():
    norm = nn.BatchNorm2d(3)
    norm.running_mean.uniform_(-1, 1)
    norm.running_var.uniform_(0.5, 2)
    nn.init.uniform_(norm.weight, 0.5, 2)
    nn.init.uniform_(norm.bias, -1, 1)
    return norm


def prelu():
    layer = nn.PReLU(3)
    nn.init.uniform_(layer.weight, -0.5, 0.5)
    return layer


NETWORKS = {
    "mlp": lambda: mlp((2, 8, 8, 3), bias=True),
    "no bias": lambda: mlp((2, 8, 8, 3)),
    "leaky": lambda: nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.1), nn.Linear(8, 2)),
    "hardtanh": lambda: nn.Sequential(nn.Linear(2, 8), nn.Hardtanh(-0.3, 0.5), nn.Linear(8, 6), nn.ReLU6()),
    "functions": Residual,
    "dropout": lambda: nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.ReLU(), nn.Identity(), nn.Linear(8, 2)),
    "BatchNorm": lambda: image(batch_norm(), nn.ReLU()),
    "prelu": lambda: image(prelu()),
    "average": lambda: image(nn.ReLU(), nn.AvgPool2d(2), nn.ReLU()),
    "adaptive": lambda: image(nn.ReLU(), nn.AdaptiveAvgPool2d(2)),
    "max": lambda: image(nn.MaxPool2d(2)),
    "max of ReLU": lambda: image(nn.ReLU(), nn.MaxPool2d(2, stride=1)),
    "max with a rim": lambda: image(nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)),
    "max, dilated": lambda: image(nn.MaxPool2d((2, 1), stride=(1, 2), dilation=(2, 1))),
    "max as a function": Pooled,
    "one dimension": lambda: nn.Sequential(
        nn.Conv1d(1, 4, 3, padding=1), nn.ReLU(),
        nn.MaxPool1d(2), nn.Flatten(), nn.Linear(16, 2),
    ),
}  # fmt: skip
IMAGES = {"BatchNorm", "prelu", "average", "adaptive", "max", "max of ReLU", "max with a rim", "max, dilated",
          "max as a function"}  # fmt: skip


def require_exact(model, plane, box, points=200):
    """Regions with the network's own affine maps, at random points of the box and in the middle of every region."""
    regions = slice_regions(model, plane, box)
    # What a hook makes of weights cannot be copied.
    exact = model if next(model.parameters()).dtype == torch.float64 else copy.deepcopy(model).double()
    left, right, low, high = box
    drawn = torch.rand(points, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    drawn = drawn * torch.tensor([right - left, high - low]) + torch.tensor([left, low])
    points = torch.cat([drawn, regions.centroids])
    owner = torch.cat([regions.region_of_points(drawn), torch.arange(len(regions))])
    found = (regions.slopes[owner] @ points[..., None])[..., 0] + regions.offsets[owner]
    x = plane.embed(points).requires_grad_()
    wanted = exact(x.clone())
    gradients = [torch.autograd.grad(column.sum(), x, retain_graph=True)[0].flatten(1) for column in wanted.T]
    jacobian = torch.stack([gradient @ plane.directions.flatten(1).T for gradient in gradients], 1)
    torch.testing.assert_close(found, wanted.detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(regions.slopes[owner], jacobian, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(regions.areas.sum().item(), (right - left) * (high - low), rtol=1e-10, atol=0)
    assert len(regions.pattern.unique()) == len(regions)
    return regions


def made(name):
    """A network and a plane through its inputs."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = NETWORKS[name]().double().eval()
        shape = (1, 5, 5) if name in IMAGES else (1, 8) if name == "one dimension" else None
        if shape is None:
            return model, FLAT
        return model, plane_through(*torch.randn(3, *shape, dtype=torch.float64))


def inside(regions, draws=20, seed=0):
    """Random points in the interior of every region, by rows, and the region of each."""
    polygons, generator = regions.polygons, torch.Generator().manual_seed(seed)
    weights = torch.rand(draws, *polygons.labels.shape, generator=generator, dtype=torch.float64) * polygons.valid
    weights = weights / weights.sum(2, keepdim=True)
    points = (weights[..., None] * polygons.vertices).sum(2)
    return points.flatten(0, 1), torch.arange(len(regions)).repeat(draws)


def neighbours(regions):
    """Pairs of regions that share a piece of an edge, the plainest way: points on both sides of each edge's middle."""
    polygons = regions.polygons
    along = polygons.rolled() - polygons.vertices
    long = polygons.valid & (along.norm(dim=2) > 1e-5)
    middles, along = (polygons.vertices + along / 2)[long], along[long]
    owner = torch.arange(len(regions))[:, None].expand_as(long)[long]
    out = torch.stack([along[:, 1], -along[:, 0]], 1)
    across = middles + 1e-7 * out / out.norm(dim=1, keepdim=True)
    found = regions.region_of_points(across)
    return [(int(a), int(b)) for a, b in zip(owner, found, strict=True) if b >= 0]


@pytest.mark.parametrize("name", NETWORKS)
def test_every_region_has_the_networks_affine_map(name):
    model, plane = made(name)
    regions = slice_regions(model, plane, (-2, 3, -2.5, 2))
    assert len(regions) > 5
    points, owner = inside(regions)
    wanted = model(plane.embed(points)).detach()
    got = (regions.slopes[owner] @ points[..., None])[..., 0] + regions.offsets[owner]
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9 * wanted.abs().max().item())
    torch.testing.assert_close(regions.areas.sum().item(), 22.5, rtol=1e-12, atol=0)
    assert (regions.areas > 0).all()
    assert len(regions.pattern.unique()) == len(regions), "two regions with one activation pattern"


@pytest.mark.unchecked
@pytest.mark.parametrize("name", NETWORKS)
def test_slopes_are_the_jacobian_along_the_plane_and_norms_the_whole_jacobians(name):
    model, plane = made(name)
    regions = slice_regions(model, plane, (-2, 3, -2.5, 2))
    x = plane.embed(regions.centroids)
    jacobian = torch.stack([torch.autograd.functional.jacobian(lambda s: model(s[None])[0], sample) for sample in x])
    along = torch.einsum("rcd,kd->rck", jacobian.flatten(2), plane.directions.flatten(1))
    torch.testing.assert_close(regions.slopes, along, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(regions.norms, jacobian.flatten(1).norm(dim=1), rtol=1e-7, atol=1e-9)


def test_a_resnet18_is_exact_too():
    generator = torch.Generator().manual_seed(0)
    model = resnet18(1, 3, width=2, generator=generator).double()
    # Statistics that are not those of the start.
    for norm in (module for module in model.modules() if isinstance(module, nn.BatchNorm2d)):
        norm.running_mean.normal_(0, 0.1, generator=generator)
        norm.running_var.uniform_(0.5, 2, generator=generator)
    plane = plane_through(*torch.randn(3, 1, 8, 8, generator=generator, dtype=torch.float64))
    regions = slice_regions(model.eval(), plane, (-0.2, 0.2, -0.2, 0.2))
    assert len(regions) > 100
    points, owner = inside(regions, 5)
    got = (regions.slopes[owner] @ points[..., None])[..., 0] + regions.offsets[owner]
    torch.testing.assert_close(got, model(plane.embed(points)).detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(regions.areas.sum().item(), 0.16, rtol=1e-12, atol=0)
    assert len(regions.pattern.unique()) == len(regions)


@pytest.mark.unchecked
def test_a_resnet18_at_64_pixels_fits_the_default_memory():
    generator = torch.Generator().manual_seed(0)
    model = resnet18(3, 10, generator=generator).eval()
    network = network_of(model, torch.randn(1, 3, 64, 64, generator=generator, dtype=torch.float64))
    assert min(memory_plan(network, DEFAULT_BUDGET).polygons.values()) >= 1
    with pytest.raises(
        RangeError, match=r"\(memory\): expected at least 151,781,376 bytes, for one polygon on its way"
    ):
        memory_plan(network, 1)


@pytest.mark.parametrize("units", [1, 2, 5, 30])
def test_one_layer_cuts_as_many_regions_as_an_arrangement_of_lines(units):
    """1 + the lines that meet the box + their crossings in it, in general position."""
    model = mlp((2, units, 2), bias=True, generator=torch.Generator().manual_seed(units)).double()
    (a, b), box = model[0].parameters(), 3.0
    corners = torch.tensor([[-box, -box], [box, -box], [box, box], [-box, box]], dtype=torch.float64)
    heights = corners @ a.T + b
    expected = 1 + int(((heights > 0).any(0) & (heights < 0).any(0)).sum())
    for i, j in itertools.combinations(range(units), 2):
        expected += bool((torch.linalg.solve(a[[i, j]], -b[[i, j]]).abs() < box).all())
    assert len(slice_regions(model, FLAT, (-box, box, -box, box))) == expected


@pytest.mark.parametrize("seed", range(3))
def test_counts_equal_brute_force_on_a_fine_grid(seed):
    model = mlp((2, 6, 6, 2), bias=True, generator=torch.Generator().manual_seed(seed)).double()
    regions = slice_regions(model, FLAT, (-1, 1, -1, 1))
    # Midpoints, so that no point lies on an edge of the box.
    ticks = (torch.arange(600, dtype=torch.float64) + 0.5) / 300 - 1
    grid = torch.cartesian_prod(ticks, ticks)
    with torch.no_grad():
        first = model[1](model[0](grid))
        signs = torch.cat([first > 0, model[2](first) > 0], 1).long()
    patterns, cells = torch.unique(signs @ 2 ** torch.arange(12), return_inverse=True)
    seen = regions.region_of_points(grid)
    assert (seen >= 0).all()
    # One region, one pattern; and every region that is wide enough to be hit is.
    pairs = torch.unique(torch.stack([seen, cells], 1), dim=0)
    assert len(pairs) == len(patterns) == len(seen.unique())
    missed = torch.tensor(sorted({*range(len(regions))} - {*seen.tolist()}), dtype=torch.long)
    assert (regions.areas[missed] < 1e-4).all()


def least_memory(model, plane, box):
    """What the error asks for: room for one polygon at a time."""
    with pytest.raises(
        RangeError, match=r"memory\): expected at least [\d,]+ bytes, for one polygon .* got 1\."
    ) as raised:
        slice_regions(model, plane, box, memory=1)
    return int(re.search(r"at least ([\d,]+) bytes", str(raised.value)).group(1).replace(",", ""))


@pytest.mark.unchecked
@pytest.mark.parametrize("name", ["mlp", "functions", "max of ReLU"])
def test_chunks_change_nothing(name):
    (model, plane), box = made(name), (-1, 1.5, -1.25, 1)
    whole = slice_regions(model, plane, box)
    least = least_memory(model, plane, box)
    for memory in (least, 3 * least):
        parts = slice_regions(model, plane, box, memory=memory)
        torch.testing.assert_close(parts.pattern, whole.pattern)
        torch.testing.assert_close(parts.areas, whole.areas)
        assert parts.by_depth == whole.by_depth


@pytest.mark.parametrize("name", ["mlp", "hardtanh", "max of ReLU", "functions"])
def test_no_two_neighbours_share_a_pattern(name):
    model, plane = made(name)
    regions = slice_regions(model, plane, (-2, 3, -2.5, 2))
    pairs = neighbours(regions)
    assert len(pairs) > len(regions)
    assert all(regions.pattern[a] != regions.pattern[b] for a, b in pairs)


# Degenerate cases.


def one_layer(rows, biases=None):
    """A ReLU layer with these weights, and the sum of its units."""
    rows = torch.tensor(rows, dtype=torch.float64)
    model = nn.Sequential(nn.Linear(2, len(rows)), nn.ReLU(), nn.Linear(len(rows), 1)).double()
    with torch.no_grad():
        model[0].weight.copy_(rows)
        model[0].bias.copy_(torch.zeros(len(rows)) if biases is None else torch.as_tensor(biases, dtype=torch.float64))
        model[2].weight.fill_(1.0)
    return model


SQUARE = (-1.0, 1.0, -1.0, 1.0)


@pytest.mark.parametrize("bias", [-1.0, 0.0, 1.0])
def test_a_unit_that_is_constant_cuts_nothing(bias):
    regions = slice_regions(one_layer([[1, 0], [0, 0]], [0.0, bias]), FLAT, SQUARE)
    assert len(regions) == 2


def test_units_on_one_line_cut_once():
    rows = [[1, 2], [2, 4], [-1, -2], [1 / 3, 2 / 3]]
    regions = slice_regions(one_layer(rows, [0.3, 0.6, -0.3, 0.1]), FLAT, SQUARE)
    assert len(regions) == 2
    torch.testing.assert_close(regions.areas.sum().item(), 4.0)


def test_a_line_through_a_corner_cuts_there():
    regions = slice_regions(one_layer([[1, -1], [1, 1]]), FLAT, SQUARE)
    assert len(regions) == 4
    torch.testing.assert_close(regions.areas, torch.ones(4, dtype=torch.float64))
    assert (regions.polygons.count == 3).all()


def test_a_line_along_an_edge_of_the_box_cuts_nothing():
    assert len(slice_regions(one_layer([[1, 0], [0, 1]], [1.0, -1.0]), FLAT, SQUARE)) == 1


@pytest.mark.parametrize("units", [3, 7, 40])
def test_lines_through_one_point_make_a_fan(units):
    """A network without biases on a plane through the origin: 2n sectors, their tips at one point."""
    angles = torch.linspace(0, torch.pi, units + 1, dtype=torch.float64)[:-1] + 0.1
    regions = slice_regions(one_layer(torch.stack([angles.cos(), angles.sin()], 1).tolist()), FLAT, SQUARE)
    assert len(regions) == 2 * units
    torch.testing.assert_close(regions.areas.sum().item(), 4.0)
    deep = slice_regions(mlp((2, units, units, units, 1), generator=torch.Generator().manual_seed(0)), FLAT, SQUARE)
    points, owner = inside(deep, 5)
    torch.testing.assert_close((deep.slopes[owner] @ points[..., None])[:, 0], deep.model(points).detach())
    torch.testing.assert_close(deep.offsets, torch.zeros_like(deep.offsets))


def test_a_polygon_is_cut_only_by_the_units_that_meet_it():
    """Which is the cost that the page states: all others are settled on the whole of it."""
    square = _polygon(SQUARE, FLAT.origin)
    # u, above and below its line, and touching it from both sides.
    lines = torch.tensor([[1.0, 0.0, shift] for shift in (0.0, 2.0, -2.0, 1.0, -1.0)]).double().T[None]
    place, rest = torch.arange(5), (lambda pieces: None, DEFAULT_BUDGET)
    split = split_by_lines(square, lines, (0.0,), place, torch.zeros(5), *rest)
    assert split.counts.tolist() == [1]
    assert split.state(slice(None)).tolist() == [[1, 1, 0, 1, 0], [0, 1, 0, 1, 0]]
    # The larger of u and 0, of u and -3, of 0 twice, and of 0 and u - 1.
    entries = torch.tensor([[1.0, 0, 0], [0, 0, 0], [0, 0, -3], [0, 0, 0], [1, 0, -1]]).double().T[None]
    looked_at = torch.tensor([[0, 1], [0, 2], [1, 3], [1, 4]])
    split = split_by_maximum(square, entries, looked_at, place[:4], torch.zeros(5), *rest)
    assert split.counts.tolist() == [1]
    assert split.state(slice(None)).tolist() == [[0, 0, 0, 0], [1, 0, 0, 0]]
    # Of u, -u, 0, -2 and u - 1, those that none is above on all of it.
    functions = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 0, 0], [0, 0, -2], [1, 0, -1]]).double().T[None]
    found = _contending(evaluate(square, functions), torch.ones(1, 5, dtype=torch.bool))
    assert found.tolist() == [[True, True, True, False, False]]


def test_rounding_is_a_share_of_all_terms_of_a_unit_but_what_is_infinite():
    lines = torch.tensor([[3.0, -4.0, -5.0], [1.0, 1.0, -torch.inf]]).double().T[None]
    found = _tolerances(_polygon((-2, 1, -1, 1), FLAT.origin), lines)
    torch.testing.assert_close(found, 1e-12 * torch.tensor([[15.0, 3.0]]).double(), rtol=1e-14, atol=0)


def test_a_piece_is_there_if_it_is_wider_than_its_corners_are_exact():
    for box, middle, thin in (
        (SQUARE, 0.0, 8e-12),
        ((-1e3, 1e3, -1e3, 1e3), 0.0, 8e-9),
        ((-3, -1, -3, -1), -2.0, 2.4e-11),
    ):
        for gap, count in ((0.7 * thin, 2), (1.5 * thin, 3)):
            assert len(slice_regions(one_layer([[1, 0], [1, 0]], [-middle, -middle - gap]), FLAT, box)) == count
    # Three lines around a triangle that is small, but not thin.
    assert len(slice_regions(one_layer([[1, 0], [0, 1], [1, 1]], [-0.7, -0.7, -1.4 - 1e-6]), FLAT, SQUARE)) == 7


# Around it.


def test_edges_name_the_unit_that_made_them():
    model, plane = made("mlp")
    regions = slice_regions(model, plane, (-2, 3, -2.5, 2))
    polygons = regions.polygons
    start, end, labels = (part[polygons.valid] for part in (polygons.vertices, polygons.rolled(), polygons.labels))
    on_box = labels < 0
    sides = torch.tensor([-2.0, 3.0, -2.5, 2.0], dtype=torch.float64)
    for point in (start[on_box], end[on_box]):
        assert ((point[:, [0, 0, 1, 1]] - sides).abs().amin(1) < 1e-12).all()
    layer, unit = regions.unit_of(labels[~on_box])
    assert {regions.layers[i] for i in layer.unique()} == {"1", "3"}
    with torch.no_grad():
        for point in (start[~on_box], end[~on_box], (start[~on_box] + end[~on_box]) / 2):
            first = model[0](point)
            second = model[2](model[1](first))
            value = torch.where(layer == 1, first.gather(1, unit[:, None])[:, 0], second.gather(1, unit[:, None])[:, 0])
            torch.testing.assert_close(value, torch.zeros_like(value), rtol=0, atol=1e-12)


def test_edges_name_the_maximum_that_made_them():
    model = nn.Sequential(nn.Linear(2, 4), nn.MaxPool1d(2)).double()
    model[0].weight.data = torch.tensor([[1.0, 0], [0, 0], [0, 1], [0, 0]]).double()
    model[0].bias.data = torch.tensor([0.0, 0, 0, 0.5]).double()
    regions = slice_regions(model, FLAT, SQUARE)
    layer, unit = regions.unit_of(regions.polygons.labels.flatten())
    for place, level in ((0, 0.0), (1, 0.5)):
        its = (layer == 1) & (unit == place)
        assert its.sum() == 4
        torch.testing.assert_close(
            regions.polygons.vertices.flatten(0, 1)[its][:, place], torch.full((4,), level).double()
        )
    assert [part.tolist() for part in regions.unit_of(torch.tensor([-1, (3 << 40) + 1000]))] == [[-1, 3], [-1, 1000]]


def test_a_pattern_is_a_whole_number_that_units_which_are_on_add_to():
    regions = slice_regions(one_layer([[1, 0], [0, 1]]), FLAT, SQUARE)
    places = torch.tensor([[-0.5, -0.5], [0.5, -0.5], [-0.5, 0.5], [0.5, 0.5]])
    none, first, second, both = regions.pattern[regions.region_of_points(places)].tolist()
    assert none == 0
    assert (both - first - second) % 2**64 == 0
    assert isinstance(both, int)


def test_boxes_are_any_convex_polygon():
    triangle = torch.tensor([[0.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
    model, _ = made("mlp")
    for corners in (triangle, triangle.flip(0)):
        regions = slice_regions(model, FLAT, corners)
        torch.testing.assert_close(regions.areas.sum().item(), 1.0)
        inside = regions.region_of_points(torch.tensor([[0.1, 1.7], [0.9, 0.1], [1.7, 0.1]])) >= 0
        assert inside.tolist() == [True, True, False]
    with pytest.raises(RangeError, match=r"slice_regions\(box\): expected the corners of a convex polygon"):
        slice_regions(model, FLAT, torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.5, 0.5], [0.0, 2.0]]))
    angles = torch.arange(5) * 4 * torch.pi / 5
    star = torch.stack([angles.cos(), angles.sin()], 1)
    on_a_side = torch.cat([triangle, torch.tensor([[0.5, 0.0]])])
    for corners in (star, star.flip(0), on_a_side, on_a_side.flip(0)):
        with pytest.raises(RangeError, match="convex polygon"):
            slice_regions(model, FLAT, corners)
    with pytest.raises(
        ShapeError, match=r"slice_regions\(box\): expected corners of shape \(v, 2\), v >= 3, got \(2, 2\)"
    ):
        slice_regions(model, FLAT, triangle[:2])
    torch.testing.assert_close(slice_regions(model, FLAT, SQUARE).areas.sum().item(), 4.0)


def test_a_box_that_is_too_far_from_the_origin_is_named_and_not_the_network():
    """The same network, moved and scaled with its box: the same regions, also where the plane's origin is moved."""

    def at(far, half, origin=0.0):
        model = mlp((2, 20, 20, 3), bias=True, generator=torch.Generator().manual_seed(0)).double().eval()
        with torch.no_grad():
            model[0].weight /= half
            model[0].bias -= model[0].weight @ torch.full((2,), far, dtype=torch.float64)
        plane = Plane(torch.full((2,), origin, dtype=torch.float64), FLAT.directions)
        place = far - origin
        return slice_regions(model, plane, (place - half, place + half, place - half, place + half))

    near = at(0.0, 1.0)
    for far, half in ((1e3, 1e-1), (10.0, 1e-3), (-1e5, 1.0)):
        regions = at(far, half)
        assert len(regions) == len(near)
        torch.testing.assert_close(regions.areas.sum() / half**2, near.areas.sum(), rtol=1e-9, atol=0)
        edge = torch.stack([torch.linspace(-1, 1, 500, dtype=torch.float64), torch.ones(500)], 1)
        assert (regions.region_of_points(far + half * edge) >= 0).all()
    for far, half in ((1e3, 1e-6), (1e5, 1e-4), (1e5, 1e-6), (-1e8, 1e-3)):
        with pytest.raises(RangeError, match=r"slice_regions\(box\): expected one at most 100,000 times its width and"):
            at(far, half)
    assert len(at(1e5, 1e-3, origin=1e5)) == len(near)
    with pytest.raises(RangeError, match=r"got 2e-06 wide or high at 1\. Take a plane whose origin is in the box"):
        slice_regions(mlp((2, 4, 2)).eval(), FLAT, (-3, 3, 1 - 1e-6, 1 + 1e-6))
    # Thin is not far, up to where rounding hides its regions.
    assert slice_regions(mlp((2, 4, 2)).eval(), FLAT, (-3, 3, -1e-6, 1e-6)).areas.sum() == pytest.approx(1.2e-5)
    diagonal = 1e-12 * torch.tensor([[0.0, -1.0], [0.0, 1.0], [0.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    assert slice_regions(
        mlp((2, 4, 2)).eval(), FLAT, (-1e-6, 1e-6, -1e-12, 1e-12)
    ).areas.sum() / 4e-18 == pytest.approx(1)
    ends = torch.tensor([0.0, 0.0, 1.0, 1.0], dtype=torch.float64)[:, None]
    for box in ((-1e-12, 1e-12, -1, 1), diagonal + ends, diagonal - ends):
        with pytest.raises(RangeError, match=r"\(box\): expected one whose width is at least 1e-09 of its corners' co"):
            slice_regions(mlp((2, 4, 2)).eval(), FLAT, box)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("box", "error"),
    [(None, TypeError), ("abcd", TypeError), ([[0, 0], [1]], ShapeError), ((0, 1, 0, None), TypeError)],
)
def test_a_box_is_made_of_numbers(box, error):
    with pytest.raises(
        error, match=r"slice_regions\(box\): expected numbers, or lists of them of one length, got others"
    ):
        slice_regions(mlp((2, 4, 2)).eval(), FLAT, box)


def test_memory_may_be_infinite():
    model = mlp((2, 12, 12, 3), bias=True, generator=torch.Generator().manual_seed(0)).eval()
    regions, points = slice_regions(model, FLAT, SQUARE, memory=torch.inf), torch.rand(50, 2)
    assert torch.equal(regions.pattern, slice_regions(model, FLAT, SQUARE).pattern)
    assert torch.equal(regions.region_of_points(points, memory=torch.inf), regions.region_of_points(points))
    distance = boundary_distance(model, points)
    torch.testing.assert_close(boundary_distance(model, points, memory=torch.inf), distance)


@pytest.mark.bad_input
def test_limits_of_a_box_are_no_tensor():
    with pytest.raises(
        ShapeError, match=r"slice_regions\(box\): expected corners of shape \(v, 2\), v >= 3, got \(4,\)"
    ):
        slice_regions(made("mlp")[0], FLAT, torch.tensor(SQUARE))


@pytest.mark.bad_input
def test_plane_through_three_points():
    x = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plane = plane_through(*x)
    torch.testing.assert_close(plane.embed(plane.project(x)), x)
    directions = plane.directions.flatten(1)
    torch.testing.assert_close(directions @ directions.T, torch.eye(2, dtype=torch.float64))
    # Near the line through the other two, too.
    near = plane_through(x[0], x[1], (x[0] + x[1]) / 2 + 2e-9 * x[2]).directions.flatten(1)
    torch.testing.assert_close(near @ near.T, torch.eye(2, dtype=torch.float64), rtol=0, atol=1e-14)
    with pytest.raises(RangeError, match=r"plane_through\(x3\): expected three points that span a plane"):
        plane_through(x[0], x[1], (x[0] + x[1]) / 2)
    for number in (torch.tensor(0.0), torch.zeros(1)):
        with pytest.raises(ShapeError, match=r"plane_through\(x1\): expected inputs of two entries or more, got shape"):
            plane_through(number, number + 1, number + 3)
    with pytest.raises(RangeError, match=r"Plane\(directions\): expected two directions that span a plane"):
        Plane(x[0], torch.stack([x[1], 2 * x[1]]))
    with pytest.raises(ShapeError, match=r"Plane\(directions\): expected shape \(2, 2, 4\), got \(3, 2, 4\)"):
        Plane(x[0], x)


class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("part", "named"),
    [(nn.GELU(), "GELU at '1.0'. Replace it"), (nn.Softmax(1), "Softmax at '1.0'. Replace it"),
     (nn.LayerNorm(4), "LayerNorm at '1.0'. Replace it"),
     (nn.BatchNorm1d(4).train(), r"BatchNorm1d in training mode at '1.0'. Call model.eval\(\)"),
     (nn.Dropout().train(), r"Dropout in training mode at '1.0'. Call model.eval\(\)")],
    ids=lambda part: type(part).__name__,
)  # fmt: skip
def test_what_is_not_piecewise_affine_is_named_with_its_place(part, named):
    with pytest.raises(UnsupportedModuleError, match=rf"expected piecewise affine parts, got {named}"):
        slice_regions(nn.Sequential(nn.Linear(2, 4), nn.Sequential(part, nn.Linear(4, 2))), FLAT, SQUARE)


FORMS = {
    "normalised": lambda m, x: (x - m.mean) / m.scale,
    "numbers": lambda m, x: (2 * x + 1.0 - torch.sub(x, 0.5, alpha=3) + (1 - x)) / 4 - -x,
    "weights of weights": lambda m, x: functional.linear(x, m.weight * 2, bias=m.mean) @ m.weight,
    "x.size(0)": lambda m, x: x.view(x.size(0), 2, -1).reshape(x.shape[0], -1),
    "view(-1, d)": lambda m, x: x.unsqueeze(1).view(-1, 2),
    "flatten with an end": lambda m, x: m.pool(m.lift(x).flatten(1, end_dim=2)).flatten(1, -1),
    "sizes": lambda m, x: (
        x.view(x.shape[0], *x.size()[1:], 1).flatten(start_dim=x.ndim - 1) if x.dim() == 2 else x.sin()
    ),
    "view(b, -1)": lambda m, x: (lambda b, *rest: m.lift(x).view(b, -1))(*x.size()),
    "reshape": lambda m, x: m.lift(x).reshape((x.size(0), -1, 3)).permute(0, 2, 1).reshape_as(m.lift(x)).flatten(1),
    "transposed": lambda m, x: m.lift(x).permute(2, 0, 3, 1).transpose(0, 1).movedim(-1, 1).mT.contiguous().flatten(1),
    "chunk": lambda m, x: sum(part * (i + 1) for i, part in enumerate(m.lift(x).chunk(2, 1))).flatten(1).relu(),
    "split": lambda m, x: torch.cat([part.relu() for part in torch.split(m.lift(x), [1, 2], dim=-1)][::-1], 3).sum(
        (1, 2)
    ),
    "unbind": lambda m, x: torch.stack([part.abs() for part in m.lift(x).unbind(1)], 1).mean((2, 3)),
    "batch_norm": lambda m, x: functional.batch_norm(x, m.mean[0], m.scale, m.scale, m.mean[0], eps=1e-3).relu(),
    "nearest": lambda m, x: functional.interpolate(m.lift(x).relu(), scale_factor=2, mode="nearest").flatten(1),
    "nearest, to a size": lambda m, x: functional.interpolate(m.lift(x), (2, 5)).relu_().mean([2, 3]),
    "averaged to one": lambda m, x: functional.adaptive_avg_pool2d(m.lift(x).relu(), (1, 1)).squeeze(-1).squeeze(-1),
    "averaged to some": lambda m, x: functional.adaptive_avg_pool2d(m.lift(x).relu(), (2, None)).flatten(1),
    "bends": lambda m, x: functional.relu6(9 * x) + functional.leaky_relu(x, 0.2) - functional.hardtanh_(x.clone()),
    "in place": lambda m, x: x.mul(2).sub_(0.25).relu_().mul_(-1).add_(x),
    "padded with a number": lambda m, x: functional.pad(x, (1, 1), value=2.0).relu(),
    "padded by itself": lambda m, x: functional.pad(m.lift(x), (1, 0, 1, 1), mode="replicate").relu().flatten(1),
    "constants beside": lambda m, x: torch.cat([x, x.new_ones(x.size(0), 1), m.mean.expand(len(x), -1)], 1).relu(),
    "larger constants": lambda m, x: (
        (m.weight + x.unsqueeze(1)).relu().flatten(1) - (m.scale[:, None] - x[:, None]).sum(1).repeat(1, 2)
    ),
    "products": lambda m, x: torch.matmul(m.weight, x.unsqueeze(-1))[..., 0] + torch.einsum("bi,ij->bj", x, m.weight),
    "addmm": lambda m, x: torch.addmm(m.scale, x, m.weight, beta=0.5, alpha=2).relu(),
    "no use of it": lambda m, x: (x.sigmoid(), x.relu())[1],
    "clamp": lambda m, x: x.clamp(-0.5, 0.3) + torch.clamp(x, min=0.1) - x.clamp(max=0.2),
    "hardtanh by name": lambda m, x: functional.hardtanh(x, -0.5, max_val=0.25),
    "constants of its dtype": lambda m, x: x.relu() * m.scale.to(x) + m.mean.to(x),
    "dropout off": lambda m, x: functional.dropout(x, 0.5, training=m.training) + x,
    "pad": lambda m, x: functional.pad(x, (1, 0))[:, :2] + functional.prelu(x, m.slope),
    "cat of one": lambda m, x: torch.cat([x, x.relu(), x], dim=-1)[:, 1:3],
    "a constant changed in place": lambda m, x: (
        torch.ones_like(x).mul_(x.relu()).mul_(2) + m.scale.expand_as(x).clone().multiply_(x)
    ),
    "aside of autograd": lambda m, x: x.detach().requires_grad_().relu() + x.data.neg().relu(),
    "channels last in memory": lambda m, x: (
        m.lift(x)
        .contiguous(memory_format=torch.channels_last)
        .permute(0, 2, 3, 1)
        .view(len(x), -1, 2)
        .relu()
        .flatten(1)
        + m.lift(x).to(memory_format=torch.channels_last).clone(memory_format=torch.channels_last).relu().flatten(1)
    ),
    "tensordot": lambda m, x: torch.tensordot(x, m.weight, dims=([1], [0])),
    "one side without a bound": lambda m, x: (
        x.clamp(0, float("inf")) - functional.hardtanh(x, -float("inf"), 0.3) + x.clamp(-float("inf"), float("inf"))
    ),
    "twice": lambda m, x: x.relu() + x.relu() + (lambda h: h + h - (h - h))(x.abs()),
    "mean over the image": lambda m, x: m.lift(x).relu().mean((2, 3)),
    "pooled with a ceiling": lambda m, x: functional.max_pool2d(m.lift(x), 2, stride=2, ceil_mode=True).flatten(1),
    "padded with -inf": lambda m, x: functional.max_pool1d(
        functional.pad(m.lift(x).flatten(1), (1, 2), value=-torch.inf), 3
    ),
    "pooled signal": lambda m, x: nn.functional.max_pool1d(torch.cat([x, -x], 1), 3, 1, 1),
    "a layer by names": lambda m, x: functional.linear(input=x, weight=m.weight, bias=m.first.bias),
    "operands by names": lambda m, x: torch.sub(torch.mul(other=m.scale, input=x), other=m.first.bias, alpha=2),
    "operands by names, reversed": lambda m, x: torch.sub(other=x.relu(), input=m.scale * x),
    "the larger by names": lambda m, x: torch.maximum(input=x, other=m.scale * x.neg()),
    "the larger by one name": lambda m, x: x.maximum(other=m.scale * x.neg()),
    "the smaller by one name": lambda m, x: torch.minimum(x, other=m.scale * x.neg()),
    "the largest by names": lambda m, x: torch.amax(keepdim=True, dim=-1, input=x).expand(-1, 2),
    "the largest by NumPy's names": lambda m, x: x.amax(axis=-1, keepdims=True).expand(-1, 2),
    "the larger of two": lambda m, x: torch.max(x, m.scale * x.neg()) - torch.min(m.scale, x),
    "largest and smallest along an axis": lambda m, x: torch.cat(
        [x.max(1, keepdim=True)[0], x.min(dim=-1).values[:, None]], 1
    ),
    "maxout": lambda m, x: torch.cat([x, x.neg(), m.scale * x], 1).view(len(x), 2, 3).max(2).values,
    "largest less smallest of an image": lambda m, x: (
        m.lift(x).amax((2, 3)) - m.lift(x).amin((2, 3), keepdim=True)[..., 0, 0]
    ),
    "a mask": lambda m, x: (
        torch.where(m.mask, x.relu(), m.scale) + x.masked_fill(m.mask, 2.0) - m.scale.where(m.mask, x)
    ),
    "gathered": lambda m, x: torch.cat([x, x.relu()], 1).gather(1, m.places.expand(len(x), 2)),
    "operands by NumPy's names": lambda m, x: torch.maximum(x2=torch.cat([x, -x], axis=1)[:, 1:3], x1=x),
    "a bend by names": lambda m, x: torch.clamp(min=-0.2, max=0.5, input=x),
    "in place by names": lambda m, x: functional.relu(inplace=True, input=x + 0.1) + x,
    "axes by names": lambda m, x: torch.flatten(start_dim=1, input=m.lift(x)),
    "unchanged": lambda m, x: +(+x).relu() + x.positive().type_as(m.scale),
    "a product by names": lambda m, x: torch.addmm(input=m.first.bias, mat1=x, mat2=m.weight),
}


class Form(nn.Module):
    """One way to write a piecewise affine part, between two layers."""

    def __init__(self, form):
        super().__init__()
        torch.manual_seed(0)
        self.form, self.first, self.last = form, nn.Linear(2, 2), nn.LazyLinear(3)
        self.weight, self.slope = nn.Parameter(torch.randn(2, 2)), nn.Parameter(torch.tensor([0.3]))
        self.register_buffer("mean", torch.randn(1, 2))
        self.register_buffer("scale", torch.rand(2) + 0.5)
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("places", torch.tensor([[3, 0]]))
        self.conv, self.pool = nn.Conv2d(1, 2, 3, padding=1), nn.MaxPool1d(2)

    def lift(self, x):
        """A 2 x 3 x 3 image of the two inputs."""
        return self.conv(functional.pad(x[:, None, None], (1, 0, 1, 1)))

    def forward(self, x):
        return self.last(self.form(self, self.first(x)).relu())


@pytest.mark.unchecked
@pytest.mark.parametrize("form", FORMS)
def test_every_way_to_write_it_is_read(form):
    model = Form(FORMS[form]).eval()
    model(torch.randn(2, 2))
    regions = slice_regions(model, FLAT, SQUARE)
    assert len(regions) > 1
    points = torch.rand(200, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2 - 1
    region = regions.region_of_points(points)
    found = (regions.slopes[region] @ points[..., None])[..., 0] + regions.offsets[region]
    torch.testing.assert_close(found, model.double()(points).detach(), rtol=1e-9, atol=1e-9)
    distance = boundary_distance(model, points)
    assert (distance <= regions.boundary_distance(points) + 1e-12).all()


@pytest.mark.parametrize(
    ("form", "named"),
    [
        (lambda m, x: x * x, "mul in Form"),
        (lambda m, x: x / x.abs(), "div in Form"),
        (lambda m, x: 1 / x, "rdiv in Form"),
        (lambda m, x: torch.add(x, x, out=x), "add in Form"),
        (lambda m, x: functional.dropout(x), "dropout in Form"),
        (lambda m, x: x @ x.mT @ x, "matmul in Form"),
        (lambda m, x: x.clamp(max=x.abs()), "clamp in Form"),
        (lambda m, x: functional.threshold(x, 0.1, 20), "threshold in Form"),
        (lambda m, x: x.float().double(), "float in Form"),
        (lambda m, x: x.max(1, keepdim=True).indices + x, "argmax in Form"),
        (lambda m, x: torch.where(x.detach() > 0, x, m.scale), "gt in Form"),
        (lambda m, x: x.gather(1, x.argsort(1)), "argsort in Form"),
        (lambda m, x: m.rate(x), "Sigmoid at 'rate'"),
    ],
)
def test_functions_that_are_not_are_named_with_their_line(form, named):
    model = Form(form).eval()
    model.last, model.rate = nn.Linear(2, 3), nn.Sigmoid()
    line = rf"\({Path(__file__).name}, line {form.__code__.co_firstlineno}\)"
    says = rf"expected piecewise affine parts, got {named} {line}\. Replace it"
    with pytest.raises(UnsupportedModuleError, match=says):
        slice_regions(model, FLAT, SQUARE)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "form",
    [
        lambda m, x: m.rate(x.float()),
        lambda m, x: x @ torch.ones(2, 2),
        lambda m, x: torch.einsum("bi,ij->bj", x, torch.ones(2, 2)),
        lambda m, x: functional.conv1d(x[:, None], torch.ones(1, 1, 1)).flatten(1),
        lambda m, x: functional.batch_norm(x.float(), m.mean, m.mean.abs()),
    ],
    ids=["cast", "matmul", "einsum", "convolution", "batch norm"],
)
def test_a_network_that_mixes_dtypes_in_float64_is_told_so(form):
    model = Form(form).eval()
    model.rate, model.last = nn.Linear(2, 2), nn.Linear(2, 3)
    says = "expected a network that runs in float64, as it is run here, got one that does not: .* Leave out casts, and"
    with pytest.raises(UnsupportedModuleError, match=says):
        slice_regions(model, FLAT, SQUARE)


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        (lambda m, x: x - x.mean(0, keepdim=True), "outputs that change with the samples beside"),
        (lambda m, x: x.cumsum(0), "outputs that change with the samples beside"),
        (lambda m, x: x - x[:1], "outputs that change with the samples beside"),
        (lambda m, x: x.flip(0), "outputs that change with the samples beside"),
        (lambda m, x: x / x.size(0), "outputs that change with the samples beside"),
        (lambda m, x: x.view(1, -1), "a network that does not take two samples: .*mat1 and mat2"),
        (lambda m, x: x[:1], r"a network that does not take two samples: .*outputs of shape \(2, c\)"),
    ],
)
def test_operations_across_samples_are_an_error(form, problem):
    model = Form(form).eval()
    model.last = nn.Linear(2, 3)
    with pytest.raises(UnsupportedModuleError, match=f"expected operations on each sample alone, got {problem}"):
        slice_regions(model, FLAT, SQUARE)


@pytest.mark.parametrize("form", [lambda m, x: torch.cat([x, x]), lambda m, x: x[0]])
def test_other_rows_than_one_a_sample_are_an_error(form):
    model = Form(form).eval()
    model.last = nn.Linear(2, 3)
    with pytest.raises(ShapeError, match=r"expected outputs of shape \(1, c\), got shape"):
        slice_regions(model, FLAT, SQUARE)


def test_nearly_coincident_units_leave_no_regions_without_a_width():
    """Lines 1e-13 to 1e-9 apart: below rounding they are one, above it each has its pattern, and areas still add up."""
    for gap in (1e-13, 1e-12, 1e-11, 1e-9):
        generator = torch.Generator().manual_seed(0)
        lines = torch.randn(8, 3, generator=generator, dtype=torch.float64)
        model = mlp((2, 16, 10, 2), bias=True, generator=generator).double()
        with torch.no_grad():
            model[0].weight.copy_(torch.cat([lines, 1.3 * lines])[:, :2])
            model[0].bias.copy_(0.3 * torch.cat([lines, 1.3 * lines])[:, 2])
            model[0].bias[8:] += gap
        regions = slice_regions(model.eval(), FLAT, SQUARE)
        sides = regions.polygons.rolled() - regions.polygons.vertices
        assert len(regions.pattern.unique()) == len(regions)
        assert (torch.linalg.vector_norm(sides, dim=2)[regions.polygons.valid] > 0).all()
        # Each dropped sliver has at most 4e-12 of its perimeter as its area.
        torch.testing.assert_close(regions.areas.sum().item(), 4.0, rtol=0, atol=1e-10)


def test_strips_too_thin_to_keep_are_an_error_only_if_they_fill_much_of_the_box():
    """Parallel lines: each strip between two of them is lost, or kept if the plane's origin is in the box."""

    def strips(many, apart, left, origin=0.0):
        """In a unit square whose lower left corner is at (left, left)."""
        places = left + 0.5 + apart * torch.arange(many, dtype=torch.float64)
        plane = Plane(torch.full((2,), origin, dtype=torch.float64), FLAT.directions)
        left -= origin
        return slice_regions(one_layer(many * [[1, 0]], -places), plane, (left, left + 1, left, left + 1))

    for many, apart, left in ((40, 3e-12, 0.0), (400, 3e-12, 0.0), (40, 2e-9, 1e3)):
        regions = strips(many, apart, left)
        assert len(regions) == 2
        torch.testing.assert_close(1 - regions.areas.sum().item(), (many - 1) * apart, rtol=0.03, atol=0)
    with pytest.raises(RangeError, match=r"thinner ones that fill 1.2e-05 of the box\. Take a smaller box, on a plane"):
        strips(40, 3e-7, 1e5 - 1)
    assert len(strips(40, 3e-7, 1e5 - 1, origin=1e5)) == 41


@pytest.mark.parametrize("many", [2, 40])
def test_a_point_in_a_strip_too_thin_to_keep_belongs_to_the_nearest_region(many):
    places = 0.5 + 3e-12 * torch.arange(many, dtype=torch.float64)
    regions = slice_regions(one_layer(many * [[1, 0]], -places), FLAT, SQUARE)
    assert len(regions) == 2
    across = torch.linspace(0.5, places[-1], 50, dtype=torch.float64)
    points = torch.stack([across, torch.linspace(-1, 1, 50, dtype=torch.float64)], 1)
    left, right = regions.region_of_points(torch.tensor([[0.0, 0.0], [0.9, 0.0]])).tolist()
    found = regions.region_of_points(points)
    assert found.tolist() == 25 * [left] + 25 * [right]
    apart = torch.minimum(across - 0.5, places[-1] - across)
    torch.testing.assert_close(regions.boundary_distance(points), apart, rtol=0, atol=1e-15)
    outside = torch.tensor([[0.5, 1 + 1e-11], [0.5 + 3e-12, -2.0], [1 + 1e-11, 0.0]], dtype=torch.float64)
    assert regions.region_of_points(outside).tolist() == [-1, -1, -1]


@pytest.mark.unchecked
def test_max_pooling_windows_of_any_size_match_brute_force():
    model = image(nn.MaxPool2d(5, 2, 2)).double().eval()
    plane = Plane(*(part.double() for part in (torch.randn(1, 5, 5), torch.randn(2, 1, 5, 5))))
    regions = slice_regions(model, plane, SQUARE)
    points = torch.rand(2000, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2 - 1
    region = regions.region_of_points(points)
    found = (regions.slopes[region] @ points[..., None])[..., 0] + regions.offsets[region]
    torch.testing.assert_close(found, model(plane.embed(points)).detach(), rtol=1e-9, atol=1e-9)
    # The map's derivative is the network's own: no region was cut too little.
    jacobian = torch.func.vmap(torch.func.jacfwd(lambda point: model(plane.embed(point[None]))[0]))(points[:200])
    torch.testing.assert_close(regions.slopes[region[:200]], jacobian.detach(), rtol=1e-9, atol=1e-9)
    assert len(regions.pattern.unique()) == len(regions)


@pytest.mark.parametrize(
    ("model", "plane", "box", "error", "says"),
    [
        (mlp((3, 4, 2)), FLAT, SQUARE, ShapeError, r"\(model\): expected a network that takes inputs of shape \(2,\)"),
        (Form(lambda m, x: x), FLAT, [[0, 0], [1, 0]], ShapeError, r"\(box\): expected corners of shape \(v, 2\)"),
        (
            mlp((2, 4, 2)),
            FLAT,
            (0, 0, 0, 1),
            RangeError,
            r"\(box\): expected the corners of a convex polygon with an a",
        ),
        (mlp((2, 4, 2), bias=True), FLAT, (-1e300, 1e300, -1, 1), RangeError, r"\(box\): expected corners whose"),
    ],
)
def test_what_does_not_fit_is_named(model, plane, box, error, says):
    model(torch.zeros(1, model[0].in_features) if isinstance(model, nn.Sequential) else torch.zeros(1, 2))
    with pytest.raises(error, match="slice_regions" + says):
        slice_regions(model.eval(), plane, box)


def test_a_network_of_many_outputs_by_name_is_an_error():
    class Named(nn.Module):
        def forward(self, x):
            return {"logits": x}

    with pytest.raises(ShapeError, match=r"expected outputs of shape \(n, c\), got dict"):
        slice_regions(Named(), FLAT, SQUARE)


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_boxes_as_lists_and_compiled_networks_are_taken():
    model = mlp((2, 6, 2), generator=torch.Generator().manual_seed(0)).eval()
    wanted = slice_regions(model, FLAT, SQUARE)
    listed = slice_regions(torch.compile(model), FLAT, [[-1, -1], [1, -1], [1, 1], [-1, 1]])
    torch.testing.assert_close(listed.areas, wanted.areas)


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.relu, self.last = nn.Linear(2, 6), nn.ReLU(inplace=True), nn.Linear(6, 3)

    def forward(self, x):
        hidden = self.first(x)
        return self.last(self.relu(hidden) + hidden)


def hooked():
    model = mlp((2, 6, 3))
    model[0].register_forward_hook(lambda module, inputs, output: 2 * output + 1)
    return model


def hooked_before():
    model = mlp((2, 6, 3))
    model.register_forward_pre_hook(lambda module, inputs: (3 * inputs[0] - 1,))
    return model


class ChangesItsInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = mlp((2, 6, 3)), mlp((3, 5, 2))

    def forward(self, x):
        x *= 3
        x -= 0.25
        return self.last(self.first(x).neg_().relu_())


@pytest.mark.parametrize("build", [InPlace, hooked, hooked_before, ChangesItsInput])
def test_in_place_changes_and_hooks_are_followed(build):
    model = build().eval()
    regions = require_exact(model, FLAT, SQUARE)
    points = regions.centroids
    inside = boundary_distance(model, points)
    assert (inside > 0).all()
    assert (inside <= regions.boundary_distance(points) + 1e-12).all()
    torch.testing.assert_close(points, regions.polygons.centroids(), rtol=0, atol=0)


def test_what_the_trace_cannot_see_is_an_error_and_not_a_wrong_map():
    broken = mlp((2, 6, 3))
    with torch.no_grad():
        broken[2].weight[0, 0] = torch.nan
    with pytest.raises(UnsupportedModuleError, match="got one with different outputs"):
        slice_regions(broken.eval(), FLAT, SQUARE)
    aside = Form(lambda m, x: (x, x[:, :1].zero_())[0] + 1).eval()
    aside.last = nn.Linear(2, 3)
    says = (
        r"up to their last use, got one that is changed through another view of it before add in Form \(.*, line \d+\)"
    )
    with pytest.raises(UnsupportedModuleError, match=says):
        slice_regions(aside, FLAT, SQUARE)
    # All units are above 0 at these points: the change shows elsewhere alone.
    unseen = Form(lambda m, x: (x, x.data.clamp_(min=0))[0] + 1).eval()
    unseen.first.bias.data.fill_(3.0)
    unseen.last = nn.Linear(2, 3)
    with pytest.raises(UnsupportedModuleError, match=says):
        boundary_distance(unseen, torch.rand(3, 2))
    # One number at (0.6, 0.7) as at (0.4, 0.3), two where the plane's other quarters are.
    counting = Form(lambda m, x: torch.stack([row * (row > 0.5).unique().numel() for row in m.first.given])).eval()
    counting.first.register_forward_pre_hook(lambda module, inputs: setattr(module, "given", inputs[0]))
    counting.last = nn.Linear(2, 3)
    with pytest.raises(UnsupportedModuleError, match="got one with different outputs"):
        boundary_distance(counting, torch.tensor([[0.6, 0.7]]))


BESIDE = {
    "a mask": lambda y: y.masked_fill(torch.tensor([False, False, True]), -1e9),
    "an infinite mask": lambda y: y.masked_fill(torch.tensor([False, False, True]), -torch.inf),
    "another scale": lambda y: y * torch.tensor([1.0, 1.0, 1e12]),
    "a large mean": lambda y: y + 1e8,
}


@pytest.mark.parametrize("beside", BESIDE)
def test_a_large_output_hides_no_untraced_code(beside):
    """It cuts and mixes in the small output alone; what is traced is read, whatever the others are."""

    class Beside(nn.Module):
        def __init__(self, part):
            super().__init__()
            torch.manual_seed(0)
            self.part, self.first, self.last = part, nn.Linear(2, 8), nn.Linear(8, 2)

        def forward(self, x):
            h = self.first(x)
            return BESIDE[beside](torch.cat([self.last(h + self.part(h)), h.relu()[:, :1]], 1))

    require_exact(Beside(torch.relu).eval(), FLAT, SQUARE)
    x = torch.rand(3, 2, generator=torch.Generator().manual_seed(0))
    for part, got in (
        (torch.vmap(torch.relu), "one with different outputs"),
        (lambda h: (h - h.mean(0)).relu(), "outputs that change with the samples beside"),
    ):
        for read in (lambda model: slice_regions(model, FLAT, SQUARE), lambda model: boundary_distance(model, x)):
            with pytest.raises(UnsupportedModuleError, match=f"got {got}"):
                read(Beside(part).eval())


@torch.no_grad()
def test_in_the_end_the_regions_are_held_against_the_network_and_the_box():
    model = mlp((2, 6, 3), bias=True, generator=torch.Generator().manual_seed(0)).eval()
    regions, network = slice_regions(model, FLAT, SQUARE), network_of(model, FLAT.origin[None])
    _verify(network, regions, 4.0 - 2e-6, together=3)
    moved = dataclasses.replace(regions, offsets=regions.offsets + 1e-3)
    with pytest.raises(UnsupportedModuleError, match="got one with different outputs"):
        _verify(network, moved, 4.0, together=3)
    for area in (4.0 + 1e-5, 4.0 - 1e-5, torch.nan):
        with pytest.raises(RangeError, match="expected regions wider than 8e-12 of their coordinates"):
            _verify(network, regions, area, together=3)
    # Twice as much where one of two numbers is above 5, which none is at the samples that are tried at first.
    counting = Form(lambda m, x: torch.stack([row * (row > 5).unique().numel() for row in m.first.given])).eval()
    counting.first.register_forward_pre_hook(lambda module, inputs: setattr(module, "given", inputs[0]))
    counting.last = nn.Linear(2, 3)
    assert len(slice_regions(counting, FLAT, SQUARE)) > 1
    with pytest.raises(UnsupportedModuleError, match="got one with different outputs"):
        slice_regions(counting, FLAT, (-20, 20, -20, 20))


def test_weights_that_have_no_shape_yet_are_not_drawn():
    lazy = nn.Sequential(nn.LazyLinear(3), nn.ReLU())
    for read in (lambda: slice_regions(lazy, FLAT, SQUARE), lambda: boundary_distance(lazy, torch.rand(3, 2))):
        with pytest.raises(UnsupportedModuleError, match=r"expected parameters that have a shape, got lazy ones\. Run"):
            read()


def test_decisions_on_the_data_are_named():
    says = r"takes no decisions on its data, got bool\(\) in Branch \(test_regions.py, line \d+\)"
    with pytest.raises(UnsupportedModuleError, match=says):
        slice_regions(Branch(), FLAT, SQUARE)


def test_too_many_regions_end_with_an_error_that_says_how_far_it_got():
    model, seen = mlp((2, 20, 20, 2), bias=True, generator=torch.Generator().manual_seed(0)), []
    regions = slice_regions(model, FLAT, SQUARE, progress=lambda found, share: seen.append((found, share)))
    assert seen[-1] == (len(regions), pytest.approx(1.0))
    with pytest.raises(ConvergenceError, match=r"expected at most 20 regions, got more with \d+\.\d% of the box done"):
        slice_regions(model, FLAT, SQUARE, max_regions=20, memory=20_000)
    # Inside one layer too, before its last unit.
    with pytest.raises(ConvergenceError, match=r"expected at most 200 regions, got more with 0\.0% of the box done"):
        slice_regions(mlp((2, 2000, 1)), FLAT, SQUARE, max_regions=200)
    with pytest.raises(RangeError, match=r"slice_regions: expected max_regions at least 1, got 0"):
        slice_regions(model, FLAT, SQUARE, max_regions=0)
    with pytest.raises(RangeError, match=r"slice_regions\(memory\): expected a positive number of bytes, got -1"):
        slice_regions(model, FLAT, SQUARE, memory=-1)


class Keeping:
    """Keeps what a layer returned, with its graph."""

    def __init__(self):
        self.kept = []

    def __call__(self, module, inputs, output):
        self.kept.append(output)


def test_a_network_whose_features_were_kept_is_copied_without_them():
    model, keeping = mlp((2, 4, 2), generator=torch.Generator().manual_seed(0)), Keeping()
    wanted = len(slice_regions(model, FLAT, SQUARE))
    model[0].register_forward_hook(keeping)
    model.features = {"logits": model(torch.rand(3, 2))}
    assert len(slice_regions(model, FLAT, SQUARE)) == wanted
    assert boundary_distance(model, torch.rand(3, 2)).isfinite().all()
    assert len(keeping.kept) == 1
    model.lines = (line for line in ())
    with pytest.raises(
        UnsupportedModuleError, match=r"a network that Python can copy, got one that it cannot: cannot pi"
    ):
        slice_regions(model, FLAT, SQUARE)


def test_the_model_stays_as_it_was():
    model = mlp((2, 4, 2), generator=torch.Generator().manual_seed(0))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    slice_regions(model, FLAT, SQUARE)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    torch.testing.assert_close(dict(model.state_dict()), before)


def test_a_layer_that_is_used_twice_counts_twice():
    relu, generator = nn.ReLU(), torch.Generator().manual_seed(0)
    layers = [
        mlp((2, 6), bias=True, generator=generator)[0],
        relu,
        mlp((6, 6), bias=True, generator=generator)[0],
        relu,
    ]
    shared = slice_regions(nn.Sequential(*layers, nn.Linear(6, 3)), FLAT, SQUARE)
    apart = slice_regions(nn.Sequential(*layers[:3], nn.ReLU(), nn.Linear(6, 3)), FLAT, SQUARE)
    assert shared.by_depth == dict(zip(("1", "1, time 2"), apart.by_depth.values(), strict=True))
