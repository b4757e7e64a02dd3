"""The kernel of many outputs, to a point and of all with all, estimated: intervals hold, nothing is disturbed."""

import itertools

import pytest
import torch
from scipy.stats import t

import gnomon
from gnomon import Estimate, ntk, ntk_to_point
from gnomon.errors import RangeError
from gnomon.linalg import generator_of
from gnomon.measure._estimates import Accuracy
from gnomon.measure._mixtures import means, traces, traces_and_squares
from gnomon.models import mlp
from tests.drawn import normal
from tests.unit.test_estimates import NETWORKS, OUTPUTS, SEEDS, every_network
from tests.zoo import zoo


def at_three_points(name):
    """A network, and three samples."""
    model, x = NETWORKS[name]()
    generator = torch.Generator().manual_seed(1)
    return model, torch.cat([x, x + torch.randn(2, *x.shape[1:], generator=generator).double()])


@pytest.mark.unchecked
@every_network
@pytest.mark.parametrize("rtol", [0.05, 0.2])
def test_the_95_percent_interval_holds_in_90_to_99_percent(name, rtol):
    """Over 200 seeds, of each sample: of the point itself too, whose block is furthest from a multiple of one."""
    model, x = at_three_points(name)
    with torch.no_grad():
        blocks = ntk(model, x, x[:1], trace=False)[:, 0]
    truth = blocks.diagonal(dim1=1, dim2=2).sum(1)

    def look(vectors):
        return traces_and_squares(vectors.mT @ blocks @ vectors)

    found = [traces(look, blocks[0, 0], Accuracy.of(rtol, 512, seed)) for seed in range(SEEDS)]
    held = torch.stack([(each.value - truth).abs() <= each.error for each in found]).double().mean(0)
    assert (held >= 0.9).all()
    assert held.mean() <= 0.99
    assert all((each.error <= rtol * each.value.abs().max()).all() for each in found)


@pytest.mark.unchecked
@every_network
def test_the_interval_of_each_entry_between_samples_holds_in_90_to_99_percent(name):
    """Over 200 seeds, of the pairs of three samples."""
    model, x = at_three_points(name)
    with torch.no_grad():
        blocks = ntk(model, x, trace=False)
    truth = blocks.diagonal(dim1=2, dim2=3).sum(2)

    def look(vector):
        return blocks @ vector @ vector

    found = [means(look, blocks[0, 0, 0], Accuracy.of(0.2, 512, seed)) for seed in range(SEEDS)]
    held = torch.stack([(each.value - truth).abs() <= each.error for each in found]).double().mean(0)
    assert (held >= 0.9).all()
    assert held.mean() <= 0.99
    assert all((each.error <= 0.2 * each.value.max()).all() for each in found)


def test_means_and_errors_are_those_of_all_vectors():
    """Entry by entry; where few suffice, a block of them is taken."""
    blocks = normal(2, 2, 5, 5)

    def look(vector):
        return blocks @ vector @ vector

    for rtol, count in ((1e-9, 20), (1e9, 16)):
        found = means(look, blocks[0, 0, 0], Accuracy.of(rtol, 20, 3))
        generator = generator_of(3)
        looks = torch.stack([look(torch.randn(5, generator=generator).double()) for _ in range(count)])
        torch.testing.assert_close(found.value, looks.mean(0))
        torch.testing.assert_close(found.error, t.ppf(0.975, count - 1) * looks.std(0) / count**0.5)
        assert found.passes == count


def test_traces_and_errors_are_those_of_all_vectors_and_pairs_of_a_block():
    blocks = normal(3, 5, 5)

    def look(vectors):
        return traces_and_squares(vectors.mT @ blocks @ vectors)

    for rtol, count in ((1e-9, 32), (1e9, 16)):
        found = traces(look, blocks[0, 0], Accuracy.of(rtol, 40, 3))
        generator = generator_of(3)
        vectors = [torch.randn(5, 16, generator=generator).double() for _ in range(count // 16)]
        symmetric = (blocks + blocks.mT) / 2
        pairs = [(symmetric @ a @ b).square() for some in vectors for a, b in itertools.combinations(some.mT, 2)]
        error = t.ppf(0.975, count - 1) * (2 * sum(pairs) / len(pairs) / count).sqrt()
        values = [blocks @ v @ v for some in vectors for v in some.mT]
        torch.testing.assert_close(found.value, sum(values) / count)
        torch.testing.assert_close(found.error, error)
        assert found.passes.tolist() == [count] * 3


def test_the_error_that_ends_it_is_that_relative_to_the_largest():
    """Of a kernel with a smaller entry, whose error alone would not."""
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1e-3]]).double()

    def look(vector):
        return (vectors * vector.double()).sum(1)[None] + torch.tensor([[9.0, 0.0]]).double()

    assert means(look, vectors[0], Accuracy.of(0.1, 160, 0)).passes == 16
    blocks = torch.tensor([[[9.0, 0.1], [0.1, 0.01]], [[1.0, 1.0], [1.0, -1.0]]])

    def look_at_blocks(vectors):
        return traces_and_squares(vectors.mT @ blocks @ vectors)

    found = traces(look_at_blocks, blocks[0, 0], Accuracy.of(0.6, 160, 0))
    assert found.passes.tolist() == [32, 32]
    assert found.error[1] > 0.6 * found.value[1].abs()


@pytest.mark.unchecked
@pytest.mark.parametrize("name", ["conv", "attention", "shared"])
def test_the_kernel_between_samples_is_near_in_parts_too_and_nothing_is_disturbed(name):
    body, x = zoo(name)
    model = torch.nn.Sequential(body, torch.nn.Linear(body(x).shape[1], 160, dtype=x.dtype))
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    found = ntk(model, x, rtol=0.5)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not found.value.requires_grad
    exact = ntk(model, x).detach()
    assert found.value.shape == found.error.shape == exact.shape
    assert ((found.value - exact).abs() <= 2 * found.error).all()
    assert (found.error <= 0.5 * found.value.max()).all()
    assert found.passes < OUTPUTS
    between = ntk(model, x[:2], x[1:], rtol=0.5, memory=2**16)
    torch.testing.assert_close(between.value, found.value[:2, 1:])


@pytest.mark.parametrize("name", NETWORKS)
def test_an_estimate_is_near_the_kernel(name):
    model, x = at_three_points(name)
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    found = ntk_to_point(model, x, x[0], rtol=0.1)
    assert torch.equal(torch.random.get_rng_state(), before)
    exact = ntk_to_point(model, x, x[0])
    assert exact.requires_grad
    assert type(found) is Estimate
    assert not found.value.requires_grad
    assert ((found.value - exact).abs() <= 2 * found.error).all()
    assert (found.error <= 0.1 * exact.max() * 1.1).all()
    assert (found.passes < OUTPUTS).all()


@pytest.mark.parametrize("name", ["conv", "attention", "shared"])
def test_every_kind_of_layer_is_taken(name):
    """Gram products, Jacobians of the other parameters, and products with these, in parts that fit the memory."""
    body, x = zoo(name)
    wide = torch.nn.Linear(body(x).shape[1], 160, dtype=x.dtype)
    model = torch.nn.Sequential(body, wide)
    exact = ntk_to_point(model, x, x[0]).detach()
    whole, parts = (ntk_to_point(model, x, x[0], rtol=0.5, memory=memory) for memory in (None, 1))
    assert ((whole.value - exact).abs() <= 2 * whole.error).all()
    torch.testing.assert_close(parts.value, whole.value)
    torch.testing.assert_close(parts.error, whole.error)


def test_few_outputs_are_exact():
    model, x = mlp((6, 8, 3), generator=torch.Generator().manual_seed(0)), torch.ones(4, 6)
    found = ntk_to_point(model, x, x[0], rtol=0.05)
    torch.testing.assert_close(found.value, ntk_to_point(model, x, x[0]).detach())
    assert not found.error.any()
    assert found.passes.tolist() == 4 * [3]
    between = ntk(model, x, rtol=0.05)
    torch.testing.assert_close(between.value, ntk(model, x).detach())
    assert (float(between.error.max()), int(between.passes)) == (0, 3)


def test_an_accuracy_that_is_not_met_gives_the_estimate_its_error_and_a_warning():
    model, x = at_three_points("aligned")
    with pytest.warns(RuntimeWarning, match=r"ntk_to_point: expected an error of at most 0.001 of the value"):
        found = ntk_to_point(model, x, x[0], rtol=0.001, passes=20)
    assert found.passes.tolist() == [16, 16, 16]
    assert found.error[0] > 0.001 * found.value.max()
    with pytest.warns(RuntimeWarning, match=r"ntk: expected an error of at most 0.001 of the value.* of 9 values"):
        between = ntk(model, x, rtol=0.001, passes=20)
    assert int(between.passes) == 20


def test_an_error_that_is_not_a_number_is_said():
    """The kernel is one that float64 holds; the squares of its deviations are not."""
    layer = torch.nn.Linear(4, 192, bias=False, dtype=torch.float64)
    with pytest.warns(RuntimeWarning, match=r"ntk: expected an error of at most 0.1 of the value, got up to nan"):
        found = ntk(layer, torch.full((2, 4), 1e100, dtype=torch.float64), rtol=0.1, passes=16)
    assert found.value.isfinite().all()


@pytest.mark.bad_input
def test_settings_out_of_range_are_named():
    model, x = mlp((6, 8, 3)), torch.ones(4, 6)
    with pytest.raises(
        RangeError, match=r"ntk_to_point: expected rtol finite and above 0, got 0; passes a .* of at least 16, got 3"
    ):
        gnomon.ntk_to_point(model, x, x[0], rtol=0, passes=3)
    with pytest.raises(RangeError, match=r"ntk\(trace\): expected True where rtol is given, got False. Leave out rtol"):
        ntk(model, x, trace=False, rtol=0.05)
