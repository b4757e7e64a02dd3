"""Samples of any kind, in splits, batches and layers: one reading holds them all, and does no harm."""

import pickle
import random
import re
import sys
from functools import partial

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import gnomon
from gnomon import Probe, accuracy, centroid_alignment, jacobian_norm, nc1
from gnomon.autodiff._independence import repeats, two_kinds
from gnomon.errors import EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.models import mlp
from gnomon.probe._reading import tensors
from tests.noisy import Noisy
from tests.passes import sizes_of_passes

N = 60
SMALL = 2_000
"""Bytes, in which some ten samples are seen at once."""


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network():
    return mlp((5, 8, 6, 3), bias=True, generator=torch.Generator().manual_seed(1)).double()


X, LABELS = numbers(N, 5), torch.arange(N) % 3
TRAIN, TEST = (X, LABELS), (numbers(40, 5, seed=1), torch.arange(40) % 3)


class Own(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, i):
        return X[i], LABELS[i]


class Stream(IterableDataset):
    def __iter__(self):
        return zip(X, LABELS, strict=True)


class Again:
    """No list and no loader, but it can be iterated again."""

    def __iter__(self):
        yield X[:7], LABELS[:7]
        yield X[7:8], LABELS[7:8]
        yield X[8:], LABELS[8:]


class Once:
    """Its iterator is stored, and ends."""

    def __init__(self):
        self.batches = iter([(X, LABELS)] * 2)

    def __iter__(self):
        return self.batches


class Spent:
    """Gives each batch once."""

    def __init__(self):
        self.left = [(X, LABELS)]

    def __iter__(self):
        while self.left:
            yield self.left.pop()


class Wrapper:
    """Gives a loader's batches, and is none itself."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)


QUANTITIES = [
    accuracy, centroid_alignment, gnomon.jacobian_alignment, gnomon.singular_values, nc1, gnomon.self_duality,
    gnomon.mse_decomposition, gnomon.nearest_mean_disagreement, gnomon.effective_rank, gnomon.ntk, gnomon.deepfool,
]  # fmt: skip


@pytest.fixture(scope="module")
def expected():
    return tensors(Probe(network(), TRAIN, QUANTITIES).read().values)


BATCHES = [(X[:20], LABELS[:20]), [X[20:], LABELS[20:]]]


@pytest.mark.parametrize(
    "data",
    [[X, LABELS], TensorDataset(X, LABELS), Own(), Stream(), DataLoader(Own(), 7), BATCHES, Again()],
    ids=lambda data: type(data).__name__,
)
def test_samples_are_the_same_whatever_they_come_in(data, expected):
    torch.testing.assert_close(tensors(Probe(network(), data, QUANTITIES).read().values), expected)


@pytest.mark.unchecked
@pytest.mark.parametrize("data", [TRAIN, DataLoader(Own(), 7)], ids=lambda data: type(data).__name__)
def test_samples_are_the_same_a_few_at_a_time(data, expected):
    torch.testing.assert_close(tensors(Probe(network(), data, QUANTITIES, memory=SMALL).read().values), expected)


def test_class_moments_of_batches_have_the_precision_of_those_of_all():
    model = network().float()
    whole, batches = (X.float(), LABELS), [(X[:30].float(), LABELS[:30]), (X[30:].float(), LABELS[30:])]
    found = [Probe(model, data, {"moments": lambda class_moments: class_moments}).read() for data in (whole, batches)]
    one, other = (tensors(reading.values) for reading in found)
    torch.testing.assert_close(one, other)
    assert one["moments.means"].dtype == torch.float32


def test_samples_without_labels():
    model = network()
    expected = Probe(model, X, [jacobian_norm]).read().values
    for data in (TensorDataset(X), [(X[:9],), (X[9:],)], DataLoader(X, 7), DataLoader(TensorDataset(X), 7)):
        torch.testing.assert_close(Probe(model, data, [jacobian_norm]).read().values, expected)
    with pytest.raises(RangeError, match=r"accuracy: Probe\(data\): expected labels, got samples alone"):
        Probe(model, DataLoader(X, 7), [accuracy])


def test_lists_of_two_tensors_are_read_where_it_is_clear_what_they_are():
    """Batches of a loader are lists; labels are in a list beside their samples."""
    model = network()
    expected = Probe(model, X, [jacobian_norm]).read().values
    pairs = [[X[:9], X[:9]], [X[9:], X[9:]]]
    for data in ([X, LABELS], (X, X), pairs, DataLoader(pairs, None)):
        torch.testing.assert_close(Probe(model, data, [jacobian_norm]).read().values, expected)


def test_batches_are_added_up_without_torchmetrics(monkeypatch):
    """Whose import takes seconds where transformers is installed."""
    monkeypatch.delitem(sys.modules, "gnomon.measure.metrics", raising=False)
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    x, labels = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 3
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    quantities = [gnomon.nc1, gnomon.effective_rank]
    batches = gnomon.Probe(model, DataLoader(TensorDataset(x, labels), 4), quantities).read(0)
    whole = gnomon.Probe(model, (x, labels), quantities).read(0)
    for name in ("nc1", "effective_rank"):
        torch.testing.assert_close(batches.values[name], whole.values[name], check_dtype=False, rtol=1e-4, atol=0)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_object_that_gives_a_loaders_batches_can_be_gone_through_again(workers):
    """Also if the loader keeps its workers, and with them its iterator; random numbers are as they were."""
    loader = DataLoader(TensorDataset(X), 7, num_workers=workers, persistent_workers=workers > 0)
    before = torch.get_rng_state()
    probe = Probe(network(), Wrapper(loader), [jacobian_norm])
    assert torch.equal(torch.get_rng_state(), before)
    assert probe.read().values["jacobian_norm"].shape == (N,)


# Splits.


def test_one_reading_holds_all_splits_from_one_pass_each():
    model = network()
    sizes = sizes_of_passes(model)
    probe = Probe(model, {"train": TRAIN, "test": TEST}, [accuracy, jacobian_norm])
    assert probe.quantities == ("train/accuracy", "train/jacobian_norm", "test/accuracy", "test/jacobian_norm")
    probe.read(0)  # which sees how many outputs there are
    sizes.clear()
    reading = probe.read(3)
    assert sum(sizes) == N + 40 + 2 * 2  # two samples size the chunks
    assert tuple(reading.values) == probe.quantities
    for split, data in (("train", TRAIN), ("test", TEST)):
        alone = Probe(model, data, [accuracy, jacobian_norm]).read()
        for name, value in alone.values.items():
            assert torch.equal(reading.values[f"{split}/{name}"], value)
        assert {f"{split}/{name}" for name in alone.seconds} <= reading.seconds.keys()
    assert {"train/accuracy", "test/accuracy", "test/jacobian_norm.max"} <= reading.scalars().keys()
    assert str(probe) == (
        "Probe(Sequential, train x (60, 5), labels (60,), test x (40, 5), labels (40,), "
        "quantities train/accuracy, train/jacobian_norm, test/accuracy, test/jacobian_norm)"
    )


def test_each_split_may_have_quantities_of_its_own():
    model, data = network(), {"train": TRAIN, "test": DataLoader(TensorDataset(*TEST), 7), "other": TEST[0]}
    asked = {"train": [accuracy, nc1], "test": {"right": accuracy}, "norm": jacobian_norm, "other": jacobian_norm}
    probe = Probe(model, data, asked)
    assert probe.quantities == (
        "train/norm", "train/accuracy", "train/nc1", "test/norm", "test/right", "other/norm", "other/jacobian_norm"
    )  # fmt: skip
    values = probe.read().values
    torch.testing.assert_close(values["test/right"], accuracy(model(TEST[0]), TEST[1]))
    torch.testing.assert_close(values["test/norm"], values["other/norm"])


@pytest.mark.parametrize("train", [TRAIN, DataLoader(TensorDataset(*TRAIN), 7)], ids=["tensors", "batches"])
def test_another_splits_samples_go_by_its_name(train):
    def nearest(x, labels, train_x, train_labels) -> Float[Tensor, "n"]:
        """Whether the nearest training sample has the same class."""
        return (train_labels[torch.cdist(x, train_x).argmin(1)] == labels).double()

    model = network()
    probe = Probe(model, {"train": train, "test": TEST}, {"test": [nearest]})
    expected = (LABELS[torch.cdist(TEST[0], X).argmin(1)] == TEST[1]).double()
    torch.testing.assert_close(probe.read().values, {"test/nearest": expected})
    with pytest.raises(RangeError, match=r"expected the arguments of nearest to be among .*got train_x"):
        Probe(model, TEST, [nearest])


def test_readings_of_splits_can_be_kept(tmp_path):
    reading = Probe(network(), {"train": TRAIN, "test": TEST}, [accuracy, gnomon.mse_decomposition]).read(2)
    torch.save(reading, tmp_path / "reading.pt")
    assert torch.load(tmp_path / "reading.pt", weights_only=True) == reading
    assert pickle.loads(pickle.dumps(reading)) == reading


def test_a_split_without_a_value_is_said():
    model, broken = network(), (X.clone(), LABELS)

    def least(logits, labels):
        if labels[1] == 0:
            raise RangeError("labels", "others", "these", where="least")
        return logits.min()

    probe = Probe(model, {"train": TRAIN, "test": (X, LABELS.flip(0) // 2)}, [least, accuracy])
    with pytest.warns(UserWarning, match="Probe: test/least is NaN at step 0: least"):
        reading = probe(0)
    assert reading.missing.keys() == {"test/least"}
    assert reading.values["test/least"].isnan()
    assert reading.values["train/least"].isfinite()
    broken[0][3] = torch.nan
    with pytest.raises(RangeError, match=r"\n  test/accuracy: .*expected finite numbers, got nan at index \(3, 0\)"):
        Probe(model, {"train": TRAIN, "test": broken}, [accuracy])


# Layers.


@pytest.mark.parametrize("memory", [None, SMALL])
def test_each_quantity_of_features_is_read_at_each_layer_from_one_pass(memory):
    def spread(features) -> Float[Tensor, "n"]:
        return features.flatten(1).std(1)

    def twice(spread, jacobian_norm) -> Float[Tensor, "n"]:
        return 2 * spread + 0 * jacobian_norm

    model = network()
    sizes = sizes_of_passes(model)
    quantities = [nc1, accuracy, twice, spread, jacobian_norm]
    probe = Probe(model, {"test": TEST}, quantities, layers=["0", "2", "4"], memory=memory)
    sizes.clear()
    reading = probe.read()
    assert sum(sizes) == 40 + 2
    names = [f"test/{layer}/{name}" for name in ("nc1", "twice", "spread") for layer in "024"]
    assert {*reading.values} == {*names, "test/accuracy", "test/jacobian_norm"}
    for layer in "024":
        alone = Probe(model, TEST, quantities, layers=layer).read().values
        assert alone.keys() == {"nc1", "accuracy", "twice", "spread", "jacobian_norm"}
        for name in ("nc1", "twice", "spread"):
            torch.testing.assert_close(reading.values[f"test/{layer}/{name}"], alone[name])
        torch.testing.assert_close(alone["spread"], model[: int(layer)](TEST[0]).detach().std(1))


def test_the_classifier_is_not_read_with_features_of_several_layers():
    with pytest.raises(UnsupportedModuleError, match=r"2/self_duality: Probe\(layers\): .* use its weight .* got '2'"):
        Probe(network(), TRAIN, [gnomon.self_duality], layers=["4", "2"])
    values = Probe(network(), TRAIN, [gnomon.self_duality], layers=["4"]).read().values
    torch.testing.assert_close(
        values["4/self_duality"], Probe(network(), TRAIN, [gnomon.self_duality]).read().values["self_duality"]
    )


# Streaming.


def test_one_row_per_sample_is_computed_of_some_at_a_time():
    sizes = []

    def norm(jacobian, labels) -> Float[Tensor, "n"]:
        sizes.append((len(jacobian), len(labels)))
        return jacobian.flatten(1).norm(dim=1)

    def squared(norm) -> Float[Tensor, "n"]:
        sizes.append(len(norm))
        return norm.square()

    def mean(squared):
        sizes.append(len(squared))
        return squared.mean()

    model = network()
    probe = Probe(model, TRAIN, [mean, norm, squared], memory=SMALL)
    assert sizes == []
    values = probe.read().values
    *some, last = sizes
    assert last == N
    assert max(size for size in some if isinstance(size, int)) < N / 2
    assert sum(size for size in some if isinstance(size, int)) == N
    expected = gnomon.jacobian_norm(gnomon.input_jacobian(model, X)).detach()
    torch.testing.assert_close(values, {"mean": expected.square().mean(), "norm": expected, "squared": expected**2})


@pytest.mark.parametrize("data", [TRAIN, DataLoader(TensorDataset(*TRAIN), 64)], ids=["tensors", "batches"])
def test_an_entry_for_each_pair_of_samples_is_computed_of_all(data):
    def gram(logits) -> Float[Tensor, "n n"]:
        return logits @ logits.mT

    model = network()
    found = Probe(model, data, [gram, jacobian_norm], memory=SMALL).read().values["gram"]
    logits = model(X).detach()
    torch.testing.assert_close(found, logits @ logits.mT)


def test_an_annotation_as_a_string_is_read_too():
    sizes = []

    def norm(jacobian) -> 'Float[Tensor, "n"]':
        sizes.append(len(jacobian))
        return jacobian.flatten(1).norm(dim=1)

    def unknown(logits) -> "Nowhere":
        sizes.append(-len(logits))
        return logits.mean()

    Probe(network(), TRAIN, [norm, unknown], memory=SMALL).read()
    assert max(sizes) < N / 2
    assert min(sizes) == -N


def test_without_an_annotation_all_samples_have_to_fit():
    def norm(jacobian):
        return jacobian.flatten(1).norm(dim=1)

    def whole(jacobian) -> Float[Tensor, ""]:
        return jacobian.norm()

    model, needed = network(), N * 3 * 5 * 8
    assert Probe(model, TRAIN, [norm], memory=needed).read().values["norm"].shape == (N,)
    for data in (TRAIN, DataLoader(TensorDataset(*TRAIN), 50)):
        with pytest.raises(
            RangeError, match=r'norm to use no more than memory=7,199 bytes .* def norm\(.*\) -> Float\[Tensor, "n"'
        ):
            Probe(model, data, [norm], memory=needed - 1).read()
    assert Probe(model, TRAIN, [whole], memory=needed - 1).read().values["whole"].ndim == 0


def test_a_wrong_annotation_is_said():
    def mean(logits) -> Float[Tensor, "n"]:
        return logits.mean()

    with pytest.raises(
        ShapeError, match=r"expected one row per sample from mean, as its return annotation says, got sh"
    ):
        Probe(network(), TRAIN, [mean]).read()


@pytest.mark.parametrize("memory", [None, 100_000])
def test_where_few_numbers_are_looked_at_nothing_is_added_up(memory):
    """In one chunk, or in several whose features are small beside the memory: bit for bit what the function gives."""
    model = mlp((5, 400, 4, 3), bias=True, generator=torch.Generator().manual_seed(1)).double()
    sizes = sizes_of_passes(model)
    probe = Probe(model, TRAIN, {"moments": lambda class_moments: class_moments}, memory=memory)
    sizes.clear()
    values = probe.read().values["moments"]
    assert (max(sizes) < N) == (memory is not None)
    expected = gnomon.class_moments(gnomon.features(model, X, memory=memory).detach(), LABELS, 3)
    assert torch.equal(values.means, expected.means)
    assert torch.equal(values.within.dense(), expected.within.dense())


def test_a_chunk_without_a_value_leaves_the_quantity_without_one():
    def positive(x, logits) -> Float[Tensor, "n"]:
        if (x == X[-1]).all(1).any():
            raise RangeError("x", "another", "the last", where="positive")
        return logits.sum(1)

    def half(positive) -> Float[Tensor, "n"]:
        return positive / 2

    probe = Probe(network(), TRAIN, [half, positive, accuracy], memory=SMALL)
    with pytest.warns(UserWarning, match="is NaN at step 0: positive"):
        reading = probe(0)
    assert reading.missing.keys() == {"half", "positive"}
    assert reading.values["half"].isnan()
    assert reading.values["accuracy"].shape == (N,)


# What cannot be read.


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (((X, LABELS) for _ in range(2)), RangeError, r"got a generator, which .* only once\. P"),
        (iter([(X, LABELS)]), RangeError, r"got a list_iterator, which .* only once\. Pass a list of them, or"),
        (iter(DataLoader(Own(), 7)), RangeError, r"got a _SingleProcessDataLoaderIter, which .* only once\. P"),
        (Once(), RangeError, r"got a Once, which .* only once\. P"),
        (Spent(), EmptyError, r"Probe\(data\): expected batches at each reading, got none\. Pass"),
        ([], EmptyError, r"Probe\(data\): expected at least one batch, got none"),
        ({}, EmptyError, r"Probe\(data\): expected at least one split, got none"),
        ({1: X}, RangeError, r"expected splits that have a name, got 1"),
        (3, RangeError, r"Probe\(data\): expected tensors or batches, got int"),
        ([{"pixels": X, "labels": X}], RangeError, r"got dict\. Pass \(x, labels\) made of pixels, labels; several"),
        (X.numpy(), RangeError, r"expected tensors, got ndarray\. Convert it"),
        ([X[:6], X[6:]], RangeError, r"got two tensors that may be either in a list\. .*\[\(x1,\), \(x2,\)\]"),
        ([X[:6].byte(), X[6:].byte()], RangeError, r"got two tensors that may be either in a list\. "),
        ([(X, LABELS), X], RangeError, r"expected tensors, got tuple"),
        ([(X, LABELS), (X,)], RangeError, r"expected batches with x and labels as the first has, got one with x\. "),
        ([(X, LABELS), (X[:3], LABELS)], ShapeError, r"Probe\(labels\): expected 3 samples as in x, got 60"),
    ],
)  # fmt: skip
def test_samples_that_cannot_be_read_are_said(data, error, message):
    with pytest.raises(error, match=message):
        Probe(network(), data, [jacobian_norm]).read()


class Masked(nn.Module):
    """Takes its inputs by name, as networks for texts do."""

    def __init__(self):
        super().__init__()
        self.body = network()

    def forward(self, inputs, mask=None):
        return self.body(inputs if mask is None else inputs * mask)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("model", "names"),
    [(Masked, ("inputs", "mask")), (Masked, ("inputs", "labels")), (network, ("x", "labels")), (network, ("x", "y"))],
)
def test_the_parts_of_a_batch_are_not_taken_for_splits(model, names):
    batch = dict.fromkeys(names, X) | dict.fromkeys({"labels", "y"}.intersection(names), LABELS)
    says = (
        rf"Probe\(data\): expected samples, or splits by their names, got the parts of one batch, {', '.join(names)}\. "
        rf"Pass \(x, labels\) made of {', '.join(names)}; several inputs go as one tensor, which a wrapper of the "
        r"network takes apart \(for transformers: gnomon\.integrations\.transformers_inputs\)\."
    )
    with pytest.raises(RangeError, match=says):
        Probe(model(), batch, [jacobian_norm])


@pytest.mark.parametrize("data", [{"inputs": X}, {"inputs": X, "noisy": X}, {"inputs": X, "mask": X[1:]}])
def test_samples_without_labels_may_be_splits(data):
    assert [*Probe(Masked(), data, [jacobian_norm]).read().values] == [f"{name}/jacobian_norm" for name in data]


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_a_traced_network_that_names_no_arguments_is_refused_as_traced():
    with pytest.raises(UnsupportedModuleError, match=r"got a part that torch\.jit compiled"):
        Probe(torch.jit.trace(network(), X), {"one": X, "other": X}, [jacobian_norm])


def test_a_number_that_is_missing_in_a_batch_is_found_there():
    lacking = X.clone()
    lacking[45, 2] = torch.nan
    batches = [(lacking[rows], LABELS[rows]) for rows in torch.arange(N).split(20)]
    message = r"Probe\(x\): expected finite numbers, got nan at index \(5, 2\) of batch 2. Leave such samples out."
    with pytest.raises(RangeError, match=message):
        Probe(network(), batches, [accuracy]).read()


@pytest.mark.bad_input
@pytest.mark.parametrize("name", ["seconds", "samples", "step", "arm"])
def test_names_that_a_line_of_a_history_uses_are_said_before_training(name):
    says = rf"Probe\(quantities\): expected names other than arm, samples, seconds, step, got {name}\. Rename"
    with pytest.raises(RangeError, match=says):
        Probe(network(), TRAIN, {name: lambda logits: logits.mean()})
    probe = Probe(network(), {"train": TRAIN}, {name: lambda logits: logits.mean()})
    assert probe(0).values.keys() == {f"train/{name}"}


@pytest.mark.bad_input
@pytest.mark.parametrize("name", ["jacobian_norm.min", "jacobian_norm.q25", "jacobian_norm.error"])
def test_names_of_another_quantitys_spread_are_said_before_training(name):
    """They had the one number or the other, in readings and histories."""
    asked = {"jacobian_norm": jacobian_norm, name: lambda logits: logits.mean()}
    for data, where in ((TRAIN, ""), ({"train": TRAIN}, "train/")):
        says = rf"Probe\(quantities\): expected names that no other number has, got {where}{re.escape(name)}\. Rename"
        with pytest.raises(RangeError, match=says):
            Probe(network(), data, asked)
    Probe(network(), TRAIN, {name: lambda logits: logits.mean()})


@pytest.mark.bad_input
def test_quantities_of_two_splits_that_have_one_name_are_said_before_training():
    mean = lambda logits: logits.mean()  # noqa: E731
    with pytest.raises(RangeError, match=r"names that no other number has, got a/b/c\. Rename"):
        Probe(network(), {"a": TRAIN, "a/b": TRAIN}, {"a": {"b/c": mean}, "a/b": {"c": mean}})


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("quantities", "message"),
    [
        ({"tset": [accuracy]}, r"expected functions, or quantities of the splits train, test, got 'tset' of list"),
        ({"train": 3}, r"expected functions in a list, .* got 3 alone"),
        ({"train": "nc1"}, r"expected functions, got 'nc1'\. Pass the function, such as gnomon\.nc1, not its name\."),
        ({"train": {"right": "accuracy"}}, r"got 'accuracy'\. Pass the function, such as gnomon\.accuracy, not"),
        ({"train": [lambda logits: logits]}, r"expected functions that have a name, got a lambda"),
        ({"train": lambda logits: logits}, r"expected functions that have a name, got a lambda"),
    ],
)
def test_quantities_of_splits_that_there_are_not_are_said(quantities, message):
    with pytest.raises(RangeError, match=message):
        Probe(network(), {"train": TRAIN, "test": TEST}, quantities)


# Training is left alone.


@pytest.mark.unchecked  # the checker of types draws from Python's stream
@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True},
        {"shuffle": True, "generator": True},
        {"shuffle": True, "num_workers": 1},
        {"shuffle": True, "num_workers": 1, "persistent_workers": True},
    ],
    ids=str,
)
def test_the_training_set_may_be_read_from_the_loader_that_trains(options):
    """Bit for bit, also in the middle of its epoch."""

    def trained(probed):
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        own = {"generator": torch.Generator().manual_seed(0)} if "generator" in options else {}
        loader = DataLoader(Noisy(), 4, **options | own)
        model = nn.Sequential(nn.Linear(5, 4), nn.Dropout(), nn.Linear(4, 3))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        probe = Probe(model, {"train": loader}, [accuracy, nc1]) if probed else None
        step = 0
        for _ in range(2):
            for x, labels in loader:
                if probe and step % 2:
                    assert probe.read(step).values["train/accuracy"].shape == (12,)
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), labels).backward()
                optimizer.step()
                step += 1
        return [*model.state_dict().values(), torch.rand(1), random.random(), np.random.rand()]

    for with_probe, without in zip(trained(True), trained(False), strict=True):
        torch.testing.assert_close(with_probe, without, rtol=0, atol=0)


class Draws:
    """Adds numbers of generators of its own, of all kinds, to samples or to the batches that it collates."""

    def __init__(self):
        self.generators = {"torch": torch.Generator().manual_seed(0), "python": [random.Random(0)]}
        self.numpy = np.random.default_rng(0), np.random.RandomState(0)

    def __call__(self, x):
        own = torch.rand(1, generator=self.generators["torch"]).item() + self.generators["python"][0].random()
        return x.float() + own + sum(each.uniform() for each in self.numpy)

    def collate(self, batch):
        x, labels = zip(*batch, strict=True)
        return self(torch.stack(x)), torch.stack(labels)


class Held:
    """An object that holds another, and leads to its samples or its batches."""

    def __init__(self, inside):
        self.inside = inside

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return self.inside(X[i]) if isinstance(self.inside, Draws) else self.inside[i]

    def __call__(self, batch):
        return self.inside.collate(batch)


class Slots:
    __slots__ = ("draws",)

    def __init__(self, draws):
        self.draws = draws

    def __call__(self, x):
        return self.draws(x)


GENERATOR = torch.Generator()


def with_a_global_generator(x):
    return x.float() + torch.rand(1, generator=GENERATOR)


class Global(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        return X[i].float() + torch.rand(1, generator=GENERATOR), LABELS[i]


def by_another_function(x):
    return with_a_global_generator(x)


def by_a_global_object(x):
    return DRAWS(x)


def collate_with_a_global_generator(batch):
    """Whose comprehension is, until Python 3.12, a function of its own."""
    x, labels = zip(*batch, strict=True)
    return torch.stack([part + torch.rand(1, generator=GENERATOR) for part in x]), torch.stack(labels)


class Module(nn.Module):
    def __init__(self, draws):
        super().__init__()
        self.draws = draws

    def forward(self, x):
        return self.draws(x)


class PrivateSlots:
    __slots__ = ("__draws",)

    def __init__(self, draws):
        self.__draws = draws

    def __call__(self, x):
        return self.__draws(x)


class OfItsClass:
    draws = Draws()

    def __call__(self, x):
        return self.draws(x)


class Static:
    @staticmethod
    def __call__(x):
        return with_a_global_generator(x)


DRAWS = Draws()


class Transformed(Dataset):
    def __init__(self, transform):
        self.transform, self.many = transform, [[0]] * 20_000

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return self.transform(X[i]), LABELS[i]


@pytest.mark.parametrize(
    "build",
    [
        lambda draws: Transformed(draws),
        lambda draws: DataLoader(Held(Held(Transformed(draws))), 4),
        lambda draws: DataLoader([(X[i].float(), LABELS[i]) for i in range(12)], 4, collate_fn=Held(draws)),
        lambda draws: DataLoader([(X[i].float(), LABELS[i]) for i in range(12)], 4, collate_fn=draws.collate),
        lambda draws: DataLoader(Transformed(partial(Draws.__call__, draws)), 4),
        lambda draws: DataLoader(Transformed(lambda x: draws(x)), 4),
        lambda draws: DataLoader(Transformed(lambda x, *, other=draws: other(x)), 4),
        lambda draws: DataLoader(Transformed(Slots(draws)), 4),
        lambda draws: DataLoader(Transformed(with_a_global_generator), 4),
        lambda draws: DataLoader(Global(), 4),
        lambda draws: DataLoader(Transformed(by_another_function), 4),
        lambda draws: DataLoader(Transformed(by_a_global_object), 4),
        lambda draws: DataLoader(
            [(x.float(), label) for x, label in zip(X[:12], LABELS, strict=False)],
            4,
            collate_fn=collate_with_a_global_generator,
        ),
        lambda draws: DataLoader(Transformed(Module(draws)), 4),
        lambda draws: DataLoader(Transformed(PrivateSlots(draws)), 4),
        lambda draws: DataLoader(Transformed(OfItsClass()), 4),
        lambda draws: DataLoader(Transformed(Static()), 4),
        lambda draws: DataLoader(Transformed(lambda x, draw=draws.numpy[1].rand: x.float() + draw()), 4),
    ],
    ids=[
        *("transform", "wrappers", "collate", "method", "partial", "closure", "default", "slots"),
        *("global", "global in a method", "global in another function", "global object", "global in a comprehension"),
        *("module", "private slots", "class attribute", "static method", "generator's method"),
    ],
)
def test_generators_that_any_object_of_the_data_holds_are_restored(build):
    def drawn(probed):
        GENERATOR.manual_seed(0)
        DRAWS.__init__()
        OfItsClass.draws.__init__()
        data = build(Draws())
        if probed:
            Probe(nn.Linear(5, 3), data, [accuracy]).read()
        batches = data if isinstance(data, DataLoader) else (data[i] for i in range(12))
        return torch.cat([x.view(-1, 5) for x, _ in batches])

    torch.testing.assert_close(drawn(True), drawn(False), rtol=0, atol=0)


def test_outputs_come_again_if_they_differ_much_less_than_with_other_samples_beside_them():
    """Up to rounding, and by less than a tenth of what others change."""
    first = torch.ones(2)
    for changed, again, expected in ((1e-3, 5e-5, True), (1e-3, 2e-4, False), (1.0, 1e-2, False)):
        assert repeats(first, first + changed, first + again) == expected


def test_beside_equal_samples_another_is_made():
    """Reversed, or larger where that changes nothing; tokens stay."""
    for given, made in (([1.0, 2.0], [2.0, 1.0]), ([0.0, 0.0], [1.0, 1.0]), ([3, 3], [3, 3])):
        own, other = two_kinds(torch.tensor([given, given]))
        assert (own.tolist(), other.tolist()) == ([given], [made])
