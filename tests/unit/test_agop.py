"""The average gradient outer product: plain loops, all layers in one pass, any split, sketches with their error."""

import gc
import pickle
import re
import weakref
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torchmetrics import MetricCollection

import gnomon
from gnomon import AGOP, Probe, Sketch, agop, effective_rank, input_jacobian, psd_root, top_eigenvectors
from gnomon.autodiff._layers import weighted_layers
from gnomon.errors import ArgumentTypeError, EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.linalg import Dense, Factored, GramSum
from gnomon.linalg._gram_sum import frequent_directions
from gnomon.models import mlp
from tests.children import printed
from tests.contract.of_nfa import outer
from tests.drawn import normal
from tests.unit.processes import on_processes
from tests.zoo import BUILDERS, zoo


def streamed(model, x, layers=("",), sizes=None, **settings):
    moments = AGOP(layers, **settings)
    for part in x.split(len(x) if sizes is None else sizes):
        moments.update(model, part)
    return moments.compute()


def names(model):
    return ["", *(name for name in weighted_layers(model) if name)]


# Of Jacobians.


def test_samples_count_alike_in_any_split():
    jacobian = normal(7, 3, 4)
    parts = [2 * agop(jacobian[:2]), 5 * agop(jacobian[2:])]
    torch.testing.assert_close(sum(parts) / 7, agop(jacobian))
    turn = torch.linalg.qr(normal(3, 3, seed=1))[0]
    torch.testing.assert_close(agop(torch.einsum("kc,ncd->nkd", turn, jacobian)), agop(jacobian))


def test_behind_a_linear_map_it_is_the_map_s_transpose_times_it_times_the_map():
    outer, a, x = mlp((5, 16, 3)).double(), normal(5, 7, seed=1), normal(9, 7, seed=2)
    chained = agop(input_jacobian(lambda h: outer(h @ a.T), x)).detach()
    torch.testing.assert_close(chained, a.T @ agop(input_jacobian(outer, x @ a.T)).detach() @ a)


# Streamed, of all layers.


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("sizes", [None, 1, 3])
def test_the_input_of_the_whole_zoo(name, sizes):
    model, x = zoo(name)
    rows = [torch.autograd.functional.jacobian(lambda s: model(s[None])[0], sample) for sample in x]
    found = streamed(model, x, names(model), sizes)
    torch.testing.assert_close(found[""].dense(), outer(torch.stack(rows)))
    for one in found.values():
        assert one.dense().dtype == torch.float64
        assert not one.dense().requires_grad


def by_single_patches(model, layer, x):
    """Each layer's input taken apart into rows or patches, which are variables of their own; a sample at a time."""
    total = 0
    for sample in x.clone().requires_grad_():
        taken = []

        def hook(module, inputs, taken=taken):
            (h,) = inputs
            if isinstance(module, nn.Linear):
                patches = h.clone()
                taken.append((patches, functional.linear(patches, module.weight, module.bias)))
            else:
                settings = {"padding": module.padding, "stride": module.stride, "dilation": module.dilation}
                patches = functional.unfold(h, module.kernel_size, **settings)
                shape = module._conv_forward(h, module.weight, module.bias).shape
                groups = patches.unflatten(1, (module.groups, -1))
                weight = module.weight.flatten(1).unflatten(0, (module.groups, -1))
                output = torch.einsum("gop,ngpl->ngol", weight, groups).reshape(shape)
                taken.append((groups, output if module.bias is None else output + module.bias.view(-1, 1, 1)))

        handles = [layer.register_forward_pre_hook(hook)]
        handles.append(layer.register_forward_hook(lambda module, inputs, output, taken=taken: taken[-1][1]))
        logits = model(sample[None])[0]
        for handle in handles:
            handle.remove()
        for output in logits:
            for patches in torch.autograd.grad(output, [patches for patches, _ in taken], retain_graph=True):
                rows = patches.movedim(2, -1) if patches.ndim == 4 else patches
                rows = (patches.permute(0, 1, 3, 2) if patches.ndim == 4 else rows).flatten(0, -2)
                total = total + rows.T @ rows
    return total / len(x)


@pytest.mark.parametrize("name", [name for name in BUILDERS if name not in ("attention", "linear")])
def test_the_inputs_of_layers_with_weights(name):
    model, x = zoo(name)
    found = streamed(model, x, names(model), 2)
    for layer in names(model)[1:]:
        expected = by_single_patches(model, model.get_submodule(layer), x)
        torch.testing.assert_close(found[layer].dense(), expected.detach())


@pytest.mark.parametrize(
    "settings",
    [{}, {"stride": 2}, {"padding": 1, "dilation": 2}, {"groups": 2}, {"groups": 4, "bias": False}],
    ids=str,
)
def test_patches_of_any_convolution(settings):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = nn.Conv2d(4, 8, 3, **settings)
        model = nn.Sequential(nn.Conv2d(2, 4, 1), nn.Tanh(), layer, nn.GELU(), nn.Flatten(), nn.LazyLinear(3))
        x = normal(4, 2, 9, 8)
        model(x.float())
    model = model.double()
    (expected, found) = by_single_patches(model, layer, x), streamed(model, x, ["2"])["2"]
    torch.testing.assert_close(found.dense(), expected.detach())


def test_any_other_layer_is_taken_whole_and_without_what_goes_past_it():
    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.act, self.last = nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)

        def forward(self, x):
            h = self.first(x)
            return self.last(h + self.act(h))

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, x = Skip().double(), normal(5, 6)
    found = streamed(model, x, ["act", "last", ""])
    w, slope = model.last.weight.detach(), 1 - model.first(x).detach().tanh().square()
    torch.testing.assert_close(found["act"].dense(), torch.einsum("ca,cb,na,nb->ab", w, w, slope, slope) / 5)
    torch.testing.assert_close(found["last"].dense(), w.T @ w)


@pytest.mark.parametrize("call", [lambda g, h: g(h, h, h), lambda g, h: g(query=h, key=h, value=h)])
def test_attention_is_taken_with_all_that_it_sees(call):
    """The same tensor three times, by position or by name."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 2)
            self.attend = nn.MultiheadAttention(2, 1, batch_first=True)

        def after(self, h):
            return self.last(call(self.attend, h)[0].flatten(1))

        def forward(self, x):
            h = self.first(x).view(-1, 3, 2)
            return self.after(h) + h[:, 0]

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, x = Attention().double().eval(), normal(5, 6)
    jacobian = input_jacobian(model.after, model.first(x).view(-1, 3, 2)).flatten(2)
    torch.testing.assert_close(streamed(model, x, "attend")["attend"].dense(), agop(jacobian).detach())


def test_a_plain_function_and_in_place_layers():
    weight, x = normal(3, 4), normal(5, 4, seed=1)
    torch.testing.assert_close(streamed(lambda x: x @ weight.T, x)[""].dense(), weight.T @ weight)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 3)).double()
    other = nn.Sequential(model[0], nn.ReLU(), model[2])
    for name, one in streamed(model, x, names(model)).items():
        torch.testing.assert_close(one.dense(), streamed(other, x, [name])[name].dense())


@pytest.mark.parametrize("p", [3, 40])
@pytest.mark.parametrize("sizes", [[12], [1] * 12, [5, 4, 3]])
def test_any_split_gives_the_same(p, sizes, monkeypatch):
    monkeypatch.setattr("gnomon.linalg._gram_sum.BLOCK", 7)
    model, x = mlp((p, 9, 9, 2), generator=torch.Generator().manual_seed(0)).double(), normal(12, p)
    whole = streamed(model, x, names(model))
    for name, one in streamed(model, x, names(model), sizes, memory=20_000).items():
        torch.testing.assert_close(one.dense(), whole[name].dense())


def test_few_samples_of_many_inputs_are_held_as_rows():
    model = nn.Sequential(nn.Tanh(), nn.Linear(100_000, 2)).double()
    found = streamed(model, normal(3, 100_000), ["", "1"])
    assert isinstance(found[""], Factored)
    assert found[""].rows.shape == (6, 100_000)
    assert found["1"].rows.shape == (2, 100_000)


def test_float32_is_summed_in_float64_and_half_precision_in_float32():
    # Smooth, since rounding turns units of ReLU on and off.
    model, x = mlp((4, 8, 2), generator=torch.Generator().manual_seed(0)), normal(20_000, 4)
    model[1] = nn.Tanh()
    expected = streamed(model.double(), x, names(model))
    for dtype, rtol in ((torch.float32, 1e-6), (torch.bfloat16, 2e-2)):
        found = streamed(model.to(dtype), x.to(dtype), names(model), 1000)
        for name, one in found.items():
            assert one.dense().dtype == torch.float64
            wanted = expected[name].dense()
            assert (one.dense() - wanted).norm() < rtol * wanted.norm()
        model.double()


@pytest.mark.parametrize("at_once", [100, 200_000])
def test_rounding_does_not_grow_with_the_number_of_rows(monkeypatch, at_once):
    monkeypatch.setattr("gnomon.linalg._gram_sum.BLOCK", 100)
    rows = normal(200_000, 1).float() + 3
    total = GramSum([], [])
    for part in rows.split(at_once):
        total.add(part)
    torch.testing.assert_close(total.total().dense(), rows.double().T @ rows.double(), rtol=3e-7, atol=0)


def test_nothing_is_left_of_a_pass():
    model, x = zoo("mlp")
    outputs = []
    for module in model:
        module.register_forward_hook(lambda module, inputs, output: outputs.append(weakref.ref(output)))
    moments = AGOP(names(model))
    moments.update(model, x)
    gc.collect()
    assert outputs
    assert all(output() is None for output in outputs)
    assert all(parameter.grad is None for parameter in model.parameters())


PEAK = """
import torch, gnomon
from pathlib import Path
torch.set_num_threads(1)

def highest():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)

model = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(1000, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10))
x, moments = torch.randn(3000, 1000), gnomon.AGOP(["", "1", "3"], memory=2**24)
moments.update(model, x[:2])
before = highest()
moments.update(model, x)
moments.compute()
print(highest() - before)
"""


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_the_jacobians_are_never_held():
    """At most the budget of 16 MiB, 4,096 rows waiting and joined, and four matrices: the Jacobians are 114 MiB."""
    assert 1024 * int(printed(PEAK)) < 1.1 * (2**24 + 2 * 4096 * 1000 * 4 + 4 * 1000**2 * 8)


# Sketches.


def test_frequent_directions_keep_their_bound():
    rows = normal(60, 30) * torch.logspace(0, -2, 30).double()
    kept, lost = frequent_directions(rows, 8)
    difference = torch.linalg.eigvalsh(rows.T @ rows - kept.dense())
    assert kept.rows.shape == (8, 30)
    assert difference.min() > -1e-10
    # All directions that are kept lose alike: else the bounds of a stream would not add up to a small one.
    torch.testing.assert_close(difference[-8:], lost.expand(8))


@pytest.mark.parametrize("sizes", [[50], [1] * 50, [20, 30]])
def test_a_sketch_says_how_far_it_falls_short(sizes):
    model, x = mlp((30, 20, 4), generator=torch.Generator().manual_seed(0)).double(), normal(50, 30)
    model = nn.Sequential(nn.Tanh(), model)
    exact, found = streamed(model, x)[""].dense(), streamed(model, x, sizes=sizes, sketch=10)[""]
    assert isinstance(found, Sketch)
    assert len(found.rows) <= 10
    difference = torch.linalg.eigvalsh(exact - found.dense())
    assert difference.min() > -1e-12
    assert difference.max() <= found.error + 1e-12
    values = torch.linalg.eigvalsh(exact).flip(0)
    bounds = torch.stack([values[m:].sum() / (11 - m) for m in range(11)])
    assert 0 < found.error <= bounds.min() + 1e-12


def test_a_sketch_loses_nothing_of_low_rank():
    weight, x = normal(5, 200), normal(40, 200, seed=1)
    found = streamed(lambda x: (x @ weight.T).tanh(), x, sketch=5)[""]
    exact = streamed(lambda x: (x @ weight.T).tanh(), x)[""].dense()
    torch.testing.assert_close(found.dense(), exact)
    assert found.error < 1e-12 * exact.trace()
    wide = streamed(lambda x: (x @ weight.T).tanh(), x, sketch=500)[""]
    assert isinstance(wide, Sketch)
    torch.testing.assert_close(wide.dense(), exact)


def test_quantities_of_an_agop_accept_a_sketch():
    weight, x = normal(5, 40), normal(30, 40, seed=1)
    found = streamed(lambda x: (x @ weight.T).tanh(), x, sketch=5)[""]
    assert isinstance(found, Sketch)
    torch.testing.assert_close(effective_rank(found), effective_rank(found.dense()))
    torch.testing.assert_close(top_eigenvectors(found, 3).values, top_eigenvectors(found.dense(), 3).values)


# As a metric.

PROCESSES = """
def shared(model, x, cuts, sketch):
    moments = AGOP(["", "3"], sketch=sketch)
    for part in x[cuts[rank] : cuts[rank + 1] if rank < world - 1 else 20].split(4):
        if len(part):
            moments.update(model, part)
    return moments
generator = torch.Generator().manual_seed(0)
for width, dtype, tolerance in ((5, torch.float32, 1e-6), (90, torch.float64, 1e-12)):
    model = torch.nn.Sequential(torch.nn.Tanh(), *mlp((width, 8, 3), generator=generator)).to(dtype)
    x = torch.randn(20, width, generator=generator, dtype=dtype)
    whole = AGOP(["", "3"], sync_on_compute=False)
    whole.update(model.double(), x.double())
    model.to(dtype)
    expected = whole.compute()
    for cuts, sketch in (((0, 7, 16), None), ((0, 20, 20), 60)):
        moments = shared(model, x, cuts, sketch)
        for _ in range(2):
            for name, one in moments.compute().items():
                error = (one.dense() - expected[name].dense()).norm() / expected[name].dense().norm()
                assert error < tolerance, (name, sketch, error)
    moments = shared(model, x, (0, 7, 16), 2)
    for _ in range(2):
        for name, one in moments.compute().items():
            exact = expected[name].dense()
            values, short = (torch.linalg.eigvalsh(matrix) for matrix in (exact, exact - one.dense()))
            rounding, least = tolerance * values[-1], min(values[: len(values) - m].sum() / (3 - m) for m in range(3))
            assert len(one.rows) == 2, one.rows.shape
            assert short[0] > -rounding and short[-1] < one.error + rounding, (name, short, one.error)
            assert 0 < one.error < least + rounding, (name, one.error, least)
try:
    AGOP().compute()
except EmptyError as error:
    assert str(error) == "AGOP.compute(x): expected samples, got none. Call update first.", error
else:
    raise AssertionError("No samples, and no error.")
"""


@pytest.mark.unchecked
def test_processes_give_what_one_gives(tmp_path):
    """Unequal shards, some empty; a sketch of all keeps no more rows than one of a single process, and its bound."""
    imports = "from gnomon import AGOP; from gnomon.errors import EmptyError; from gnomon.models import mlp"
    on_processes(3, imports, PROCESSES, tmp_path)


def test_lives_among_torchmetrics():
    model, x = mlp((5, 6, 2)).double(), normal(20, 5)
    expected = streamed(model, x)[""].dense()
    collection = MetricCollection({"a": AGOP(), "b": AGOP(["2"])}, compute_groups=False)
    collection(model, x[:8])
    collection.update(model, x[8:])
    torch.testing.assert_close(collection.compute()[""].dense(), expected)
    one = AGOP()
    assert one(model, x[:8]) is None
    for copy in (one.clone(), pickle.loads(pickle.dumps(one))):
        copy.update(model, x[8:])
        torch.testing.assert_close(copy.compute()[""].dense(), expected)
    one.reset()
    one.update(model, x)
    torch.testing.assert_close(one.compute()[""].dense(), expected)


def test_the_network_may_change_between_updates():
    model, x = nn.Linear(4, 3, bias=False).double(), normal(5, 4)
    moments, expected = AGOP(), 0
    for seed in range(3):
        model.weight.data = normal(3, 4, seed=seed)
        moments.update(model, x)
        expected = expected + model.weight.detach().T @ model.weight.detach() / 3
    torch.testing.assert_close(moments.compute()[""].dense(), expected)


def test_that_samples_do_not_mix_is_looked_at_once_a_network():
    passes = []
    one, other = mlp((4, 5, 2)).double(), mlp((4, 5, 2)).double()
    for model in (one, other):
        model.register_forward_pre_hook(lambda model, inputs: passes.append(len(inputs[0])))
    moments = AGOP()

    def looked(model):
        """Whether the three samples were run that show whether they mix."""
        passes.clear()
        moments.update(model, normal(5, 4))
        return 3 in passes

    assert [looked(model) for model in (one, one, other, other)] == [True, False, True, False]
    moments.reset()
    assert looked(other)
    other.append(nn.BatchNorm1d(2)).double()
    with pytest.raises(UnsupportedModuleError, match="got BatchNorm1d '3' normalising by the batch"):
        looked(other)


@pytest.mark.bad_input
def test_bad_use_is_named():
    model, x = mlp((5, 6, 2)), normal(4, 5).float()
    with pytest.raises(EmptyError, match=r"AGOP\(layers\): expected at least one layer, got none"):
        AGOP([])
    with pytest.raises(RangeError, match=r"layers different names, got .*; sketch a whole number of at least 1, got 0"):
        AGOP(["0", "0"], sketch=0)
    for layers in (["head"], "head"):
        with pytest.raises(RangeError, match=r"AGOP.update\(layers\): expected one of 0, 1, 2, got 'head'"):
            AGOP(layers).update(model, x)
    in_place = nn.Sequential(nn.Linear(5, 6), nn.ReLU(inplace=True), nn.Linear(6, 2))
    with pytest.raises(UnsupportedModuleError, match=r"layers that leave their input as it is, got '1', which changes"):
        AGOP("1").update(in_place, x)
    with pytest.raises(EmptyError, match=r"AGOP.compute\(x\): expected samples, got none"):
        AGOP().compute()
    with pytest.raises(RangeError, match=r"AGOP.update\(x\): expected finite numbers, got nan at index \(0, 0\)"):
        AGOP().update(model, x * torch.nan)
    moments = AGOP(["", "2"])
    moments.update(model, x)
    with pytest.raises(ShapeError, match=r"expected 5 entries at the input of layer '' as before, got 6. Use one AGOP"):
        moments.update(mlp((6, 6, 2)), normal(4, 6).float())
    before = moments.compute()[""].dense()
    torch.testing.assert_close(before, streamed(model, x)[""].dense())


def test_layers_off_the_path_are_named():
    class Aside(nn.Module):
        def __init__(self):
            super().__init__()
            self.way, self.aside, self.never = nn.Linear(4, 2), nn.Linear(4, 2), nn.Linear(4, 2)

        def forward(self, x):
            self.aside(x)
            return self.way(x)

    x = normal(3, 4).float()
    for name in ("aside", "never"):
        with pytest.raises(UnsupportedModuleError, match=rf"got layer '{name}', on which no path from the one to the"):
            AGOP(["way", name]).update(Aside(), x)
    with pytest.raises(UnsupportedModuleError, match="got an input, on which no path"):
        AGOP().update(lambda x: torch.zeros(len(x), 2), x)
    with pytest.raises(UnsupportedModuleError, match=r"got BatchNorm1d '0' normalising by the batch"):
        AGOP().update(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)), x)


def test_a_probe_takes_it_without_jacobians():
    model, x = zoo("max-pool")
    plain = agop(input_jacobian(model, x)).detach()
    reading = Probe(model, x, {"rank": effective_rank, "agop": lambda jacobian: agop(jacobian)}).read()
    other = Probe(model, x, [effective_rank]).read()
    torch.testing.assert_close(reading.values["agop"], plain)
    torch.testing.assert_close(other.values["effective_rank"], reading.values["rank"])
    assert "jacobian" not in other.seconds


# Its root, its rank, its eigenvectors.


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_the_root_squares_to_the_matrix(rank):
    rows = normal(rank, 6)
    root = psd_root(rows.T @ rows)
    torch.testing.assert_close(root @ root, rows.T @ rows)
    torch.testing.assert_close(root, root.T)
    assert torch.linalg.eigvalsh(root).min() > -1e-7


def test_the_root_is_blind_to_rounding_below_zero():
    torch.testing.assert_close(psd_root(torch.diag(torch.tensor([1.0, -1e-7]))), torch.diag(torch.tensor([1.0, 0.0])))


def test_the_root_s_gradient_holds_at_equal_eigenvalues():
    def of_rows(rows):
        return psd_root(rows.T @ rows)

    assert torch.autograd.gradcheck(of_rows, normal(8, 4).requires_grad_())
    equal = torch.cat([torch.eye(4), torch.eye(4)]).double().requires_grad_()
    assert torch.autograd.gradcheck(of_rows, equal)
    zero = torch.zeros(3, 3).double().requires_grad_()
    (gradient,) = torch.autograd.grad(psd_root(zero).sum(), zero)
    torch.testing.assert_close(gradient, torch.zeros_like(zero))


def test_the_root_s_gradient_is_zero_in_the_null_space():
    """Rounding there has a root too, of half the digits, and a gradient divided by it would be of size 1e8."""
    rows, direction = normal(2, 5), normal(5, 5)
    matrix = (rows.T @ rows).requires_grad_()
    (found,) = torch.autograd.grad((psd_root(matrix) * direction).sum(), matrix)
    _, values, vectors = torch.linalg.svd(rows)
    roots = torch.cat([values, torch.zeros(3).double()])
    sums = roots[:, None] + roots
    turned = torch.where(sums > 0, vectors @ direction @ vectors.T / sums, 0)
    torch.testing.assert_close(found, vectors.T @ turned @ vectors)
    small = (1e-20 * rows.T @ rows).requires_grad_()
    (large,) = torch.autograd.grad((psd_root(small) * direction).sum(), small)
    torch.testing.assert_close(large, 1e10 * found)


def test_an_agop_beyond_the_dtypes_range_is_refused():
    jacobian = normal(4, 2, 3)
    with pytest.raises(
        RangeError, match=r"^agop\(jacobian\): expected an AGOP that torch.float64 can hold, got larger"
    ):
        agop(jacobian * 1e200)
    torch.testing.assert_close(agop(jacobian * 1e100), agop(jacobian) * 1e200)


@pytest.mark.bad_input
def test_bad_matrices_are_named():
    with pytest.raises(RangeError, match=r"psd_root\(matrix\): expected no negative eigenvalues, got -1.0"):
        psd_root(torch.tensor([1.0, -1.0]).diag())
    with pytest.raises(ShapeError, match=r"psd_root\(matrix\): expected a square matrix, got shape \(0, 0\)"):
        psd_root(torch.zeros(0, 0))
    weight = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    for function in (effective_rank, partial(top_eigenvectors, k=1), partial(gnomon.nfa_correlation, weight)):
        with pytest.raises(
            RangeError, match=r"\(agop\): expected a symmetric matrix, got one that is not. Pass an AGOP; "
        ):
            function(weight)
    with pytest.raises(ShapeError, match=r"psd_root\(matrix\): expected a square matrix, got shape \(2, 3\)"):
        psd_root(torch.ones(2, 3))
    with pytest.raises(RangeError, match=r"psd_root\(matrix\): expected finite"):
        psd_root(torch.full((2, 2), torch.nan))
    for measure in (effective_rank, lambda matrix: top_eigenvectors(matrix, 1)):
        with pytest.raises(ShapeError, match=r"\(agop\): expected a square matrix, got shape \(2, 3\)"):
            measure(torch.ones(2, 3))
        with pytest.raises(RangeError, match=r"\(agop\): expected finite numbers, got inf"):
            measure(torch.full((2, 2), torch.inf))
    with pytest.raises(RangeError, match=r"top_eigenvectors: expected k a whole number from 1 to 2, got 3"):
        top_eigenvectors(torch.eye(2), 3)
    with pytest.raises(RangeError, match=r"top_eigenvectors: expected k a whole number from 1 to 3, got 1.5"):
        top_eigenvectors(torch.eye(3), 1.5)


@pytest.mark.bad_input
@pytest.mark.parametrize("shape", [(3, 1), (2.0, 2.0), (-2, -2), (0,), (), (True, 4), "22", (None, 4)], ids=str)
def test_axes_that_no_input_has_are_refused(shape):
    got = re.escape(str(tuple(shape)))
    says = rf"^top_eigenvectors\(shape\): expected axes of at least 1, .*, of 4 entries together, got {got}\. Pass the"
    with pytest.raises(ShapeError, match=says):
        top_eigenvectors(torch.eye(4), 1, shape=shape)


@pytest.mark.bad_input
@pytest.mark.parametrize(("shape", "kind"), [(4, "int"), (2.0, "float"), (torch.tensor(4), "Tensor")])
def test_a_number_is_no_shape_of_an_input(shape, kind):
    says = (
        rf"^top_eigenvectors\(shape\): expected a sequence of whole numbers, got {kind}\. Pass the shape of one input"
    )
    with pytest.raises(ArgumentTypeError, match=says):
        top_eigenvectors(torch.eye(4), 1, shape=shape)


@pytest.mark.bad_input
def test_axes_may_be_of_numpy_or_torch():
    for shape in ([2, 2], torch.Size((2, 2)), np.array([2, 2]), torch.tensor([2, 2])):
        assert top_eigenvectors(torch.eye(4), 1, shape=shape).vectors.shape == (1, 2, 2)


@pytest.mark.parametrize("held", [lambda rows: rows.T @ rows, lambda rows: Dense(rows.T @ rows), Factored])
@pytest.mark.parametrize("shape", [(3, 12), (20, 12)])
def test_rank_and_eigenvectors_are_those_of_the_matrix(held, shape):
    rows = normal(*shape)
    matrix = rows.T @ rows
    values = torch.linalg.eigvalsh(matrix).flip(0)
    torch.testing.assert_close(effective_rank(held(rows)), values.sum() / values[0])
    found = top_eigenvectors(held(rows), 3, shape=(3, 2, 2))
    torch.testing.assert_close(found.values, values[:3])
    vectors = found.vectors.flatten(1)
    torch.testing.assert_close(matrix @ vectors.T, vectors.T * found.values)
    torch.testing.assert_close(vectors @ vectors.T, torch.eye(3).double())
    assert (vectors.amax(1) == vectors.abs().amax(1)).all()
    assert found.vectors.shape == (3, 3, 2, 2)


def test_effective_rank_counts_equal_directions():
    for rank in (1, 4):
        frame = torch.linalg.qr(normal(9, rank))[0]
        torch.testing.assert_close(effective_rank(7 * frame @ frame.T), torch.tensor(float(rank)).double())
    torch.testing.assert_close(effective_rank(torch.zeros(3, 3)), torch.tensor(0.0))
    jacobian = normal(1, 4, 6)
    torch.testing.assert_close(effective_rank(agop(jacobian)), 1 / gnomon.explained_variance_ratio(jacobian)[0])
    assert torch.autograd.gradcheck(lambda rows: effective_rank(rows.T @ rows), normal(5, 4).requires_grad_())


@pytest.mark.parametrize("scale", [1e37, 1e-40])
def test_effective_rank_of_large_and_small_matrices_is_that_of_their_rows(scale):
    rows = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    whole = rows.mT @ rows
    torch.testing.assert_close(effective_rank(scale * whole), effective_rank(Factored(rows)), rtol=1e-4, atol=0)


def test_a_layer_whose_rows_are_no_samples_is_refused():
    """Time first: its rows would be taken for samples, and the samples for features."""

    class TimeFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.out = nn.LayerNorm(4), nn.Linear(4, 2)

        def forward(self, x):
            return self.out(self.norm(x.transpose(0, 1))).mean(0)

    for n in (1, 5, 7):  # 7 of length 7 too
        with pytest.raises(UnsupportedModuleError, match=r"AGOP.update\(layers\): .* LayerNorm whose input has 7"):
            AGOP(["norm"]).update(TimeFirst(), torch.randn(n, 7, 4))


class Forward(nn.Module):
    """Layers a and b, applied as a function of them and of the input says."""

    def __init__(self, function, a, b):
        super().__init__()
        self.function, self.a, self.b = function, a, b

    def forward(self, x):
        return self.function(x, self.a, self.b)


def pair(one, other, *layers):
    """Two networks with the same layers."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        a, b = (make() for make in layers)
    return Forward(one, a, b).double().eval(), Forward(other, a, b).double().eval()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # A linear layer on tokens whose output is changed in place, after something else has used it.
        (
            lambda x, a, b: (lambda z: b((z.mean(1, keepdim=True) + z.relu_()).flatten(1)))(a(x.view(-1, 3, 2))),
            lambda x, a, b: (lambda z: b((z.mean(1, keepdim=True) + z.relu()).flatten(1)))(a(x.view(-1, 3, 2))),
        ),
        # One row at a time.
        (
            lambda x, a, b: b(torch.stack([a(row) for row in x.view(-1, 2)]).view(len(x), -1)),
            lambda x, a, b: b(a(x.view(-1, 2)).view(len(x), -1)),
        ),
        # A call whose output is not used.
        (
            lambda x, a, b: (a(x[:, :2]), b(a(x.view(-1, 3, 2)).flatten(1)))[1],
            lambda x, a, b: b(a(x.view(-1, 3, 2)).flatten(1)),
        ),
        # A call that does not depend on the input, though it has a gradient.
        (
            lambda x, a, b: b(a(x.view(-1, 3, 2)).flatten(1)) + a(torch.ones(1, 2).to(x).requires_grad_()).sum(),
            lambda x, a, b: b(a(x.view(-1, 3, 2)).flatten(1)) + a(torch.ones(1, 2).to(x)).sum(),
        ),
    ],
    ids=["in place", "row by row", "an unused call", "a call without the input"],
)
def test_it_depends_on_what_a_network_computes_not_on_how(one, other):
    nets = pair(one, other, lambda: nn.Linear(2, 2), lambda: nn.Linear(6, 3))
    x = normal(5, 6)
    torch.testing.assert_close(nets[0](x), nets[1](x))
    found, expected = (streamed(net, x, ["a", "b"]) for net in nets)
    for name in ("a", "b"):
        torch.testing.assert_close(found[name].dense(), expected[name].dense())
    assert expected["a"].dense().trace() > 0.1
    torch.testing.assert_close(*(gnomon.nfa_table(net, x).cosine for net in nets))


def test_chunks_may_lack_an_expert():
    def experts(x, a, b):
        chosen = x[:, :1] > 0
        if not chosen.any():
            return b(x)
        return torch.where(chosen, a(x), b(x))

    (model, _), x = pair(experts, experts, lambda: nn.Linear(6, 3), lambda: nn.Linear(6, 3)), normal(12, 6).sort(0)[0]
    for name, whole in streamed(model, x, ["a", "b"]).items():
        torch.testing.assert_close(streamed(model, x, ["a", "b"], memory=1)[name].dense(), whole.dense())


@pytest.mark.parametrize(
    ("function", "layer", "message"),
    [
        (lambda x, a, b: b(a(x, 2 * x, x + 1)[0].flatten(1)), lambda: nn.MultiheadAttention(2, 1), "given 3."),
        (
            lambda x, a, b: b(a(x, value=x, key=x + 1)[0].flatten(1)),
            lambda: nn.MultiheadAttention(2, 1),
            "given 2.",
        ),
        (
            lambda x, a, b: b(a(x).flatten(1)),
            lambda: Forward(partly_in_place, nn.Tanh(), nn.Tanh()),
            "changes it",
        ),
        (lambda x, a, b: b(a(torch.fft.rfft(x)).abs().flatten(1)), nn.Identity, "got 'a' with torch.complex128"),
    ],
    ids=["queries, keys and values", "by name", "partly in place", "complex"],
)
def test_inputs_that_are_not_one_real_tensor_are_refused(function, layer, message):
    model, _ = pair(lambda x, a, b: function(2 * x.view(-1, 3, 2), a, b), None, layer, lambda: nn.Linear(6, 3))
    model.a.batch_first = True
    moments = AGOP("a")
    with pytest.raises(UnsupportedModuleError, match=message):
        moments.update(model, normal(5, 6))
    with pytest.raises(EmptyError, match="Call update first"):
        moments.compute()


def partly_in_place(x, a, b):
    mean = x.mean(1, keepdim=True)
    return mean * x.relu_()


def test_nothing_is_kept_of_a_batch_that_is_refused():
    model, aside = pair(lambda x, a, b: b(a(x)), lambda x, a, b: b(x), lambda: nn.Linear(6, 6), lambda: nn.Linear(6, 3))
    moments, x = AGOP(["", "a"]), normal(5, 6)
    moments.update(model, x)
    before = moments.compute()[""].dense()
    with pytest.raises(UnsupportedModuleError, match="got layer 'a', on which no path"):
        moments.update(aside, x)
    torch.testing.assert_close(moments.compute()[""].dense(), before)
