"""The neural tangent kernel: by every way the same, equal to one gradient a sample and output, within its memory."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from gnomon.autodiff import _gram_products as gram_products
from gnomon.errors import EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.measure import ntk, ntk_to_point
from gnomon.models import mlp
from tests.children import printed
from tests.contract.of_kernel import gradients
from tests.drawn import normal
from tests.zoo import BUILDERS, zoo

# torch's forward mode compiles its decompositions when it is first used.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


def plain(model, x, x2):
    return torch.einsum("ikp,jlp->ijkl", gradients(model, x), gradients(model, x2))


def traced(full):
    return full.diagonal(dim1=2, dim2=3).sum(-1)


def plan_of(model, x, budget=2**29, trace=True):
    with torch.no_grad(), gram_products.differentiable(recording=True):
        parameters = gram_products.trainable(model, x)
        return gram_products.make_plan(model, parameters, x, None, trace=trace, budget=budget, create_graph=False)


@pytest.mark.parametrize("memory", [None, 20_000, 1], ids=["one block", "blocks", "one sample a block"])
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("name", BUILDERS)
def test_equals_one_gradient_for_each_sample_and_output(name, graph, memory):
    model, x = zoo(name)
    x = x[:6]
    x2 = torch.cat([x[:1], -x[:1]])
    whole, across = plain(model, x, x), plain(model, x, x2)
    with torch.set_grad_enabled(graph):
        torch.testing.assert_close(ntk(model, x, trace=False, memory=memory), whole)
        torch.testing.assert_close(ntk(model, x, memory=memory), traced(whole))
        torch.testing.assert_close(ntk(model, x, x2, trace=False, memory=memory), across)
        torch.testing.assert_close(ntk(model, x, x2, memory=memory), traced(across))
        torch.testing.assert_close(ntk_to_point(model, x, x2[1], memory=memory), traced(across)[:, 1])


def test_every_way_is_taken():
    """Or the test above would compare one way with itself."""
    model, x = zoo("residual")
    plan = plan_of(model, x)
    assert (plan.layers, plan.contracted, plan.multiplied) == ({"first", "last"}, {}, {})
    model, x = zoo("shared")
    assert plan_of(model, x).layers == {"last"}
    assert set(plan_of(model, x).contracted) == {"layer.weight", "layer.bias"}
    model, x = zoo("attention")
    assert plan_of(model, x).layers == {"last"}
    assert not plan_of(model, x).multiplied
    assert plan_of(model, x, budget=20_000).multiplied


@pytest.mark.parametrize("way", ["layers", "Jacobians", "products"])
@pytest.mark.parametrize("trace", [True, False])
def test_the_ways_agree(way, trace, monkeypatch):
    model, x = zoo("mlp")
    with torch.no_grad():
        expected = ntk(model, x, trace=trace)
        if way != "layers":
            monkeypatch.setattr(gram_products, "eligible", lambda _: {})
            assert plan_of(model, x).layers == set()
        memory = 1 if way == "products" else None
        assert bool(plan_of(model, x, memory or 2**29).multiplied) == (way == "products")
        torch.testing.assert_close(ntk(model, x, trace=trace, memory=memory), expected)


class Tied(nn.Module):
    """Uses a layer's weight once more, past the layer."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.layer(x)) @ self.layer.weight)


def hooked():
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(inplace=True), nn.Linear(4, 3))
    model[0].register_forward_hook(lambda module, inputs, output: output.sin())
    return model


def parametrized(layer):
    nn.utils.parametrize.register_parametrization(layer, "weight", nn.Tanh())
    return layer


AWKWARD = {
    "a weight used past its layer": Tied,
    "a hook that changes the output": hooked,
    "in-place activation": lambda: nn.Sequential(nn.Linear(6, 4), nn.ELU(inplace=True), nn.Linear(4, 3)),
    "a weight made of another": lambda: nn.Sequential(parametrized(nn.Linear(6, 4)), nn.Linear(4, 3)),
    "gated": lambda: nn.Sequential(nn.Linear(6, 8), nn.GLU(), nn.Linear(4, 3)),
    "softmax between": lambda: nn.Sequential(nn.Linear(6, 4), nn.Softmax(1), nn.Linear(4, 3)),
    "no last layer": lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh()),
    "an unused layer": lambda: nn.ModuleDict({"used": nn.Linear(6, 3), "unused": nn.Linear(6, 3)}),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_linear_layers(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, x = AWKWARD[name]().double(), torch.randn(4, 6, dtype=torch.float64)
    if isinstance(model, nn.ModuleDict):
        model.forward = lambda x: model["used"](x)
    with torch.no_grad():
        torch.testing.assert_close(ntk(model, x, trace=False), plain_with_grad(model, x))


def plain_with_grad(model, x):
    with torch.enable_grad():
        return plain(model, x, x)


def test_functions_that_torch_cannot_map_over_samples():
    model, x = nn.Sequential(nn.LayerNorm(6).double(), nn.Linear(6, 3).double()), zoo("mlp")[1]
    model.register_forward_hook(lambda module, inputs, output: Own.apply(output))
    expected = plain(model, x, x)
    with torch.no_grad():
        for memory in (None, 1):
            torch.testing.assert_close(ntk(model, x, trace=False, memory=memory), expected)


@pytest.mark.parametrize("frozen", ["0.weight", "0.bias", "2.weight", "2.bias"])
def test_frozen_parameters_do_not_count(frozen):
    model, x = zoo("bias")
    model.get_parameter(frozen).requires_grad_(requires_grad=False)
    with torch.no_grad():
        torch.testing.assert_close(ntk(model, x, trace=False), plain_with_grad(model, x))


def test_reads_tokens():
    model = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(8, 3)).double()
    tokens = torch.tensor([[0, 1], [1, 1], [6, 2]])
    torch.testing.assert_close(ntk(model, tokens, trace=False), plain(model, tokens, tokens))


@pytest.mark.unchecked
@pytest.mark.parametrize("name", ["mlp", "residual", "conv"])
def test_can_be_differentiated_in_the_parameters(name):
    model, x = zoo(name)
    x = x[:2]
    names = [name for name, _ in model.named_parameters()]
    for trace in (True, False):

        def kernel(*values, trace=trace):
            with torch.nn.utils.parametrize.cached():
                for key, value in zip(names, values, strict=True):
                    owner, _, leaf = key.rpartition(".")
                    model.get_submodule(owner)._parameters[leaf] = value
                return ntk(model, x, trace=trace)

        values = [p.detach().clone().requires_grad_() for p in model.parameters()]
        assert torch.autograd.gradcheck(kernel, values, fast_mode=True)


def test_leaves_everything_as_it_was():
    model, x = zoo("attention")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.inference_mode():
        inside = ntk(model, x.clone())
    torch.testing.assert_close(inside.clone(), ntk(model, x).detach())
    assert not ntk(model, x).isnan().any()
    assert torch.backends.mha.get_fastpath_enabled()
    assert all(p.grad is None for p in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keeps_the_dtype(dtype):
    model, x = zoo("mlp", dtype)
    assert ntk(model, x).dtype == ntk(model, x, trace=False).dtype == ntk_to_point(model, x, x[0]).dtype == dtype
    torch.testing.assert_close(ntk(model, x).double(), ntk(*zoo("mlp")), rtol=1e-4, atol=1e-4)


@pytest.mark.unchecked
@pytest.mark.parametrize("way", ["layers", "with a graph", "Jacobians", "products"])
def test_a_sum_over_many_outputs_is_as_large_in_half_precision(way, monkeypatch):
    """From 256 times the next term on, bfloat16 would lose that in the sum so far."""
    model = mlp((6, 4, 4, 600), bias=True, generator=torch.Generator().manual_seed(0)).bfloat16()
    model[2:].requires_grad_(False)
    exact, x = copy.deepcopy(model).double(), normal(2, 6).bfloat16()
    if way in ("Jacobians", "products"):
        monkeypatch.setattr(gram_products, "eligible", lambda _: {})
    memory = 1 if way == "products" else None
    assert bool(plan_of(model, x, memory or 2**29).multiplied) == (way == "products")
    with torch.set_grad_enabled(way == "with a graph"):
        found = ntk(model, x, memory=memory)
    assert found.dtype == torch.bfloat16
    with torch.no_grad():
        torch.testing.assert_close(found.double(), ntk(exact, x.double()), rtol=0.03, atol=0)


def test_is_positive_semidefinite_and_symmetric():
    model, x = zoo("BatchNorm")
    with torch.no_grad():
        full = ntk(model, x, trace=False)
    square = full.permute(0, 2, 1, 3).flatten(0, 1).flatten(1)
    torch.testing.assert_close(square, square.T)
    assert torch.linalg.eigvalsh(square).min() > -1e-10
    kernel = traced(full)
    torch.testing.assert_close(kernel, kernel.T)


def test_lemma_8_a_two_layer_network():
    model, x = mlp((5, 16, 1), generator=torch.Generator().manual_seed(0)).double(), zoo("mlp")[1][:, :5]
    first, second = (p.detach() for p in model.parameters())
    hidden = functional.relu(x @ first.T)
    on = (hidden > 0).double()
    expected = hidden @ hidden.T + (x @ x.T) * ((on * second.square()) @ on.T)
    torch.testing.assert_close(ntk(model, x).detach(), expected)


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


class Choosing(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x):
        return self.one(x) if float(x.sum()) > 0 else self.other(x)


@pytest.mark.bad_input
def test_bad_input_is_named():
    model, x = zoo("mlp")
    with pytest.raises(EmptyError, match=r"ntk\(x\): expected at least one sample, got none"):
        ntk(model, x[:0])
    with pytest.raises(EmptyError, match=r"ntk\(x2\): expected at least one sample, got none"):
        ntk(model, x, x[:0])
    with pytest.raises(ShapeError, match=r"ntk\(x2\): expected samples of shape \(6,\) as in x, got \(5,\)"):
        ntk(model, x, x[:, :5])
    with pytest.raises(RangeError, match=r"ntk\(x\): expected finite numbers, got nan at index \(0, 0\)"):
        ntk(model, x * torch.nan)
    with pytest.raises(RangeError, match=r"ntk\(memory\): expected a positive number of bytes, got 0"):
        ntk(model, x, memory=0)
    with pytest.raises(ShapeError, match=r"ntk_to_point\(point\): expected shape \(6,\) .*, got \(1, 6\)"):
        ntk_to_point(model, x, x[:1])
    with pytest.raises(ShapeError, match=r"ntk\(model\): expected outputs of shape \(n, c\), got shape \(n,\)"):
        ntk(nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)).double(), x)
    with pytest.raises(TypeError, match=r"ntk\(model\): expected a Module, got function"):
        ntk(lambda x: x, x)
    with pytest.raises(UnsupportedModuleError, match=r"ntk\(model\): expected parameters that require gradients"):
        ntk(nn.ReLU(), x)
    with pytest.raises(UnsupportedModuleError, match=r"ntk\(model\): expected samples that do not mix"):
        ntk(nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)).double(), x)
    with torch.no_grad(), pytest.raises(UnsupportedModuleError, match=r"calls the same layers for every sample"):
        ntk(Choosing().double(), torch.cat([x.abs(), -3 * x.abs()[:1]]), memory=1)


MEASURE = """
import torch
from gnomon.measure import ntk
from pathlib import Path
torch.set_num_threads(1)

def highest():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)

model = torch.nn.Sequential(torch.nn.Linear(100, 2000), LAYER, torch.nn.Linear(2000, 10))
x = torch.randn(SAMPLES, 100)
with torch.no_grad():
    ntk(model, x[:2])
    before = highest()
    ntk(model, x, memory=BUDGET)
print(highest() - before)
"""


def peak(layer, samples, budget):
    """Bytes that the kernel took at its highest, its result included."""
    code = MEASURE.replace("LAYER", layer).replace("SAMPLES", str(samples)).replace("BUDGET", str(budget))
    return 1024 * int(printed(code))


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
@pytest.mark.parametrize(("layer", "samples"), [("torch.nn.Softmax(1)", 900), ("torch.nn.LayerNorm(2000)", 200)])
def test_peak_is_the_result_and_the_budget(layer, samples):
    budget, result = 32 * 2**20, 4 * samples**2
    # A tenth for the allocator's own needs.
    assert peak(layer, samples, budget) < 1.1 * (result + budget)
    assert peak(layer, samples, 2**30) > 2 * (result + budget), "all would have fitted: the test shows nothing"


@pytest.mark.parametrize("rtol", [None, 0.1])
def test_a_diverged_network_is_said(rtol):
    model, x = mlp((4, 5, 3), generator=torch.Generator().manual_seed(0)), torch.ones(2, 4)
    model[0].weight.data[0, 0] = torch.nan
    with pytest.raises(RangeError, match=r"ntk\(ntk\): expected finite numbers, got nan at index \(0, 0\)"):
        ntk(model, x, rtol=rtol)
    with pytest.raises(RangeError, match=r"ntk_to_point\(ntk\): expected finite numbers, got nan at index \(0,\)"):
        ntk_to_point(model, x, x[0], rtol=rtol)


def test_complex_parameters_are_refused():
    """Their derivatives are not those of pairs of real numbers."""

    class Spectral(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3, 2, dtype=torch.complex64))

        def forward(self, x):
            return (x.to(self.w) @ self.w).real

    with pytest.raises(
        UnsupportedModuleError, match=r"expected real parameters, got 'w', which is complex. Store it as"
    ):
        ntk(Spectral(), torch.ones(2, 3))
