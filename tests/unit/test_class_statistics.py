"""The streaming moments: plain loops, any split, any number of processes, and digits that must not cancel."""

import itertools
import pickle

import pytest
import torch
from torchmetrics import Metric, MetricCollection

from gnomon import ClassMoments, ClassStatistics, class_moments, nc1
from gnomon.errors import ArgumentTypeError, EmptyError, RangeError, ShapeError
from gnomon.linalg import Dense, Factored, smaller
from gnomon.linalg._gram_sum import _products
from gnomon.measure._by_class import further
from tests.contract.of_collapse import moments_by_loops
from tests.drawn import normal
from tests.unit.processes import on_processes

SPLITS = [[60], [1] * 60, [7, 1, 30, 22], [59, 1]]


def unequal(n=60, k=4, seed=0):
    """Classes of sizes about 1 : 2 : 3 : ..., each at least once, in random order."""
    labels = torch.cat([torch.arange(k), torch.arange(n - k) % (k * (k + 1) // 2)])
    labels = ((8 * labels[k:] + 1).double().sqrt() / 2 - 0.5).long().clamp(max=k - 1)
    labels = torch.cat([torch.arange(k), labels])
    return labels[torch.randperm(n, generator=torch.Generator().manual_seed(seed))]


def samples(n=60, p=5, k=4, seed=0):
    labels = unequal(n, k, seed)
    return normal(n, p, seed=seed) + 3 * normal(k, p, seed=seed + 1)[labels], labels


def stream(features, labels, k, sizes):
    statistics = ClassStatistics(k)
    for part, its in zip(features.split(sizes), labels.split(sizes), strict=True):
        statistics.update(part, its)
    return statistics.compute()


def assert_same(moments, other, rtol=1e-12):
    torch.testing.assert_close(moments.counts, other.counts)
    torch.testing.assert_close(moments.means, other.means, rtol=rtol, atol=rtol)
    scatter, expected = moments.within.dense(), other.within.dense()
    torch.testing.assert_close(scatter, expected, rtol=0, atol=rtol * float(expected.norm()))


@pytest.mark.parametrize(("n", "p"), [(60, 1), (60, 5), (20, 70), (150, 140)])
def test_one_batch_is_the_plain_loop(n, p):
    features, labels = samples(n, p)
    moments = class_moments(features, labels, 4)
    expected = moments_by_loops(features, labels, 4)
    torch.testing.assert_close(moments.counts, expected["counts"])
    torch.testing.assert_close(moments.means, expected["means"])
    torch.testing.assert_close(moments.within.dense(), expected["within"], rtol=1e-12, atol=1e-12)
    assert isinstance(moments.within, Dense if n >= p else Factored)


def test_covariances_of_unequal_classes_add_up_to_that_of_all_samples():
    features, labels = samples()
    moments = class_moments(features, labels, 4)
    assert moments.counts.unique().numel() > 1
    assert moments.n == 60
    torch.testing.assert_close(moments.global_mean, features.mean(0))
    total = moments.within_covariance + moments.between_covariance
    torch.testing.assert_close(total.dense(), features.T.cov(correction=0))
    torch.testing.assert_close(moments.weights @ moments.centred_means, torch.zeros(5).double())


@pytest.mark.parametrize("p", [1, 5, 70])
@pytest.mark.parametrize("sizes", SPLITS)
def test_any_split_gives_the_same(p, sizes):
    features, labels = samples(p=p)
    whole = class_moments(features, labels, 4)
    assert_same(stream(features, labels, 4, sizes), whole)


@pytest.mark.parametrize("p", [1, 5, 70])
@pytest.mark.parametrize("sizes", SPLITS)
def test_any_blocks_give_the_same(p, sizes, monkeypatch):
    features, labels = samples(p=p)
    monkeypatch.setattr("gnomon.measure._class_sums.BLOCK", 7)
    assert_same(stream(features, labels, 4, sizes), class_moments(features, labels, 4))


@pytest.mark.parametrize("p", [5, 70])
def test_further_samples_are_merged(p):
    features, labels = samples(p=p)
    empty = ClassMoments.none(4, features)

    def part(*rows):
        counts, means, deviations = further(empty.counts, empty.means, features[slice(*rows)], labels[slice(*rows)])
        return ClassMoments(counts, means, smaller(deviations))

    first, second, whole = part(25), part(25, None), class_moments(features, labels, 4)
    assert_same((first + second), whole)
    assert_same((second + first), whole)
    assert_same((empty + whole), whole)
    assert_same((empty + part(1)), part(1))
    counts, means, rows = further(first.counts, first.means, features[25:], labels[25:])
    assert_same(ClassMoments(counts, means, first.within + Factored(rows)), whole)


@pytest.mark.parametrize("sizes", SPLITS)
def test_eight_digits_at_mean_1e6(sizes):
    """Spread 1 on numbers whose last bit is 1e-10: whole numbers of 2^-20 are exact with the mean and without."""
    features, labels = samples()
    features = (features * 2**20).round() / 2**20
    small, large = class_moments(features, labels, 4), stream(features + 1e6, labels, 4, sizes)
    expected = small.within.dense()
    torch.testing.assert_close(large.within.dense(), expected, rtol=0, atol=1e-9 * float(expected.diagonal().min()))
    torch.testing.assert_close(large.means - 1e6, small.means, rtol=0, atol=1e-8)
    torch.testing.assert_close(nc1(large), nc1(small), rtol=1e-8, atol=0)


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 2e-6), (torch.bfloat16, 5e-3)])
@pytest.mark.parametrize("sizes", [[1500], [64] * 23 + [28]])
def test_sums_are_of_float64_and_means_of_the_features_dtype(dtype, rtol, sizes):
    features, labels = samples(1500, 5)
    features = (features + 30).to(dtype)
    expected = class_moments(features.double(), labels, 4)
    for moments in (stream(features, labels, 4, sizes), class_moments(features, labels, 4)):
        assert moments.means.dtype == torch.float32
        assert moments.within.matrix.dtype == torch.float64
        torch.testing.assert_close(moments.precise_means, expected.means, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(moments.within.matrix, expected.within.matrix, rtol=rtol, atol=rtol)


def test_float32_does_not_lose_with_the_number_of_samples():
    """Of one feature, whose sums are the plainest: of float32 the scatter would be off by 1e-5."""
    features, labels = samples(50_000, 1)
    features = features.float()
    moments, expected = stream(features, labels, 4, [50_000]), class_moments(features.double(), labels, 4)
    torch.testing.assert_close(moments.precise_means, expected.means, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(moments.within.matrix, expected.within.matrix, rtol=1e-8, atol=0)


def test_memory_does_not_grow_with_samples_and_no_square_matrix_is_made_for_few(monkeypatch):
    monkeypatch.setattr("gnomon.measure._class_sums.BLOCK", 150)
    features, labels = samples(60, 5)
    statistics = ClassStatistics(4)
    for _ in range(20):
        statistics.update(features, labels)
        held = sum(part.numel() for state in statistics.metric_state.values() for part in state)
        assert held < 4 + 4 * 5 + 5 * 5 + 150 * 5
    # A matrix of 200,000 x 200,000 would take 320 GB.
    wide, labels = samples(12, 200_000)
    moments = stream(wide, labels, 4, [5, 4, 3])
    assert moments.within.rows.shape == (12, 200_000)
    rows = wide - moments.means[labels]
    torch.testing.assert_close(moments.within.trace(), rows.square().sum())
    torch.testing.assert_close(nc1(moments), nc1(class_moments(wide, labels, 4)))


@pytest.mark.parametrize("p", [5, 70])
def test_gathered_processes_merge(p):
    """Through torchmetrics' own way of gathering, the other processes' states at hand; the third saw no samples."""
    features, labels = samples(p=p)
    others = [ClassStatistics(4), ClassStatistics(4)]
    others[0].update(features[40:], labels[40:])
    others[0].compute()
    with pytest.raises(EmptyError, match="expected samples, got none"):
        others[1].compute()
    asked = itertools.cycle(("class_counts", "class_means", "within_scatter", "single_counts"))

    def gather(own, group=None):
        name = next(asked)
        return [own, *(getattr(other, name)[0] for other in others)]

    first = ClassStatistics(4, dist_sync_fn=gather, distributed_available_fn=lambda: True)
    first.update(features[:40], labels[:40])
    for _ in range(2):
        assert_same(first.compute(), class_moments(features, labels, 4))
    first.update(features, labels)
    assert first.compute().n == 120


PROCESSES = """
generator = torch.Generator().manual_seed(0)
for p, dtype in ((5, torch.float32), (5, torch.float64), (90, torch.float64)):
    features = torch.randn(60, p, generator=generator, dtype=dtype)
    labels = torch.arange(60) % 3
    expected = class_moments(features.double(), labels, 3)
    for cuts in ((0, 20, 33, 60), (0, 59, 60, 60), (0, 60, 60, 60)):
        statistics = ClassStatistics(3)
        part = slice(cuts[rank], cuts[rank + 1] if rank < world - 1 else 60)
        for feature, label in zip(features[part].split(13), labels[part].split(13)):
            if len(label):
                statistics.update(feature, label)
        tolerance = 1e-12 if dtype == torch.float64 else 1e-6
        for _ in range(2):
            moments = statistics.compute()
            assert moments.counts.tolist() == [20, 20, 20], moments.counts
            error = (moments.within.dense() - expected.within.dense()).norm() / expected.within.dense().norm()
            assert error < tolerance, error
            assert (moments.precise_means - expected.means).abs().max() < 1e-12
            assert moments.means.dtype == dtype, moments.means.dtype
        statistics.update(features, labels)
        assert statistics.compute().n == 60 * (1 + world)
try:
    ClassStatistics(3).compute()
except Exception as error:
    assert str(error) == "ClassStatistics.compute(features): expected samples, got none. Call update first.", error
else:
    raise AssertionError("No samples, and no error.")
"""


@pytest.mark.unchecked
def test_processes_give_what_one_gives(tmp_path):
    """For real, over gloo: unequal shards, some empty; and the metric goes on afterwards."""
    imports = "from gnomon import ClassStatistics, class_moments"
    on_processes(3, imports, PROCESSES, tmp_path)


def test_lives_among_torchmetrics():
    assert [name for name in {*dir(ClassStatistics)} - {*dir(Metric)} if not name.startswith("_")] == []
    features, labels = samples()
    expected = class_moments(features, labels, 4)
    collection = MetricCollection({"a": ClassStatistics(4), "b": ClassStatistics(4)}, compute_groups=False)
    collection(features[:30], labels[:30])
    collection.update(features[30:], labels[30:])
    computed = collection.compute()
    assert_same(computed["a"], expected)
    assert_same(computed["b"], expected)
    one = ClassStatistics(4)
    assert one(features[:30], labels[:30]) is None
    one.to("cpu")
    copies = [one.clone(), pickle.loads(pickle.dumps(one))]
    for copy in copies:
        copy.update(features[30:], labels[30:])
        assert_same(copy.compute(), expected)
    assert one.compute().n == 30
    rest = ClassStatistics(4)
    rest.update(features[30:], labels[30:])
    one.merge_state(rest)
    assert_same(one.compute(), expected)
    one.reset()
    one.update(features, labels)
    assert_same(one.compute(), expected)


def test_features_may_have_any_shape_and_a_graph():
    features, labels = samples(p=6)
    images = features.view(60, 2, 3).requires_grad_()
    assert_same(stream(images, labels, 4, [10] * 6), class_moments(features, labels, 4))
    assert not stream(images, labels, 4, [60]).means.requires_grad
    assert class_moments(images, labels.int(), 4).means.requires_grad


@pytest.mark.parametrize("p", [2, 9])
def test_gradient(p):
    features, labels = normal(7, p), torch.tensor([0, 1, 2, 0, 1, 0, 2])

    def numbers(features):
        moments = class_moments(features, labels, 3)
        return moments.means, moments.within.dense(), moments.within.variances(moments.centred_means).sum()

    assert torch.autograd.gradcheck(numbers, features.requires_grad_())


@pytest.mark.parametrize("p", [3, 200])
def test_covariance_held_whole_or_as_rows(p):
    rows, a, b = normal(10, p), normal(4, p, seed=1), normal(6, p, seed=2)
    matrix = torch.einsum("ri,rj->ij", rows, rows)
    for held in (Factored(rows), Dense(matrix)):
        torch.testing.assert_close(held.dense(), matrix)
        torch.testing.assert_close(held.trace(), matrix.trace())
        torch.testing.assert_close(held.variances(a), (a @ matrix @ a.T).diagonal())
        for seven in (7, torch.tensor(7)):
            torch.testing.assert_close((held / seven).dense(), matrix / 7, rtol=1e-13, atol=1e-13)
        torch.testing.assert_close(held.shifted_solve(a, torch.full((p,), 0.3)) @ (matrix + 0.3 * torch.eye(p)), a)
        inside, beyond = held.pseudo_solver(torch.finfo(a.dtype).eps)(a)
        torch.testing.assert_close(inside @ matrix + beyond, a)
        torch.testing.assert_close(beyond @ matrix, torch.zeros_like(a))
        for other in (Factored(b), Dense(b.T @ b)):
            torch.testing.assert_close((held + other).dense(), matrix + b.T @ b)
    assert isinstance(Factored(rows) + Factored(b), Dense if p == 3 else Factored)


@pytest.mark.bad_input
def test_bad_input_is_named():
    features, labels = samples()
    statistics = ClassStatistics(4)
    with pytest.raises(EmptyError, match=r"compute\(features\): expected samples, got none. Call update first"):
        statistics.compute()
    statistics.update(features, labels)
    for where, take in (
        ("ClassStatistics.update", statistics.update),
        ("class_moments", lambda h, y: class_moments(h, y, 4)),
    ):
        name = where.replace(".", r"\.")
        with pytest.raises(ShapeError, match=rf"{name}\(labels\): expected shape \(60,\), got \(59,\)"):
            take(features, labels[1:])
        with pytest.raises(RangeError, match=rf"{name}\(labels\): expected classes 0 to 3, got 1 to 4"):
            take(features, labels + 1)
        with pytest.raises(RangeError, match=rf"{name}\(labels\): expected classes 0 to 3, got -1 to 2"):
            take(features, labels - 1)
        with pytest.raises(EmptyError, match=rf"{name}\(features\): expected at least one sample"):
            take(features[:0], labels[:0])
        with pytest.raises(EmptyError, match=rf"{name}\(features\): expected entries, got shape \(60, 0\)"):
            take(features[:, :0], labels)
        with pytest.raises(RangeError, match=rf"{name}\(features\): expected a floating-point tensor"):
            take(features.long(), labels)
        bad = features.clone()
        bad[7, 2] = torch.nan
        with pytest.raises(
            RangeError, match=rf"{name}\(features\): expected finite numbers, got nan at index \(7, 2\)"
        ):
            take(bad, labels)
    with pytest.raises(ShapeError, match=r"update\(features\): expected 5 features per sample as before, got 4"):
        statistics.update(features[:, 1:], labels)
    # What was kept stays as it was.
    assert_same(statistics.compute(), class_moments(features, labels, 4))
    with pytest.raises(RangeError, match=r"ClassStatistics: expected classes a whole number of at least 2, got 1"):
        ClassStatistics(1)
    with pytest.raises(RangeError, match=r"class_moments: expected classes a whole number of at least 2, got 1"):
        class_moments(features, labels, 1)


@pytest.mark.parametrize(("n", "width"), [(40, 3), (5, 30)])
def test_what_is_done_to_the_moments_does_not_reach_the_state(n, width):
    statistics = ClassStatistics(2)
    statistics.update(torch.randn(n, width), torch.arange(n) % 2)
    moments = statistics.compute()
    expected = moments.means.clone(), moments.counts.clone(), moments.within.dense().clone()
    moments.means.zero_()
    moments.counts.zero_()
    (moments.within.matrix if isinstance(moments.within, Dense) else moments.within.rows).zero_()
    again = statistics.compute()
    torch.testing.assert_close((again.means, again.counts, again.within.dense()), expected)


@pytest.mark.bad_input
def test_moments_that_do_not_belong_together_are_named():
    counts, means, within = torch.tensor([2, 3]), torch.zeros(2, 4), Dense(torch.eye(4))
    for given, error, message in (
        ((counts.tolist(), means, within), ArgumentTypeError, r"means\): expected tensors .*, got list and Tensor"),
        ((counts, means, torch.eye(4)), ArgumentTypeError, r"within\): expected a Dense or Factored .*, got Tensor"),
        ((counts.float(), means, within), RangeError, r"counts\): expected whole numbers, got torch.float32"),
        ((counts.to("meta"), means, within), RangeError, r"counts\): expected counts on cpu, like the means, got meta"),
        ((counts, means.double(), within), RangeError, r"means\): expected torch.float32 .*, got torch.float64"),
        (
            (counts[:1], means, within),
            ShapeError,
            r"means\): expected \(k, p\) with .*, got \(2, 4\), \(1,\), \(4, 4\)",
        ),
        ((counts, means[:, 1:], within), ShapeError, r"means\): expected \(k, p\) .*, got \(2, 3\), \(2,\), \(4, 4\)"),
        ((counts, means, within, means.double()), RangeError, r"rounded_off\): expected torch.float32 as means have"),
    ):
        with pytest.raises(error, match=message):
            ClassMoments(*given)


@pytest.mark.bad_input
@pytest.mark.parametrize(("p", "k", "shape"), [(1, 2, r"\(2, 1\)"), (4, 3, r"\(3, 4\)")])
def test_only_moments_of_the_same_features_and_classes_are_added(p, k, shape):
    """A single feature would otherwise be added to each of four."""
    one = class_moments(normal(12, 4), torch.arange(12) % 2, 2)
    other = class_moments(normal(12, p), torch.arange(12) % k, k)
    expected = r"^ClassMoments\(other\): expected moments with means of shape \(2, 4\), got shape "
    with pytest.raises(ShapeError, match=expected + shape):
        one + other


@pytest.mark.bad_input
def test_a_number_is_not_added_to_moments():
    with pytest.raises(TypeError, match="unsupported operand"):
        class_moments(normal(12, 4), torch.arange(12) % 2, 2) + 3


@pytest.mark.parametrize("size", [1e-30, 1e-15, 1.0, 1e15, 1e30])
def test_products_of_rows_of_any_size(size):
    """In float32, whose range ends at 1e38; no entry is above 0."""
    rows = -size * normal(30, 4).abs().float()
    rows[0] = 0
    torch.testing.assert_close(_products(rows).dense(), rows.double().mT @ rows.double(), rtol=1e-6, atol=0)
