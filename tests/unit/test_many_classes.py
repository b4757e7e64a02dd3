"""More classes than fit beside each other: the same numbers, and no k x k matrix."""

import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, TensorDataset

import gnomon
from gnomon import ClassStatistics, Probe, class_moments
from gnomon.linalg import Factored
from tests.contract.of_collapse import nc1_by_loops
from tests.drawn import normal

K, P = 40, 5


def moments(k=K, p=P, n=None, missing=0):
    """The moments of n samples of k classes, of which the first are missing."""
    n = 4 * k if n is None else n
    labels = torch.arange(n) % (k - missing) + missing
    features = normal(n, p) + 2 * normal(k, p, seed=1)[labels]
    return class_moments(features, labels, k)


@pytest.fixture
def many(monkeypatch):
    """What is done for many classes is done for few."""
    monkeypatch.setattr("gnomon.measure._frames.BLOCK", 7)
    monkeypatch.setattr("gnomon.measure._least_squares.FEW", 7)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize(
    "quantity", [gnomon.equiangularity, gnomon.maximal_equiangularity, gnomon.nc2_orthogonal, gnomon.nc2_etf]
)
def test_frames_of_many_classes_are_those_of_few(monkeypatch, quantity, zero):
    rows = normal(K, P)
    if zero:
        rows[3] = 0
    few = quantity(rows)
    monkeypatch.setattr("gnomon.measure._frames.BLOCK", 7)
    torch.testing.assert_close(quantity(rows), few, rtol=1e-12, atol=0)
    assert zero or torch.autograd.gradcheck(quantity, rows.requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_vectors_of_one_direction_are_at_equal_angles(many, dtype):
    rows = torch.arange(1.0, K + 1).to(dtype).unsqueeze(1) * normal(P).to(dtype)
    floor = {torch.float32: 3e-4, torch.float64: 3e-8}[dtype]
    assert gnomon.equiangularity(rows) < floor


def test_a_simplex_of_as_many_classes_as_fit_is_one_exactly(many):
    rows = torch.eye(12).double() - 1 / 12
    assert gnomon.nc2_etf(rows @ normal(12, 12)[:, :12]) > 0.1
    assert gnomon.nc2_etf(rows) < 1e-14
    assert gnomon.equiangularity(rows) < 1e-15


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("n", [4 * K, 39])
def test_the_parts_of_the_loss_of_many_classes(monkeypatch, weight_decay, with_bias, n):
    weight, bias = normal(K, 30, seed=2), normal(K, seed=3) if with_bias else None
    with pytest.warns(RuntimeWarning, match="1 of 40 classes without samples: 0"):
        its = moments(K, 30, n, missing=1)
    few = gnomon.mse_decomposition(weight, bias, its, weight_decay=weight_decay)
    best = gnomon.least_squares_classifier(its, weight_decay=weight_decay, with_bias=with_bias)
    monkeypatch.setattr("gnomon.measure._least_squares.FEW", 7)
    found = gnomon.mse_decomposition(weight, bias, its, weight_decay=weight_decay)
    for name in ("nc1", "nc23", "deviation", "total"):
        torch.testing.assert_close(getattr(found, name), getattr(few, name), rtol=1e-9, atol=1e-12)
    again = gnomon.least_squares_classifier(its, weight_decay=weight_decay, with_bias=with_bias)
    torch.testing.assert_close(again.weight, best.weight, rtol=1e-9, atol=1e-10)


def test_nc1_of_many_classes():
    its = moments()
    torch.testing.assert_close(gnomon.nc1(its), nc1_by_loops(its))
    rows = gnomon.ClassMoments(its.counts, its.means, Factored(normal(3, P)))
    torch.testing.assert_close(gnomon.nc1(rows), nc1_by_loops(rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_streams_of_fewer_samples_than_classes(dtype):
    """Only the classes of a batch are looked at: bit for bit what all of them give."""
    labels = torch.arange(3 * K) % K
    features = (normal(3 * K, P) + 2 * normal(K, P, seed=1)[labels] + 30).to(dtype)
    statistics = ClassStatistics(K)
    for part in torch.arange(3 * K).split(11):
        statistics.update(features[part], labels[part])
    found, whole = statistics.compute(), class_moments(features.double(), labels, K)
    rtol = {torch.float32: 1e-6, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(found.precise_means, whole.means, rtol=rtol, atol=rtol)
    torch.testing.assert_close(found.within.dense(), whole.within.dense(), rtol=30 * rtol, atol=30 * rtol)


class Largest(TorchDispatchMode):
    """Notes how many entries the largest tensor has that is made inside."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        sizes = [part.numel() for part in tree_leaves(made) if isinstance(part, torch.Tensor)]
        self.numbers = max([self.numbers, *sizes])
        return made


def test_no_tensor_has_the_squared_number_of_classes():
    k, p, n = 4000, 16, 6000
    labels = torch.arange(n) % k
    features = torch.randn(n, p, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(k, p, generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), Largest() as largest:
        its = class_moments(features, labels, k)
        for quantity in (gnomon.nc1, gnomon.nc1_trace_ratio, gnomon.snr, gnomon.snr_singular_values):
            quantity(its)
        for of_means in (gnomon.equinorm, gnomon.equiangularity, gnomon.maximal_equiangularity):
            of_means(its.centred_means)
        gnomon.nc2_etf(its.means)
        gnomon.nc2_orthogonal(its.means)
        gnomon.classifier_equiangularity(weight)
        gnomon.self_duality(weight, its)
        gnomon.mse_decomposition(weight, None, its)
        gnomon.nearest_mean_disagreement(features[:9], torch.zeros(9, k), its)
        statistics = ClassStatistics(k)
        statistics.update(features, labels)
        statistics.compute()
    assert largest.numbers <= 1024 * k < k * k


PASSED = []
"""How many samples went through a network; outside of it, where a reading does not put it back."""


class Counting(torch.nn.Sequential):
    """Counts the samples that go through it."""

    def forward(self, x):
        PASSED.append(len(x))
        return super().forward(x)


def asked():
    def farther(nearest_mean_disagreement) -> torch.Tensor:
        return nearest_mean_disagreement.sum()

    def beside(accuracy, nearest_mean_disagreement) -> Float[Tensor, "n"]:
        return 2 * accuracy + nearest_mean_disagreement

    return [gnomon.nearest_mean_disagreement, gnomon.nc1, farther, beside, gnomon.accuracy]


@pytest.mark.parametrize("data", ["loader", "tensors", "positions"])
def test_what_does_not_fit_is_looked_at_in_a_second_pass(data):
    """Not held: neither features nor logits; in the order of the first pass, though a loader shuffles."""
    torch.manual_seed(0)
    x, labels = torch.randn(240, 4), torch.arange(240) % 6
    layers = torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 6)
    settings = {}
    given = (x, labels)
    if data == "loader":
        given = DataLoader(TensorDataset(x, labels), 24, shuffle=True)
    if data == "positions":
        given, settings = (x.view(60, 4, 4), labels.view(60, 4)), {"positions": "all"}
    found, passed = {}, {}
    for memory in (None, 4000):
        model = Counting(*layers)
        torch.manual_seed(1)
        probe = Probe(model, given, asked(), memory=memory, **settings)
        PASSED.clear()
        found[memory] = probe.read()
        passed[memory] = sum(PASSED)
    n = 60 if data == "positions" else 240
    assert passed[None] < 1.2 * n < 2 * n < passed[4000]
    for name, value in found[None].values.items():
        torch.testing.assert_close(found[4000].values[name], value)
    disagree, accuracy = (found[4000].values[name] for name in ("nearest_mean_disagreement", "accuracy"))
    torch.testing.assert_close(found[4000].values["beside"], 2 * accuracy + disagree)
    assert 0 < disagree.mean() < 1
