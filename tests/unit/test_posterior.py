"""The local learning coefficient: closed forms within its error, and diagnostics that say when not to believe it."""

import copy
import math
import re
import warnings
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

import gnomon
from gnomon import Probe
from gnomon.autodiff import _replicas
from gnomon.errors import RangeError, UnsupportedModuleError
from gnomon.linalg import generator_of
from gnomon.measure._langevin import split_r_hat
from gnomon.measure.posterior._local_learning_coefficient import warn_of_steps
from gnomon.models import mlp
from tests.drawn import normal
from tests.foreign import foreign

entropies = partial(functional.cross_entropy, reduction="none")
KNOWN = {"chains": 2, "draws": 6, "burn_in": 0, "step_size": 1e-3}
"""Settings of chains that are not to be believed, only compared."""


def regression(inputs=3, n=60, spread=1):
    """At its minimum, with the curvatures of the mean squared error."""
    x = normal(n, inputs) * torch.linspace(1, 2, inputs, dtype=torch.float64)
    y = x.sum(1, keepdim=True) + spread * normal(n, 1, seed=1)
    layer = nn.Linear(inputs, 1, bias=False).double()
    layer.weight.data = torch.linalg.lstsq(x, y).solution.mT.contiguous()
    return layer, x, y, torch.linalg.eigvalsh(2 * x.mT @ x / n)


def classifier(n=40):
    model = mlp((4, 5, 3), generator=torch.Generator().manual_seed(0)).double().eval()
    return model, normal(n, 4), torch.arange(n) % 3


def assert_within(estimate, expected, most):
    """Within the error, which is small."""
    assert abs(estimate.value - expected) < 1.5 * estimate.error
    assert estimate.error < most


@pytest.mark.unchecked
@pytest.mark.parametrize(("localisation", "chains", "most"), [(1.0, 64, 0.15), (100.0, 32, 0.05)])
def test_of_a_regular_model_it_is_half_the_parameters_less_what_is_known_of_pull_and_steps(localisation, chains, most):
    layer, x, y, curvatures = regression()
    found = gnomon.local_learning_coefficient(
        layer, x, y, loss="mse", localisation=localisation, chains=chains, draws=200, burn_in=60, batch=len(x)
    )
    n_beta = len(x) / math.log(len(x))
    bends = n_beta * curvatures
    torch.testing.assert_close(found.step_size, 1 / (4 * (bends.max() + localisation)), rtol=1e-3, atol=0)
    expected = (bends / (bends + localisation) / (1 - found.step_size / 4 * (bends + localisation))).sum() / 2
    assert_within(found.estimate, expected, most)
    if localisation == 1:
        assert abs(expected - 1.5) < 0.1  # half the parameters
    assert found.r_hat < 1.1
    assert abs(found.drift) < 0.1
    assert (found.below, found.diverged) == (0, 0)


@pytest.mark.parametrize("batch", [60, 7])
def test_steps_are_those_of_the_dynamics(batch):
    """One after another, from the numbers that the seed gives: samples, if not all are seen, and noise."""
    layer, x, y, _ = regression()
    settings = {"n_beta": 5.0, "localisation": 3.0, "step_size": 0.01, "chains": 3, "draws": 4, "burn_in": 2}
    found = gnomon.local_learning_coefficient(layer, x, y, loss="mse", batch=batch, seed=4, **settings)
    generator = generator_of(4)
    start = layer.weight.detach()
    points, above = start.repeat(3, 1), []
    for _ in range(6):
        rows = torch.randint(60, (3, batch), generator=generator) if batch < 60 else torch.arange(60).repeat(3, 1)
        off = (x[rows] @ points[:, :, None] - y[rows])[:, :, 0]
        before = (x[rows] @ start[0] - y[rows][:, :, 0]).square().mean(1)
        above.append(off.square().mean(1) - before)
        slope = 2 * (off[:, :, None] * x[rows]).mean(1)
        noise = torch.randn(3, 3, generator=generator).double()
        points = points - 0.01 / 2 * (5 * slope + 3 * (points - start)) + 0.1 * noise
    above = torch.stack(above, 1)
    torch.testing.assert_close(found.losses, found.start + above)
    torch.testing.assert_close(found.by_chain, 5 * above[:, 2:].mean(1))
    torch.testing.assert_close(found.drift, 5 * (above[:, 4:].mean() - above[:, 2:4].mean()))
    torch.testing.assert_close(found.r_hat, split_r_hat(above[:, 2:]))


@pytest.mark.unchecked
def test_batches_have_the_same_coefficient():
    layer, x, y, _ = regression()
    whole, some = (
        gnomon.local_learning_coefficient(layer, x, y, loss="mse", chains=32, draws=60, batch=batch)
        for batch in (len(x), 30)
    )
    assert abs(whole.estimate.value - some.estimate.value) < 0.15


class Crossing(nn.Module):
    """Puts out the product of two parameters, whose square is the loss."""

    def __init__(self):
        super().__init__()
        self.factors = nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, x):
        return self.factors.prod() * x


@pytest.mark.unchecked
def test_batches_whose_noise_is_most_of_the_coefficient_are_said():
    """Residuals of 10 in place of 1, with the variance that batches of 128 add to that of the chains."""
    n, draws = 2000, {"loss": "mse", "chains": 16, "draws": 1000, "burn_in": 400}
    layer, x, y, curvatures = regression(n=n, spread=10)
    with pytest.warns(RuntimeWarning, match=r"at most a third of the estimate .* pass batch=len\(x\), or if") as told:
        found = gnomon.local_learning_coefficient(layer, x, y, batch=128, **draws)
    bends, axes = n / math.log(n) * curvatures, torch.linalg.eigh(x.mT @ x).eigenvectors
    slopes = n / math.log(n) * 2 * (layer(x) - y).detach() * x @ axes
    noise = found.step_size / 4 * slopes.square().mean(0) / 128
    size = found.step_size / 4 * (bends + 100)
    coefficients = (1 + noise) * bends / (bends + 100) / (1 - size) / 2
    assert_within(found.estimate, coefficients.sum(), 0.1 * coefficients.sum())
    assert coefficients.sum() > 10  # in place of 1.5
    added = noise / 2 + found.step_size / 4 * bends * coefficients
    said = re.search(r"got (.*) of (.*)\. Scale", str(told[0].message))
    assert float(said[1]) == pytest.approx(float(added.sum()), rel=0.1)
    assert float(said[2]) == pytest.approx(float(found.estimate.value), rel=1e-2)
    with warnings.catch_warnings(action="error"):
        gnomon.local_learning_coefficient(layer, x, y, batch=n, **draws)


@pytest.mark.parametrize(
    ("value", "error", "added", "told"), [(9, 2, 4, 1), (-9, 2, 4, 1), (9, 5, 4, 0), (9, 1, 2.9, 0)]
)
def test_what_steps_add_is_said_where_it_is_large_beside_the_estimate_and_its_error(value, error, added, told):
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        warn_of_steps(*map(torch.tensor, (float(value), float(error), float(added))))
    assert len(raised) == told


def test_where_two_lines_of_minima_cross_it_is_that_of_the_integral():
    """Of two parameters; 1/2 is its limit, from which the logarithm of n beta keeps it far."""
    x = torch.ones(2, 1, dtype=torch.float64)
    found = gnomon.local_learning_coefficient(
        Crossing(),
        x,
        0 * x,
        loss="mse",
        n_beta=10.0,
        localisation=1.0,
        step_size=0.004,
        chains=512,
        draws=300,
        burn_in=300,
    )
    at = torch.linspace(0, 8, 2001, dtype=torch.float64)
    losses = (at[:, None] * at).square()
    weights = (-10 * losses - at.square() / 2 - at[:, None].square() / 2).exp()
    assert_within(found.estimate, 10 * (losses * weights).sum() / weights.sum(), 0.02)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_losses_of_half_precision_are_not_rounded_to_it(dtype):
    """Of what the chains add to the loss, which is little of it, half precision would keep no digits."""
    model, x, labels = classifier(200)
    model, x = model.to(dtype), x.to(dtype)
    settings = {"chains": 8, "draws": 20, "burn_in": 0, "step_size": 1e-3, "batch": 200}
    half, single = (
        gnomon.local_learning_coefficient(network, of, labels, **settings)
        for network, of in ((model, x), (copy.deepcopy(model).float(), x.float()))
    )
    torch.testing.assert_close(half.losses, single.losses, rtol=torch.finfo(dtype).eps / 8, atol=0)


def test_a_number_added_to_the_loss_is_not_rounded_away_with_what_chains_add():
    """Losses are subtracted sample by sample: their mean keeps the digits of the number alone."""
    model, x, labels = classifier(2000)
    model, x = model.float(), x.float()
    settings = {"chains": 4, "draws": 20, "burn_in": 0, "step_size": 1e-3, "batch": 2000}
    plain, shifted = (
        gnomon.local_learning_coefficient(model, x, labels, loss=lambda o, y, c=c: entropies(o, y) + c, **settings)
        for c in (0, 1e4)
    )
    torch.testing.assert_close(shifted.by_chain, plain.by_chain, rtol=0, atol=0.01)


def test_a_start_that_is_no_minimum_is_said():
    layer, x, y, _ = regression()
    layer.weight.data += 1
    found = gnomon.local_learning_coefficient(layer, x, y, loss="mse", localisation=1.0)
    assert found.estimate.value < 0
    assert found.below == 1


def test_chains_that_diverge_are_said_and_left_out():
    layer, x, y, _ = regression()
    with pytest.warns(RuntimeWarning, match=r"coefficient: expected chains that stay finite, got NaN .* in 4 of 4"):
        found = gnomon.local_learning_coefficient(layer.float(), x.float(), y.float(), loss="mse", step_size=1.0)
    assert found.diverged == 1
    assert found.estimate.value.isnan()
    assert found.estimate.error == math.inf
    assert found.by_chain.isnan().all()


def test_chains_that_have_not_come_to_rest_are_seen():
    layer, x, y, _ = regression()
    found = gnomon.local_learning_coefficient(
        layer, x, y, loss="mse", localisation=0, step_size=1e-5, burn_in=0, chains=32, batch=len(x)
    )
    assert found.drift > 0.5 * found.estimate.value
    assert found.r_hat > 1.1


def test_r_hat_is_that_of_the_halves():
    traces = normal(3, 9)
    halves = [half.numpy() for trace in traces for half in (trace[:4], trace[-4:])]
    within = sum(half.var(ddof=1) for half in halves) / 6
    means = [half.mean() for half in halves]
    between = sum((mean - sum(means) / 6) ** 2 for mean in means) / 5
    expected = ((3 / 4 * within + between) / within) ** 0.5
    torch.testing.assert_close(split_r_hat(traces), torch.tensor(expected, dtype=torch.float64))
    assert split_r_hat(torch.ones(2, 8)) == 1


def test_the_error_is_that_of_the_chains():
    model, x, labels = classifier()
    found = gnomon.local_learning_coefficient(model, x, labels, **KNOWN | {"chains": 4})
    torch.testing.assert_close(found.estimate.value, found.by_chain.mean())
    torch.testing.assert_close(found.estimate.error, 3.182446 * found.by_chain.std() / 2)
    assert found.estimate.passes == 24


def test_nothing_is_left_behind_and_a_seed_decides():
    model, x, labels = classifier()
    before = [value.clone() for value in model.state_dict().values()]
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first, again, other = (
        gnomon.local_learning_coefficient(model, x, labels, seed=seed, **KNOWN) for seed in (0, 0, 1)
    )
    torch.testing.assert_close(torch.rand(2), expected, rtol=0, atol=0)
    torch.testing.assert_close([*model.state_dict().values()], before, rtol=0, atol=0)
    assert all(isinstance(p, nn.Parameter) and p.grad is None for p in model.parameters())
    torch.testing.assert_close(first.losses, again.losses, rtol=0, atol=0)
    assert not torch.equal(first.losses, other.losses)
    with torch.inference_mode():
        inside = gnomon.local_learning_coefficient(model, x.clone(), labels.clone(), **KNOWN)
    torch.testing.assert_close(inside.losses, first.losses, rtol=0, atol=0)


class Stubborn(nn.Module):
    """What torch.func cannot take: a forward pass that looks at a number."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) + 0 * float(self.inner(x).detach().sum())


def test_chains_that_run_one_after_another_are_the_same(monkeypatch):
    """Since the network cannot be mapped, or its passes are large."""
    model, x, labels = classifier()
    expected, one_by_one = (
        gnomon.local_learning_coefficient(network, x, labels, batch=8, **KNOWN) for network in (model, Stubborn(model))
    )
    monkeypatch.setattr(_replicas, "MOST", 0)
    large = gnomon.local_learning_coefficient(model, x, labels, batch=8, **KNOWN)
    torch.testing.assert_close(one_by_one.losses, expected.losses)
    torch.testing.assert_close(large.losses, one_by_one.losses, rtol=0, atol=0)


def closing(layer):
    weight = layer.weight
    layer.register_forward_hook(lambda module, inputs, output: output + inputs[0] @ weight.T)
    return layer


def test_a_parameter_that_chains_cannot_move_is_named():
    x, labels = normal(40, 6), torch.arange(40) % 3
    for model in (foreign("another reference")[0], closing(nn.Linear(6, 3).double())):
        with pytest.raises(
            UnsupportedModuleError, match=r"got 'weight' used by another reference\. Read it from its m"
        ):
            gnomon.local_learning_coefficient(model, x, labels, **KNOWN)
    model, _ = foreign("recurrent")  # has a list of its parameters, but looks whether they were replaced
    model.parts[1].requires_grad_(False)
    assert (gnomon.local_learning_coefficient(model, x, labels, **KNOWN).losses.diff() != 0).all()


@pytest.mark.bad_input
@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_an_embedding_that_limits_norms_is_refused_if_it_can_move(kind):
    tokens, labels = torch.arange(80).view(40, 2) % 5, torch.arange(40) % 3
    model = nn.Sequential(kind(5, 3, max_norm=0.5), nn.Flatten(), nn.LazyLinear(3))
    model(tokens)
    with pytest.raises(
        UnsupportedModuleError, match=rf"got {kind.__name__} '0' limiting norms in place\. Set its max_"
    ):
        gnomon.local_learning_coefficient(model, tokens, labels, **KNOWN)
    model[0].weight.requires_grad_(False)
    gnomon.local_learning_coefficient(model, tokens, labels, **KNOWN)


def test_parameters_without_gradients_stay():
    layer, x, y, _ = regression()
    model = nn.Sequential(layer, nn.Linear(1, 1).double())
    model[1].requires_grad_(False)
    with torch.no_grad():
        model[1].weight.fill_(1)
        model[1].bias.fill_(0)
    settings = {"loss": "mse", "batch": 16, **KNOWN}
    alone, inside = (gnomon.local_learning_coefficient(network, x, y, **settings) for network in (layer, model))
    torch.testing.assert_close(inside.losses, alone.losses)
    with pytest.raises(UnsupportedModuleError, match=r"local_learning_coefficient\(model\): expected parameters that"):
        gnomon.local_learning_coefficient(model.requires_grad_(False), x, y, **settings)


def test_losses_are_named_or_given():
    model, x, labels = classifier()
    named, given = (
        gnomon.local_learning_coefficient(model, x, labels, loss=loss, **KNOWN) for loss in ("cross_entropy", entropies)
    )
    torch.testing.assert_close(named.losses, given.losses)
    torch.testing.assert_close(named.start, functional.cross_entropy(model(x), labels).detach())
    squared = gnomon.local_learning_coefficient(model, x, labels, loss="mse", **KNOWN)
    one_hot = functional.one_hot(labels).double()
    torch.testing.assert_close(squared.start, functional.mse_loss(model(x), one_hot).detach())


@pytest.mark.bad_input
def test_bad_settings_are_named():
    model, x, labels = classifier()
    wrong = {"n_beta": 0, "localisation": -1, "chains": 1, "draws": 3, "burn_in": -1, "batch": 0, "seed": 0.5}
    with pytest.raises(RangeError, match=r"n_beta finite and .* 0, got 0; localisation .*, got -1; chains .*; seed"):
        gnomon.local_learning_coefficient(model, x, labels, **wrong)
    with pytest.raises(RangeError, match="step_size given where localisation is 0, got None"):
        gnomon.local_learning_coefficient(model, x, labels, localisation=0)
    with pytest.raises(RangeError, match=r"local_learning_coefficient\(loss\): expected 'cross_entropy', 'mse' or a"):
        gnomon.local_learning_coefficient(model, x, labels, loss="hinge")


def test_a_probe_logs_the_estimate_with_its_error_and_a_reading_is_kept(tmp_path):
    model, x, labels = classifier()
    reading = Probe(model, (x, labels), [partial(gnomon.local_learning_coefficient, **KNOWN)]).read()
    numbers, name = reading.scalars(), "local_learning_coefficient"
    assert {f"{name}.estimate", f"{name}.estimate.error", f"{name}.r_hat", f"{name}.diverged"} <= numbers.keys()
    expected = gnomon.local_learning_coefficient(model, x, labels, **KNOWN)
    assert numbers[f"{name}.estimate"] == expected.estimate.value
    torch.save(reading, tmp_path / "reading")
    assert torch.load(tmp_path / "reading", weights_only=True) == reading


def test_a_probe_is_made_without_whole_chains(monkeypatch):
    """By a few steps, also where settings were given."""
    model, x, labels = classifier()
    steps, gradients = [], _replicas.Replicas.gradients
    monkeypatch.setattr(_replicas.Replicas, "gradients", lambda *given: steps.append(1) or gradients(*given))
    probe = Probe(model, (x, labels), [partial(gnomon.local_learning_coefficient, loss="mse", chains=3)])
    assert len(steps) == 15
    assert len(probe.read().values["local_learning_coefficient"].by_chain) == 3


def test_the_defaults_suffice_for_standardised_inputs():
    layer, x, y, _ = regression()
    with warnings.catch_warnings(action="error"):
        gnomon.local_learning_coefficient(layer, x, y, loss="mse")


def test_a_batch_is_computed_in_pieces_that_fit_the_memory(monkeypatch):
    model, x, labels = classifier()
    whole = gnomon.local_learning_coefficient(model, x, labels, batch=20, **KNOWN)
    gradients, sizes = _replicas.Replicas.gradients, []
    monkeypatch.setattr(
        _replicas.Replicas, "gradients", lambda *given: sizes.append(given[2].shape[1]) or gradients(*given)
    )
    pieces = gnomon.local_learning_coefficient(model, x, labels, batch=20, memory=1, **KNOWN)
    assert sizes == [2] * 10 * 6
    torch.testing.assert_close(pieces.losses, whole.losses)


def test_a_burn_in_that_is_too_short_for_the_step_size_is_said():
    """One steep direction makes all others slow: they have not moved, and so have no drift."""
    _, x, y, _ = regression(inputs=8)
    x[:, 0] *= 30
    layer = nn.Linear(8, 1, bias=False).double()
    layer.weight.data = torch.linalg.lstsq(x, y).solution.mT.contiguous()
    measure = partial(gnomon.local_learning_coefficient, layer, x, y, loss="mse", chains=8, batch=len(x))
    with pytest.warns(
        RuntimeWarning,
        match=r"burn_in of at least .*, got fewer steps\. Directions .* with the step_size of the result\.$",
    ):
        short = measure()
    enough = math.ceil(4 / float(short.step_size * 100))
    with warnings.catch_warnings(action="error"):
        long = measure(burn_in=math.ceil(enough / 4), draws=2000)
    assert short.estimate.value + short.estimate.error < long.estimate.value - long.estimate.error
    with warnings.catch_warnings(action="error"):  # what nothing pulls back never comes to rest
        measure(localisation=0, step_size=1e-5, burn_in=0, draws=4)


@pytest.mark.parametrize(("settings", "size"), [({}, 128), ({"n_beta": 128.5}, 129), ({"batch": 7, "n_beta": 200}, 7)])
def test_by_default_the_batch_is_not_smaller_than_n_beta(settings, size, monkeypatch):
    layer, x, y, _ = regression(n=400)
    sizes, gradients = set(), _replicas.Replicas.gradients

    def noted(self, points, x, targets):
        sizes.add(x.shape[1])
        return gradients(self, points, x, targets)

    monkeypatch.setattr(_replicas.Replicas, "gradients", noted)
    gnomon.local_learning_coefficient(layer, x, y, loss="mse", **KNOWN | settings)
    assert sizes == {size}
