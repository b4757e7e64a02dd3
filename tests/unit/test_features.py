"""Features: what the contract does not say of the quantities of what a layer puts out."""

import functools
import itertools
import math

import pytest
import torch
from torch import nn

import gnomon
from gnomon import Probe
from gnomon.errors import RangeError
from gnomon.models import mlp
from tests.contract.of_features import two_nearest
from tests.drawn import normal


def test_units_behind_a_relu_die_with_their_bias():
    torch.manual_seed(0)  # of other starts another unit may be dead as well
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        model[0].bias[1] = -1e6
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    values = Probe(model, (x, torch.arange(50) % 2), [gnomon.dead_units, gnomon.activation_sparsity]).read().values
    assert values["dead_units"] == 1 / 4
    torch.testing.assert_close(values["activation_sparsity"], (model[:2](x) == 0).float().mean(1))


def test_rank_with_the_paper_s_epsilon_exceeds_the_number_of_directions():
    """docs/errata.md."""

    def printed(values):
        shares = values / values.sum() + 1e-7
        return float((-(shares * shares.log()).sum()).exp())

    equal = torch.ones(2048, dtype=torch.float64)
    one = torch.zeros(2048, dtype=torch.float64).index_fill(0, torch.tensor([0]), 1.0)
    assert round(printed(equal), 1) == 2050.8
    assert round(printed(one), 4) == 1.0033
    for values, rank in ((equal[:64], 64.0), (one[:64], 1.0)):
        torch.testing.assert_close(gnomon.rank_me(values.diag()), torch.tensor(rank, dtype=torch.float64))


def blobs(n=300, p=8, k=5):
    """Features around class means, and labels of unequal classes, the last without samples."""
    generator = torch.Generator().manual_seed(1)
    labels = (torch.rand(n, generator=generator) ** 2 * (k - 1)).long()
    means = torch.randn(k, p, generator=generator, dtype=torch.float64)
    return means[labels] + torch.randn(n, p, generator=generator, dtype=torch.float64), labels


@pytest.mark.filterwarnings("ignore:1 of 5 classes without samples")
def test_mean_of_the_parts_is_the_mean_over_pairs_of_unequal_classes():
    features, labels = blobs()
    groups = [features[labels == c] for c in range(4)]
    means, spreads = [g.mean(0) for g in groups], [(g - g.mean(0)).square().sum(1).mean() for g in groups]
    pairs = [
        (spreads[i] + spreads[j]) / (2 * (means[i] - means[j]).square().sum())
        for i, j in itertools.permutations(range(4), 2)
    ]
    moments = gnomon.class_moments(features, labels, 5)
    found = gnomon.cdnv(features, labels, moments)
    torch.testing.assert_close(found.mean(), sum(pairs) / len(pairs))
    # Of fewer samples than classes only their classes are looked at.
    torch.testing.assert_close(gnomon.cdnv(features[:3], labels[:3], moments), found[:3])


@pytest.mark.filterwarnings("ignore:.* says nothing of the features")
@pytest.mark.parametrize(
    ("each", "draws", "expected"),
    [(1, 1, (0, 0, 0)), (2, 50, (0.19, 0.12, 0.06)), (5, 50, (0.41, 0.21, 0.11)), (500, 5, (0.53, 0.28, 0.14))],
)
def test_few_samples_per_class_lower_the_measures_of_spread_as_their_docstrings_say(each, draws, expected):
    labels, found = torch.arange(10).repeat_interleave(each), []
    for draw in range(draws):
        features = normal(10, 16)[labels] + normal(10 * each, 16, seed=draw + 1) / 2
        moments = gnomon.class_moments(features, labels, 10)
        spread = gnomon.cdnv(features, labels, moments).mean()
        found.append(torch.stack([gnomon.nc1(moments), gnomon.nc1_trace_ratio(moments), spread]))
    torch.testing.assert_close(
        torch.stack(found).mean(0), torch.tensor(expected, dtype=torch.float64), atol=0.005, rtol=0
    )


def test_a_sample_of_a_class_without_moments_is_at_no_mean():
    with pytest.warns(RuntimeWarning, match="1 of 3 classes without samples"):
        moments = gnomon.class_moments(torch.tensor([[1.0], [2.0]]), torch.tensor([0, 2]), 3)
    with pytest.warns(RuntimeWarning, match=r"cdnv says nothing of the features, as no class has two samples"):
        found = gnomon.cdnv(torch.tensor([[0.0], [1.0]]), torch.tensor([1, 0]), moments)
    assert found.tolist() == [math.inf, 0]


def test_samples_at_coinciding_means():
    h, labels = torch.tensor([[0.0], [2.0], [1.0], [1.0]]), torch.tensor([0, 0, 1, 1])
    assert gnomon.cdnv(h, labels, gnomon.class_moments(h, labels, 2)).tolist() == [math.inf, math.inf, 0, 0]
    assert gnomon.label_cka(gnomon.class_moments(h, labels, 2)) == 0


@pytest.mark.filterwarnings("ignore:1 of 5 classes without samples")
@pytest.mark.parametrize("p", [8, 400])
def test_alignment_is_that_of_the_kernels(p):
    """Of the n x n kernels of features and one-hot labels, centred on both sides: with whole scatter and with rows."""
    features, labels = blobs(p=p)
    centre = torch.eye(300, dtype=torch.float64) - 1 / 300
    h, y = (centre @ rows @ rows.mT @ centre for rows in (features, torch.eye(5).double()[labels]))
    expected = (h * y).sum() / ((h * h).sum() * (y * y).sum()).sqrt()
    torch.testing.assert_close(gnomon.label_cka(gnomon.class_moments(features, labels, 5)), expected)


def test_alignment_of_collapse_and_of_chance():
    labels = torch.arange(100) % 10
    simplex = torch.eye(10).double()[labels]
    one = torch.tensor(1.0, dtype=torch.float64)
    torch.testing.assert_close(gnomon.label_cka(gnomon.class_moments(simplex, labels, 10)), one)
    orthogonal = gnomon.class_moments(torch.eye(100).double(), labels, 10)
    torch.testing.assert_close(gnomon.label_cka(orthogonal), (9 / 99) ** 0.5 * one)


def test_alignment_where_nearly_all_samples_are_of_one_class():
    """The norm of the labels' kernel is a hundred-millionth of the terms that it is a difference of."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(20_000, 3, generator=generator)
    labels = torch.zeros(20_000, dtype=torch.long).index_fill(0, torch.tensor([7]), 1)
    wide = features.double() - features.double().mean(0)
    # With two classes the centred kernel of the labels has rank one.
    y = labels.double() - labels.double().mean()
    expected = (y @ wide).square().sum() / (torch.linalg.matrix_norm(wide.mT @ wide) * y.square().sum())
    found = gnomon.label_cka(gnomon.class_moments(features, labels, 2))
    torch.testing.assert_close(found, expected.float())


def test_alignment_with_the_start_is_that_of_the_kernels_and_of_the_labels():
    """Whichever of both products is made; and of labels one-hot the same as `label_cka`."""
    features, labels = blobs()
    labels = labels % 4
    one_hot = torch.eye(4).double()[labels]
    expected = gnomon.label_cka(gnomon.class_moments(features, labels, 4))
    for start in (one_hot, torch.cat([one_hot, torch.zeros(300, 500).double()], 1)):
        torch.testing.assert_close(gnomon.start_cka(features, start), expected)
    torch.testing.assert_close(gnomon.cka(features @ features.mT, one_hot @ one_hot.mT), expected)
    assert gnomon.start_cka(torch.full((9, 2), 0.1), torch.randn(9, 3)) == 0
    # The numbers of its Reading: what is independent is alike where it is wide, and hardly where samples are many.
    generator = torch.Generator().manual_seed(0)
    narrow, wide = (torch.randn(2, 100, p, generator=generator, dtype=torch.float64) for p in (5, 2000))
    assert gnomon.start_cka(*narrow) < 0.06
    assert 0.94 < gnomon.start_cka(*wide) < 0.96


def test_alignment_with_the_start_is_read_of_a_layer_in_training():
    generator = torch.Generator().manual_seed(0)
    model, x = mlp((6, 9, 3), generator=generator), torch.randn(40, 6, generator=generator)
    labels = x[:, :3].argmax(1)
    start = gnomon.features(model, x).detach()
    asked = [functools.partial(gnomon.start_cka, start=start)]
    probe = Probe(model, (x, labels), asked)
    torch.testing.assert_close(probe.read().values["start_cka"], torch.tensor(1.0))
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    for _ in range(20):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), labels).backward()
        optimizer.step()
    now = probe.read().values["start_cka"]
    assert now < 0.9
    # Batches are joined in their order.
    batches = [(x[i : i + 7], labels[i : i + 7]) for i in range(0, 40, 7)]
    torch.testing.assert_close(Probe(model, batches, asked).read().values["start_cka"], now)


@pytest.mark.bad_input
def test_a_start_of_other_samples_is_refused():
    with pytest.raises(RangeError, match=r"start_cka\(start\): expected 4 samples as in features, got 3"):
        gnomon.start_cka(torch.randn(4, 2), torch.randn(3, 2))


def test_dimension_of_a_bent_plane_whatever_its_surroundings():
    generator = torch.Generator().manual_seed(0)
    plane = torch.rand(1500, 2, generator=generator, dtype=torch.float64)
    bent = torch.stack([plane[:, 0].cos(), plane[:, 0].sin(), plane[:, 1].exp(), *torch.zeros(5, 1500)], 1)
    dimension = gnomon.intrinsic_dimension(bent)
    assert abs(dimension - 2) < 0.15
    # Far from zero, where the squares of the distances have no digits left in single precision.
    torch.testing.assert_close(gnomon.intrinsic_dimension(1e-5 * bent + 1), dimension, rtol=1e-3, atol=0)


def test_dimension_of_tight_clusters_is_that_of_each():
    """Their width is a ten-millionth of what is between them, at any scale that float64 holds."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(10, 100, 2, generator=generator, dtype=torch.float64)
    centres = torch.randn(10, 1, 2, generator=generator, dtype=torch.float64)
    loose, tight = ((shift * centres + points).flatten(0, 1) for shift in (1e3, 1e7))
    expected = gnomon.intrinsic_dimension(loose)
    assert abs(expected - 2) < 0.15
    for scale in (1, 1e160, 1e-170):
        torch.testing.assert_close(gnomon.intrinsic_dimension(scale * tight), expected, rtol=1e-5, atol=0)


def test_dimension_of_tight_clusters_about_a_sample_at_the_mean():
    tight = 1 + 1e-8 * normal(20, 2)
    samples = torch.cat([tight, -tight, torch.zeros(1, 2).double()])
    torch.testing.assert_close(gnomon.intrinsic_dimension(samples), two_nearest(samples))


def test_dimension_where_neighbours_are_at_exactly_one_distance():
    """Whatever the largest entry is: it is not divided out with rounding."""
    square = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    squares = torch.cat([square, square + torch.tensor([7.0, 0.0]), square + torch.tensor([0.0, 11.0])])
    for size in (1.0, 1e-30, 1e30):
        assert gnomon.intrinsic_dimension(squares.double() * 2.0 ** round(math.log2(size))) == math.inf
    assert 1e5 < gnomon.intrinsic_dimension(0.1 * squares) < math.inf  # equal up to rounding


def test_dimension_of_few_and_of_coinciding_samples():
    samples = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    dimension = gnomon.intrinsic_dimension(samples)
    torch.testing.assert_close(gnomon.intrinsic_dimension(torch.cat([samples, samples[:9]])), dimension)
    assert gnomon.intrinsic_dimension(samples[[0, 1, 1, 0]]) == 0
    assert gnomon.intrinsic_dimension(torch.full((2, 1000), 40.0, dtype=torch.float16)) == 0  # whose sum is none
    assert gnomon.intrinsic_dimension(samples[:2]) == 0
    three = samples[:3].double()
    torch.testing.assert_close(gnomon.intrinsic_dimension(three), two_nearest(three))
    corners = torch.eye(4, requires_grad=True)  # all at one distance
    dimension = gnomon.intrinsic_dimension(corners)
    assert dimension == math.inf
    assert not torch.autograd.grad(dimension, corners)[0].any()
    underestimated = gnomon.intrinsic_dimension(torch.randn(1000, 50, generator=torch.Generator().manual_seed(0)))
    assert 29 < underestimated < 33  # the number of its Reading


@pytest.mark.parametrize("alignment", [gnomon.start_cka, lambda h, _: gnomon.label_cka(of_two_classes(h))])
def test_alignment_of_samples_that_coincide_is_zero_and_so_is_its_gradient(alignment):
    rows = torch.ones(6, 3).double().requires_grad_()
    found = alignment(rows, normal(6, 3))
    assert found == 0
    assert not torch.autograd.grad(found, rows)[0].any()


def of_two_classes(features):
    return gnomon.class_moments(features, torch.arange(len(features)) % 2, 2)


def test_start_cka_of_features_at_the_ends_of_the_range():
    now = torch.tensor([[2e38, 0], [-2e38, 0], [0, 1e38], [0, 2e38]])
    start = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(gnomon.start_cka(now, start), gnomon.start_cka(now.double(), start.double()).float())


@pytest.mark.bad_input
def test_inner_products_beyond_the_range_are_refused():
    with pytest.raises(RangeError, match=r"centroid_inner_product\(centroid\): expected products that"):
        gnomon.centroid_inner_product(torch.full((1, 2), 1e20), torch.full((1, 2), 1e20))
