"""What a reading will cost is said before it, within a factor of three, and leaves nothing behind."""

import time
from pathlib import Path

import pytest
import torch

import gnomon
from gnomon import Probe
from gnomon.models import mlp, resnet18
from gnomon.probe._expected import ENOUGH, MOST, ExpectedCost, extrapolated
from tests.unit.test_memory import peak

QUANTITIES = [gnomon.accuracy, gnomon.centroid_alignment, gnomon.jacobian_norm, gnomon.explained_variance_ratio]


def seeded():
    return torch.Generator().manual_seed(0)


def few_outputs():
    return mlp((256, 256, 10), generator=seeded()), torch.randn(1024, 256, generator=seeded())


def many_outputs():
    return mlp((64, 128, 192), generator=seeded()), torch.randn(1024, 64, generator=seeded())


def images():
    return resnet18(3, 10, width=8, generator=seeded()), torch.randn(24, 3, 16, 16, generator=seeded())


@pytest.mark.parametrize("network", [few_outputs, many_outputs, images])
def test_seconds_are_within_a_factor_of_three(network, monkeypatch):
    monkeypatch.setattr(time, "perf_counter", time.process_time)  # other work on the machine does not count
    model, x = network()
    labels = torch.arange(len(x)) % model(x[:2]).shape[1]
    probe = Probe(model, (x, labels), QUANTITIES)
    found = probe.expected_cost()
    start = time.perf_counter()
    probe.read()
    took = time.perf_counter() - start
    assert took / 3 < found.seconds < 3 * took
    assert (found.samples, found.outputs) == (len(x), model(x[:2]).shape[1])
    assert found.by_products == (network is many_outputs)


def test_seconds_that_grow_on_a_line_are_exact(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def slow(logits):
        now[0] += 0.5 + 0.01 * len(logits)
        return logits

    model, x = few_outputs()
    probe = Probe(model, x, {"slow": slow})
    expected, start = probe.expected_cost().seconds, now[0]
    probe.read()
    assert now[0] - start == pytest.approx(0.5 + 0.01 * len(x))
    assert expected == pytest.approx(now[0] - start)


PEAK = """
from gnomon.models import mlp
quantities = [gnomon.jacobian_norm, gnomon.row_alignment]
x = torch.randn(300, 784)
gnomon.Probe(mlp((784, 20, 20)), x[:4], quantities).read()
probe = gnomon.Probe(mlp((784, 2000, 20)), x, quantities)
before = highest()
expected = probe.expected_cost().memory
probe.read()
print(expected // (highest() - before))
"""


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_memory_is_within_a_factor_of_three():
    share = peak(PEAK, 0) / 1024**2  # the peak is in KiB, and taken for one
    assert 1 / 3 < share < 3


@pytest.mark.parametrize(("fixed", "each"), [(0.0, 1e-3), (0.01, 1e-4), (2.0, 1.0), (0.3, 0.0)])
def test_the_line_through_few_samples_is_that_of_all(fixed, each):
    looks = []

    def took(size):
        looks.append(size)
        return fixed + each * size

    seconds, seen = extrapolated(took, 10_000, 512)
    assert seconds == pytest.approx(fixed + 10_000 * each)
    assert seen == looks[-1] <= 512
    if took(2) > ENOUGH:
        assert looks[:3] == [2, 2, 4]


def test_short_looks_are_taken_twice_and_long_ones_once():
    clock = iter([0.4, 0.01, 0.02, 0.5, 0.16, 0.17])
    assert extrapolated(lambda size: next(clock), 32, 100) == (0.16, 32)
    clock = iter([9.0, 1.0, 2.0])
    assert extrapolated(lambda size: next(clock), 4, 100) == (2.0, 4)


@pytest.mark.parametrize("each", [0.02, 0.09, 0.3])
def test_all_looks_together_take_a_second(each):
    looks = []

    def took(size):
        looks.append(size)
        return each

    _, last = extrapolated(took, 10**99, 10**99)
    earlier = each * sum(size < last for size in looks)
    assert earlier < MOST == 1 <= earlier + each * looks.count(last)


def test_of_a_large_network_looks_are_taken_at_two_samples_and_at_four():
    looks = []

    def took(size):
        looks.append(size)
        return float(size)

    assert extrapolated(took, 100, 100) == (100.0, 4)
    assert looks == [2, 2, 4]


def test_loaders_are_counted_and_splits_are_added_up():
    model, x = few_outputs()
    batches = [(part, torch.arange(len(part)) % 10) for part in x.split(300)]
    probe = Probe(model, {"train": batches, "test": batches[:1]}, [gnomon.accuracy])
    assert probe.expected_cost().samples == len(x) + 300


def test_what_is_kept_of_all_samples_counts():
    model, x = few_outputs()
    chunk, rows = 2**22, len(x) * 10 * 256 * 4
    kept, joined = (
        Probe(model, x, [each], memory=chunk).expected_cost() for each in (gnomon.jacobian_norm, gnomon.agop)
    )
    assert chunk / 2 < kept.memory <= chunk + 4 * len(x), "a number of each sample is kept"
    assert rows < joined.memory <= rows + chunk


@pytest.mark.parametrize(
    ("quantity", "known"),
    [
        (gnomon.gradient_norm, False),
        (gnomon.hessian_eigenvalues, False),
        (gnomon.ntk, False),
        (lambda model: torch.ones(()), False),
        (gnomon.agop, True),
        (gnomon.self_duality, True),
        (gnomon.parameter_norm, True),
    ],
)
def test_memory_is_left_out_if_a_quantity_runs_the_network(quantity, known):
    model, x = few_outputs()
    split = x[:100], torch.arange(100) % 10
    cost = Probe(model, {"a": split, "b": split}, {"a": {"it": quantity}, "b": [gnomon.accuracy]}).expected_cost()
    assert (cost.memory is not None) == known == ("MiB" in str(cost))


def test_nothing_is_left_behind():
    model, x = many_outputs()
    probe, alone = (Probe(model.train(), x[:16], QUANTITIES[1:]) for _ in range(2))
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    probe.expected_cost()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert model.training
    assert probe.cost.readings == 0
    assert probe.read() == alone.read()


def test_what_cannot_be_had_of_few_samples_is_left_out():
    model, x = few_outputs()
    probe = Probe(model, (x, torch.arange(len(x)) % 10), [gnomon.nc1])
    assert probe.expected_cost().seconds > 0


def test_it_is_said_in_words():
    assert str(ExpectedCost(83.1, 440 * 2**20, 256, 1000, True)) == (
        "256 samples, 1,000 outputs by products: about 83 s, 440 MiB"
    )
    assert str(ExpectedCost(0.01234, 2**20, 5, 0, False)) == "5 samples: about 0.012 s, 1 MiB"
    assert str(ExpectedCost(0.5, None, 5, 3, False)) == "5 samples, 3 outputs: about 0.5 s"
    assert str(ExpectedCost(12_345.0, 2**30, 5, 3, False)) == "5 samples, 3 outputs: about 12,000 s, 1,024 MiB"


def test_what_the_first_samples_cost_together_is_not_taken_for_each_ones():
    """As where a pass of eight takes longer than one of two by more than its samples."""

    def took(size):
        return 0.04 + 0.06 * (size >= 8) + 0.001 * size

    seconds, _ = extrapolated(took, 256, 256)
    assert took(256) / 3 < seconds < 3 * took(256)
