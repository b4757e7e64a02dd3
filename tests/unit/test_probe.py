"""The probe: arguments by name, each observation once, and a network left as it was."""

import functools
import math
import pickle
import re
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import gnomon
from gnomon import History, Probe, accuracy, at, centroid_alignment, every, explained_variance_ratio, log_spaced
from gnomon.autodiff import gradient_products
from gnomon.errors import (
    ArgumentTypeError,
    DataError,
    EmptyError,
    GnomonError,
    RangeError,
    ShapeError,
    UnsupportedModuleError,
)
from gnomon.models import mlp
from gnomon.probe import _cost as cost
from gnomon.probe import _derived as derived
from tests.passes import sizes_of_passes
from tests.unit.processes import on_processes
from tests.zoo import BUILDERS, zoo


def data(x):
    return x, torch.zeros(len(x), dtype=torch.long)


def test_schedules():
    assert [step for step in range(13) if every(5)(step)] == [0, 5, 10]
    assert [step for step in range(13) if at(0, 7)(step)] == [0, 7]
    due = log_spaced(10)
    steps = [step for step in range(10_001) if due(step)]
    assert steps[:6] == [0, 1, 2, 3, 4, 5]
    assert {1, 10, 100, 1000, 10_000} <= set(steps)
    assert len([step for step in steps if 1000 <= step < 10_000]) == 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: every(0), r"every\(steps\): expected at least 1, got 0"),
        (at, r"at\(steps\): expected one or more steps"),
        (lambda: at(-1), r"at\(steps\): expected one or more steps from 0 on, got \(-1,\)"),
        (lambda: log_spaced(0), r"log_spaced\(per_decade\): expected at least 1, got 0"),
    ],
)
def test_bad_schedules_are_named(make, message):
    with pytest.raises(RangeError, match=message):
        make()


def test_reads_when_due():
    model, x = zoo("mlp")
    probe = Probe(model, data(x), [accuracy], every(2))
    assert probe(1) is None
    assert probe(2).step == 2


def test_each_observation_is_made_once():
    """Five quantities, one forward pass over the samples, beside two that size the chunks."""
    model, x = zoo("mlp")
    sizes = sizes_of_passes(model)
    names = ["centroid", "centroid_alignment", "row_alignment", "explained_variance_ratio", "jacobian_norm"]
    probe = Probe(model, x, [getattr(gnomon, name) for name in names])
    sizes.clear()
    reading = probe.read()
    assert sum(sizes) == 2 + len(x)
    assert list(reading.values) == names
    jacobian = gnomon.input_jacobian(model, x)
    torch.testing.assert_close(reading.values["centroid"], jacobian.sum(1))
    torch.testing.assert_close(reading.values["row_alignment"], gnomon.row_alignment(jacobian, x))


def test_quantities_see_each_other_and_everything():
    def loud(centroid_alignment, parameters, model, labels, factor=2.0):
        assert set(parameters) == {name for name, _ in model.named_parameters()}
        return factor * centroid_alignment + labels

    model, x = zoo("mlp")
    reading = Probe(model, data(x), [loud, centroid_alignment]).read()
    torch.testing.assert_close(reading.values["loud"], 2 * reading.values["centroid_alignment"])
    torch.testing.assert_close(
        reading.values["centroid_alignment"], centroid_alignment(gnomon.centroid(model, x), x).detach()
    )


def test_scalars_are_mean_and_ends():
    model, x = zoo("mlp")
    reading = Probe(model, x, {"mine": lambda x: x[:, 0], "one": lambda x: x.sum()}).read()
    assert reading.scalars() == {
        "mine": x[:, 0].mean().item(),
        "mine.min": x[:, 0].min().item(),
        "mine.max": x[:, 0].max().item(),
        "one": x.sum().item(),
    }


def test_cost_is_said_for_each():
    model, x = zoo("mlp")
    seconds = Probe(model, data(x), [accuracy, explained_variance_ratio]).read().seconds
    assert seconds.keys() == {"logits", "jacobian", "accuracy", "explained_variance_ratio"}
    assert min(seconds.values()) > 0


class Clock:
    """Stands in for the module `time`."""

    now = 0.0

    def perf_counter(self):
        return self.now


def test_the_budget_is_kept_by_reading_less_often(monkeypatch):
    """Training takes 1 s a step, a reading 2 s: with a budget of 0.1 there is room for one in 20 steps."""
    clock = Clock()
    monkeypatch.setattr(cost, "time", clock)
    model, x = zoo("mlp")

    def slow(logits):
        clock.now += 2.0
        return logits

    probe = Probe(model, x, [slow], every(3), max_overhead=0.1)
    read = []
    for step in range(100):
        if probe(step):
            read.append(step)
        assert probe.cost.reading_seconds <= max(2.0, 0.1 * probe.cost.training_seconds)
        clock.now += 1.0
    # The first is free; the second needs room for two.
    assert read == [0, 42, 60, 81]
    assert (probe.cost.readings, probe.cost.skipped) == (4, 30)
    torch.testing.assert_close((probe.cost.reading_seconds, probe.cost.training_seconds), (8.0, 100.0))
    assert probe.cost.overhead == 0.08
    probe.read(100)
    assert probe.cost.readings == 5
    unlimited = Probe(model, x, [slow])
    assert unlimited.cost.overhead == math.inf
    assert all(unlimited(step) for step in range(5))


def test_what_keeping_a_reading_takes_counts_too(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(cost, "time", clock)
    history = History()
    append = history.append

    def slow(reading):
        clock.now += 3.0
        append(reading)

    monkeypatch.setattr(history, "append", slow)
    model, x = zoo("mlp")
    probe = Probe(model, data(x), [accuracy], history=history)
    probe(0)
    clock.now += 7.0
    assert probe.cost == cost.Cost(readings=1, skipped=0, reading_seconds=3.0, training_seconds=7.0)


def test_a_probe_that_is_loaded_elsewhere_goes_on_with_the_time_that_has_passed(monkeypatch):
    """Each process has its own clock: here one that is a thousand seconds behind."""
    clock = Clock()
    monkeypatch.setattr(cost, "time", clock)
    model, x = zoo("mlp")
    probe = Probe(model, data(x), [accuracy], max_overhead=0.1)
    probe(0)
    clock.now += 5.0
    pickled = pickle.dumps(probe)
    clock.now -= 1000.0
    loaded = pickle.loads(pickled)
    clock.now += 2.0
    torch.testing.assert_close(loaded.cost.training_seconds, 7.0)


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated")  # torch.compile's own
def test_a_wrapped_network_is_read_inside():
    model, x = zoo("mlp")
    plain = Probe(model, x, [explained_variance_ratio]).read().values["explained_variance_ratio"]
    for wrapped in (torch.nn.DataParallel(model), torch.compile(torch.nn.DataParallel(model))):
        probe = Probe(wrapped, x, [explained_variance_ratio])
        assert probe.model is model
        torch.testing.assert_close(probe.read().values["explained_variance_ratio"], plain, rtol=0, atol=0)


DISTRIBUTED = """
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).double()
model = torch.nn.parallel.DistributedDataParallel(net)
x, labels = torch.randn(12, 4, dtype=torch.float64), torch.arange(12) % 3
quantities = [centroid_alignment, nc1, effective_rank]
batches = [(x[:5], labels[:5]), (x[5:], labels[5:])]  # of what adds up over batches too
expected = Probe(net, (x, labels), quantities).read().values
probe = Probe(model, batches, quantities, every(2))
assert probe.model is net
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    reading = probe(step) if rank == 0 else None  # A reading alone keeps no other process waiting.
    if step == 0 and rank == 0:
        for name, value in expected.items():
            torch.testing.assert_close(reading.values[name], value)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x[rank::world]), labels[rank::world]).backward()
    optimizer.step()
every_weight = [torch.empty_like(net[0].weight) for _ in range(world)]
dist.all_gather(every_weight, net[0].weight.detach())
for weight in every_weight:
    torch.testing.assert_close(weight, every_weight[0], rtol=0, atol=0)
"""


@pytest.mark.unchecked
def test_a_distributed_network_is_read_by_one_process(tmp_path):
    on_processes(3, "from gnomon import Probe, centroid_alignment, effective_rank, every, nc1", DISTRIBUTED, tmp_path)


BACKWARD = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.end = torch.nn.LSTM(4, 5, batch_first=True), torch.nn.Linear(5, 3)
        self.mix, self.again = torch.nn.Linear(5, 5), torch.nn.Linear(5, 5)
        self.again.weight = self.mix.weight

    def forward(self, x):
        return self.end(self.again(self.mix(self.lstm(x[:, None])[0][:, 0]).tanh()))

x, labels = torch.randn(12, 4, generator=torch.Generator().manual_seed(1)), torch.arange(12) % 3
loss = torch.nn.functional.cross_entropy

def sharpness(model, x, labels):
    before = [None if each.grad is None else each.grad.clone() for each in model.parameters()]
    with torch.enable_grad():
        loss(model(x), labels).backward()
    added = [each.grad - (0 if old is None else old) for each, old in zip(model.parameters(), before, strict=True)]
    model.end.weight.data.mul_(2)
    return torch.stack([each.norm() for each in added])

def trained(read, wrap):
    torch.manual_seed(0)
    net = Net()
    model, seen = wrap(net), []
    names = [(name, id(each)) for name, each in net.named_parameters(remove_duplicate=False)]
    probe = Probe(net, (x, labels), [sharpness]) if read and rank == 0 else None
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(3):
        mine = loss(model(x[rank::world]), labels[rank::world])
        first = probe and probe.read()  # while the reduction waits for this backward pass
        mine.backward()
        second = probe and probe.read()
        seen += [each.detach().clone() for parameter in net.parameters() for each in (parameter.grad, parameter)]
        if probe:
            expected = torch.autograd.grad(loss(net(x), labels), [*net.parameters()])
            for reading in (first, second):
                assert_close(reading.values["sharpness"], torch.stack([each.norm() for each in expected]))
        optimizer.step()
        optimizer.zero_grad(set_to_none=step == 0)
    assert names == [(name, id(each)) for name, each in net.named_parameters(remove_duplicate=False)]
    return seen

for settings in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}, {"find_unused_parameters": True}):
    wrap = partial(torch.nn.parallel.DistributedDataParallel, **settings)
    for number, without in zip(trained(True, wrap), trained(False, wrap), strict=True):
        assert_close(number, without, rtol=0, atol=0)
"""


@pytest.mark.unchecked
def test_a_users_function_that_goes_backward_leaves_the_reduction_to_training(tmp_path):
    """Also where only the network inside the wrapper is known, as Accelerate hands it out."""
    imports = "from functools import partial\nfrom torch.testing import assert_close\nfrom gnomon import Probe"
    on_processes(2, imports, BACKWARD, tmp_path)


OTHERS = """
class Doubled(torch.nn.Parameter):
    @classmethod
    def __torch_function__(cls, function, kinds, values=(), settings=None):
        found = super().__torch_function__(function, kinds, values, settings or {})
        return 2 * found if function is torch.nn.functional.linear else found

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.end = torch.nn.Linear(4, 4, bias=False)
        self.again = [self.end.weight]

    def forward(self, x):
        return self.end(x).tanh() @ self.again[0]

torch.manual_seed(0)
doubled = torch.nn.Linear(4, 3, bias=False)
doubled.weight = Doubled(doubled.weight.detach())
x = torch.randn(6, 4)

def slope(model):
    with torch.enable_grad():
        return torch.autograd.grad(model(x).square().sum(), [*model.parameters()])[0].norm()

for model in (doubled, Tied()) if rank == 0 else ():
    expected = slope(model)
    assert_close(Probe(model, x, [slope]).read().values["slope"], expected)
"""


@pytest.mark.unchecked
def test_parameters_that_others_take_the_place_of_keep_their_class_and_their_ties(tmp_path):
    imports = "from torch.testing import assert_close\nfrom gnomon import Probe"
    on_processes(2, imports, OTHERS, tmp_path)


@pytest.mark.parametrize("name", BUILDERS)
def test_training_is_the_same_with_and_without(name):
    """Bit for bit: parameters, buffers, modes, gradients, what asks for them, the optimizer and the random stream."""

    def train(probed):
        model, x = zoo(name)
        model.train()
        next(model.children(), model).eval()
        modes = [module.training for module in model.modules()]
        frozen, *rest = model.parameters()
        frozen.requires_grad_(not rest)
        optimizer = torch.optim.AdamW(model.parameters(), 0.1)
        probe = Probe(model, data(x), [accuracy, explained_variance_ratio, centroid_alignment])
        torch.manual_seed(0)
        for step in range(3):
            model(x).square().sum().backward()
            if probed:
                probe(step)
            optimizer.step()
        assert [module.training for module in model.modules()] == modes
        assert [p.requires_grad for p in model.parameters()] == [not rest, *[True] * len(rest)]
        moments = [value for state in optimizer.state.values() for value in state.values()]
        grads = [p.grad for p in model.parameters() if p.requires_grad]
        return [*model.state_dict().values(), *grads, *moments, torch.rand(1)]

    for ours, theirs in zip(train(True), train(False), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_a_default_of_a_users_function_stays_where_a_quantity_has_its_name():
    model, x = zoo("mlp")
    found = {}

    def hinge(logits, labels, margin=1.0, head="hinge", memory=None, classes=None):
        found.update(margin=margin, head=head, memory=memory, classes=classes)
        return (margin - logits).clamp_min(0)

    Probe(model, (x, torch.arange(len(x)) % 3), [hinge, gnomon.margin], memory=2**20).read()
    assert found == {"margin": 1.0, "head": "hinge", "memory": 2**20, "classes": 3}

    def beyond(margin):
        return margin - 1

    reading = Probe(model, (x, torch.arange(len(x)) % 3), [beyond, gnomon.margin]).read()
    torch.testing.assert_close(reading.values["beyond"], reading.values["margin"] - 1)


@pytest.mark.bad_input
def test_bad_quantities_are_named():
    model, x = zoo("mlp")
    with pytest.raises(RangeError, match=r"Probe: expected max_overhead finite and above 0, got 0"):
        Probe(model, x, [accuracy], max_overhead=0)
    with pytest.raises(EmptyError, match=r"Probe\(quantities\): expected at least one"):
        Probe(model, x, [])
    with pytest.raises(RangeError, match=r"the arguments of f to be among .*got jacobain. Did you mean jacobian\?"):
        Probe(model, x, {"f": lambda jacobain: jacobain})
    with pytest.raises(
        RangeError, match=r"got train_x. Pass that .* it, or functools.partial\(centroid_rate, train_x="
    ):
        Probe(model, x, [gnomon.centroid_rate])
    with pytest.raises(
        RangeError, match=r"\n  accuracy: Probe\(data\): expected labels, got samples alone\. Pass \(x, labels\)"
    ):
        Probe(model, x, [accuracy])
    with pytest.raises(RangeError, match=r"expected names that are not observations, got jacobian"):
        Probe(model, x, {"jacobian": lambda x: x})
    with pytest.raises(ShapeError, match=r"Probe\(labels\): expected 5 samples as in x, got 4"):
        Probe(model, (x, torch.zeros(4)), [accuracy])
    with pytest.raises(ArgumentTypeError, match=r"expected real numbers from f, got complex ones\. Return its abs"):
        Probe(model, x, {"f": lambda x: torch.complex(x, x)}).read()
    with pytest.raises(ShapeError, match=r"expected a tensor, a number or a dataclass of these from f, got list"):
        Probe(model, x, {"f": lambda x: [1.0]}).read()
    with pytest.raises(RangeError, match=r"expected functions that have a name, got a lambda\. Pass a mapping"):
        Probe(model, x, [lambda x: x])
    with pytest.raises(RangeError, match=r"expected distinct names, got explained_variance_ratio\. Pass a mapping"):
        Probe(model, x, [explained_variance_ratio, explained_variance_ratio])
    with pytest.raises(RangeError, match=r"expected no circular dependency, got (a -> b -> a|b -> a -> b)"):
        Probe(model, x, {"a": lambda b: b, "b": lambda a: a})


@pytest.mark.parametrize("number", [0.3, 2, True, np.float32(0.3), np.int64(2), np.bool_(True)])
def test_a_number_that_a_function_returns_is_a_value_in_float64(number):
    def own(logits) -> float:
        return number

    def twice(own):
        return 2 * own

    model, x = zoo("mlp")
    reading = Probe(model, x, [twice, own]).read()
    torch.testing.assert_close(reading.values["own"], torch.tensor(float(number), dtype=torch.float64))
    assert reading.scalars() == {"twice": 2 * float(number), "own": float(number)}


def test_numbers_in_a_dataclass_are_values_beside_its_tensors():
    @dataclass(frozen=True)
    class Own:
        mean: Tensor
        largest: float
        count: int

    def own(logits):
        return Own(logits.mean(), logits.max().item(), len(logits))

    model, x = zoo("mlp")
    probe = Probe(model, x, [own])
    numbers = probe(0).scalars()
    torch.testing.assert_close(numbers["own.largest"], model(x).max().item())
    assert (list(numbers), numbers["own.count"]) == (["own.mean", "own.largest", "own.count"], len(x))
    assert set(probe.history.names) == set(numbers)
    with pytest.raises(ArgumentTypeError, match=r"expected real numbers from f, got complex ones"):
        Probe(model, x, {"f": lambda logits: Own(logits.mean(), 1j, 2)}).read()


def test_a_function_that_takes_gradients_without_them_is_told_how():
    def slope(model, x):
        return torch.autograd.grad(model(x).sum(), [*model.parameters()])[0].norm()

    def slope_with_them(model, x):
        with torch.enable_grad():
            return slope(model, x)

    model, x = zoo("mlp")
    torch.testing.assert_close(Probe(model, x, [slope_with_them]).read().values["slope_with_them"], slope(model, x))
    with pytest.raises(RuntimeError, match="does not require grad") as caught:
        Probe(model, x, [slope])(0)
    says = "slope runs without gradients: compute what it differentiates, from `model`, inside "
    assert caught.value.__notes__ == [f"{says}`with torch.enable_grad():`."]
    slope.__module__ = "gnomon.measure.gradients._slope"  # one of gnomon's own is tried before training
    with pytest.raises(DataError, match=r"Probe\(slope\): .* does not require grad .* on cpu\. slope runs") as caught:
        Probe(model, x, [slope])
    assert str(caught.value).endswith(f"{says}`with torch.enable_grad():`.")


def collapsing():
    generator = torch.Generator().manual_seed(0)
    model = mlp((5, 8, 3), bias=True, generator=generator).double()
    return model, torch.randn(30, 5, generator=generator, dtype=torch.float64), torch.arange(30) % 3


def test_features_are_the_last_layers_input_and_the_class_moments_theirs():
    model, x, labels = collapsing()
    quantities = {
        "nc1": gnomon.nc1,
        "duality": gnomon.self_duality,
        "mse": gnomon.mse_decomposition,
    }
    reading = gnomon.Probe(model, (x, labels), quantities, memory=20_000).read()
    hidden = model[:-1](x).detach()
    moments = gnomon.class_moments(hidden, labels, 3)
    assert list(reading.values) == ["nc1", "duality", "mse"]
    torch.testing.assert_close(reading.values["nc1"], gnomon.nc1(moments))
    torch.testing.assert_close(reading.values["duality"], gnomon.self_duality(model[-1].weight.detach(), moments))
    parts = gnomon.mse_decomposition(model[-1].weight.detach(), model[-1].bias.detach(), moments)
    torch.testing.assert_close(reading.values["mse"].total, parts.total)
    assert reading.scalars()["mse.nc23"] == parts.nc23.item()
    seen = gnomon.Probe(model, x, {"seen": lambda features: features}, layers="0").read()
    torch.testing.assert_close(seen.values["seen"], x)


@pytest.mark.bad_input
def test_the_last_weight_is_not_read_with_another_layers_features():
    """Where the widths are equal nothing else would notice."""
    model = mlp((5, 3, 3, 3)).double()
    _, x, labels = collapsing()
    named, unnamed = (Probe(model, (x, labels), [gnomon.self_duality], layers=layer).read() for layer in ("4", None))
    torch.testing.assert_close(named.values, unnamed.values)
    for asked in ([gnomon.self_duality], {"duality": gnomon.self_duality, "half": lambda duality: duality / 2}):
        with pytest.raises(UnsupportedModuleError, match=r"Probe\(layers\): .* use its weight and .* got '2'\."):
            Probe(model, (x, labels), asked, layers="2")
    weight = Probe(model, x, {"alone": lambda classifier: classifier}, layers="2").read().values["alone"]
    torch.testing.assert_close(weight, model[4].weight.detach())


def test_the_memory_budget_is_handed_on(monkeypatch):
    model, x, _ = collapsing()
    budgets = []

    def products(model, x, layers, memory):
        budgets.append(memory)
        return gradient_products(model, x, layers, memory=memory)

    monkeypatch.setattr(derived, "gradient_products", products)
    probe = gnomon.Probe(model, x, {"outer": lambda agop: agop, "kernel": gnomon.ntk}, memory=30_000)
    reading = probe.read()
    torch.testing.assert_close(reading.values["outer"], gnomon.agop(gnomon.input_jacobian(model, x).detach()))
    torch.testing.assert_close(reading.values["kernel"], gnomon.ntk(model, x).detach())
    assert budgets == [30_000]
    seen = gnomon.Probe(model, x, {"budget": lambda memory: torch.tensor(memory)}, memory=30_000).read()
    assert seen.values["budget"] == 30_000


def test_features_in_chunks_and_with_gradients():
    model, x, _ = collapsing()
    for memory in (None, 2000):
        torch.testing.assert_close(gnomon.features(model, x, memory=memory), model[:-1](x))
    weight = model[0].weight
    (found,) = torch.autograd.grad(gnomon.features(model, x).square().sum(), weight)
    (wanted,) = torch.autograd.grad(model[:-1](x).square().sum(), weight)
    torch.testing.assert_close(found, wanted)


def test_what_has_no_linear_head_is_said_before_training():
    model, x, labels = collapsing()
    bare = nn.Sequential(nn.Flatten(), nn.ReLU())
    for quantity in (gnomon.nc1, gnomon.self_duality, {"norm": lambda classifier: classifier.norm()}):
        given = quantity if isinstance(quantity, dict) else [quantity]
        with pytest.raises(UnsupportedModuleError, match=r"Probe\(model\): expected a network with a linear layer at"):
            gnomon.Probe(bare, (x, labels), given)
    with pytest.raises(RangeError, match=r"Probe\(layers\): expected one of 0, 1, 2, got 'fc'"):
        gnomon.Probe(model, (x, labels), [gnomon.nc1], layers="fc")
    with pytest.raises(UnsupportedModuleError, match=r"final linear layer outputs the logits, got one in which no"):
        gnomon.features(nn.Sequential(model, nn.Softmax(1)), x)
    torch.testing.assert_close(gnomon.features(nn.Sequential(model, nn.Softmax(1)), x, layer="1"), model(x))
    model.unused = nn.Linear(2, 2).double()
    model.forward = lambda x: model[2](model[1](model[0](x)))
    with pytest.raises(UnsupportedModuleError, match=r"expected a layer that the forward pass calls, got one that it"):
        gnomon.features(model, x, layer="unused")


# Before training: a rehearsal on very few samples.


class Drawing(nn.Module):
    """Draws at random in eval mode too, with effect on the outputs or without."""

    def __init__(self, effect=True):
        super().__init__()
        self.effect, self.layer = effect, nn.Linear(5, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.seen += 1
        noise = torch.rand(5)
        return self.layer(x * noise if self.effect else x)


class Answer(nn.Module):
    """Gives a dictionary, as networks of transformers do."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return {"logits": self.model(x)}


@pytest.mark.bad_input
def test_one_error_says_all_that_lacks():
    model, x, labels = collapsing()
    good = [gnomon.centroid_alignment, gnomon.effective_rank]
    rebuilt = nn.Sequential(model, nn.Tanh())
    with pytest.raises(RangeError) as caught:
        Probe(
            rebuilt,
            (x, labels.double()),
            [gnomon.accuracy, gnomon.nc1, *good, gnomon.snr, gnomon.cumulative_parameters],
        )
    first, *lines = str(caught.value).splitlines()
    assert first == "Probe(quantities): expected what this network has at these samples, got"
    assert [line.partition(": ")[0] for line in lines] == ["  accuracy", "  nc1, snr", "  cumulative_parameters"]
    assert "accuracy(labels): expected classes 0 to 2, got 0.0 to 2.0 in torch.float64" in lines[0]
    assert "Probe(model): expected a network whose final linear layer outputs the logits" in lines[1]
    assert "cumulative_parameters(model): expected an nn.Sequential of Linear and ReLU in turn, got Tanh" in lines[2]
    assert Probe(rebuilt, (x, labels.double()), good).read().values.keys() == {q.__name__ for q in good}


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("quantity", "change", "error", "message"),
    [
        (
            accuracy,
            lambda m, x, y: (Answer(m), x, y),
            ShapeError,
            r"\n  accuracy: .*outputs of shape \(n, c\), got dict",
        ),
        (
            gnomon.ntk,
            lambda m, x, y: (Answer(m), x, y),
            ShapeError,
            r"ntk\(model\): expected outputs of shape \(n, c\), got d",
        ),
        (
            accuracy,
            lambda m, x, y: (m, x.long(), y),
            DataError,
            r"got RuntimeError: mat1 and mat2 must have the same dtype",
        ),
        (gnomon.deepfool, lambda m, x, y: (m, x.long(), y), RangeError, r"deepfool\(x\): expected a floating-point"),
        (
            accuracy,
            lambda m, x, y: (m, x, y + 0.5),
            RangeError,
            r"classes 0 to 2, got 0.5 to 2.5 .* For targets, measure",
        ),
        (accuracy, lambda m, x, y: (m, x, torch.where(y == y[17], y, 7)), RangeError, r"got \d to 7 in torch.int64"),
        (
            gnomon.nc1,
            lambda m, x, y: (m, x, 2 * torch.ones_like(y)),
            EmptyError,
            r"samples of two classes or more, got those of class 2 alone",
        ),
        (
            gnomon.nc1,
            lambda m, x, y: (mlp((5, 8, 1)).double(), x, y),
            RangeError,
            r"expected classes a whole number of at least 2, got 1\. For a binary classifier with one logit z, read",
        ),
        (gnomon.nfa_table, lambda m, x, y: (nn.Flatten(), x, y), EmptyError, r"expected at least one linear layer"),
        (
            accuracy,
            lambda m, x, y: (m, x[:, :4], y),
            DataError,
            r"network takes, got RuntimeError: .*shape \(4,\) in torch.f.* Pass network .*; several inputs go as",
        ),
        (
            gnomon.ntk,
            lambda m, x, y: (m, x.float(), y),
            DataError,
            r"got RuntimeError: .* in torch.float32 on cpu\. The network is in torch.float64: convert the samples\.",
        ),
    ],
)
def test_what_lacks_is_said_before_training(quantity, change, error, message):
    model, x, labels = collapsing()
    model, x, labels = change(model, x, labels)
    with pytest.raises(error, match=message):
        Probe(model, (x, labels), [quantity], at(10_000))


def test_a_nan_in_any_sample_is_said_before_training():
    model, x, labels = collapsing()
    x[-1, 2] = math.nan
    with pytest.raises(RangeError, match=r"Probe\(x\): expected finite numbers, got nan at index \(29, 2\)"):
        Probe(model, (x, labels), [accuracy])


@pytest.mark.parametrize(
    ("weight", "quantity"),
    [
        (0.0, gnomon.cumulative_parameters),
        (math.nan, gnomon.cumulative_parameters),
        (math.nan, accuracy),
        (math.nan, gnomon.nfa_table),
    ],
)
def test_what_only_first_weights_lack_is_not_refused(weight, quantity):
    """Weights that cannot be inverted, NaN: the reading says so, if they are still there then."""
    _, x, labels = collapsing()
    model = mlp((5, 4, 3), bias=True).double()
    better = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(weight)
        model[2].bias.copy_(torch.arange(3))
    probe = Probe(model, (x, labels), [quantity])
    with pytest.raises(RangeError, match=r"expected (finite|condition) numbers"):
        probe.read()
    model.load_state_dict(better)
    assert probe.read().values.keys() == {quantity.__name__}


def test_moments_of_a_sixteenth_of_the_memory_have_the_digits_of_the_function():
    """Of 64 rows of eight float32 and a label; of whole numbers, since samples are run in parts that round by size."""
    generator = torch.Generator().manual_seed(0)
    model, x = mlp((1000, 8, 10), bias=True), torch.randint(-2, 3, (64, 1000), generator=generator).float()
    model[0].weight.data, labels = torch.randint(-2, 3, (8, 1000), generator=generator).float(), torch.arange(64) % 10
    model[0].bias.data.fill_(100.0)
    wanted = gnomon.nc1(gnomon.class_moments(model[1](model[0](x)).detach(), labels, 10))
    memory = 16 * 64 * (8 * 4 + 8)
    reading = Probe(model, (x, labels), [gnomon.nc1, gnomon.jacobian_norm], memory=memory).read()
    torch.testing.assert_close(reading.values["nc1"], wanted, rtol=0, atol=0)


def test_what_only_few_samples_lack_is_not_refused():
    """A rank of four takes more than the three samples of the rehearsal."""
    _, x, labels = collapsing()
    model = mlp((5, 4, 3), bias=True, generator=torch.Generator().manual_seed(0)).double()
    model[0].bias.data += 10
    assert Probe(model, (x, labels), [gnomon.snr]).read().values["snr"].shape == (4, 3)
    with pytest.raises(RangeError, match=r"snr\(class_moments\): expected more samples than features, .* 4, got fewer"):
        Probe(model, (x[:3], labels[:3]), [gnomon.snr])
    Probe(model, [(x[:3], labels[:3]), (x[3:], labels[3:])], [gnomon.snr])  # the first batch is not all
    with torch.no_grad():
        model[0].bias.fill_(-1e3)  # dead units, which training may wake
        Probe(model, (x[:4], labels[:4]), [gnomon.snr])


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"quantities": torch.mean},
            r"Probe\(quantities\): expected functions in a list, .* got <built-in method mean",
        ),
        ({"quantities": "accuracy"}, r"got 'accuracy'\. Pass the function, such as gnomon\.accuracy, not its name\."),
        ({"quantities": {"right": "accuracy"}}, r"got 'accuracy'\. Pass the function, such as gnomon\.accuracy, not"),
        ({"quantities": [torch.mean]}, r"expected functions whose arguments have names, got <built-in method mean"),
        (
            {"quantities": [functools.partial(gnomon.gradient_norm, loss="mse")]},
            r"expected settings that gradient_norm has, got loss\. It takes batch_gradients: bind settings of one of",
        ),
        ({"quantities": [nn.CrossEntropyLoss()]}, r"expected functions whose arguments have names, got CrossEntropyLo"),
        ({"quantities": ["accuracy", "nc1"]}, r"got 'accuracy'\. Pass the function, such as gnomon\.accuracy, not"),
        ({"quantities": ["mine"]}, r"expected functions, got 'mine'\. Pass the function, not its name\."),
        ({"quantities": torch.zeros(2)}, r"expected functions, got Tensor\. Pass samples and labels as one pair"),
        ({"quantities": [3]}, r"expected functions, got int\. Pass functions of logits, features or others, such as"),
        ({"layers": 3}, r"Probe: expected layers a name or a list of names, got 3\. Change"),
        ({"head": 3}, r"Probe: expected head a name or a list of names, got 3\. Change"),
        ({"passes": 20.5}, r"Probe: expected passes a whole number of at least 16, got 20\.5"),
        ({"data": (torch.ones(2, 3),) * 3}, r"Probe\(data\): expected samples, alone or with labels, got 3 parts"),
    ],
)
def test_what_no_probe_can_be_made_of_is_said(change, message):
    arguments = {"model": nn.Linear(3, 2), "data": torch.ones(2, 3), "quantities": [gnomon.jacobian_norm]} | change
    with pytest.raises(RangeError, match=message):
        Probe(**arguments)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": torch.tanh}, r"^Probe\(model\): expected a Module, got builtin_function_or_method"),
        ({"rtol": "0.1"}, r"^Probe\(rtol\): expected a number, got str"),
        ({"passes": "many"}, r"^Probe\(passes\): expected a number, got str"),
        ({"max_overhead": "5%"}, r"^Probe\(max_overhead\): expected a number, got str"),
        ({"memory": torch.ones(2)}, r"^Probe\(memory\): expected a number, got Tensor of shape \(2,\)"),
        (
            {"schedule": 100},
            r"^Probe\(schedule\): expected a function, got int\. Pass one, such as every\(100\); .*labels\)\.",
        ),
        ({"history": "run.jsonl"}, r"^Probe\(history\): expected a History, got str. Pass History\('run.jsonl'\)\."),
    ],
)
def test_settings_of_another_kind_are_named(change, message):
    arguments = {"model": nn.Linear(3, 2), "data": torch.ones(2, 3), "quantities": [gnomon.jacobian_norm]} | change
    with pytest.raises(ArgumentTypeError, match=message):
        Probe(**arguments)


@pytest.mark.bad_input
@pytest.mark.parametrize("integer", [np.int64, torch.tensor])
def test_steps_of_any_kind_are_integers_in_readings(integer):
    probe = Probe(nn.Linear(3, 2), torch.ones(2, 3), [gnomon.jacobian_norm], at(3))
    assert [type(reading.step) for reading in (probe(integer(3)), probe.read(integer(4)))] == [int, int]


def test_a_users_quantity_is_no_setting_of_gnomons():
    model, x, labels = collapsing()
    quantities = [gnomon.mse_decomposition, gnomon.gradient_norm]
    alone = Probe(model, (x, labels), quantities).read().scalars()

    def weight_decay(parameters):
        return sum(p.detach().square().sum() for p in parameters.values())

    def loss(logits, labels):
        return nn.functional.cross_entropy(logits, labels)

    found = Probe(model, (x, labels), [weight_decay, loss, *quantities]).read().scalars()
    assert found.keys() - alone.keys() == {"weight_decay", "loss"}
    assert {name: found[name] for name in alone} == alone


@pytest.mark.bad_input
def test_layers_and_quantities_may_be_any_iterable_and_none_is_named():
    model, x, labels = collapsing()
    with pytest.raises(
        EmptyError, match=r"Probe\(layers\): expected at least one layer, got none\. Name one, or leave"
    ):
        Probe(model, (x, labels), [gnomon.accuracy], layers=[name for name, _ in model.named_modules() if name == "9"])
    with pytest.raises(RangeError, match=r"Probe\(quantities\): expected functions by name, got 3 for a name"):
        Probe(model, (x, labels), {3: gnomon.accuracy})
    probe = Probe(model, (x, labels), iter([gnomon.accuracy, gnomon.nc1]), layers=iter(["2"]))
    assert probe.read().values.keys() == {"accuracy", "2/nc1"}


@pytest.mark.bad_input
def test_steps_are_whole():
    model, x, labels = collapsing()
    probe = Probe(model, (x, labels), [gnomon.accuracy])
    for look in (probe, probe.read):
        with pytest.raises(RangeError, match=r"Probe\(step\): expected 0 or above, got -1\. Count from 0"):
            look(-1)
        with pytest.raises(TypeError, match=r"Probe\(step\): expected a whole number, got '4'\. Pass how many steps"):
            look("4")
        with pytest.raises(TypeError, match=r"Probe\(step\): expected a whole number, got 0\.5\. Pass how many steps"):
            look(0.5)
    assert probe.read(torch.tensor(3)).step == 3


@pytest.mark.bad_input
def test_samples_that_are_drawn_are_not_counted_in_messages():
    model, x, labels = collapsing()
    one_hot = nn.functional.one_hot(labels)
    with pytest.raises(ShapeError, match=r"accuracy\(labels\): expected shape \(n,\), got \(n, 3\)"):
        Probe(model, (x, one_hot), [gnomon.accuracy])
    flat = nn.Sequential(model, nn.Linear(3, 1).double(), nn.Flatten(0))
    with pytest.raises(ShapeError, match=r"expected outputs of shape \(n, c\), got shape \(n,\)\. Wrap"):
        Probe(flat, (x, labels), [gnomon.jacobian_norm])
    with pytest.raises(RangeError, match=r"expected class 0 alone, .* got 0 to 1\. For a binary class"):
        Probe(flat[:2], (x, labels % 2), [gnomon.accuracy])
    with pytest.raises(RangeError, match=r"expected classes 0 to 0, got -1 to 1 in torch\.int64"):
        Probe(flat[:2], (x, labels % 2 * 2 - 1), [gnomon.accuracy])
    with pytest.raises(
        ShapeError, match=r"one class index per sample\. For targets bind a loss: functools\.partial\(training_loss, lo"
    ):
        Probe(model, (x, one_hot.double()), [gnomon.training_loss])
    with pytest.raises(RangeError, match=r"got tuple\. Pass \(x, labels\); several inputs go as one tensor, which a w"):
        Probe(model, ((x, x), labels), [gnomon.accuracy])
    with pytest.raises(RangeError, match=r"got 3 parts\. Pass \(x, labels\); several inputs go as one tensor"):
        Probe(model, [(x, x, labels)], [gnomon.accuracy]).read()
    batch_alone = nn.Sequential(nn.BatchNorm1d(x.shape[1], track_running_stats=False).double(), model)
    with pytest.raises(
        UnsupportedModuleError, match=r"by the batch\. It keeps no running statistics: build it with tra"
    ):
        Probe(batch_alone, (x, labels), [gnomon.accuracy])
    with pytest.raises(RangeError, match=r"got torch.bool\. Convert it\."):
        gnomon.accuracy(model(x), labels > 0)


@pytest.mark.bad_input
@pytest.mark.parametrize("targets", [torch.linspace(-1, 1, 12), torch.eye(12)[:, :3]])
@pytest.mark.parametrize(
    ("quantity", "binds"),
    [
        (gnomon.training_loss, gnomon.training_loss),
        (gnomon.gradient_norm, gnomon.batch_gradients),
        (gnomon.gradient_noise_scale, gnomon.batch_gradients),
        (gnomon.hessian_trace, gnomon.hessian_trace),
        (gnomon.local_learning_coefficient, gnomon.local_learning_coefficient),
    ],
)
def test_the_loss_that_the_advice_binds_for_targets_can_be_bound(targets, quantity, binds):
    model = nn.Linear(4, targets.shape[1] if targets.ndim > 1 else 1)
    x = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    advice = f"For targets bind a loss: functools.partial({binds.__name__}, loss='mse'), or a function of outputs and"
    with pytest.raises(GnomonError, match=re.escape(advice)):
        Probe(model, (x, targets), [quantity])
    bound = functools.partial(binds, loss="mse")
    Probe(model, (x, targets), [bound] if quantity is binds else [bound, quantity]).read()


def test_users_functions_are_not_called_before_they_are_due():
    model, x, labels = collapsing()
    generator = torch.Generator().manual_seed(0)
    calls = []

    def noisy(logits):
        calls.append(len(logits))
        return logits + torch.rand(logits.shape, generator=generator)

    probe = Probe(
        model,
        (x, labels),
        {"logits_with_noise": noisy, "first": lambda noisy, nc1: noisy, "noisy": noisy, "nc1": gnomon.nc1},
    )
    assert calls == []
    probe.read()
    assert calls == [30, 30]


@pytest.mark.parametrize("effect", [True, False])
def test_the_rehearsal_leaves_all_as_it_was(effect):
    x, labels = torch.randn(9, 5), torch.arange(9) % 3
    model = Drawing(effect).train()
    sizes = sizes_of_passes(model)
    state = torch.get_rng_state()
    with pytest.raises(UnsupportedModuleError, match="computes the same in each pass") if effect else nullcontext():
        Probe(model, (x, labels), [accuracy, gnomon.nc1, centroid_alignment, gnomon.ntk])
    Probe(model, (x, labels), [accuracy, gnomon.nc1, centroid_alignment])
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert model.layer.training
    assert model.seen == 0
    assert sizes
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert not model.layer._forward_hooks


def test_readings_leave_the_random_stream_and_buffers_that_a_network_writes_itself():
    class Counting(Drawing):
        def forward(self, x):
            self.seen += 1
            return super().forward(x)

    model, state = Counting(), torch.get_rng_state()
    probe = Probe(model, torch.randn(9, 5, generator=torch.Generator().manual_seed(0)), [centroid_alignment])
    first, second = probe.read(), probe.read()
    assert torch.equal(torch.get_rng_state(), state)
    assert model.seen == 0
    torch.testing.assert_close(first.scalars(), second.scalars(), rtol=0, atol=0)


def test_the_rehearsal_takes_few_samples_and_few_passes():
    """The first sample of each class, and one backward pass where the Jacobian takes one an output."""
    backward = []

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 1000)

        def forward(self, x):
            sizes.append(len(x))
            hidden = x * 1
            if hidden.requires_grad:
                hidden.register_hook(lambda gradient: backward.append(len(gradient)))
            return self.layer(hidden)

    for classes, few in ((128, 128), (129, 2), (1, 1)):
        sizes = []
        backward.clear()
        labels = torch.arange(200).flip(0) % classes
        probe = Probe(Wide(), (torch.randn(200, 6), labels), [gnomon.jacobian_norm, accuracy])
        # Three samples are compared with each other, and one does not run alone.
        assert set(sizes) == {3, 2, max(2, few)}
        assert backward == [max(2, few)]
    sizes = []
    Probe(Wide(), torch.randn(200, 6), [gnomon.jacobian_norm])
    assert set(sizes) == {3, 2}
    assert probe.cost.readings == 0


@pytest.mark.bad_input
def test_many_classes_are_read_and_wrong_ones_refused():
    x, labels = torch.randn(200, 4, dtype=torch.float64), torch.arange(200) % 40
    model = mlp((4, 8, 40), bias=True).double()
    assert Probe(model, (x, labels), [gnomon.nc1, accuracy]).read().values["nc1"] > 0
    for wrong in (labels - 1, labels + 1, labels / 2):
        with pytest.raises(RangeError, match=r"accuracy: accuracy\(labels\): expected classes 0 to 39, got"):
            Probe(model, (x, wrong), [accuracy])


def test_what_cannot_run_yet_is_left_alone():
    x, labels = torch.randn(9, 5), torch.arange(9) % 3
    lazy = nn.Sequential(nn.Flatten(), nn.LazyLinear(3))
    probe = Probe(lazy, (x, labels), [accuracy, gnomon.nc1])
    assert isinstance(lazy[1], nn.LazyLinear)
    with pytest.raises(UnsupportedModuleError, match=r"Probe\(model\): expected parameters that have a shape"):
        probe(0)  # whose first pass would draw weights, and training draw the same numbers once more
    lazy(x)
    assert probe(0).values["accuracy"].shape == (9,)
    elsewhere = nn.Linear(5, 3, device="meta")
    probe = Probe(elsewhere, (x, labels), [accuracy, gnomon.nc1])
    elsewhere.to_empty(device="cpu").reset_parameters()
    assert probe.read().values["accuracy"].shape == (9,)


def test_being_out_of_memory_is_said_as_it_is():
    class Large(nn.Module):
        def forward(self, x):
            raise torch.OutOfMemoryError("no more")

    with pytest.raises(torch.OutOfMemoryError, match="no more"):
        Probe(Large(), torch.ones(2, 3), [gnomon.jacobian_norm])


@pytest.mark.parametrize("raised", [MemoryError("no more"), None], ids=["Python's", "torch's"])
def test_memory_that_the_processor_lacks_is_told_as_memory(raised):
    class Large(nn.Module):
        def forward(self, x):
            if raised:
                raise raised
            return x + torch.empty(2**52)

    with pytest.raises(torch.OutOfMemoryError, match=r"Probe\(x\): expected memory for .*\. Pass fewer samples"):
        Probe(Large(), torch.ones(2, 3), [gnomon.jacobian_norm])


def test_effective_rank_of_large_samples_is_that_of_few_rows():
    """The matrix itself would have 10,000 entries a side, and a function of the user's gets it whole."""
    model = nn.Sequential(
        nn.Flatten(), nn.Unflatten(1, (1, 10_000)), nn.AvgPool1d(100), nn.Flatten(), nn.Linear(100, 3)
    )
    x = torch.randn(4, 100, 100)
    reading = Probe(model, x, [gnomon.effective_rank]).read()
    rows = gnomon.input_jacobian(model, x).detach().flatten(0, 1).flatten(1).double()
    squares = torch.linalg.svdvals(rows).square()
    torch.testing.assert_close(reading.values["effective_rank"], squares.sum() / squares[0])
    small = Probe(mlp((6, 3)), torch.randn(2, 6), {"size": lambda agop: torch.tensor(agop.shape)}).read()
    assert small.values["size"].tolist() == [6, 6]


@pytest.mark.filterwarnings("ignore:nc1 says nothing of the features")
def test_many_missing_classes_are_said_by_a_few():
    model = nn.Linear(4, 1000)
    for n, k, there in ((16, 16, "16 others, 16 of them"), (1200, 300, "300 others, 0 of them")):
        probe = Probe(model, (torch.randn(n, 4), torch.arange(n) % k), [gnomon.nc1, accuracy])
        rest = ", ".join(str(k + i) for i in range(5))
        with pytest.warns(RuntimeWarning, match=rf"{1000 - k} of 1,000 .*: {rest} and {995 - k} more\. .* {there}"):
            probe.read()
    Probe(model, (torch.randn(1000, 4), torch.arange(1000)), [gnomon.nc1, accuracy]).read()


def test_features_of_a_network_that_has_diverged_are_read():
    model, x = zoo("mlp")
    with torch.no_grad():
        model[-1].weight.fill_(torch.nan)
    torch.testing.assert_close(gnomon.features(model, x), model[:-1](x))


@pytest.mark.bad_input
def test_data_that_are_no_tensors_are_named():
    x = np.zeros((4, 2))
    for data in (x, (torch.zeros(4, 2), np.zeros(4))):
        with pytest.raises(RangeError, match=r"Probe\(data\): expected tensors, got ndarray\. Convert it with"):
            Probe(nn.Linear(2, 2), data, [gnomon.jacobian_norm])


def test_a_probe_says_what_it_is():
    probe = Probe(nn.Linear(3, 2), data(torch.ones(4, 3)), {"right": accuracy, "norm": gnomon.jacobian_norm})
    assert repr(probe) == "Probe(Linear, x (4, 3), labels (4,), quantities right, norm)"


def test_readings_are_equal_where_their_values_are(tmp_path):
    model, x, labels = collapsing()
    quantities = {
        "nan": lambda x: x * math.nan, "mse": gnomon.mse_decomposition, "moments": lambda class_moments: class_moments,
        "layers": gnomon.layer_centroids,
    }  # fmt: skip
    probe = Probe(model, (x, labels), quantities)
    one, other = probe.read(), probe.read()
    assert one == other
    assert hash(one) == hash(other)
    assert one.seconds != other.seconds
    assert one not in [probe.read(1), None]
    torch.save([one], tmp_path / "readings.pt")
    assert torch.load(tmp_path / "readings.pt", weights_only=True) == [one]
    with torch.no_grad():
        model[-1].bias.add_(1)
    assert probe.read() != one
