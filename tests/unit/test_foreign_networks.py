"""Networks that others write: whatever the memory, what plain autograd gives of two equal samples; unharmed."""

from contextlib import suppress
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import gnomon
from gnomon.autodiff._single_steps import in_single_steps
from gnomon.errors import GnomonError, UnsupportedModuleError
from tests.foreign import FOREIGN, ONCE, foreign
from tests.zoo import BUILDERS, zoo

LABELS = torch.arange(7) % 3
# torch maps a loop over what it has no rule for.
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
MEMORIES = (None, 3000, 1)


def gradients(model, x):
    """In the parameters, of each sample and output: of a sample beside itself, by plain autograd."""
    parameters = list(model.parameters())
    rows = []
    for sample in x:
        for output in model(torch.stack([sample, sample]))[0]:
            found = torch.autograd.grad(output, parameters, retain_graph=True, materialize_grads=True)
            rows.append(torch.cat([part.flatten() for part in found]))
    return torch.stack(rows).unflatten(0, (len(x), -1))


def jacobians(model, x):
    """In the input, in the same way."""
    rows = []
    for sample in x:
        pair = torch.stack([sample, sample]).requires_grad_()
        rows.append(torch.stack([torch.autograd.grad(o, pair, retain_graph=True)[0][0] for o in model(pair)[0]]))
    return torch.stack(rows)


def held(model):
    return {name: id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False)}


@pytest.mark.unchecked
@pytest.mark.parametrize("n", [7, 1])
@pytest.mark.parametrize("name", FOREIGN)
def test_the_kernel_is_that_of_plain_gradients_at_any_memory(name, n):
    model, x = foreign(name, n)
    before, each = held(model), gradients(model, x)
    expected = torch.einsum("ikp,jlp->ijkl", each, each)
    for memory in MEMORIES:
        with torch.no_grad():
            torch.testing.assert_close(gnomon.ntk(model, x, trace=False, memory=memory), expected)
            trace = gnomon.ntk_to_point(model, x, x[-1], memory=memory)
        torch.testing.assert_close(trace, expected.diagonal(dim1=2, dim2=3).sum(-1)[:, -1])
    torch.testing.assert_close(gnomon.ntk(model, x, trace=False), expected)
    assert held(model) == before
    assert all(isinstance(parameter, nn.Parameter) for parameter in model.parameters())


@pytest.mark.parametrize("n", [7, 1])
@pytest.mark.parametrize("name", FOREIGN)
def test_derivatives_in_the_input_are_plain_ones_at_any_memory(name, n):
    model, x = foreign(name, n)
    before, expected = held(model), jacobians(model, x)
    for memory in MEMORIES:
        with torch.no_grad():
            torch.testing.assert_close(gnomon.input_jacobian(model, x, memory=memory), expected)
            torch.testing.assert_close(gnomon.centroid(model, x, memory=memory), expected.sum(1))
            values = gnomon.singular_values(model, x, memory=memory)
        torch.testing.assert_close(values, torch.linalg.svdvals(expected), rtol=1e-5, atol=1e-6)
        moments = gnomon.AGOP(memory=memory)
        moments.update(model, x)
        torch.testing.assert_close(moments.compute()[""].dense(), gnomon.agop(expected))
    assert held(model) == before


@pytest.mark.filterwarnings("ignore:nfa_table. no path from the input")
@pytest.mark.parametrize("name", FOREIGN)
def test_parameters_stay_the_same_objects_where_a_function_refuses_too(name):
    model, x = foreign(name)
    before, buffers = held(model), {key: value.clone() for key, value in model.state_dict().items()}
    for function in (
        lambda: gnomon.centroid_rate(model, x, x, LABELS, functional.cross_entropy),
        lambda: gnomon.centroid_influence(model, x, x, LABELS, functional.cross_entropy),
        lambda: gnomon.layer_collapse(model, x, LABELS),
        lambda: gnomon.nfa_table(model, x),
        lambda: gnomon.deepfool(model, x, max_steps=2),
        lambda: gnomon.ntk(model, x[:, :5]),
    ):
        with suppress(GnomonError, RuntimeError):
            function()
        assert held(model) == before
    for key, value in model.state_dict().items():
        torch.testing.assert_close(value, buffers[key], rtol=0, atol=0)


def test_a_network_with_one_module_twice_trains_after_its_kernel_was_read():
    model, x = foreign("one module twice")
    with torch.no_grad():
        gnomon.ntk(model, x)
    before = model[0].weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    functional.cross_entropy(model(x), LABELS).backward()
    optimizer.step()
    assert (model[0].weight - before).abs().max() > 1e-4


DERIVED = {
    "products": lambda model, x: gnomon.JacobianOperator(model, x).matvec(x.cos()),
    "a layer's AGOP": lambda model, x: gnomon.nfa_table(model, x).cosine,
    "Hessian": lambda model, x: gnomon.hessian_trace(model, x, LABELS).value,
    "Gauss-Newton": lambda model, x: gnomon.gauss_newton_eigenvalues(model, x, LABELS, k=2).value,
    "commutators": lambda model, x: gnomon.commutator_defect(model, x, LABELS, batch=3).value,
    "penalty": lambda model, x: torch.autograd.grad(
        gnomon.GrokAlign(1.0, "exact")(model, x), [*model.parameters()], materialize_grads=True
    ),
}


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("name", DERIVED)
def test_what_a_checkpoint_would_compute_again_has_the_same_derivatives(name, reentrant, monkeypatch):
    """Later, with other kernels, torch would refuse it; where it is reentrant, at once."""
    model, x = foreign("checkpointed")
    again = partial(checkpoint, use_reentrant=reentrant)
    monkeypatch.setattr("tests.foreign.checkpoint", lambda part, x, use_reentrant: again(part, x))
    found = DERIVED[name](model, x)
    monkeypatch.setattr("tests.foreign.checkpoint", lambda part, x, use_reentrant: part(x))
    torch.testing.assert_close(found, DERIVED[name](model, x))


@pytest.mark.parametrize("name", ["pruned", "a weight made by a hook", "a forward of its own", "one module twice"])
def test_agop_of_a_layer_is_that_of_its_input(name):
    model, x = foreign(name)
    layer = model[0]
    moments = gnomon.AGOP(["0"])
    moments.update(model, x)
    seen = []
    handle = layer.register_forward_pre_hook(lambda module, inputs: (seen.append(inputs[0] * 1), (seen[-1],))[1])
    outputs = model(x.clone().requires_grad_())
    handle.remove()
    total = 0
    for k in range(3):
        for gradient in torch.autograd.grad(outputs[:, k].sum(), seen, retain_graph=True):
            total = total + gradient.T @ gradient
    torch.testing.assert_close(moments.compute()["0"].dense(), total / len(x))


def test_layer_collapse_takes_the_weight_that_a_pruned_layer_multiplies_with():
    model, x = foreign("pruned")
    plain = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3)).double()
    with torch.no_grad():
        model[0].weight_orig.mul_(1.5)  # as a step of training, after which the weight is one of before
        plain[0].weight.copy_(model[0].weight_orig * model[0].weight_mask)
        plain[0].bias.copy_(model[0].bias)
    plain[2].load_state_dict(model[2].state_dict())
    ours, theirs = (gnomon.layer_collapse(network, x, LABELS) for network in (model, plain))
    torch.testing.assert_close(ours.nc1_right, theirs.nc1_right)
    torch.testing.assert_close(ours.nc1_before, ours.nc1_right)
    with pytest.raises(UnsupportedModuleError, match=r"got Linear '0' with a forward of its own"):
        gnomon.layer_collapse(foreign("a forward of its own")[0], x, LABELS, layers=["0"])


def test_torch_gives_wrong_gradients_of_batch_norm_for_one_sample():
    """What pairs are for: if this fails, torch has mended it."""
    norm = nn.BatchNorm2d(8).eval().double()
    v = torch.randn(2, 36, 8, dtype=torch.float64)
    x = torch.randn(2, 8, 6, 6, dtype=torch.float64)

    def gradient(x, v):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(norm(x).flatten(2).transpose(1, 2), x, v)[0]

    wrong, right = gradient(x[:1], v[:1]), gradient(x, v)[:1]
    assert (wrong - right).norm() > right.norm()


# Of a linear layer the kernel does not depend on the parameters; hooks change the gradients of the kernel too.
@pytest.mark.unchecked
@pytest.mark.parametrize("name", sorted({*BUILDERS, *FOREIGN} - ONCE - {"linear", "masked gradients"}))
def test_gradients_of_kernel_and_rate_are_finite_differences(name):
    model, x = foreign(name) if name in FOREIGN else zoo(name)
    x = x[:3]
    if name in FOREIGN:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.sin(torch.arange(parameter.numel())).view(parameter.shape))
    labels, parameters = torch.arange(len(x)) % model(x).shape[1], list(model.parameters())
    directions = [torch.cos(torch.arange(1, 1 + p.numel())).view(p.shape).to(p) for p in parameters]
    for function in (
        lambda: gnomon.ntk(model, x).sin().sum(),
        lambda: gnomon.ntk_to_point(model, x, x[0] / 2).sin().sum(),
        lambda: gnomon.centroid_rate(model, x, x, labels, functional.cross_entropy).sin().sum(),
    ):
        found = torch.autograd.grad(function(), parameters, materialize_grads=True)
        ours = sum((gradient * direction).sum() for gradient, direction in zip(found, directions, strict=True))
        step, values = 1e-6, []
        for sign in (1, -2):
            with torch.no_grad():
                for parameter, direction in zip(parameters, directions, strict=True):
                    parameter += sign * step * direction
                values.append(function())
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter += step * direction
        torch.testing.assert_close(ours, (values[0] - values[1]) / (2 * step), rtol=1e-4, atol=1e-5)


def of_third_order(function, x):
    """The gradient of a function of the gradient, for gradgradcheck."""
    return torch.autograd.grad(function(x).sin().sum(), x, create_graph=True)[0]


@pytest.mark.parametrize(
    ("function", "order"),
    [
        (lambda x: functional.layer_norm(x, (8,)), 3),
        (lambda x: torch.layer_norm(input=x, normalized_shape=(8,)), 3),
        (lambda x: functional.instance_norm(input=x.unflatten(1, (2, 4))), 3),
        (lambda x: torch._weight_norm(x, torch.ones(3, 1, dtype=x.dtype), 0), 2),
    ],
    ids=["layer norm", "layer norm by names", "instance norm", "weight norm"],
)
def test_norms_in_single_steps(function, order):
    """torch's own are wrong at this order, or refused: if they are not, it has mended them."""
    torch.manual_seed(0)
    x = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)

    def in_steps(x):
        with in_single_steps():
            return function(x)

    torch.testing.assert_close(in_steps(x), function(x))
    for way, right in ((function, False), (in_steps, True)):
        checked = (lambda x, way=way: of_third_order(way, x)) if order == 3 else way
        if right:
            assert torch.autograd.gradgradcheck(checked, x)
        else:
            with pytest.raises(RuntimeError, match=r"mismatch|3rd\+ order"):
                torch.autograd.gradgradcheck(checked, x)


class Attending(nn.Module):
    def __init__(self, **settings):
        super().__init__()
        self.attention, self.last = nn.MultiheadAttention(6, 2, **settings), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.attention(x, x, x, need_weights=False)[0])


class Graph(nn.Module):
    """Nodes of one graph, of which it takes no fewer."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(6, 3)
        self.register_buffer("edges", torch.rand(7, 7))

    def forward(self, x):
        return self.last(self.edges @ x)


class Recurrent(nn.Module):
    """Each sample sees only those before it."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.GRU(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.layer(x)[0])


class Embedded(nn.Module):
    """Of tokens, and less the batch's mean."""

    def __init__(self):
        super().__init__()
        self.table, self.last = nn.Embedding(5, 6), nn.Linear(6, 3)

    def forward(self, x):
        rows = self.table(x).mean(1)
        return self.last(rows - rows.mean(0))


class Centred(nn.Module):
    def __init__(self, share=1.0):
        super().__init__()
        self.last, self.share = nn.Linear(6, 3), share

    def forward(self, x):
        return self.last(x - self.share * x.mean(0))


class Drifting(Centred):
    """Differs from itself too, by rounding: as does a sum in no fixed order, or a power iteration at its end."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) * (1 + 3e-7 * self.calls)


MIXING = {
    "attention": Attending,
    "mean": Centred,
    "recurrent": Recurrent,
    "weak": lambda: Centred(0.01),
    "drifting": Drifting,
}


@pytest.mark.parametrize("equal", [False, True], ids=["samples", "equal samples"])
@pytest.mark.parametrize("name", MIXING)
def test_samples_that_mix_are_refused(name, equal):
    model, x = MIXING[name](), torch.randn(1 if equal else 7, 6).expand(7, 6).contiguous()
    state = torch.get_rng_state()
    for function in (
        lambda: gnomon.input_jacobian(model, x),
        lambda: gnomon.vector_jacobian(model, x, torch.ones(3)),
        lambda: gnomon.singular_values(model, x),
        lambda: gnomon.features(model, x),
        lambda: gnomon.ntk(model, x),
        lambda: gnomon.centroid_rate(model, x, x, LABELS, functional.cross_entropy),
        lambda: gnomon.centroid_influence(model, x, x, LABELS, functional.cross_entropy),
        lambda: gnomon.AGOP().update(model, x),
        lambda: gnomon.deepfool(model, x),
        lambda: gnomon.layer_collapse(model, x, LABELS),
        lambda: gnomon.Probe(model, x, [gnomon.jacobian_norm]),
    ):
        with pytest.raises(UnsupportedModuleError, match=r"expected samples that do not mix, got outputs of a sample"):
            function()
    assert torch.equal(torch.get_rng_state(), state)


def test_tokens_that_mix_and_nodes_of_one_graph_are_refused():
    with pytest.raises(UnsupportedModuleError, match=r"ntk\(model\): expected samples that do not mix"):
        gnomon.ntk(Embedded(), torch.tensor([[0, 1], [2, 3], [4, 4]]))
    says = (
        r"\(model\): expected a network that takes any number of samples, got RuntimeError: .* at a few of them, and "
        r"none at all 7\. Where samples are nodes of one graph, .*, make each a sample of its own"
    )
    for function in (gnomon.input_jacobian, gnomon.features):
        with pytest.raises(UnsupportedModuleError, match=function.__name__ + says):
            function(Graph(), torch.randn(7, 6))
    for quantity in (gnomon.accuracy, gnomon.jacobian_norm, gnomon.nc1, gnomon.ntk):
        with pytest.raises(UnsupportedModuleError, match=rf"{quantity.__name__}: Probe" + says):
            gnomon.Probe(Graph(), (torch.randn(7, 6), LABELS), [quantity])
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        gnomon.input_jacobian(nn.Linear(5, 3), torch.randn(7, 6))


def test_what_does_not_mix_is_taken():
    x = torch.randn(7, 3, 6)
    model = nn.Sequential(Attending(batch_first=True), nn.Flatten())
    assert gnomon.input_jacobian(model, x).shape == (7, 9, 3, 6)
    # Random numbers, though not the same in two passes.
    noisy = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)).train()
    gnomon.input_jacobian(noisy, torch.randn(7, 6))


def test_inside_inference_mode_and_with_its_tensors():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 3)).eval()
    x = torch.randn(6, 1, 5, 5)
    with torch.inference_mode():
        inside = x.clone()
        moments = gnomon.AGOP(["", "0"])
        moments.update(model, inside)
        assert set(moments.compute()) == {"", "0"}
    plain = gnomon.AGOP(["", "0"])
    plain.update(model, x)
    for name, expected in plain.compute().items():
        torch.testing.assert_close(moments.compute()[name].dense().clone(), expected.dense())
    for function in (
        lambda x: gnomon.input_jacobian(model, x),
        lambda x: gnomon.centroid(model, x),
        lambda x: gnomon.vector_jacobian(model, x, torch.ones(3)),
        lambda x: gnomon.singular_values(model, x),
        lambda x: gnomon.features(model, x),
        lambda x: gnomon.ntk(model, x),
        lambda x: gnomon.ntk_to_point(model, x, x[0]),
        lambda x: gnomon.centroid_rate(model, x, x, LABELS[:6], functional.cross_entropy),
        lambda x: gnomon.centroid_influence(model, x, x, LABELS[:6], functional.cross_entropy),
        lambda x: gnomon.layer_centroids(model, x).centroid_up_to,
        lambda x: gnomon.layer_collapse(model, x, LABELS[:6]).nc1_before,
    ):
        torch.testing.assert_close(function(inside), function(x))


def test_samples_are_selected_inside_inference_mode():
    """What indexing makes there may not enter a graph, though network and samples were made outside."""
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    x, labels = torch.randn(30, 4), torch.arange(30) % 3

    def streamed():
        sums = gnomon.GradientSums()
        sums.update(model, x, labels)
        return sums.compute()

    for function in (
        lambda: gnomon.batch_gradients(model, x, labels).deviations,
        lambda: streamed().deviations,
        lambda: gnomon.gradient_disparity(model, x, labels).value,
        lambda: gnomon.commutator_defect(model, x, labels, batch=5).value,
        lambda: gnomon.centroid_rate(model, x, x, labels, functional.cross_entropy),
        lambda: gnomon.centroid_influence(model, x, x, labels, functional.cross_entropy),
    ):
        expected = function().detach()
        with torch.inference_mode():
            torch.testing.assert_close(function().clone(), expected)


def test_a_layer_that_gets_the_samples_in_another_order_is_refused():
    """Beside labels in the samples' order its features would be those of other samples."""
    model, x = foreign("sorts its samples")
    labels = torch.arange(len(x)) % 3
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    expected = r"\(layers?\): expected a layer whose input has the samples in their order, got a Linear that gets them"
    for name in names:
        with pytest.raises(UnsupportedModuleError, match="^features" + expected):
            gnomon.features(model, x, layer=name)
    with pytest.raises(UnsupportedModuleError, match="^layer_collapse" + expected):
        gnomon.layer_collapse(model, x, labels, layers=names)
    with pytest.raises(UnsupportedModuleError, match="Probe" + expected):
        gnomon.Probe(model, (x, labels), [gnomon.nc1], layers=names[0])
