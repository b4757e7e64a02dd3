"""A loader that shuffles or adds noise gives the same samples at each reading, or the probe says that it does not."""

import copy
import pickle
import random
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, TensorDataset

from gnomon import History, Probe, accuracy, start_cka
from gnomon.errors import RangeError
from gnomon.probe import unavailable
from tests.noisy import LABELS, Noisy, X


@pytest.mark.unchecked  # the checker of types draws from Python's stream
@pytest.mark.parametrize("options", [{}, {"generator": True}, {"num_workers": 1}], ids=str)
def test_a_loader_that_shuffles_gives_the_same_samples_at_each_reading(options):
    """In the same order and with the same noise, whatever training, and a quantity of the reading, draw meanwhile."""
    own = {"generator": torch.Generator().manual_seed(0)} if "generator" in options else {}
    loader = DataLoader(Noisy(), 4, shuffle=True, **options | own)
    drawn = []

    def order(x, labels) -> Float[Tensor, "n"]:
        drawn.append(torch.rand(1).item() + random.random() + np.random.rand())
        return x[:, 0] + labels

    history = History(samples=True)
    probe = Probe(nn.Linear(5, 3), {"some": loader, "others": loader}, [order], history=history)
    for step in range(3):
        probe(step)
        torch.rand(step), random.random(), np.random.rand(), [*loader]
    for split in ("some", "others"):
        first, *rest = history.samples(f"{split}/order")
        assert len(first.unique()) == 12
        for later in rest:
            torch.testing.assert_close(later, first, rtol=0, atol=0)
    assert len({*drawn}) == 3 * 2 * 3
    assert not torch.equal(torch.cat([x for x, _ in loader]), torch.cat([x for x, _ in loader]))


class Epochs(RandomSampler):
    """Shuffles by the number of its passes."""

    epoch = 0

    def __iter__(self):
        self.epoch += 1
        yield from torch.randperm(12, generator=torch.Generator().manual_seed(self.epoch)).tolist()


def test_values_of_samples_in_another_order_are_warned_of_once_if_they_are_kept():
    samples = TensorDataset(X, LABELS)

    def probe(sampler, kept=True):
        loader = DataLoader(samples, 4, sampler=sampler(samples))
        return Probe(nn.Linear(5, 3), loader, [accuracy], history=History(samples=kept))

    for right in (probe(SequentialSampler), probe(Epochs, kept=False)):
        right(0), right(1)
    wrong = probe(Epochs)
    with pytest.warns(
        UserWarning, match=r"Probe\(data\): expected the same samples at each reading, got others, or"
    ) as w:
        wrong(0), wrong(1)
    assert len(w) == 1


def test_a_history_of_samples_that_goes_on_in_another_process_is_warned_of_where_they_are_shuffled():
    samples, model = TensorDataset(X, LABELS), nn.Linear(5, 3)
    history = History(samples=True)
    Probe(model, DataLoader(samples, 4, shuffle=True), [accuracy], history=history)(0)
    Probe(model, DataLoader(samples, 4), [accuracy], history=history)(1)
    again = Probe(model, DataLoader(samples, 4, shuffle=True), [accuracy], history=history)
    with pytest.warns(UserWarning, match=r"Probe\(data\): expected the same samples at each reading, got others"):
        again(2)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda probe: pickle.loads(pickle.dumps(probe))])
def test_a_copied_probe_has_the_same_samples_from_generators_of_its_own(copied):
    generator = torch.Generator().manual_seed(0)
    samples = TensorDataset(X, LABELS)
    probe = Probe(
        nn.Linear(5, 3), DataLoader(samples, 4, shuffle=True, generator=generator), {"same": samples_themselves}
    )
    first, own = probe.read().values["same"], copied(probe)
    torch.rand(3, generator=generator)
    before = generator.get_state()
    torch.testing.assert_close(own.read().values["same"], first, rtol=0, atol=0)
    torch.testing.assert_close(generator.get_state(), before, rtol=0, atol=0)
    torch.testing.assert_close(probe.read().values["same"], first, rtol=0, atol=0)


def samples_themselves(x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    return x


@pytest.mark.bad_input
@pytest.mark.parametrize("wrapped", [False, True])
def test_samples_in_random_order_are_not_compared_with_what_stands_in_theirs(wrapped):
    model, samples = nn.Linear(5, 3), TensorDataset(X, LABELS)
    asked = [partial(partial(start_cka), start=X), accuracy]
    batches = BatchSampler(RandomSampler(samples), 4, drop_last=False)
    shuffled = DataLoader(samples, batch_sampler=batches) if wrapped else DataLoader(samples, 4, shuffle=True)
    says = r"start_cka: Probe\(data\): expected samples in the order of `start`, got a loader that shuffles\. Pass one"
    with pytest.raises(RangeError, match=says):
        Probe(model, shuffled, asked)
    assert [*unavailable(model, shuffled, asked)] == ["start_cka"]
    found = Probe(model, {"in order": DataLoader(samples, 4), "others": shuffled}, {"in order": asked}).read()
    assert found.values["in order/start_cka"] == 1


@dataclass
class Above:
    """A quantity with a setting; a dataclass compares by its fields, and so has no hash."""

    bound: float

    def __call__(self, logits: Float[Tensor, "n c"]) -> Float[Tensor, ""]:
        return (logits > self.bound).float().mean()


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_dataclass_is_a_quantity(shuffle):
    samples = DataLoader(TensorDataset(X, LABELS), 4, shuffle=shuffle)
    assert Probe(nn.Linear(5, 3), samples, {"above": Above(-1e9)}).read().values["above"] == 1
