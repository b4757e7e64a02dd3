"""The neural feature ansatz: correlations by plain loops, closed forms, and whole nets' tables."""

import pytest
import torch
from torch import nn

import gnomon
from gnomon import AGOP, nfa_correlation, nfa_table, psd_root
from gnomon.errors import EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.linalg import Factored
from gnomon.models import cnn, mlp
from tests.contract.of_nfa import correlation
from tests.drawn import normal


@pytest.mark.parametrize("power", [0.5, 1])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_plain_loop(power, centred, seed):
    weight, rows = normal(4, 6, seed=seed), normal(9, 6, seed=seed + 10) + 0.3
    expected = correlation(weight, rows.T @ rows, power, centred)
    for agop in (rows.T @ rows, Factored(rows)):
        torch.testing.assert_close(nfa_correlation(weight, agop, power=power, centred=centred), expected)
    torch.testing.assert_close(
        nfa_correlation(weight.view(4, 2, 3), rows.T @ rows, power=power, centred=centred), expected
    )


def test_is_pearson_s_correlation_with_the_root_unless_told():
    weight, rows = normal(4, 6), normal(9, 6, seed=1)
    pair = torch.stack([(weight.T @ weight).flatten(), psd_root(rows.T @ rows).flatten()])
    torch.testing.assert_close(nfa_correlation(weight, rows.T @ rows), torch.corrcoef(pair)[0, 1])


def test_closed_forms():
    weight = normal(4, 6)
    gram, one = weight.T @ weight, torch.tensor(1.0).double()
    torch.testing.assert_close(nfa_correlation(weight, 3 * gram @ gram), one)
    torch.testing.assert_close(nfa_correlation(weight, 3 * gram, power=1), one)
    torch.testing.assert_close(nfa_correlation(weight, 3 * gram + 2, power=1), one)
    torch.testing.assert_close(nfa_correlation(-5 * weight, 3 * gram, power=1, centred=False), one)
    line, across = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    torch.testing.assert_close(nfa_correlation(line, across, centred=False), torch.tensor(0.0))
    torch.testing.assert_close(nfa_correlation(line, across), torch.tensor(-1 / 3))
    torch.testing.assert_close(nfa_correlation(torch.zeros(1, 2), across), torch.tensor(0.0))
    turn = torch.linalg.qr(normal(6, 6, seed=2))[0]
    rows = normal(3, 6, seed=3)
    turned = nfa_correlation(weight @ turn, Factored(rows @ turn), centred=False)
    torch.testing.assert_close(turned, nfa_correlation(weight, Factored(rows), centred=False))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_where_only_rounding_tells_the_entries_apart_there_is_no_correlation(dtype):
    weight, sums = normal(4, 300).to(dtype), torch.full((3, 300), 0.1, dtype=dtype)
    for agop in (sums.T @ sums, Factored(sums)):
        torch.testing.assert_close(nfa_correlation(weight, agop, power=1), torch.zeros((), dtype=dtype))
    torch.testing.assert_close(nfa_correlation(weight, Factored(sums)), torch.zeros((), dtype=dtype))
    torch.testing.assert_close(nfa_correlation(sums, weight.T @ weight), torch.zeros((), dtype=dtype))


def test_an_agop_beyond_the_dtype_has_no_correlation_of_0():
    rows = Factored(1e20 * normal(3, 5).float())
    assert nfa_correlation(normal(4, 5).float(), rows, power=1).isnan()


def test_gradient_and_dtypes():
    def of_both(weight, rows):
        return torch.stack([nfa_correlation(weight, rows.T @ rows, power=power) for power in (0.5, 1)])

    assert torch.autograd.gradcheck(of_both, (normal(3, 4).requires_grad_(), normal(6, 4, seed=1).requires_grad_()))
    weight, rows = normal(3, 4).float(), normal(6, 4, seed=1)
    assert nfa_correlation(weight, (rows.T @ rows).float()).dtype == torch.float32
    assert nfa_correlation(weight, rows.T @ rows).dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_of_an_agop_in_half_precision_is_no_negative_eigenvalue(dtype):
    """Of rank 6 in 40 dimensions: what is zero is rounded to either side of it."""
    generator = torch.Generator().manual_seed(0)
    jacobian, weight = (torch.randn(*shape, generator=generator) for shape in ((2, 3, 40), (8, 40)))
    found = nfa_correlation(weight.to(dtype), gnomon.agop(jacobian.to(dtype)))
    assert found.dtype == dtype
    # The root has half the digits.
    expected = nfa_correlation(weight, gnomon.agop(jacobian))
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=2 * torch.finfo(dtype).eps ** 0.5)


@pytest.mark.bad_input
def test_bad_input_is_named():
    weight, agop = normal(3, 4), torch.eye(4).double()
    with pytest.raises(RangeError, match=r"nfa_correlation: expected power 1/2 or 1, got 2"):
        nfa_correlation(weight, agop, power=2)
    with pytest.raises(
        ShapeError, match=r"\(layer_weight\): expected at least 2 axes, .* got shape \(4,\)\. Pass a layer"
    ):
        nfa_correlation(weight[0], agop)
    with pytest.raises(
        ShapeError, match=r"nfa_correlation\(agop\): expected shape \(4, 4\) for a weight of shape \(3, 4\)"
    ):
        nfa_correlation(weight, torch.eye(3).double())


@pytest.mark.parametrize(
    ("model", "shape"),
    [(mlp((6, 9, 8, 3), generator=torch.Generator().manual_seed(0)), (20, 6)), (cnn((2, 4, 5, 3)), (4, 2, 16, 16))],
    ids=["mlp", "cnn"],
)
def test_the_table_is_that_of_each_layer(model, shape):
    model, x = model.double(), normal(*shape)
    table = nfa_table(model, x)
    weighted = [name for name, layer in model.named_modules() if isinstance(layer, (nn.Linear, nn.Conv2d))]
    assert list(table.layers) == weighted
    moments = AGOP(weighted)
    moments.update(model, x)
    columns = {(0.5, True): table.pearson_root, (0.5, False): table.cosine_root}
    columns |= {(1, True): table.pearson, (1, False): table.cosine}
    for name, agop in moments.compute().items():
        for (power, centred), column in columns.items():
            expected = nfa_correlation(model.get_submodule(name).weight, agop, power=power, centred=centred)
            torch.testing.assert_close(column[weighted.index(name)], expected.detach())
    assert nfa_table(model, x, layers=weighted[1:2]).cosine == table.cosine[1]
    # The last layer is linear: its gradients are its rows.
    torch.testing.assert_close(table.cosine[-1], torch.tensor(1.0).double())


def test_at_initialisation_the_ansatz_seems_to_hold_already():
    """PyTorch's default, bias-free ReLU, six layers: no training, and correlations from .60 to .90."""
    model = mlp((784, *[512] * 5, 10), generator=torch.Generator().manual_seed(0))
    table = nfa_table(model, normal(256, 784).float())
    root, cosine = table.pearson_root[:5], table.cosine[:5]
    expected = torch.tensor([0.90, 0.87, 0.81, 0.74, 0.60]).double()
    torch.testing.assert_close(root, expected, rtol=0, atol=0.006)
    torch.testing.assert_close(root.mean().item(), 0.785, rtol=0, atol=0.001)
    torch.testing.assert_close(cosine, torch.tensor([0.74, 0.60, 0.44, 0.34, 0.25]).double(), rtol=0, atol=0.006)


@pytest.mark.parametrize("size", [2.0**-83, 2.0**83])
@pytest.mark.parametrize("samples", [4, 20])
def test_outer_products_beyond_the_range_of_float32(size, samples):
    """By powers of two, so that there is no rounding."""
    model, x = mlp((6, 9, 8, 3), generator=torch.Generator().manual_seed(0)), normal(samples, 6).float()
    layers, agops, tables = ["", *map(str, (0, 2, 4))], [], []
    for factor in (1, size):
        with torch.no_grad():
            model[4].weight *= factor
        moments = AGOP(layers)
        moments.update(model, x)
        agops.append(moments.compute())
        tables.append(nfa_table(model, x))
    for name in layers:
        torch.testing.assert_close(agops[1][name].dense() / size**2, agops[0][name].dense())
        torch.testing.assert_close(gnomon.effective_rank(agops[1][name]), gnomon.effective_rank(agops[0][name]))
    torch.testing.assert_close(tables[1].cosine, tables[0].cosine)
    torch.testing.assert_close(tables[1].pearson, tables[0].pearson)
    # The root has half the digits.
    torch.testing.assert_close(tables[1].pearson_root, tables[0].pearson_root, rtol=0, atol=1e-6)


@pytest.mark.bad_input
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_diverged_network_is_named(value):
    model, x = mlp((5, 6, 2)), normal(4, 5).float()
    with torch.no_grad():
        model[2].weight.fill_(value)
    with pytest.raises(
        RangeError, match=r"^nfa_table\(model\): expected finite numbers as the gradients' outer products"
    ):
        nfa_table(model, x)


class Heads(nn.Module):
    """Two layers, and three that the outputs do not depend on: not called, called on a constant, and to no end."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 6), nn.Linear(6, 2)
        self.unused, self.of_constants, self.dropped = nn.Linear(6, 2), nn.Linear(5, 6), nn.Linear(6, 2)
        self.double()

    def forward(self, x):
        hidden = (self.first(x) + self.of_constants(torch.ones_like(x))).tanh()
        self.dropped(hidden)
        return self.last(hidden)


def test_layers_without_a_path_are_left_out_with_a_warning_unless_named():
    model, x = Heads(), normal(9, 5)
    expected = nfa_table(model, x, layers=["first", "last"])
    match = "no path from the input to the outputs leads through unused, of_constants, dropped. The others are measured"
    for memory in (None, 1000):
        with pytest.warns(RuntimeWarning, match=match):
            table = nfa_table(model, x, memory=memory)
        assert table.layers == expected.layers == ("first", "last")
        torch.testing.assert_close(table.pearson_root, expected.pearson_root)
        torch.testing.assert_close(table.cosine, expected.cosine)


def test_of_attention_its_projections_are_not_among_the_layers():
    """As the docstring says; `fact_table` has their weights."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model, x = nn.Sequential(layer, nn.Flatten(), nn.Linear(40, 3)).eval(), normal(4, 5, 8).float()
    assert nfa_table(model, x).layers == ("0.linear1", "0.linear2", "2")
    weights = gnomon.fact_table(model, x, torch.arange(4) % 3, weight_decay=0.1).layers
    assert {"0.self_attn.in_proj_weight", "0.self_attn.out_proj.weight"} < {*weights}


@pytest.mark.bad_input
def test_bad_layers_are_named():
    model, x = mlp((5, 6, 2)), normal(4, 5).float()
    with pytest.raises(UnsupportedModuleError, match=r"nfa_table\(layers\): expected linear .*, got ReLU '1'"):
        nfa_table(model, x, layers=["1"])
    with pytest.raises(EmptyError, match=r"nfa_table\(layers\): expected at least one linear layer"):
        nfa_table(nn.Tanh(), x)
    with pytest.raises(RangeError, match=r"nfa_table\(layers\): expected one of 0, 1, 2, got 'head'"):
        nfa_table(model, x, layers=["head"])
    with pytest.raises(UnsupportedModuleError, match=r"nfa_table\(layers\): expected layers .*, got layer 'unused'"):
        nfa_table(Heads(), normal(9, 5), layers=["first", "unused"])
    alone = nn.Tanh()
    alone.head = nn.Linear(5, 2)
    with pytest.raises(EmptyError, match=r"nfa_table\(model\): expected a linear .* is used, got no path .* head\. P"):
        nfa_table(alone, x)


@pytest.mark.bad_input
def test_a_first_weight_that_is_not_finite_is_named():
    network = nn.Sequential(nn.Linear(40, 4), nn.ReLU(), nn.Linear(4, 2))
    network[0].weight.data[0, 0] = torch.nan
    with pytest.raises(RangeError, match=r"nfa_table\(model.0.weight\): expected finite numbers, got nan"):
        gnomon.nfa_table(network, torch.ones(5, 40))
