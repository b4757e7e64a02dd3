"""What hooks collect, count and average is as it was before a reading."""

import dataclasses
from collections import OrderedDict, defaultdict, deque

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from gnomon import History, Probe, accuracy, gradient_norm, jacobian_norm
from gnomon.probe import _snapshot
from gnomon.probe._containers import entries
from gnomon.probe._held import MOST_ENTRIES

X = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(9) % 3


def read(model):
    Probe(model, (X, LABELS), [accuracy, jacobian_norm]).read()


def hooked(hook):
    """A network with the hook, which has seen one batch."""
    model = nn.Linear(4, 3)
    model.register_forward_hook(hook)
    with torch.no_grad():
        model(X[:4])
    return model


class Stack(list):
    """With an attribute, and methods that are not those of a list."""

    height = 0

    def __iter__(self):
        raise NotImplementedError

    def push(self, value):
        self.append(value)
        self.height += 1


class Table(OrderedDict):
    def values(self):
        raise NotImplementedError


ACTIVATIONS = {}
SIZES = []
MEAN = torch.zeros(3)
SUMS = np.zeros(3)


def to_a_global_dict(module, inputs, output):
    ACTIVATIONS["hidden"] = output


def to_a_global_list(module, inputs, output):
    [SIZES.append(len(part)) for part in (output,)]  # whose code is, until Python 3.12, that of another function


def to_a_global_tensor(module, inputs, output):
    MEAN.mul_(0.9).add_(output.detach().mean(0))


def to_a_global_array(module, inputs, output):
    SUMS[:] += output.detach().sum(0).numpy()


def by_another_function(module, inputs, output):
    to_a_global_list(module, inputs, output)


@pytest.mark.parametrize(
    ("hook", "held"),
    [
        (to_a_global_dict, lambda: {name: id(value) for name, value in ACTIVATIONS.items()}),
        (to_a_global_list, lambda: [*SIZES]),
        (by_another_function, lambda: [*SIZES]),
        (to_a_global_tensor, MEAN.tolist),
        (to_a_global_array, SUMS.tolist),
    ],
    ids=["dict", "list", "by another function", "tensor", "array"],
)
def test_what_a_hook_keeps_in_a_global_variable_is_as_before(hook, held):
    model = hooked(hook)
    before = held()
    assert before
    read(model)
    assert held() == before


@pytest.mark.parametrize(
    ("kept", "write", "shown"),
    [
        ({"fc": []}, lambda kept, output: kept["fc"].append(len(output)), str),
        (defaultdict(list), lambda kept, output: kept[len(output)].append(1), str),
        (([],), lambda kept, output: kept[0].append(len(output)), str),
        ([{0}], lambda kept, output: kept[0].add(len(output)), str),
        (deque([0], maxlen=2), lambda kept, output: kept.append(len(output)), str),
        (Stack([0]), lambda kept, output: kept.push(len(output)), lambda kept: (len(kept), kept[-1], kept.height)),
        (Table(a=0), lambda kept, output: kept.move_to_end("b"), lambda kept: [*kept.items()]),
        ({"mean": torch.zeros(3)}, lambda kept, output: kept["mean"].add_(output.detach().mean(0)), str),
        ([np.zeros(1)], lambda kept, output: np.copyto(kept[0], kept[0] + 1), str),
        (torch.zeros(3), lambda kept, output: kept.add_(output.detach().mean(0)), str),
        (np.zeros(3), lambda kept, output: np.copyto(kept, kept + 1), str),
    ],
    ids=[
        *("dict of a list", "defaultdict", "tuple of a list", "list of a set", "deque", "subclass of a list"),
        *("subclass of an ordered dict", "dict of a tensor", "list of an array", "tensor", "array"),
    ],
)
def test_what_a_hook_encloses_is_as_before_at_any_depth(kept, write, shown):
    if isinstance(kept, Table):
        kept["b"] = kept["c"] = 1

    def hook(module, inputs, output):
        write(kept, output)

    model = hooked(hook)
    before = shown(kept)
    read(model)
    assert shown(kept) == before


def test_what_a_hook_counts_is_as_before():
    """In a variable that it shares, in one that it makes, and in its attributes."""
    count = 0

    def hook(module, inputs, output):
        nonlocal count, late
        count, late = count + 1, 1
        hook.calls += 1

    hook.calls = 0
    model = hooked(hook)
    del late
    read(model)
    assert (count, hook.calls) == (1, 1)
    with pytest.raises(NameError):
        late  # noqa: B018
    late = 0


GRADIENTS = {"norms": []}


def of_gradients(gradient):
    GRADIENTS["norms"].append(gradient.norm())


def goes_backward(model, x):
    with torch.enable_grad():
        model(x).sum().backward()
    return torch.tensor(0.0)


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
@pytest.mark.parametrize("globally", [False, True])
def test_what_hooks_on_parameters_keep_is_as_before(register, globally):
    norms, draws = GRADIENTS["norms"], torch.Generator()
    norms.clear()

    def of_gradients_too(gradient):
        norms.append(gradient.norm())
        torch.rand(1, generator=draws)

    model = nn.Linear(4, 3)
    getattr(model.weight, register)(of_gradients if globally else of_gradients_too)
    model(X).sum().backward()
    drawn = draws.get_state()
    Probe(model, (X, LABELS), [goes_backward, gradient_norm]).read()
    assert len(norms) == 1
    assert torch.equal(draws.get_state(), drawn)


def test_a_penalty_on_activations_in_a_global_dict_trains_as_without_a_probe():
    def trained(probed):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        model[1].register_forward_hook(to_a_global_dict)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        probe = Probe(model, (X[:5], LABELS[:5]), [accuracy]) if probed else None
        for step in range(3):
            logits = model(X)
            if probe:
                probe(step)
            optimizer.zero_grad()
            (functional.cross_entropy(logits, LABELS) + ACTIVATIONS["hidden"].abs().mean()).backward()
            optimizer.step()
        return model[0].weight.detach()

    torch.testing.assert_close(trained(True), trained(False), rtol=0, atol=0)


TEACHER = nn.BatchNorm1d(3)
TEACHER.passes = 0
OPTIMIZER = torch.optim.Adam(TEACHER.parameters())
READING = Probe(nn.Linear(4, 3), (X, LABELS), [accuracy]).read()
HISTORY = History()


def uses_global_objects(module, inputs, output):
    """As no hook should; but none of these is the network's."""
    TEACHER(output.detach())
    TEACHER.passes += 1
    OPTIMIZER.state["steps"] = OPTIMIZER.state.get("steps", 0) + 1
    HISTORY.append(dataclasses.replace(READING, step=len(HISTORY.steps)))


def test_global_objects_that_a_hook_names_are_left_alone():
    model = hooked(uses_global_objects)
    passes = TEACHER.passes
    mean, steps, readings = TEACHER.running_mean.clone(), OPTIMIZER.state["steps"], len(HISTORY.steps)
    read(model)
    assert not torch.equal(TEACHER.running_mean, mean)
    assert TEACHER.passes > passes
    assert OPTIMIZER.state["steps"] > steps
    assert len(HISTORY.steps) > readings


MANY = [torch.zeros(100)] * (MOST_ENTRIES + 1)
LARGE = torch.zeros(_snapshot.MOST_BYTES // 4 + 1)


def uses_many(module, inputs, output):
    MANY[0].add_(1)
    LARGE[:1].add_(1)
    ACTIVATIONS["hidden"] = output
    MANY.append(output)


def test_of_a_long_global_list_no_tensor_is_copied_nor_a_large_one(monkeypatch):
    copied = []
    kept = _snapshot.TensorSnapshot

    def counting(tensor, *, by_value):
        copied.extend([tensor] if by_value else [])
        return kept(tensor, by_value=by_value)

    model = hooked(uses_many)
    many, hidden = len(MANY), ACTIVATIONS["hidden"]
    monkeypatch.setattr(_snapshot, "TensorSnapshot", counting)
    with torch.no_grad():
        read(model)
    assert len(MANY) == many
    assert ACTIVATIONS["hidden"] is hidden
    assert not any(tensor is other for tensor in copied for other in (LARGE, MANY[0]))
    assert any(tensor is hidden for tensor in copied)


@pytest.mark.parametrize("entry", [np.float64(0), (0, 1.0), ("loss", np.int64(0))], ids=["NumPy", "tuple", "named"])
def test_a_long_log_is_not_walked(monkeypatch, entry):
    walked = []
    model = nn.Linear(4, 3)
    model.log = [entry] * 10
    monkeypatch.setattr(_snapshot, "entries", lambda value: walked.append(value) or entries(value))
    read(model)
    assert any(value is model.log for value in walked)
    assert not any(value is entry for value in walked)
