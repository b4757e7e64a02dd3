"""What is read off linear regions: boundaries, distances, classes, complexity, migration."""

import dataclasses

import pytest
import torch
from torch import nn

from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.models import mlp
from gnomon.regions import (
    Plane,
    Polygons,
    boundary_distance,
    decision_boundary,
    local_complexity,
    migration,
    plane_through,
    slice_regions,
)
from tests.unit.test_regions import FLAT, NETWORKS, SQUARE, made, one_layer


@pytest.mark.parametrize("name", ["mlp", "hardtanh", "functions", "dropout"])
def test_distance_to_the_boundary_is_that_in_the_plane_where_the_plane_is_all(name):
    model, plane = made(name)
    points = torch.rand(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 4 - 2
    # The regions go on beyond what the points can see of them, or end with them.
    for side in (50, 2):
        regions = slice_regions(model, plane, (-side, side, -side, side))
        torch.testing.assert_close(boundary_distance(model, points), regions.boundary_distance(points))


@pytest.mark.parametrize("name", NETWORKS)
def test_inside_the_distance_the_network_is_affine_and_at_it_no_longer(name):
    model, plane = made(name)
    x = plane.embed(torch.randn(6, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    distance = boundary_distance(model, x, memory=1)
    torch.testing.assert_close(distance, boundary_distance(model, x))
    steps = torch.randn(6, 300, *x.shape[1:], generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    steps = steps / steps.flatten(2).norm(dim=2).view(6, 300, *[1] * (x.ndim - 1))
    for sample, radius, directions in zip(x, distance, steps, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda s: model(s[None])[0], sample)
        near = model(sample + 0.999 * radius * directions)
        straight = model(sample[None]) + 0.999 * radius * directions.flatten(1) @ jacobian.flatten(1).T
        torch.testing.assert_close(near.detach(), straight.detach(), rtol=1e-9, atol=1e-9)


def test_distance_finds_the_nearest_of_all_directions():
    """The foot of the perpendicular lies on the boundary: a step beyond it changes the activation pattern."""
    model = mlp((5, 20, 20, 3), bias=True, generator=torch.Generator().manual_seed(0)).double()
    x = torch.randn(10, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    distance = boundary_distance(model, x)

    def pattern(sample):
        first = model[1](model[0](sample))
        return torch.cat([first > 0, model[2](first) > 0])

    for sample, radius in zip(x, distance, strict=True):
        feet = []
        for unit in range(40):
            probe = sample.clone().requires_grad_()
            first = model[0](probe)
            value = torch.cat([first, model[2](model[1](first))])[unit]
            (slope,) = torch.autograd.grad(value, probe)
            if slope.norm() > 0:
                feet.append(sample - (value / slope.square().sum() * slope).detach() * (1 + 1e-9))
        nearest = min(feet, key=lambda foot: float((foot - sample).norm()))
        torch.testing.assert_close((nearest - sample).norm(), radius)
        assert not torch.equal(pattern(nearest), pattern(sample))


def before_and_behind_a_pool(first, last):
    """One function in two ways: the larger of each two units of `first`, each through a ReLU, or only the larger."""
    pairs, pool, flat = nn.Unflatten(1, (1, first.out_features)), nn.MaxPool1d(2), nn.Flatten()
    before = nn.Sequential(first, nn.ReLU(), pairs, pool, flat, last)
    return [network.double().eval() for network in (before, nn.Sequential(first, pairs, pool, nn.ReLU(), flat, last))]


def test_a_function_written_in_two_ways_has_other_regions():
    """max(u, v, 0), whose three pieces are 5 regions if all that is below 0 is cut off first, and 4 if it is last."""
    first = nn.Linear(2, 2, bias=False)
    first.weight.data = torch.eye(2)
    point = torch.tensor([[0.5, -0.3]], dtype=torch.float64)
    # The nearest bend is v = 0, which does not reach the output, or u = 0; that at u = v is further away.
    two = before_and_behind_a_pool(first, nn.Identity())
    for network, count, distance in zip(two, (5, 4), (0.3, 0.5), strict=True):
        regions = slice_regions(network, FLAT, SQUARE)
        assert len(regions) == count
        assert len(torch.cat([regions.slopes.flatten(1), regions.offsets], 1).unique(dim=0)) == 3
        torch.testing.assert_close(boundary_distance(network, point), torch.tensor([distance]).double())
        torch.testing.assert_close(regions.boundary_distance(point), torch.tensor([distance]).double())
        assert local_complexity(network, point, 0.4).tolist() == [[2, 2] if count == 5 else [1, 1]]


def test_the_two_networks_of_the_page_have_44_regions_and_22():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        networks = before_and_behind_a_pool(nn.Linear(2, 8), nn.Linear(4, 3))
    x = torch.randn(1000, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(networks[0](x), networks[1](x), rtol=0, atol=0)
    for network, count in zip(networks, (44, 22), strict=True):
        regions = slice_regions(network, FLAT, (-3, 3, -3, 3))
        maps = torch.cat([regions.slopes.flatten(1), regions.offsets], 1)
        assert (len(regions), len((1e9 * maps).round().unique(dim=0))) == (count, 16)


def test_distance_to_a_boundary_beyond_the_box_is_exact():
    """Lines at u = 1.05 and u = -2, in the plane's coordinates, whose units are 2 and 3 long."""
    plane = Plane(torch.zeros(2), torch.tensor([[2.0, 0], [0, 3]]))
    regions = slice_regions(one_layer([[0.5, 0], [0.5, 0]], [-1.05, 2]), plane, (-3, 0.9, -1, 1))
    assert len(regions) == 2
    points = torch.tensor([[0.9, 0.0], [0.8, 0.9], [-1.8, 0.0], [-2.5, 0.0], [1.0, 0.0]], dtype=torch.float64)
    wanted = torch.tensor([0.15, 0.25, 0.2, 0.5, torch.nan], dtype=torch.float64)
    torch.testing.assert_close(regions.boundary_distance(points), wanted, equal_nan=True)
    assert slice_regions(nn.Linear(2, 2), FLAT, SQUARE).boundary_distance(points[:2]).tolist() == [torch.inf] * 2


def test_an_affine_network_has_no_boundary():
    assert boundary_distance(nn.Linear(3, 2), torch.randn(4, 3)).tolist() == [torch.inf] * 4


class Centred(nn.Module):
    """A layer whose units sum to 0, their sum, through a ReLU or a maximum, which is 0 but for rounding, and ReLUs."""

    def __init__(self, seed, bends, scale=1.0):
        super().__init__()
        self.first, self.last = mlp((3, 9, 4), bias=True, generator=torch.Generator().manual_seed(seed)).double()[::2]
        self.bends, self.scale = bends, scale

    def forward(self, x):
        hidden = self.scale * self.first(x)
        hidden = hidden - hidden.mean(1, keepdim=True)
        nothing = hidden.sum(1, keepdim=True)
        return torch.cat([self.bends(nothing, hidden[:, :1]), self.last(hidden / self.scale).relu()], 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [1.0, 1e-100])
def test_what_changes_by_rounding_alone_has_no_boundary(seed, scale):
    def maximum(nothing, one):
        return torch.nn.functional.max_pool1d(torch.cat([one, one + nothing, 3 * one / 3], 1)[:, None], 3)[:, 0]

    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    wanted = boundary_distance(Centred(seed, lambda nothing, one: one, scale), x)
    assert wanted.isfinite().all()

    def clamped(nothing, one):
        return nothing.clamp(-scale, scale)

    for bends in (lambda nothing, one: nothing.relu(), lambda nothing, one: (2 * nothing).abs(), clamped, maximum):
        torch.testing.assert_close(boundary_distance(Centred(seed, bends, scale), x), wanted)
        alone = nn.Sequential(Centred(seed, bends, scale), nn.Linear(5, 2).double())
        alone[0].last.weight.data.zero_()
        assert boundary_distance(alone, x).tolist() == [torch.inf] * 40


@pytest.mark.parametrize("seed", [3, 4, 6])
@pytest.mark.parametrize("scale", [1.0, 1e-100])
def test_what_changes_by_rounding_alone_cuts_nothing(seed, scale):
    plane = plane_through(*torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    wanted = slice_regions(Centred(seed, lambda nothing, one: one, scale), plane, (-2, 2, -2, 2))
    for bends in (lambda nothing, one: nothing.relu(), lambda nothing, one: (2 * nothing).abs()):
        found = slice_regions(Centred(seed, bends, scale), plane, (-2, 2, -2, 2))
        torch.testing.assert_close(found.areas, wanted.areas)


def test_a_plane_that_a_layer_does_not_see_is_one_region():
    model = mlp((6, 2, 3), bias=True, generator=torch.Generator().manual_seed(0)).double()
    model[0].bias.data.zero_()
    unseen = Plane(torch.zeros(6, dtype=torch.float64), torch.linalg.svd(model[0].weight.detach())[2][2:4])
    assert len(slice_regions(model, unseen, SQUARE)) == 1


@pytest.mark.parametrize("name", ["hardtanh", "functions", "max"])
def test_decision_boundary_lies_where_the_two_largest_outputs_are_equal(name):
    model, plane = made(name)
    regions = slice_regions(model, plane, (-2, 3, -2.5, 2))
    lines = decision_boundary(regions)
    assert lines
    for line in lines:
        points = torch.cat([line, (line[1:] + line[:-1]) / 2])
        top = model(plane.embed(points)).detach().topk(2, dim=1).values
        torch.testing.assert_close(top[:, 0], top[:, 1], rtol=1e-9, atol=1e-9)
    # Every change of class on a grid is near a line, and the lines are as long as the grid says.
    ticks = torch.linspace(0.001, 0.999, 200, dtype=torch.float64)
    grid = torch.cartesian_prod(-2 + 5 * ticks, -2.5 + 4.5 * ticks)
    classes = model(plane.embed(grid)).argmax(1).view(200, 200)
    change = (classes[1:, :] != classes[:-1, :]).nonzero()
    corners = torch.cat(lines)
    middles = torch.cat([(line[1:] + line[:-1]) / 2 for line in lines])
    nearest = torch.cdist(grid.view(200, 200, 2)[change[:, 0], change[:, 1]], torch.cat([corners, middles])).amin(1)
    longest = max(float((line[1:] - line[:-1]).norm(dim=1).max()) for line in lines)
    assert float(nearest.max()) < 0.03 + longest / 4


def test_decision_boundary_of_one_output_is_its_zero_set_and_closed_lines_close():
    """|u| + |v| = 1/2: one closed line of four sides."""
    model = one_layer([[1, 0], [-1, 0], [0, 1], [0, -1]])
    with torch.no_grad():
        model[2].bias.fill_(-0.5)
    (line,) = decision_boundary(slice_regions(model, FLAT, SQUARE))
    torch.testing.assert_close(line[0], line[-1])
    assert len(line) == 5
    torch.testing.assert_close(line.abs().sum(1), torch.full((5,), 0.5, dtype=torch.float64))
    assert decision_boundary(slice_regions(one_layer([[1, 0]], [3.0]), FLAT, SQUARE)) == []


def test_regions_are_found_from_inputs_of_the_plane():
    model = mlp((6, 8, 8, 2), bias=True, generator=torch.Generator().manual_seed(0)).double()
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    plane = plane_through(*x)
    regions = slice_regions(model, plane, (-9, 9, -9, 9))
    found = regions.region_of(x)
    predicted = (regions.slopes[found] @ plane.project(x)[..., None])[..., 0] + regions.offsets[found]
    torch.testing.assert_close(predicted, model(x).detach())
    assert regions.region_of_points(torch.tensor([[10.0, 0.0]])).tolist() == [-1]
    with pytest.raises(RangeError, match=r"region_of\(x\): expected inputs in the plane, got one .* at index 1"):
        regions.region_of(torch.stack([x[0], torch.randn(6, dtype=torch.float64)]))


def test_local_complexity_counts_by_depth():
    model = mlp((4, 12, 12, 2), bias=True, generator=torch.Generator().manual_seed(0))
    x = torch.randn(7, 4, generator=torch.Generator().manual_seed(1))
    generator = torch.Generator().manual_seed(2)
    wide = local_complexity(model, x, 1.0, generator=generator)
    assert wide.shape == (7, 2)
    assert (wide[:, 1] >= wide[:, 0]).all()
    tight = boundary_distance(model, x).min().item() * 0.99
    assert (local_complexity(model, x, tight, generator=generator) == 1).all()
    assert (wide[:, 1] > 1).all()
    with pytest.raises(
        RangeError,
        match=r"local_complexity: expected radius finite and above 0, got 0; sides a whole number of at least 3",
    ):
        local_complexity(model, x, 0, sides=2)


@pytest.mark.bad_input
def test_a_disc_has_a_whole_number_of_sides():
    with pytest.raises(RangeError, match=r"local_complexity: expected sides a whole number of at least 3, got 4\.5"):
        local_complexity(mlp((2, 4, 2)).eval(), torch.rand(1, 2), 0.1, sides=4.5)


def test_migration_is_what_each_slice_says():
    near, far = one_layer([[1, 0]], [-0.1]), one_layer([[1, 0]], [-0.6])
    points = torch.tensor([[0.0, 0.0]], dtype=torch.float64)
    moved = migration(slice_regions(near, FLAT, SQUARE), slice_regions(far, FLAT, SQUARE), points)
    found = torch.stack([moved.distance_before, moved.distance_after, moved.area_before, moved.area_after])[:, 0]
    torch.testing.assert_close(found, torch.tensor([0.1, 0.6, 2.2, 3.2], dtype=torch.float64))
    other = Plane(torch.ones(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64))
    with pytest.raises(RangeError, match=r"migration\(after\): expected the plane of `before`"):
        migration(slice_regions(near, FLAT, SQUARE), slice_regions(far, other, SQUARE), points)
    wide, turned = (-2, 2, -1, 1), torch.tensor([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    assert migration(slice_regions(near, FLAT, SQUARE), slice_regions(far, FLAT, turned), points).area_after == 3.2
    with pytest.raises(RangeError, match=r"migration\(after\): expected the box of `before`, got another"):
        migration(slice_regions(near, FLAT, SQUARE), slice_regions(far, FLAT, wide), points)
    with pytest.raises(RangeError, match=r"migration\(points\): expected points inside the box, .* at index 0"):
        migration(slice_regions(near, FLAT, SQUARE), slice_regions(far, FLAT, SQUARE), points + 2)


def test_a_plane_through_float32_inputs_holds_them_and_the_origin():
    """Without biases all regions of a plane through the origin meet there: sectors, as many as sign changes around."""
    generator = torch.Generator().manual_seed(0)
    model, x = mlp((64, 20, 20, 3), generator=generator), torch.randn(2, 64, generator=generator)
    plane = plane_through(torch.zeros(64), *x)
    centre = plane.project(torch.zeros(1, 64, dtype=torch.float64))[0].tolist()
    box = (centre[0] - 3, centre[0] + 3, centre[1] - 3, centre[1] + 3)
    angles = torch.linspace(0, 2 * torch.pi, 100_001, dtype=torch.float64)[:-1]
    circle = plane.embed(torch.stack([angles.cos(), angles.sin()], 1) + torch.tensor(centre))
    exact = mlp((64, 20, 20, 3), generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        first = exact[1](exact[0](circle))
        signs = torch.cat([first > 0, exact[2](first) > 0], 1)
    sectors = int((signs != signs.roll(1, 0)).any(1).sum())
    assert len(slice_regions(model, plane, box)) == sectors
    far = torch.randn(3, 64, generator=generator) * 0.3 + 10
    plane = plane_through(*far)
    assert (slice_regions(model, plane, (-5, 5, -5, 5)).region_of(far) >= 0).all()


def test_edges_without_length_have_no_side():
    """A polygon with one corner twice, beside another: points are found as if the corner stood once."""
    whole = slice_regions(one_layer([[1, 0]]), FLAT, SQUARE)
    polygons = whole.polygons
    twice = torch.tensor([0, 0, 1, 2, 3])
    doubled = Polygons(polygons.vertices[:, twice], polygons.count + 1, polygons.labels[:, twice])
    regions = dataclasses.replace(whole, polygons=doubled)
    points = torch.rand(50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
    torch.testing.assert_close(regions.region_of_points(points), whole.region_of_points(points))
    torch.testing.assert_close(regions.boundary_distance(points), whole.boundary_distance(points))


def test_the_centre_of_a_polygon_without_area_is_that_of_its_corners():
    """Beside a triangle, whose centre of mass it is too; padding does not count."""
    corners = [[[3.0, 0.0], [5.0, 0.0], [7.0, 0.0], [3.0, 0.0]], [[1.0, 1.0], [4.0, 1.0], [1.0, 7.0], [1.0, 1.0]]]
    polygons = Polygons(torch.tensor(corners).double(), torch.tensor([3, 3]), torch.zeros(2, 4, dtype=torch.long))
    torch.testing.assert_close(polygons.centroids(), torch.tensor([[5.0, 0.0], [2.0, 3.0]]).double())
    torch.testing.assert_close(polygons.areas(), torch.tensor([0.0, 9.0]).double())


def test_the_class_changes_along_edges_of_regions_too():
    """Outputs that end in a ReLU: class 1 where its output is positive, the first where all are 0."""
    model = one_layer([[-1.0, 0.0], [0.0, 1.0]])[:2]
    regions = slice_regions(model, FLAT, SQUARE)
    (line,) = decision_boundary(regions)
    # Output 0 is -u on the left, output 1 is v above: 1 is the larger where v > 0 and v > -u.
    wanted = torch.tensor([[-1.0, 1.0], [0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(line if line[0, 0] < 0 else line.flip(0), wanted)


def test_the_decision_boundary_parts_the_classes_of_a_network_that_ends_in_a_relu():
    """Between two points of different class there is a boundary, and beside each piece of it two classes."""
    model = nn.Sequential(*mlp((2, 20, 20, 4), bias=True, generator=torch.Generator().manual_seed(0)), nn.ReLU())
    regions = slice_regions(model.eval(), FLAT, (-3, 3, -3, 3))
    exact = model.double()
    total = 0.0
    for line in decision_boundary(regions):
        start, end = line[:-1], line[1:]
        length = torch.linalg.vector_norm(end - start, dim=1)
        beside = torch.stack([start[:, 1] - end[:, 1], end[:, 0] - start[:, 0]], 1) / length[:, None] * 1e-7
        middle = (start + end) / 2
        with torch.no_grad():
            sides = [exact(middle + sign * beside).argmax(1) for sign in (1, -1)]
        assert (sides[0] != sides[1])[length > 1e-5].all()
        total += float(length.sum())
    # Crofton: the mean number of class changes on grid lines gives the length, to a per cent or two.
    ticks = torch.linspace(-3, 3, 1201, dtype=torch.float64)
    with torch.no_grad():
        classes = exact(torch.cartesian_prod(ticks, ticks)).argmax(1).view(1201, 1201)
    across = sum(float((classes.diff(dim=axis) != 0).sum()) for axis in (0, 1)) * 6 / 1200
    assert total <= across <= 2**0.5 * total * 1.02


def test_an_output_that_is_masked_hides_no_boundary():
    """Below all others by far more than their digits: the boundary between the others is as without it."""
    model = mlp((2, 10, 3), bias=True, generator=torch.Generator().manual_seed(0)).double().eval()
    wanted = slice_regions(model, FLAT, (-3, 3, -3, 3)).decision_boundary()
    assert sum(map(len, wanted)) > 5
    for mask in (-1e12, torch.finfo(torch.float32).min, -torch.inf):
        masked = nn.Sequential(*model, nn.ConstantPad1d((0, 1), mask))
        found = slice_regions(masked, FLAT, (-3, 3, -3, 3)).decision_boundary()
        torch.testing.assert_close(found, wanted)


def test_classes_of_inputs_of_float32_far_from_the_origin():
    x = torch.randn(3, 50, generator=torch.Generator().manual_seed(0)) * 1e-3 + 100
    regions = slice_regions(mlp((50, 8, 2), generator=torch.Generator().manual_seed(1)), plane_through(*x), SQUARE)
    assert (regions.region_of(x) >= 0).all()
    with pytest.raises(RangeError, match=r"region_of\(x\): expected finite numbers"):
        regions.region_of(torch.full((1, 50), torch.nan))
    with pytest.raises(RangeError, match=r"expected inputs in the plane, got one"):
        regions.region_of(x + torch.randn(3, 50, generator=torch.Generator().manual_seed(2)) * 1e-2)


@pytest.mark.bad_input
@pytest.mark.parametrize("method", ["boundary_distance", "region_of_points"])
def test_points_are_two_finite_numbers_each(method):
    read = getattr(slice_regions(one_layer([[1, 0]]), FLAT, SQUARE), method)
    for points, error, says in (
        (torch.zeros(3), ShapeError, r"two coordinates per row, shape \(n, 2\), got \(3,\)"),
        (torch.full((1, 2), torch.nan), RangeError, "finite numbers, got nan"),
    ):
        with pytest.raises(error, match=rf"^Regions\.{method}\(points\): expected {says}"):
            read(points)


def test_what_is_in_the_plane_to_its_own_digits_is_in_it_and_nothing_else():
    generator = torch.Generator().manual_seed(0)
    plane = plane_through(*torch.randn(3, 50, generator=generator) * 1e-3 + 100)
    regions = slice_regions(mlp((50, 8, 2), generator=generator), plane, SQUARE)
    inside = plane.embed(torch.rand(4, 2, generator=generator, dtype=torch.float64) - 0.5)
    assert (regions.region_of(inside.float()) >= 0).all()
    # Each by its own distance from the plane's origin, whatever the others'.
    across = torch.linalg.svd(plane.directions)[2][-1]
    far = plane.embed(torch.tensor([[1e6, 0.0]], dtype=torch.float64))
    with pytest.raises(RangeError, match=r"expected inputs in the plane, got one 1e-05 away from it at index 1"):
        regions.region_of(torch.cat([far, inside[:1] + 1e-5 * across]))


def test_directions_of_very_different_lengths_span_a_plane():
    plane = Plane(torch.zeros(2, dtype=torch.float64), torch.tensor([[1e-7, 0.0], [0.0, 1e6]], dtype=torch.float64))
    assert len(slice_regions(one_layer([[1.0, 0.0], [0.0, 1.0]]), plane, SQUARE)) == 4
    with pytest.raises(RangeError, match="got parallel ones"):
        Plane(torch.zeros(2), torch.tensor([[0.0, 0.0], [0.0, 1.0]]))


@pytest.mark.parametrize(
    ("dtype", "second"), [(torch.float32, 1e-5), (torch.float64, 1e-5), (torch.float64, 1e-17), (torch.float64, 1e9)]
)
def test_coordinates_in_a_plane_of_very_different_directions(dtype, second):
    directions = torch.zeros(2, 784, dtype=dtype)
    directions[0, 0], directions[1, 1] = 1, second
    plane, points = (
        Plane(torch.zeros(784, dtype=dtype), directions),
        torch.tensor([[2.0, 3.0], [-1.0, 7.0]], dtype=dtype),
    )
    torch.testing.assert_close(plane.project(plane.embed(points)), points)
    assert plane.project(plane.embed(points).bfloat16()).dtype == torch.float32


def test_coordinates_are_those_of_the_nearest_point_and_have_gradients():
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)
    directions[1] = directions[0] + 1e-4 * directions[1]
    plane = Plane(torch.randn(3, 4, generator=generator, dtype=torch.float64), directions)
    x = torch.randn(5, 3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    left = (x - plane.embed(plane.project(x))).flatten(1) @ directions.flatten(1).T
    torch.testing.assert_close(left, torch.zeros(5, 2, dtype=torch.float64), rtol=0, atol=1e-10)
    assert torch.autograd.gradcheck(plane.project, x)


def test_planes_of_tensors_are_the_same_only_if_they_are_one():
    plane = Plane(torch.zeros(2), torch.eye(2))
    assert plane == plane
    assert plane != Plane(torch.zeros(2), torch.eye(2))
    regions = slice_regions(one_layer([[1.0, 0.0]]), FLAT, SQUARE)
    assert regions.polygons != regions.polygons[:]
    points = torch.zeros(1, 2, dtype=torch.float64)
    assert migration(regions, regions, points) != migration(regions, regions, points)


def test_samples_without_entries_have_no_boundary():
    with pytest.raises(EmptyError, match=r"^boundary_distance\(x\): expected entries, got shape \(3, 0\)"):
        boundary_distance(nn.Identity(), torch.zeros(3, 0))
