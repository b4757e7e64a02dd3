"""Readings leave nothing behind: whatever forward passes change, and whenever an interrupt comes."""

import copy
import functools
import io
import random
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.backends import cuda as attention
from torch.nn import functional
from torch.nn.utils import prune
from torch.utils import checkpoint
from torch.utils.data import DataLoader, Dataset

import gnomon
from gnomon import Probe, accuracy, jacobian_norm, nc1
from gnomon.errors import RangeError, UnsupportedModuleError
from gnomon.probe._snapshot import TensorSnapshot, acts

X = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(9) % 3
SOURCE = str(Path(gnomon.__file__).parent)
ATTENTION = (
    attention.flash_sdp_enabled,
    attention.mem_efficient_sdp_enabled,
    attention.math_sdp_enabled,
    attention.cudnn_sdp_enabled,
)


class Biased(nn.Module):
    """Attention biases that eval mode computes once and keeps until `train`, as those of LeViT."""

    def __init__(self):
        super().__init__()
        self.biases = nn.Parameter(torch.ones(2))
        self.register_buffer("places", torch.tensor([0, 1, 0, 1]), persistent=False)
        self.cache = {}

    def train(self, mode=True):
        super().train(mode)
        if mode and self.cache:
            self.cache = {}
        return self

    def forward(self, x):
        if self.training:
            return x * self.biases[self.places]
        if x.device not in self.cache:
            self.cache[x.device] = self.biases[self.places]
        return x * self.cache[x.device]


class Fused(nn.Linear):
    """Two branches, whose sum is made as eval mode begins and used until it ends: without `train` there is none."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.other, self.sum = nn.Parameter(torch.randn(outputs, inputs)), None

    def train(self, mode=True):
        self.sum = None if mode else (self.weight + self.other).detach()
        return super().train(mode)

    def forward(self, x):
        return functional.linear(x, self.weight + self.other if self.training else self.sum, self.bias)


class Merging(nn.Linear):
    """A low-rank update that eval mode adds to the weight and training mode takes out; rounding stays, as in LoRA."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.down, self.up = nn.Parameter(torch.randn(2, inputs)), nn.Parameter(torch.randn(outputs, 2))
        self.merged = False

    def train(self, mode=True):
        super().train(mode)
        if mode == self.merged:
            self.weight.data += (-1 if mode else 1) * self.up @ self.down
            self.merged = not mode
        return self

    def forward(self, x):
        return super().forward(x) if self.merged else super().forward(x) + x @ self.down.T @ self.up.T


class Scaled(nn.Module):
    """Numbers in plain attributes, rebound and written to, in containers, and in what has its own random numbers."""

    def __init__(self):
        super().__init__()
        self.scale, self.mean, self.passes = torch.ones(()), torch.zeros(4), 0
        self.history, self.by_name, self.seen = [1.0], {"scales": [torch.ones(())]}, {0}
        self.noise, self.draws = torch.Generator().manual_seed(0), random.Random(0)

    def forward(self, x):
        self.passes += 1
        self.scale = 0.9 * self.scale + 0.1 * self.passes
        self.mean.mul_(0.9).add_(0.1)
        self.history.append(float(self.scale))
        self.by_name["scales"][0].add_(0.1)
        self.seen.add(self.passes)
        noise = torch.rand(4, generator=self.noise) + self.draws.random() + len(self.seen) + self.by_name["scales"][0]
        return x * self.scale * (1 + self.passes) + self.mean * noise + sum(self.history)


class Noisy(nn.Module):
    """Draws from the streams of Python and NumPy."""

    def forward(self, x):
        return x * (1 + random.random()) + torch.as_tensor(np.random.rand(4), dtype=x.dtype)


class Clamped(nn.Linear):
    """Writes to its weight in each pass, as networks do whose weights have a largest norm."""

    def forward(self, x):
        self.weight.data.clamp_(-0.3, 0.3)
        return super().forward(x)


class Renormed(nn.Linear):
    """Puts another tensor in the place of its weight in each pass."""

    def forward(self, x):
        self.weight.data = torch.renorm(self.weight.data, 2, 0, 0.3)
        return super().forward(x)


class Counting(nn.Module):
    """A buffer that each pass writes to, and that the graph of a pass holds."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.ones(4))

    def forward(self, x):
        self.mean.mul_(0.9)
        return x * self.mean


BUILDERS = {
    "caches": Biased,
    "fuses": lambda: Fused(4, 4),
    "merges": lambda: Merging(4, 4),
    "plain attributes": Scaled,
    "other random numbers": Noisy,
    "clamps weights": lambda: Clamped(4, 4),
    "replaces weights": lambda: Renormed(4, 4),
    "counts": Counting,
}


def network(name):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), BUILDERS[name](), nn.Tanh(), nn.Linear(4, 3)).train()


# Where types are checked at run time, the checker itself draws from Python's stream.
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.unchecked if name == "other random numbers" else ()) for name in BUILDERS],
)
def test_training_is_the_same_bit_by_bit(name):
    def trained(probed):
        model = network(name)
        random.seed(0)
        np.random.seed(0)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        probe = Probe(model, (X, LABELS), [accuracy, nc1, jacobian_norm]) if probed else None
        for step in range(3):
            loss = functional.cross_entropy(model(X), LABELS)
            if probe:
                probe(step)  # between the passes: a graph notices whatever is written to
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        logits = model(X).detach()
        return [*model.state_dict().values(), logits, torch.rand(1), float(np.random.rand())]

    for before, after in zip(trained(False), trained(True), strict=True):
        torch.testing.assert_close(after, before, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["caches", "fuses", "merges", "plain attributes", "clamps weights", "counts"])
def test_what_is_read_is_what_eval_mode_computes_now(name):
    """At the second step too: nothing of the first is kept."""
    model = network(name)
    probe = Probe(model, X, {"logits_read": lambda logits: logits})
    for step in range(2):
        state = {key: value.clone() for key, value in model.state_dict().items()}
        read = probe.read(step).values["logits_read"]
        twin = network(name)
        twin.load_state_dict(state)
        twin.eval()
        twin(X[:2])  # as those which size the chunks
        torch.testing.assert_close(read, twin(X).detach(), rtol=0, atol=0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.5)


@pytest.mark.parametrize("name", ["clamps weights", "replaces weights", "merges"])
def test_weights_that_a_pass_writes_to_are_put_back(name):
    model = network(name)
    probe = Probe(model, X, [jacobian_norm])
    with torch.no_grad():
        model[1].weight.add_(0.5)
    before, memory = model[1].weight.detach().clone(), model[1].weight.data_ptr()
    probe.read()
    torch.testing.assert_close(model[1].weight.detach(), before, rtol=0, atol=0)
    assert model[1].weight.data_ptr() == memory


def moves_and_returns(model):
    for parameter in model.parameters():
        parameter.add_(0.1)
        parameter.sub_(0.1)  # in float32 not where it was
    return torch.tensor(0.0)


def zeroes(parameters):
    for parameter in parameters.values():
        parameter.zero_()
    return torch.tensor(0.0)


def goes_backward(model, x):
    with torch.enable_grad():
        model(x).sum().backward()
    return torch.tensor(0.0)


def freezes(model):
    model.requires_grad_(False)
    return torch.tensor(0.0)


def goes_double(model, x):
    model.zero_grad()
    return model.double()(x.double()).sum()


def hooks(model):
    model[0].weight.register_hook(torch.zeros_like)
    return torch.tensor(0.0)


def writes_to_the_classifier(classifier, bias):
    classifier.zero_()
    bias.zero_()
    return torch.tensor(0.0)


def marks_samples(x):
    x.requires_grad_()
    return torch.tensor(0.0)


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize(
    "quantity",
    [
        moves_and_returns,
        zeroes,
        goes_backward,
        freezes,
        goes_double,
        hooks,
        writes_to_the_classifier,
        marks_samples,
    ],
)
def test_what_a_users_function_does_to_the_network_is_undone(quantity, trained):
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    if trained:
        model(X).pow(2).sum().backward()
    before, gradients = copy.deepcopy(model.state_dict()), [parameter.grad for parameter in model.parameters()]
    values = copy.deepcopy(gradients)
    probe = Probe(model, (X, LABELS), [quantity])
    probe.read()
    with pytest.raises(ZeroDivisionError):
        Probe(model, (X, LABELS), [quantity, fails]).read()
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not any(parameter._backward_hooks for parameter in model.parameters())
    assert not X.requires_grad
    for parameter, gradient, value in zip(model.parameters(), gradients, values, strict=True):
        assert parameter.grad is gradient
        if trained:
            torch.testing.assert_close(gradient, value, rtol=0, atol=0)


def fails(model):
    return 1 / 0


def test_hooks_of_the_user_remain():
    model, called = nn.Sequential(nn.Linear(4, 3)), []
    model[0].weight.register_hook(called.append)
    Probe(model, (X, LABELS), [hooks]).read()
    model(X).sum().backward()
    assert len(called) == 1
    assert model[0].weight.grad.abs().sum() > 0


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state:UserWarning")
def test_a_sparse_buffer_that_a_pass_changes_is_restored(layout):
    class Doubling(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)
            self.register_buffer("adjacency", torch.eye(4).to_sparse(layout=layout))

        def forward(self, x):
            self.adjacency.mul_(2)
            return self.layer((self.adjacency.detach() @ x.mT).mT)

    model = Doubling()
    Probe(model, (X, LABELS), [accuracy, jacobian_norm]).read()
    torch.testing.assert_close(model.adjacency.to_dense(), torch.eye(4), rtol=0, atol=0)
    assert model.adjacency._version == 0


def test_modes_that_differ_from_module_to_module_are_put_back():
    model = network("merges")
    model[1].eval()
    weight = model[1].weight.detach().clone()
    Probe(model, X, [jacobian_norm]).read()
    assert [module.training for module in model.modules()] == [True, True, False, True, True]
    assert model[1].merged
    torch.testing.assert_close(model[1].weight.detach(), weight, rtol=0, atol=0)


# Interrupts.


def scaling():
    return Scaled(), [accuracy, nc1, jacobian_norm, gnomon.layer_collapse, goes_backward]


def without_scaling():
    """For the NTK, which takes no pass that writes, and gets one by one the parameters of what it does not know."""
    return Biased(), [gnomon.ntk, gnomon.agop, gnomon.nfa_table, gnomon.singular_values]


def state_of(model):
    """All that a reading must leave: of the network by identity and by value, and of the process."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    part = model[4]
    attributes = (
        (part.scale.item(), part.mean.tolist(), part.noise.get_state().tolist(), part.draws.getstate(), part.passes)
        if isinstance(part, Scaled)
        else ()
    )
    return {
        "modes": [module.training for module in model.modules()],
        "parts": {name: id(tensor) for name, tensor in tensors.items()},
        "values": {name: tensor.detach().numpy().tobytes() for name, tensor in tensors.items()},
        "grad": {
            name: (id(tensor.grad), None if tensor.grad is None else tensor.grad.numpy().tobytes())
            for name, tensor in tensors.items()
        },
        "attributes": [attributes, model[5].merged],
        "containers": str({name: [*vars(module).values()] for name, module in model.named_modules()}),
        "gradients": [torch.is_grad_enabled(), torch.is_inference_mode_enabled()],
        "transforms": torch._C._functorch.get_dynamic_layer_stack_depth(),
        "checkpoints": checkpoint._checkpoint_hook,
        "saved": torch._C._autograd._top_saved_tensors_default_hooks(True),
        "autocast": [torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")],
        "attention": [enabled() for enabled in ATTENTION] + [torch.backends.mha.get_fastpath_enabled()],
        "random": [torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())],
    }


def lines_of(act, counted, interrupted=None):
    """How many lines run in files that are `counted`; the one of that number raises instead."""
    passed = 0

    def trace(frame, event, argument):
        nonlocal passed
        if not counted(frame.f_code.co_filename):
            return None
        if event == "line":
            passed += 1
            if passed == interrupted:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return passed


# Python itself keeps to itself what interrupts the callback of a weak reference.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.unchecked
@pytest.mark.parametrize("build", [scaling, without_scaling])
def test_an_interrupt_at_any_line_leaves_nothing_behind(build):
    """A sample of the lines of gnomon, and of what it calls in torch and of the network: about fifty of each."""
    torch.manual_seed(0)
    part, quantities = build()
    body = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Tanh(), part, Merging(4, 4))
    model = body.append(nn.Linear(4, 3)).train()
    model[1].eval()
    functional.cross_entropy(model(X), LABELS).backward()
    probe = Probe(model, (X, LABELS), quantities)
    probe.read()
    before = state_of(model)
    assert any(held != (id(None), None) for held in before["grad"].values())
    for counted in (lambda name: name.startswith(SOURCE), lambda name: True):
        lines = lines_of(probe.read, counted)
        places, interrupted = range(1, lines, lines // 50), 0
        for line in places:
            try:
                lines_of(probe.read, counted, line)
            except KeyboardInterrupt:
                interrupted += 1
            except (RuntimeError, UnsupportedModuleError):
                pass  # torch's transforms, interrupted between their own lines, end in an error of theirs
            assert state_of(model) == before, line
        assert interrupted > 0.9 * len(places)  # torch keeps those to itself that come as it frees something


# Random numbers.

GLOBAL = torch.Generator(), random.Random(), np.random.default_rng(), np.random.RandomState()


def noise():
    return torch.rand(1, generator=GLOBAL[0]).item() + sum(each.uniform(0, 1) for each in GLOBAL[1:])


class WithGlobalNoise(nn.Linear):
    """Draws in its own code from a generator, and through a function from others."""

    def forward(self, x):
        return super().forward(x + noise() + ALONE.random())


class WithNoiseOfItsClass(nn.Linear):
    generator = random.Random(0)

    def forward(self, x):
        return super().forward(x + self.generator.random())


class WithMethods(nn.Linear):
    """Has the methods of generators, and not these."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.draws = random.Random(0).gauss, [np.random.default_rng(0).normal, np.random.RandomState(0).rand]

    def forward(self, x):
        gauss, (normal, rand) = self.draws
        return super().forward(x + gauss(0, 1) + normal() + rand())


ALONE = np.random.default_rng(0)


@pytest.mark.parametrize("kind", [WithGlobalNoise, WithNoiseOfItsClass, WithMethods])
def test_generators_that_a_network_uses_without_having_them_are_restored(kind):
    def drawn(probed):
        torch.manual_seed(0)
        ALONE.bit_generator.state = np.random.default_rng(0).bit_generator.state
        GLOBAL[0].manual_seed(0)
        GLOBAL[1].seed(0)
        GLOBAL[2].bit_generator.state = ALONE.bit_generator.state
        GLOBAL[3].seed(0)
        WithNoiseOfItsClass.generator.seed(0)
        model = kind(4, 3)
        if probed:
            Probe(model, X, {"logits_read": lambda logits: logits}).read()
        return model(X).detach()

    torch.testing.assert_close(drawn(True), drawn(False), rtol=0, atol=0)


# What cannot be restored.


class Lazy(nn.Module):
    """Makes its layer in the first pass."""

    def forward(self, x):
        if not hasattr(self, "layer"):
            self.layer = nn.Linear(x.shape[1], 4)
        return self.layer(x)


class Average:
    value = 1.0


class Averaging(nn.Module):
    """Keeps its state in an object that is none of torch's."""

    passes = 0

    def __init__(self):
        super().__init__()
        self.average = Average()

    def forward(self, x):
        self.average.value = 0.9 * self.average.value + 0.1
        type(self).passes += 1
        return x * self.average.value


class Caching(nn.Module):
    """Registers a buffer in the first pass."""

    def forward(self, x):
        if not hasattr(self, "places"):
            self.register_buffer("places", torch.arange(4.0))
        return x * self.places


class Remembering(nn.Module):
    """Keeps its state in arrays, and if `plain` in an object of the standard library."""

    def __init__(self, plain):
        super().__init__()
        self.sums, self.parts = np.zeros(4, dtype=np.float32), [np.zeros(1), np.array([0, None], dtype=object)]
        self.plain = SimpleNamespace(value=1.0) if plain else None

    def forward(self, x):
        self.sums += x.detach().sum(0).numpy()
        self.parts[0][:] += 1
        if self.plain:
            self.plain.value *= 0.9
        return x + torch.from_numpy(self.sums.copy())


def test_state_in_arrays_is_restored():
    model = nn.Sequential(nn.Linear(4, 4), Remembering(plain=False), nn.Linear(4, 3))
    model(X)
    sums, count = model[1].sums, model[1].parts[0]
    before = sums.copy()
    Probe(model, X, [jacobian_norm]).read()
    assert model[1].sums is sums
    np.testing.assert_array_equal(sums, before)
    np.testing.assert_array_equal(count, [1.0])


class Mixing(nn.Linear):
    """Its buffer mixes the features."""

    def __init__(self, buffer):
        super().__init__(4, 3, dtype=torch.float64)
        self.register_buffer("buffer", buffer)

    def forward(self, x):
        return super().forward((self.buffer @ x.T).T)


class Counting(Mixing):
    """A pass changes its buffer, and uses only the size of that."""

    def forward(self, x):
        self.buffer.add_(1)
        return nn.Linear.forward(self, x * len(self.buffer))


@pytest.mark.parametrize("shown", [torch.conj, lambda buffer: buffer.conj().imag], ids=["conjugated", "negated"])
def test_buffers_that_torch_conjugates_or_negates_only_when_they_are_used_are_restored(shown):
    model = Counting(shown(torch.complex(torch.rand(4, 4), torch.rand(4, 4))))
    before = model.buffer.resolve_conj().resolve_neg().clone()
    Probe(model, X.double(), [jacobian_norm]).read()
    assert torch.equal(model.buffer.resolve_conj().resolve_neg(), before)


class Averaged(nn.Linear):
    """Its buffer is an average, and a view of this for each class, registered before or after it."""

    def __init__(self, first):
        super().__init__(4, 3)
        mean = torch.ones(1)
        buffers = {"mean": mean, "by_class": mean.expand(3)}
        for name in (first, *(name for name in buffers if name != first)):
            self.register_buffer(name, buffers[name])

    def forward(self, x):
        self.mean.mul_(0.9)
        return super().forward(x) + self.by_class


@pytest.mark.parametrize("first", ["mean", "by_class"])
def test_buffers_that_are_expanded_are_restored(first):
    model = Averaged(first)
    Probe(model, (X, LABELS), [accuracy]).read()
    assert model.by_class.tolist() == [1.0] * 3
    assert model.by_class.data_ptr() == model.mean.data_ptr()


def doubled(tensor):
    tensor.mul_(2)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_a_nested_tensor_is_restored():
    model = nn.Linear(4, 3)
    model.nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    model.register_forward_pre_hook(lambda module, inputs: doubled(module.nested))
    Probe(model, (X, LABELS), [accuracy]).read()
    assert [part.tolist() for part in model.nested.unbind()] == [[1.0] * 2, [1.0] * 3]


def test_what_cannot_be_restored_leaves_nothing_else_behind(monkeypatch):
    """The error comes after the rest."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), Averaged("mean"), nn.Linear(3, 3)).train()
    probe = Probe(model, (X, LABELS), [accuracy])
    put_back, first = TensorSnapshot.put_back, []

    def failing(tensor):
        if model[2].mean.item() != 1:  # after a pass
            first.append(tensor.tensor)
        if first and tensor.tensor is first[0]:
            raise ZeroDivisionError
        return put_back(tensor)

    monkeypatch.setattr(TensorSnapshot, "put_back", failing)
    with pytest.raises(ZeroDivisionError):
        probe.read()
    assert len(first) > 0
    assert model[2].mean.item() == 1
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state:UserWarning")
def test_a_network_with_a_sparse_buffer_is_read_as_with_a_dense_one(layout):
    """Such as a graph's adjacency."""
    dense = Mixing(torch.tensor([[1.0, 0, 2, 0], [0, 0, 1, 0], [0, 3, 0, 0], [0, 0, 0, 1]], dtype=torch.float64))
    sparse = copy.deepcopy(dense)
    sparse.buffer = dense.buffer.to_sparse(layout=layout)
    found, expected = (
        Probe(model, (X.double(), LABELS), [accuracy, jacobian_norm]).read().scalars() for model in (sparse, dense)
    )
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_state_in_objects_of_the_standard_library_is_said_before_training():
    model = nn.Sequential(nn.Linear(4, 4), Remembering(plain=True), nn.Linear(4, 3))
    with pytest.warns(UserWarning, match=r"changes Remembering\.plain, which a reading does not restore"):
        Probe(model, X, [jacobian_norm])


def test_layers_that_a_pass_makes_are_said_before_training():
    """A reading would draw their weights, and training others."""
    model = nn.Sequential(Lazy(), nn.Linear(4, 3))
    with pytest.raises(UnsupportedModuleError, match=r"Probe\(model\): .* got one that creates '0\.layer"):
        Probe(model, X, [jacobian_norm])
    assert not list(model[0].children())
    model(X)
    Probe(model, X, [jacobian_norm]).read()


def test_buffers_that_a_pass_makes_are_not_there_afterwards():
    model = nn.Sequential(nn.Linear(4, 4), Caching(), nn.Linear(4, 3))
    Probe(model, X, [jacobian_norm]).read()
    assert model.state_dict().keys() == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_state_in_objects_of_other_kinds_is_said_before_training():
    model = nn.Sequential(nn.Linear(4, 4), Averaging(), nn.Linear(4, 3))
    with pytest.warns(UserWarning, match=r"changes Averaging, Averaging\.average, which .* not restore") as said:
        Probe(model, X, [jacobian_norm])
    assert said[0].filename == __file__


class Kept:
    """An object beside the network."""

    def __init__(self):
        self.mean, self.seen, self.by_name, self.draws = torch.zeros(4), [], {}, torch.Generator()

    def look(self, module, inputs):
        self.seen.append(inputs)


class Keeping(nn.Linear):
    """A pass writes to an object."""

    def __init__(self, write):
        super().__init__(4, 3)
        self.kept, self.write = Kept(), write

    def forward(self, x):
        self.write(self.kept)
        return super().forward(x)


@pytest.mark.parametrize(
    "write",
    [
        lambda kept: kept.mean.add_(1),
        lambda kept: kept.seen.append(0),
        lambda kept: kept.by_name.update(new=0),
        lambda kept: torch.rand(1, generator=kept.draws),
    ],
    ids=["tensor", "list", "dict", "generator"],
)
def test_what_other_objects_hold_and_a_pass_changes_in_place_is_said_before_training(write):
    with pytest.warns(UserWarning, match=r"changes Keeping\.kept, which a reading does not restore"):
        Probe(Keeping(write), X, [jacobian_norm])


def test_an_object_whose_method_is_a_hook_is_said_before_training():
    model = nn.Linear(4, 3)
    model.register_forward_pre_hook(Kept().look)
    with pytest.warns(UserWarning, match=r"changes Linear\.hook, which a reading does not restore"):
        Probe(model, X, [jacobian_norm])


class Entries(list):
    """Not one of Python's lists."""


def noisy(module, inputs, seen, draws):
    seen.append(len(seen))
    return (inputs[0] * (1 + len(seen)) + torch.rand(4, generator=draws),)


@pytest.mark.parametrize("kind", [list, Entries])
@pytest.mark.parametrize(
    "hook",
    [
        lambda seen, draws: lambda module, inputs: noisy(module, inputs, seen, draws),
        lambda seen, draws: lambda module, inputs, seen=seen, draws=draws: noisy(module, inputs, seen, draws),
        lambda seen, draws: functools.partial(noisy, seen=seen, draws=draws),
    ],
    ids=["closure", "defaults", "partial"],
)
def test_what_hooks_enclose_is_as_before(hook, kind):
    seen, draws, model = kind([1]), torch.Generator().manual_seed(0), nn.Linear(4, 3)
    model.register_forward_pre_hook(hook(seen, draws))
    before = draws.get_state()
    Probe(model, X, [jacobian_norm]).read()
    assert seen == [1]
    assert torch.equal(draws.get_state(), before)


def test_entries_of_a_list_of_another_kind_are_as_before():
    model = nn.Linear(4, 3)
    model.seen = Entries([1])
    model.register_forward_pre_hook(lambda module, inputs: module.seen.append(2))
    Probe(model, X, [jacobian_norm]).read()
    assert model.seen == [1]


class Passes:
    """A number in a slot."""

    __slots__ = ("count",)

    def __init__(self):
        self.count = 0

    def add(self, *_):
        self.count += 1


def enclosing(passes):
    return lambda *_: passes.add()


@pytest.mark.parametrize(
    "register", ["register_forward_pre_hook", "register_forward_hook", "register_full_backward_hook"]
)
@pytest.mark.parametrize("hook", [lambda passes: passes.add, enclosing], ids=["method", "enclosed"])
def test_an_object_that_a_hook_uses_is_said_before_training(register, hook):
    model = nn.Linear(4, 3)
    getattr(model, register)(hook(Passes()))
    with pytest.warns(UserWarning, match=r"changes Linear\.hook, which a reading does not restore"):
        Probe(model, X, [jacobian_norm])


class Holding(nn.Linear):
    """Counts in the objects of a container."""

    def __init__(self, held):
        super().__init__(4, 3)
        self.held = held

    def forward(self, x):
        for passes in self.held.values() if isinstance(self.held, dict) else self.held:
            passes.add()
        return super().forward(x)


@pytest.mark.parametrize("hold", [lambda passes: [passes], lambda passes: {"all": passes}], ids=["list", "dict"])
def test_an_object_in_a_container_is_said_before_training(hold):
    with pytest.warns(UserWarning, match=r"changes Holding\.held, which a reading does not restore"):
        Probe(Holding(hold(Passes())), X, [jacobian_norm])


class Refusing:
    """Its only slot is empty, and what it does not have raises."""

    __slots__ = ("handle",)

    def __getattr__(self, name):
        raise OSError("closed")


def dead():
    return weakref.proxy(Kept())


@pytest.mark.parametrize("build", [random.SystemRandom, Refusing, dead], ids=["system", "refusing", "dead"])
def test_objects_without_a_state_are_left_alone(build):
    """In the network and in the data."""

    class Held(Dataset):
        def __init__(self):
            self.held = build()

        def __len__(self):
            return 9

        def __getitem__(self, i):
            return X[i], LABELS[i]

    model = nn.Linear(4, 3)
    vars(model)["held"] = build()  # torch itself would look at a dead reference
    Probe(model, DataLoader(Held(), 3), [accuracy]).read()


class Switching(nn.Linear):
    """Its `train` is that of transformers, which switches kernels if they are used."""

    use_kernels = False

    def train(self, mode=True):
        return super().train(mode)

    train.__module__ = "transformers.modeling_utils"


class Everywhere(nn.Module):
    """A pruned layer, and what it puts out in all places where a module may keep it."""

    def __init__(self):
        super().__init__()
        self.layer, self.last, self.seen = nn.Linear(4, 5), nn.Linear(5, 3), None
        self.by_name, self.in_turn = {"one": 1}, [1]
        self.register_buffer("held", None, persistent=False)
        prune.l1_unstructured(self.layer, "weight", 0.5)

    def forward(self, x):
        out = self.layer(x).tanh()
        self.seen = self.new = self.held = self.by_name["two"] = out.detach()
        self.in_turn.append(self.seen)
        return self.last(out)


@pytest.mark.parametrize(
    "read",
    [
        lambda model: gnomon.ntk(model, X),
        lambda model: gnomon.ntk_to_point(model, X, X[0]),
        lambda model: gnomon.local_learning_coefficient(model, X, LABELS, draws=4, burn_in=0),
    ],
    ids=["ntk", "ntk_to_point", "local_learning_coefficient"],
)
def test_what_modules_keep_of_a_pass_that_torch_maps_is_not_there_afterwards(read):
    """Outside it nothing can be done with that: the network could be neither copied nor saved."""
    model = Everywhere()
    with torch.no_grad():
        read(model)
        for tensor in (model.seen, model.new, model.held, model.by_name["two"], *model.in_turn[1:]):
            assert copy.deepcopy(tensor).isfinite().all()
        assert float((model.layer.weight == 0).double().mean()) == 0.5
        torch.save(model, io.BytesIO())
        expected = model(X)
        torch.testing.assert_close(copy.deepcopy(model)(X), expected, rtol=0, atol=0)


def test_weights_are_copied_only_where_train_may_change_them():
    model = nn.Sequential(Switching(4, 3))
    assert not acts(model[0])
    model[0].use_kernels = True
    assert acts(model[0])
    assert acts(Merging(4, 3))
    assert [acts(part) for part in (model, nn.Linear(4, 3), nn.BatchNorm1d(3))] == [False] * 3


# Threads.


def in_a_thread(act):
    """What it returns or raises there."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act).result()


def test_another_thread_than_that_of_training_is_refused():
    model = network("counts")
    probe = Probe(model, X, [jacobian_norm])
    probe.read()
    with pytest.raises(RangeError, match=r"Probe\(model\): expected readings in MainThread, .* got one in Thread"):
        in_a_thread(probe.read)
    with pytest.raises(RangeError, match=r"got one in Thread"):
        in_a_thread(Probe(model, X, [jacobian_norm]).read)  # another probe of the same network


def test_a_probe_may_be_made_in_one_thread_and_read_in_another():
    """As where a notebook trains in the background, once more when that has ended."""
    probe = Probe(network("counts"), X, [jacobian_norm])
    first = in_a_thread(probe.read)
    assert first.scalars() == in_a_thread(probe.read).scalars() == probe.read().scalars()


def test_networks_of_several_threads_are_read_one_after_the_other():
    """What a reading puts back of the process is there only once."""
    before = [enabled() for enabled in ATTENTION]
    inside = []

    def slow(logits):
        inside.append(1)
        time.sleep(0.02)
        assert len(inside) == 1
        inside.clear()
        return logits

    probes = [Probe(network("counts"), X, {"slow": slow}) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(Probe.read, probes))) == 4
    assert [enabled() for enabled in ATTENTION] == before
