"""Theorems 10 and 13: centroids by recursion and by autodiff, and the power diagram by brute force."""

import itertools
from statistics import median

import pytest
import torch
from torch import nn

import gnomon
from gnomon.errors import RangeError, ShapeError, UnsupportedModuleError
from gnomon.measure import layer_centroids
from gnomon.models import mlp
from tests.zoo import zoo

SEQUENTIAL = ["mlp", "bias", "flatten", "one output", "one sample", "conv", "max-pool", "BatchNorm", "LayerNorm"]


def net(*widths, seed=0, activation=nn.ReLU):
    """With biases large enough to matter."""
    layers = []
    for width, following in itertools.pairwise(widths):
        layers += [nn.Linear(width, following), activation()]
    model = nn.Sequential(*layers[:-1]).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator)
    return model


def inputs(n, d, seed=1):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slope_and_offset(function, x):
    """One sample's affine piece, by torch's functional Jacobian."""
    slope = torch.autograd.functional.jacobian(lambda s: function(s[None])[0].flatten(), x).flatten(1)
    return slope, function(x[None])[0].flatten() - slope @ x.flatten()


@pytest.mark.parametrize("name", SEQUENTIAL)
@pytest.mark.parametrize("memory", [None, 1])
def test_recursion_is_autodiff(name, memory):
    model, x = zoo(name)
    with torch.no_grad():
        found = layer_centroids(model, x, memory=memory)
    starts = [int(name) for name in found.layers]
    for k, (start, stop) in enumerate(itertools.pairwise([*starts, len(model)])):
        for i, sample in enumerate(x):
            before, before_offset = slope_and_offset(model[:start], sample) if start else (None, None)
            hidden = model[:start](sample[None])[0]
            slope, offset = slope_and_offset(model[start:stop], hidden)
            own = slope.sum(0)
            torch.testing.assert_close(found.centroid[k][i], own.view(hidden.shape))
            torch.testing.assert_close(found.radius[i, k], own @ own + 2 * offset.sum())
            through = own if before is None else before.T @ own
            offset_to = offset.sum() if before is None else own @ before_offset + offset.sum()
            torch.testing.assert_close(found.centroid_up_to[i, k], through.view(sample.shape))
            torch.testing.assert_close(found.radius_up_to[i, k], through @ through + 2 * offset_to)
    torch.testing.assert_close(found.centroid_up_to[:, -1], gnomon.centroid(model, x))
    torch.testing.assert_close(found.centroid[0], found.centroid_up_to[:, 0])


@pytest.mark.parametrize(
    ("activation", "low"), [(nn.ReLU, 0.0), (lambda: nn.LeakyReLU(0.1), 0.1), (lambda: nn.LeakyReLU(-1.0), -1.0)]
)
def test_sample_lies_in_the_cell_of_least_power_among_all_patterns(activation, low):
    """All 2^6 patterns of each layer: those of the first over all of space, those of the second within a cell."""
    model, x = net(3, 6, 6, 2, activation=activation), inputs(200, 3)
    patterns = torch.tensor(list(itertools.product([low, 1.0], repeat=6)), dtype=torch.float64)
    with torch.no_grad():
        found = layer_centroids(model, x)
        hidden = model[:2](x)
        for k, linear, points in ((0, model[0], x), (1, model[2], hidden)):
            centroid = patterns @ linear.weight
            radius = centroid.square().sum(1) + 2 * patterns @ linear.bias
            power = torch.cdist(points, centroid).square() - radius
            best = power.argmin(1)
            torch.testing.assert_close(patterns[best], torch.where(linear(points) > 0, 1.0, low).double())
            torch.testing.assert_close(centroid[best], found.centroid[k])
            torch.testing.assert_close(radius[best], found.radius[:, k])
            assert len(best.unique()) > 5
        for i, sample in enumerate(x):
            before, before_offset = slope_and_offset(model[:2], sample)
            centroid = patterns @ model[2].weight @ before
            offset = patterns @ (model[2].weight @ before_offset + model[2].bias)
            radius = centroid.square().sum(1) + 2 * offset
            power = (sample - centroid).square().sum(1) - radius
            best = power.argmin()
            torch.testing.assert_close(patterns[best], torch.where(model[2](hidden[i]) > 0, 1.0, low).double())
            torch.testing.assert_close(centroid[best], found.centroid_up_to[i, 1])
            torch.testing.assert_close(radius[best], found.radius_up_to[i, 1])
    torch.testing.assert_close(found.centroid[2], model[4].weight.sum(0).expand(200, 6))


def violations(model, x):
    """The share of pairs from different cells that no diagram with these sites could separate so."""
    with torch.no_grad():
        (sites, *_) = layer_centroids(model, x).centroid
    apart = ((x[:, None] - x) * (sites[:, None] - sites)).sum(-1)
    different = (sites[:, None] != sites).any(-1)
    return ((apart < -1e-12) & different).sum().item() / different.sum().item()


def test_theorem_10_needs_a_convex_activation():
    """Hard tanh: at -2, 0 and 2 the sites are 0, 1 and 0, and no diagram on a line has that order."""
    line = nn.Sequential(nn.Linear(1, 1), nn.Hardtanh()).double()
    nn.init.ones_(line[0].weight)
    nn.init.zeros_(line[0].bias)
    x = torch.tensor([[-2.0], [0.0], [2.0]], dtype=torch.float64)
    sites = layer_centroids(line, x).centroid[0]
    torch.testing.assert_close(sites, torch.tensor([[0.0], [1.0], [0.0]]).double())
    assert ((x[1] - x[2]) * (sites[1] - sites[2])).sum() == -2
    shares = []
    for seed in range(20):
        assert violations(nn.Sequential(*net(3, 6, 2, seed=seed)[:2]), inputs(100, 3)) == 0
        clipped = net(3, 6, 2, seed=seed, activation=nn.Hardtanh)
        shares.append(violations(nn.Sequential(*clipped[:2]), inputs(100, 3)))
    assert [round(value, 2) for value in (min(shares), median(shares), max(shares))] == [0.27, 0.54, 0.79]


def test_without_biases_the_radius_is_the_squared_centroid():
    model, x = mlp((6, 8, 8, 3), generator=torch.Generator().manual_seed(0)).double(), inputs(5, 6)
    found = layer_centroids(model, x)
    for radius, centroid in zip(found.radius.unbind(1), found.centroid, strict=True):
        torch.testing.assert_close(radius, centroid.square().sum(1))
    torch.testing.assert_close(found.radius_up_to, found.centroid_up_to.square().sum(2))


def test_layers_begin_where_weights_are():
    body = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), body, nn.Linear(8, 3)).double().eval()
    assert layer_centroids(model, inputs(5, 6).view(5, 2, 3)).layers == ("0", "2.1", "3")
    shared = nn.Linear(6, 6)
    twice = nn.Sequential(shared, nn.ReLU(), shared, nn.ReLU(), nn.Linear(6, 2)).double()
    assert layer_centroids(twice, inputs(5, 6)).layers == ("0", "2", "4")


def test_follows_the_grad_mode():
    model, x = net(3, 6, 2), inputs(4, 3)
    with torch.no_grad():
        assert not layer_centroids(model, x).radius_up_to.requires_grad
    with torch.inference_mode():
        layer_centroids(model, x)
    last = layer_centroids(model, x).radius_up_to[:, -1]
    (gradient,) = torch.autograd.grad(last.sum(), model[0].bias)
    assert gradient.abs().sum() > 0
    x.requires_grad_()
    (flat,) = torch.autograd.grad(layer_centroids(model, x).radius[:, 0].sum(), x)
    torch.testing.assert_close(flat, torch.zeros_like(x))


class Block(nn.Module):
    """Begins with a ReLU, as blocks of residual networks do."""

    def __init__(self, inplace):
        super().__init__()
        self.relu, self.layer = nn.ReLU(inplace), nn.Linear(4, 4)

    def forward(self, h):
        return self.layer(self.relu(h))


def test_a_layer_that_changes_its_input_in_place_is_refused():
    layers = nn.Linear(3, 4), nn.Linear(4, 2)
    kept, changed = (nn.Sequential(layers[0], Block(inplace), layers[1]).double() for inplace in (False, True))
    changed.load_state_dict(kept.state_dict())
    x = inputs(5, 3)
    torch.testing.assert_close(changed(x), kept(x), rtol=0, atol=0)
    with pytest.raises(
        UnsupportedModuleError,
        match=r"layer_centroids\(model\): .* got Block, whose input is changed in place. Set inplace=False",
    ):
        layer_centroids(changed, x)
    hidden = kept[0](x)
    slopes = [slope_and_offset(kept[1], h)[0].sum(0) for h in hidden]
    torch.testing.assert_close(layer_centroids(kept, x).centroid[1], torch.stack(slopes))
    # The first layer is given a copy of the samples, and may change it.
    first = nn.Sequential(Block(True), nn.Linear(4, 2)).double()
    torch.testing.assert_close(layer_centroids(first, hidden).centroid_up_to[:, -1], gnomon.centroid(first, hidden))


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Flattening(nn.Sequential):
    def forward(self, x):
        return super().forward(x.flatten(1))


def test_samples_do_not_go_around_layers():
    layers, x = [nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)], inputs(5, 4)
    around = r"expected layers that follow one another, got one that begins at '2', which the samples also go around"
    with pytest.raises(UnsupportedModuleError, match=around):
        layer_centroids(Residual(*layers).double(), x)
    hooked = nn.Sequential(*layers).double()
    hooked.register_forward_hook(lambda model, given, output: output + given[0])
    with pytest.raises(UnsupportedModuleError, match=around):
        layer_centroids(hooked, x)
    inside = nn.Sequential(nn.Linear(4, 4), Residual(*layers), nn.ReLU(), nn.Linear(4, 2)).double()
    found = layer_centroids(inside, x)
    assert found.layers == ("0", "1", "3")
    slopes = [slope_and_offset(inside[1:3], h)[0].sum(0) for h in inside[0](x)]
    torch.testing.assert_close(found.centroid[1], torch.stack(slopes))
    torch.testing.assert_close(found.centroid_up_to[:, -1], gnomon.centroid(inside, x))
    # A forward of one's own that keeps to one path is as good as any.
    flat = Flattening(*layers).double()
    torch.testing.assert_close(layer_centroids(flat, x.view(5, 2, 2)).centroid[1], layer_centroids(flat, x).centroid[1])


class Skipping(nn.Sequential):
    def forward(self, x):
        return self[2](self[0](x))


def test_a_radius_that_half_precision_does_not_hold_is_refused():
    model = nn.Sequential(nn.Linear(1, 300, bias=False)).half()
    nn.init.ones_(model[0].weight)
    with pytest.raises(RangeError, match=r"layer_centroids\(model\): expected radii that torch.float16 can hold"):
        layer_centroids(model, torch.ones(2, 1).half())


@pytest.mark.bad_input
def test_bad_input_is_named():
    with pytest.raises(UnsupportedModuleError, match=r"expected an nn.Sequential with layers, got Linear"):
        layer_centroids(nn.Linear(3, 2), torch.ones(2, 3))
    with pytest.raises(UnsupportedModuleError, match=r"expected an nn.Sequential with layers, got an empty one"):
        layer_centroids(nn.Sequential(), torch.ones(2, 3))
    with pytest.raises(UnsupportedModuleError, match=r"one after the other, got Skipping with a forward of its own"):
        layer_centroids(Skipping(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)), torch.ones(2, 3))
    with pytest.raises(UnsupportedModuleError, match="got BatchNorm1d '1' normalising by the batch"):
        layer_centroids(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), torch.ones(2, 3))
    with pytest.raises(ShapeError, match=r"\(model\): expected outputs of shape \(n, c\), got shape \(n, 1, 2, 2\)"):
        layer_centroids(nn.Sequential(nn.Conv2d(1, 1, 2)), torch.ones(2, 1, 3, 3))
    with pytest.raises(RangeError, match=r"layer_centroids\(x\): expected a floating-point tensor, got torch.int64"):
        layer_centroids(nn.Sequential(nn.Embedding(3, 2), nn.Flatten()), torch.ones(2, 3, dtype=torch.long))
