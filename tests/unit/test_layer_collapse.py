"""NC1 and NC2 along a network: patches and singular values by hand, unitary maps, any chunks, one path."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from gnomon import Probe, class_moments, layer_collapse, nc1_trace_ratio, nc2_etf, nc2_orthogonal, nfa_table
from gnomon.errors import EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.models import cnn, mlp
from tests.contract.of_collapse import layer_by_layer
from tests.drawn import normal


def samples(n, *shape, k=3):
    """Classes of unequal sizes, around means of their own."""
    labels = torch.cat([torch.arange(k), torch.zeros(n - k, dtype=torch.long).random_(k, generator=torch.Generator())])
    return normal(n, *shape) + normal(k, *shape, seed=1)[labels], labels


def ratio(features, labels, k=3):
    """tr Σ_W / tr Σ_B, sample by sample."""
    rows = features.detach().flatten(1)
    means = [rows[labels == c].mean(0) for c in range(k)]
    within = sum(float((row - means[y]).square().sum()) for row, y in zip(rows, labels.tolist(), strict=True))
    between = sum(float((means[y] - rows.mean(0)).square().sum()) for y in labels.tolist())
    return torch.tensor(within / between, dtype=torch.float64)


def means_of(features, labels, k=3):
    return torch.stack([features.detach().flatten(1)[labels == c].mean(0) for c in range(k)])


# NC2.


def test_nc2_closed_forms():
    frame = torch.linalg.qr(normal(8, 4))[0].T
    zero = torch.tensor(0.0).double()
    for means in (frame, 3 * frame, torch.arange(1, 5).unsqueeze(1) * frame):
        torch.testing.assert_close(nc2_orthogonal(means), zero, rtol=0, atol=1e-12)
    torch.testing.assert_close(nc2_etf(5 * frame), zero, rtol=0, atol=1e-12)
    simplex = torch.eye(4).double() - 1 / 4
    torch.testing.assert_close(nc2_etf(simplex), zero, rtol=0, atol=1e-12)
    torch.testing.assert_close(nc2_orthogonal(simplex), torch.tensor(12**0.5 / 3).double())
    torch.testing.assert_close(nc2_etf(normal(2, 5)), zero, rtol=0, atol=1e-12)
    torch.testing.assert_close(nc2_orthogonal(torch.ones(4, 3).double()), torch.tensor(12**0.5).double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_means_that_coincide_have_no_directions_wherever_they_lie(dtype):
    nothing = nc2_etf(torch.zeros(7, 2, dtype=dtype))
    torch.testing.assert_close(nothing, torch.tensor((7 + 7 * 6 / 36) ** 0.5, dtype=dtype))
    for point in (0.1, -3.3, 1e9):
        torch.testing.assert_close(nc2_etf(torch.full((7, 2), point, dtype=dtype)), nothing, rtol=0, atol=0)


# Layer by layer.


def test_a_multilayer_perceptron_by_hand():
    model = mlp((6, 5, 9, 3), generator=torch.Generator().manual_seed(0), bias=True).double()
    x, labels = samples(40, 6)
    found = layer_collapse(model, x, labels)
    assert found.layers == ("0", "2", "4")
    for name, column in layer_by_layer(model, x, labels).items():
        torch.testing.assert_close(getattr(found, name), column)
    torch.testing.assert_close(found.nc1_right, found.nc1_before)
    torch.testing.assert_close(found.nc1_after[:-1], found.nc1_input[1:])
    torch.testing.assert_close(found.by_weight * found.by_nonlinearity, found.nc1_after / found.nc1_input)
    moments = class_moments(x, labels, 3)
    torch.testing.assert_close(found.nc1_input[0], nc1_trace_ratio(moments))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"stride": 2},
        {"padding": 1},
        {"padding": 2, "padding_mode": "reflect"},
        {"padding": 1, "dilation": 2},
        {"groups": 2},
    ],
    ids=str,
)
def test_convolutions_by_patches(settings):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = nn.Conv2d(4, 6, 3, **settings)
        model = nn.Sequential(layer, nn.ReLU(), nn.Flatten(), nn.LazyLinear(3))
        x, labels = samples(30, 4, 7, 8)
        model(x.float())
    model = model.double()
    found = layer_collapse(model, x, labels)
    pad = layer.padding[0]
    padded = functional.pad(x, [pad] * 4, mode="reflect" if "padding_mode" in settings else "constant")
    patches = functional.unfold(padded, 3, stride=layer.stride, dilation=layer.dilation)
    groups = patches.unflatten(1, (layer.groups, -1))
    weight = layer.weight.detach().flatten(1).unflatten(0, (layer.groups, -1))
    _, values, right = torch.linalg.svd(weight, full_matrices=False)
    projected = torch.einsum("grp,ngpl->ngrl", values.unsqueeze(2) * right, groups)
    torch.testing.assert_close(found.nc1_input[0], ratio(patches, labels))
    torch.testing.assert_close(found.nc1_right[0], ratio(projected, labels))
    torch.testing.assert_close(found.nc1_before[0], ratio(layer(x), labels))
    torch.testing.assert_close(found.nc1_after[0], ratio(layer(x).relu(), labels))
    torch.testing.assert_close(found.nc1_right, found.nc1_before)


@pytest.mark.parametrize("scale", [1e21, 1e-25])
def test_squares_of_features_need_not_fit_into_their_dtype(scale):
    model = mlp((6, 5, 3), generator=torch.Generator().manual_seed(0))
    x, labels = samples(40, 6)
    found, expected = (layer_collapse(model, (size * x).float(), labels) for size in (scale, 1))
    for name in ("nc1_input", "nc1_right", "nc1_before", "nc1_after", "nc2_etf_after"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=1e-4, atol=0)


def test_behind_a_dead_layer_all_samples_coincide():
    model = mlp((6, 5, 3), generator=torch.Generator().manual_seed(0), bias=True).double()
    with torch.no_grad():
        model[0].bias.fill_(-1e3)
    found = layer_collapse(model, *samples(40, 6))
    assert found.nc1_before[0] > 0
    assert found.nc1_after[0].isnan()


def test_unitary_weights_leave_nc1_as_it_is():
    x, labels = samples(40, 6)
    turn = torch.linalg.qr(normal(9, 6))[0]
    torch.testing.assert_close(ratio(x @ turn.T, labels), ratio(x, labels))
    model = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3)).double()
    model[0].weight.data = 2 * turn
    torch.testing.assert_close(layer_collapse(model, x, labels).by_weight[0], torch.tensor(1.0).double())
    images, labels = samples(40, 2, 5, 5)
    model = nn.Sequential(nn.Conv2d(2, 18, 3, padding=1), nn.Flatten(), nn.LazyLinear(3)).double()
    model(images)
    model[0].weight.data = torch.linalg.qr(normal(18, 18))[0].view(18, 2, 3, 3)
    torch.testing.assert_close(layer_collapse(model, images, labels).by_weight[0], torch.tensor(1.0).double())


def test_a_weight_that_drops_what_differs_within_classes_collapses_them():
    signal, noise = torch.tensor([[1.0, 0, 0], [0, 1.0, 0], [-1.0, -1.0, 0]]).double(), normal(30, 1)
    labels = torch.arange(30) % 3
    noise = noise - means_of(noise, labels)[labels]
    x = signal[labels] + torch.cat([torch.zeros(30, 2), noise], 1)
    model = mlp((3, 3, 3)).double()
    model[0].weight.data = torch.diag(torch.tensor([1.0, 1.0, 1e-3])).double()
    found = layer_collapse(model, x, labels)
    assert found.nc1_input[0] > 0.3
    torch.testing.assert_close(found.by_weight[0], torch.tensor(1e-6).double(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("memory", [1, 30_000, None])
def test_any_chunks_give_the_same(memory):
    model = cnn((2, 4, 6, 3), generator=torch.Generator().manual_seed(0)).double()
    x, labels = samples(17, 2, 16, 16)
    whole, found = (vars(layer_collapse(model, x, labels, memory=budget)) for budget in (2**30, memory))
    assert found.pop("layers") == whole.pop("layers")
    for name, column in found.items():
        torch.testing.assert_close(column, whole[name])
    torch.testing.assert_close(found["nc1_after"][0], ratio(model[:2](x), labels))


def test_dtype_mode_and_grad_mode():
    model = mlp((6, 5, 3), generator=torch.Generator().manual_seed(0))
    x, labels = samples(40, 6)
    single = layer_collapse(model, x.float(), labels)
    with torch.no_grad():
        double = layer_collapse(model.double(), x, labels)
    assert single.nc1_after.dtype == torch.float32
    assert not single.nc1_after.requires_grad
    torch.testing.assert_close(single.nc1_after.double(), double.nc1_after, rtol=1e-4, atol=0)
    assert not any(module._forward_hooks for module in model.modules())
    in_place = nn.Sequential(model[0], nn.ReLU(inplace=True), model[2])
    torch.testing.assert_close(layer_collapse(in_place, x, labels).nc1_before, double.nc1_before)
    one = nn.Linear(6, 3).double()
    torch.testing.assert_close(layer_collapse(one, x, labels).nc1_after[0], ratio(one(x), labels))
    with pytest.warns(RuntimeWarning, match="NC1 in layer_collapse says nothing of the features, as no class has two"):
        assert layer_collapse(one, x[:3], torch.arange(3)).nc1_after[0] == 0


class Skip(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.short = nn.Linear(6, 4), nn.Linear(4, 4), nn.Linear(6, 4)
        self.last, self.never = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        h = self.second(self.first(x).relu())
        return self.last((h + self.short(x)).relu())


def test_layers_of_one_path_are_chosen_and_others_are_named():
    model, (x, labels) = Skip().double(), samples(40, 6)
    found = layer_collapse(model, x, labels, layers=["last", "second"])
    assert found.layers == ("second", "last")
    h = (model.second(model.first(x).relu()) + model.short(x)).relu()
    torch.testing.assert_close(found.nc1_after[0], ratio(h, labels))
    with pytest.raises(
        UnsupportedModuleError, match=r"got 'second', which does not lead to 'short', called next. Name"
    ):
        layer_collapse(model, x, labels, layers=["first", "second", "short", "last"])
    with pytest.raises(UnsupportedModuleError, match=r"expected layers that are called once, got 'never', called 0"):
        layer_collapse(model, x, labels, layers=["last", "never"])


class Tokens(nn.Module):
    """Two tokens of three numbers each, on an axis of their own behind the samples, or before, or as rows."""

    def __init__(self, tokens, lay_out):
        super().__init__()
        self.tokens, self.lay_out = tokens, lay_out
        self.first, self.head = nn.Linear(3, 4), nn.Linear(4 * tokens, 3)

    def forward(self, x):
        h = self.lay_out(x.unflatten(1, (self.tokens, 3)))
        h = self.first(h).relu()
        if h.ndim == 3 and len(h) != len(x):
            h = h.transpose(0, 1)
        return self.head(h.reshape(len(x), -1))


@pytest.mark.parametrize(
    ("tokens", "lay_out", "message"),
    [
        (2, lambda h: h.flatten(0, 1), r"one row for each sample, got 'first', whose input has shape \(4, 3\)"),
        (40, lambda h: h.transpose(0, 1), "the samples along its first axis, got a Linear whose input has 40 rows"),
        (2, lambda h: h.transpose(0, 1), "the samples along its first axis, got a Linear whose input has 2 rows"),
    ],
    ids=["rows of tokens", "as many tokens as samples", "two tokens"],
)
def test_rows_that_are_not_samples_are_refused(tokens, lay_out, message):
    x, labels = samples(40, 3 * tokens)
    with pytest.raises((ShapeError, UnsupportedModuleError), match=rf"layer_collapse\(layers\): .* {message}"):
        layer_collapse(Tokens(tokens, lay_out).double(), x, labels)
    kept = Tokens(tokens, lambda h: h).double()
    before = kept.first(x.unflatten(1, (tokens, 3)))
    torch.testing.assert_close(layer_collapse(kept, x, labels).nc1_before[0], ratio(before, labels))
    found = layer_collapse(Tokens(tokens, lay_out).double(), x, labels, layers="head")
    assert found.layers == ("head",)


@pytest.mark.parametrize("table", [layer_collapse, lambda model, x, labels, **chosen: nfa_table(model, x, **chosen)])
def test_transposed_convolutions_are_left_out_and_said_to_be_none_of_the_layers(table):
    model = nn.Sequential(nn.ConvTranspose2d(2, 3, 2, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(192, 3)).double()
    x, labels = samples(12, 2, 4, 4)
    assert table(model, x, labels).layers == ("3",)
    with pytest.raises(
        UnsupportedModuleError,
        match=r"expected linear layers and conv.* none transposed, got ConvTranspose2d '0'\. Name others\.",
    ):
        table(model, x, labels, layers=["0", "3"])


@pytest.mark.bad_input
def test_bad_input_is_named():
    model, (x, labels) = mlp((6, 5, 3)).double(), samples(40, 6)
    with pytest.raises(UnsupportedModuleError, match=r"layer_collapse\(layers\): expected linear .*, got ReLU '1'"):
        layer_collapse(model, x, labels, layers=["1"])
    with pytest.raises(EmptyError, match=r"layer_collapse\(layers\): expected at least one linear layer"):
        layer_collapse(model, x, labels, layers=[])
    with pytest.raises(RangeError, match=r"layer_collapse\(layers\): expected one of 0, 1, 2, got 'head'"):
        layer_collapse(model, x, labels, layers=["head"])
    with pytest.raises(ShapeError, match=r"layer_collapse\(labels\): expected shape \(40,\)"):
        layer_collapse(model, x, labels[1:])
    with pytest.raises(
        EmptyError, match=r"layer_collapse\(labels\): expected samples of two classes or more, got those of class 0"
    ):
        layer_collapse(model, x, labels * 0)
    with pytest.raises(RangeError, match=r"layer_collapse\(x\): expected finite numbers, got nan"):
        layer_collapse(model, x * torch.nan, labels)
    with pytest.raises(EmptyError, match=r"layer_collapse\(x\): expected at least one sample"):
        layer_collapse(model, x[:0], labels[:0])
    with pytest.raises(UnsupportedModuleError, match=r"BatchNorm1d '0' normalising by the batch"):
        layer_collapse(nn.Sequential(nn.BatchNorm1d(6), model).double(), x, labels)


class Complex(nn.Module):
    """Moduli of complex features, and a layer behind them."""

    def __init__(self):
        super().__init__()
        self.turned, self.last = nn.Linear(4, 4, dtype=torch.complex128), nn.Linear(4, 3, dtype=torch.float64)

    def forward(self, x):
        return self.last(self.turned(torch.complex(x, x.cos())).abs())


def test_complex_features_are_refused():
    model, (x, labels) = Complex(), samples(12, 4)
    with pytest.raises(
        UnsupportedModuleError, match=r"layer_collapse\(layers\): .* real features, got 'turned', complex\. N"
    ):
        layer_collapse(model, x, labels)
    assert layer_collapse(model, x, labels, layers="last").layers == ("last",)


def test_layers_with_a_parametrized_weight_are_layers():
    model, (x, labels) = mlp((6, 5, 4, 3)).double().eval(), samples(40, 6)
    expected, table = layer_collapse(model, x, labels), nfa_table(model, x)
    parametrized = copy.deepcopy(model)
    for layer in (parametrized[0], parametrized[2]):
        nn.utils.parametrizations.weight_norm(layer)
    assert layer_collapse(parametrized, x, labels).layers == nfa_table(parametrized, x).layers == expected.layers
    torch.testing.assert_close(layer_collapse(parametrized, x, labels).nc1_right, expected.nc1_right)
    torch.testing.assert_close(nfa_table(parametrized, x).cosine, table.cosine)


def test_a_probe_reads_it():
    model, (x, labels) = mlp((6, 5, 3)).double(), samples(40, 6)
    numbers = Probe(model, (x, labels), [layer_collapse]).read().scalars()
    expected = layer_collapse(model, x, labels).nc1_right.mean().item()
    torch.testing.assert_close(numbers["layer_collapse.nc1_right"], expected)


@pytest.mark.parametrize(("part", "named"), [("weight", "weight"), ("bias", "features")])
def test_a_diverged_network_is_said(part, named):
    model, x = mlp((4, 5, 3), bias=True), torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    getattr(model[0], part).data[0] = torch.nan
    with pytest.raises(RangeError, match=rf"layer_collapse\({named}\): expected finite numbers, got nan"):
        layer_collapse(model, x, torch.arange(6) % 3)
