"""The gradient of a loss and its noise: sample by sample with torch.func, in closed form, and as statistics."""

import copy
import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import DataLoader, TensorDataset

import gnomon
from gnomon import Probe
from gnomon.errors import EmptyError, RangeError, UnsupportedModuleError
from gnomon.models import mlp
from tests.drawn import normal
from tests.zoo import BUILDERS, zoo

GRADIENTS = [gnomon.batch_gradients, gnomon.gradient_norm, gnomon.gradient_noise_scale, gnomon.gradient_disparity]


def case(n=60, seed=0):
    model = mlp((4, 6, 3), bias=True, generator=torch.Generator().manual_seed(seed)).double()
    return model, normal(n, 4, seed=seed), torch.arange(n) % 3


def sample_gradients(model, x, labels):
    """One row a sample, by torch.func."""

    def single(parameters, sample, label):
        return cross_entropy(functional_call(model, parameters, sample[None]), label[None])

    values = {name: parameter.detach() for name, parameter in model.named_parameters()}
    found = vmap(grad(single), (None, 0, 0))(values, x, labels)
    return torch.cat([part.flatten(1) for part in found.values()], 1)


def spread(rows, sizes=None):
    """What is said of batches whose gradients are given."""
    sizes = torch.ones(len(rows), dtype=torch.long) if sizes is None else sizes
    mean = (sizes[:, None] * rows).sum(0) / sizes.sum()
    along = (rows - mean) @ mean / mean.norm().clamp(min=1e-300)
    return gnomon.BatchGradients(sizes, mean.norm(), (rows - mean).norm(dim=1), along)


def test_noise_is_that_of_the_samples_one_by_one():
    model, x, labels = case()
    rows = sample_gradients(model, x, labels)
    noise = (rows - rows.mean(0)).square().sum() / 59
    found = gnomon.batch_gradients(model, x, labels, batches=60)
    torch.testing.assert_close(found.norm, rows.mean(0).norm())
    torch.testing.assert_close(found.deviations.square().sum() / 59, noise)
    scale = gnomon.gradient_noise_scale(found)
    torch.testing.assert_close(scale.value, noise / (rows.mean(0).square().sum() - noise / 60))
    of_all = gnomon.gradient_noise_scale(found, whole=True).value
    torch.testing.assert_close(of_all, noise * 59 / 60 / rows.mean(0).square().sum())
    # Of batches it is another estimate of the same.
    for batches in (5, 7, 16):
        found = gnomon.batch_gradients(model, x, labels, batches=batches)
        assert found.sizes.sum() == 60
        assert found.sizes.max() - found.sizes.min() <= 1
        torch.testing.assert_close(found.norm, rows.mean(0).norm())
        in_parts = gnomon.gradient_noise_scale(found, whole=True)
        assert (in_parts.value - of_all).abs() < in_parts.error


def test_a_linear_layer_has_closed_forms():
    layer, x, targets = nn.Linear(4, 3, bias=False).double(), normal(50, 4), normal(50, 3, seed=1)
    residual = layer(x).detach() - targets
    expected = (2 / 150 * residual.mT @ x).norm()
    found = gnomon.batch_gradients(layer, x, targets, loss="mse", batches=50)
    torch.testing.assert_close(gnomon.gradient_norm(found), expected)
    lengths = 2 / 3 * residual.norm(dim=1) * x.norm(dim=1)
    torch.testing.assert_close(found.deviations.square().mean(), lengths.square().mean() - expected**2)
    halves = torch.randperm(50, generator=torch.Generator().manual_seed(0)).split(25)
    one, other = (2 / 75 * residual[rows].mT @ x[rows] for rows in halves)
    apart = gnomon.gradient_disparity(layer, x, targets, loss="mse", batches=2, rescaled=False)
    torch.testing.assert_close(apart.value, (one - other).norm())
    assert apart.error == math.inf


@pytest.mark.parametrize("name", BUILDERS)
def test_norm_of_any_network_is_that_of_a_plain_backward_pass(name):
    model, x = zoo(name)
    logits = model(x)
    labels = torch.arange(len(x)) % logits.shape[1]
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    plain = torch.autograd.grad(cross_entropy(logits, labels), parameters, materialize_grads=True)
    with torch.no_grad():
        found = gnomon.batch_gradients(model, x, labels, batches=3, memory=2**14)
    torch.testing.assert_close(found.norm, torch.cat([part.flatten() for part in plain]).norm())
    assert all(parameter.grad is None for parameter in parameters)


def test_noise_and_its_error_are_right_in_many_draws():
    """Of 16 batches of 4 samples, whose noise has several directions of unequal size."""
    deviations = torch.tensor([1.0, 0.6, 0.6, 0.3, 0.3, 0.1], dtype=torch.float64)
    mean = torch.tensor([0.0, 0.0, 0.0, 0.5, 0.0, 0.0], dtype=torch.float64)
    noise, signal, truth = [], [], float(deviations.square().sum() / 0.25)
    held = 0
    for rows in normal(300, 16, 4, 6).mul(deviations).add(mean).mean(2):
        found = spread(rows, torch.full((16,), 4))
        noise.append(4 * float(found.deviations.square().sum()) / 15)
        signal.append(float(found.norm) ** 2 - noise[-1] / 64)
        scale = gnomon.gradient_noise_scale(found)
        held += float((scale.value - truth).abs()) <= float(scale.error) or scale.value == math.inf
    for values, expected in ((noise, 0.25 * truth), (signal, 0.25)):
        values = torch.tensor(values)
        assert (values.mean() - expected).abs() < 4 * values.std() / 300**0.5
        assert values.std() / 300**0.5 < 0.03 * expected
    assert 0.93 <= held / 300 <= 1


def test_of_the_whole_only_the_division_into_batches_is_left_to_chance():
    rows = normal(64, 6) + 0.3
    truth, held = rows.var(0, correction=0).sum() / rows.mean(0).square().sum(), 0
    for seed in range(300):
        order = torch.randperm(64, generator=torch.Generator().manual_seed(seed))
        pairs = spread(rows[order].view(32, 2, 6).mean(1), torch.full((32,), 2))
        scale = gnomon.gradient_noise_scale(pairs, whole=True)
        held += bool((scale.value - truth).abs() <= scale.error)
    assert 0.91 <= held / 300 <= 0.98
    one_by_one = gnomon.gradient_noise_scale(spread(rows, torch.ones(64, dtype=torch.long)), whole=True)
    torch.testing.assert_close(one_by_one.value, truth)
    assert one_by_one.error == 0
    assert gnomon.gradient_noise_scale(spread(rows[:2], torch.ones(2, dtype=torch.long)), whole=True).error == 0


@pytest.mark.parametrize(("batches", "least", "most"), [(3, 0.88, 0.95), (16, 0.93, 0.98)])
def test_of_the_whole_in_three_batches_intervals_hold_less_often(batches, least, most):
    """As docs/quantities/gradients.md says of 50 directions."""
    held = 0
    for rows in normal(800, 48, 50) + 0.3:
        truth = rows.var(0, correction=0).sum() / rows.mean(0).square().sum()
        parts = spread(rows.view(batches, -1, 50).mean(1), torch.full((batches,), 48 // batches))
        scale = gnomon.gradient_noise_scale(parts, whole=True)
        held += bool((scale.value - truth).abs() <= scale.error)
    assert least <= held / 800 <= most


def test_samples_that_are_refused_leave_nothing_behind():
    model = mlp((4, 5, 3), generator=torch.Generator().manual_seed(0))
    x, labels = normal(40, 4).float(), torch.arange(40) % 3
    wrong = labels.clone()
    wrong[7] = 9
    sums, plain = gnomon.GradientSums(), gnomon.GradientSums()
    with pytest.raises(RangeError, match="labels"):
        sums.update(model, x, wrong)
    sums.update(model, x, labels)
    plain.update(model, x, labels)
    assert sums.compute().sizes.tolist() == plain.compute().sizes.tolist()
    torch.testing.assert_close(sums.compute().norm, plain.compute().norm)
    torch.testing.assert_close(sums.compute().deviations, plain.compute().deviations)


@pytest.mark.bad_input
def test_sums_that_are_reset_begin_again():
    model, x, labels = case()
    sums, new = gnomon.GradientSums(batches=3), gnomon.GradientSums(batches=3)
    sums.update(model, x[:5], labels[:5])
    sums.reset()
    with pytest.raises(EmptyError, match="expected samples, got none"):
        sums.compute()
    for each in (sums, new):
        each.update(model, x, labels)
    found, expected = sums.compute(), new.compute()
    torch.testing.assert_close(vars(found), vars(expected), rtol=0, atol=0)


def test_leaving_out_a_batch_is_done_without_its_gradient():
    rows, sizes = normal(6, 5) + 2, torch.tensor([3, 4, 4, 5, 2, 2])

    def direct(rows, sizes):
        mean = (sizes[:, None] * rows).sum(0) / sizes.sum()
        noise = (sizes * (rows - mean).square().sum(1)).sum() / (len(rows) - 1)
        return mean.square().sum() / noise - 1 / int(sizes.sum())

    found = spread(rows, sizes)
    scale = gnomon.gradient_noise_scale(found)
    inverse = direct(rows, sizes)
    keep = [[i for i in range(6) if i != k] for k in range(6)]
    without = torch.stack([direct(rows[rest], sizes[rest]) for rest in keep])
    half = 2.570581835636314 * ((6 - 1) / 6 * (without - without.mean()).square().sum()).sqrt()  # Student's, of 5
    torch.testing.assert_close(scale.value, 1 / inverse)
    torch.testing.assert_close(scale.error, 1 / (inverse - half) - 1 / inverse)


@pytest.mark.parametrize(
    ("rows", "value", "of_all"),
    [
        (torch.ones(8, 3), 0, 0),
        (torch.zeros(8, 3), 0, 0),
        (torch.tensor([[1.0], [-1.0]]).repeat(4, 1) + 0.01, math.inf, 1e4),
    ],
)
def test_where_gradients_are_alike_or_cancel(rows, value, of_all):
    found = spread(rows.double())
    assert gnomon.gradient_noise_scale(found).value == value
    expected = torch.tensor(float(of_all), dtype=torch.float64)
    torch.testing.assert_close(gnomon.gradient_noise_scale(found, whole=True).value, expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("size", [1e200, 1e-200])
@pytest.mark.parametrize("whole", [True, False])
def test_noise_of_gradients_of_any_size(size, whole):
    found = spread(normal(6, 5) + 2, torch.tensor([3, 4, 4, 5, 2, 2]))
    scaled = gnomon.BatchGradients(found.sizes, *(size * part for part in (found.norm, found.deviations, found.along)))
    expected, scale = (gnomon.gradient_noise_scale(each, whole=whole) for each in (found, scaled))
    torch.testing.assert_close((scale.value, scale.error), (expected.value, expected.error))


def test_the_disparity_is_of_the_paper():
    model, x, labels = case()
    found = gnomon.gradient_disparity(model, x, labels)
    scaled = gnomon.gradient_disparity(
        model, x, labels, loss=lambda outputs, its: 7 * cross_entropy(outputs, its, reduction="none")
    )
    torch.testing.assert_close(found.value, scaled.value)
    some = gnomon.gradient_disparity(model, x, labels, batches=3, batch=8, memory=2**12)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    rows = []
    for batch in order.split(8)[:3]:
        losses = cross_entropy(model(x[batch]), labels[batch], reduction="none")
        parts = torch.autograd.grad(losses.mean() / losses.std(), list(model.parameters()))
        rows.append(torch.cat([part.flatten() for part in parts]))
    pairs = torch.stack([(rows[i] - rows[j]).norm() for i, j in ((1, 2), (0, 2), (0, 1))])
    torch.testing.assert_close(some.value, pairs.mean())
    # Without a batch one pair is left.
    half = 4.302652729749462 * (2 / 3 * (pairs - pairs.mean()).square().sum()).sqrt()
    torch.testing.assert_close(some.error, half)


@pytest.mark.parametrize("unit", [1e-15, 1e-8, 1e8, 1e15])
def test_the_disparity_does_not_depend_on_the_unit_of_the_loss(unit):
    """Of the squared error the unit's square, up to 1e30 in float32."""
    layer, x, targets = nn.Linear(4, 1, bias=False), normal(40, 4).float(), normal(40, 1, seed=1).float()
    expected = gnomon.gradient_disparity(layer, x, targets, loss="mse").value
    with torch.no_grad():
        layer.weight *= unit
    # In units of the network and its labels, the gradient is the inverse.
    found = gnomon.gradient_disparity(layer, x, unit * targets, loss="mse").value
    torch.testing.assert_close(unit * found, expected, rtol=1e-4, atol=0)


def memorised(lead, dtype):
    """Two outputs, and 40 samples whose labels lead by `lead` to `lead + 20`."""
    generator, layer = torch.Generator().manual_seed(0), nn.Linear(1, 2, bias=False, dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0], [-1.0]]))
    return layer, lead / 2 + 10 * torch.rand(40, 1, generator=generator).to(dtype), torch.zeros(40).long()


@pytest.mark.parametrize(
    ("lead", "dtype", "rtol"),
    [(40, torch.float64, 1e-7), (90, torch.float32, 1e-4), (200, torch.float32, 1e-4), (600, torch.float64, 1e-7)],
)
def test_the_disparity_of_memorised_samples_keeps_its_digits(lead, dtype, rtol):
    """From 37 on 1 plus the other's probability is 1 in float64; from 88 on float32 has no digits of the losses."""
    layer, x, labels = memorised(lead, dtype)
    found = gnomon.gradient_disparity(layer, x, labels, batches=2)
    rows = []
    for batch in torch.randperm(40, generator=torch.Generator().manual_seed(0)).split(20):
        weight = layer.weight.detach().double().requires_grad_()
        losses = torch.log1p(torch.exp(x[batch].double() @ (weight[1] - weight[0])))
        shares = losses / losses.detach().amax()
        rows.append(torch.autograd.grad(shares.mean() / shares.std(), weight)[0])
    torch.testing.assert_close(found.value, (rows[0] - rows[1]).norm().to(dtype), rtol=rtol, atol=0)


@pytest.mark.bad_input
def test_losses_whose_deviation_has_no_inverse_are_named():
    """And not the network, for the gradient that would follow."""
    layer, x, labels = memorised(720, torch.float64)
    with pytest.raises(RangeError, match=r"\(loss\): expected a standard deviation of at least 2.2e-308 .*, got .*e-3"):
        gnomon.gradient_disparity(layer, x, labels, batches=2)


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
def test_a_probe_goes_through_a_loader_once_and_says_the_loss_once(loss):
    model, x, labels = case()
    asked = [partial(gnomon.batch_gradients, loss=loss), *GRADIENTS[1:3]]
    whole = Probe(model, (x, labels), asked).read().values
    batches = DataLoader(TensorDataset(x, labels), batch_size=13)
    parts = Probe(model, batches, asked).read().values
    torch.testing.assert_close(parts["gradient_norm"], whole["gradient_norm"])
    assert parts["batch_gradients"].sizes.tolist() == whole["batch_gradients"].sizes.tolist()
    of_all = {"cross_entropy": cross_entropy, "mse": lambda f, y: mse_loss(f, nn.functional.one_hot(y).to(f))}[loss]
    plain = torch.autograd.grad(of_all(model(x), labels), list(model.parameters()))
    torch.testing.assert_close(whole["gradient_norm"], torch.cat([part.flatten() for part in plain]).norm())


def test_reading_leaves_training_as_it_was():
    model, x, labels = case()
    cross_entropy(model(x), labels).backward()
    before = [parameter.grad.clone() for parameter in model.parameters()]
    state = torch.get_rng_state()
    first, second = (Probe(model, (x, labels), GRADIENTS).read() for _ in range(2))
    assert first == second
    assert torch.equal(torch.get_rng_state(), state)
    for parameter, gradient in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter.grad, gradient)


def test_diverged_networks_and_single_classes_are_read():
    model, x, labels = case()
    probe = Probe(model, (x, labels), GRADIENTS)
    with torch.no_grad():
        next(model.parameters())[0, 0] = math.nan
    with pytest.warns(UserWarning, match="is NaN at step 0"):
        reading = probe(0)
    assert set(reading.missing) == {quantity.__name__ for quantity in GRADIENTS}
    model, x, _ = case()
    values = Probe(model, (x, torch.zeros(60, dtype=torch.long)), GRADIENTS).read().scalars()
    assert not any(math.isnan(value) for value in values.values())


def test_few_samples_and_little_memory():
    model, x, labels = case(2)
    probe = Probe(model, (x, labels), GRADIENTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reading = probe(0)
    assert reading.missing["gradient_disparity"].startswith("gradient_disparity(batches): expected 10 samples for as")
    assert reading.values["gradient_noise_scale"].error == math.inf
    model, x, labels = case()
    size = sum(parameter.nbytes for parameter in model.parameters())
    assert len(gnomon.batch_gradients(model, x, labels, memory=4 * 5 * size).sizes) == 5
    assert len(gnomon.batch_gradients(model, x, labels, memory=1).sizes) == 3
    half = gnomon.batch_gradients(model.bfloat16(), x.bfloat16(), labels)
    torch.testing.assert_close(
        half.norm, gnomon.batch_gradients(model.float(), x.float(), labels).norm, rtol=0.05, atol=0
    )
    assert half.norm.dtype == torch.float32


def test_losses_of_a_batch_add_up_to_more_than_half_precision_holds():
    model, x, targets = nn.Linear(4, 1).half(), normal(4096, 4).half(), torch.full((4096, 1), 20.0).half()
    half = gnomon.batch_gradients(model, x, targets, batches=2, loss="mse")
    given = model.float(), x.float(), targets.float()
    assert gnomon.training_loss(model(given[1]), given[2], loss="mse").sum() > 2**17
    torch.testing.assert_close(half.norm, gnomon.batch_gradients(*given, batches=2, loss="mse").norm, rtol=2e-3, atol=0)


def test_chunks_add_up_to_what_half_precision_keeps():
    """One by one, the gradients of 4,000 samples would be lost in the sum so far."""
    model, x, labels = nn.Linear(8, 4).bfloat16(), (normal(8000, 8) + 0.5).bfloat16(), torch.arange(8000) % 4
    half, single = (
        [
            gnomon.gradient_disparity(*given, batches=2, rescaled=False, memory=memory).value.double()
            for memory in (None, 1)
        ]
        for given in ((model, x, labels), (copy.deepcopy(model).float(), x.float(), labels))
    )
    torch.testing.assert_close(half, single, rtol=0.02, atol=0)


@pytest.mark.bad_input
def test_sizes_are_whole_numbers_of_any_kind():
    model, x, labels = case()
    found = [gnomon.gradient_disparity(model, x, labels, batches=2, batch=batch) for batch in (2, np.int64(2))]
    assert torch.equal(found[0].value, found[1].value)
    with pytest.raises(
        RangeError,
        match=r"expected batches a whole number of at least 2, got 2\.5; batch a whole number of at least 2, got 1\.",
    ):
        gnomon.gradient_disparity(model, x, labels, batches=2.5, batch=1)


@pytest.mark.bad_input
def test_what_has_no_gradient_or_no_spread_is_named():
    model, x, labels = case()
    one = gnomon.batch_gradients(model, x[:1], labels[:1])
    with pytest.raises(
        RangeError, match=r"gradient_noise_scale\(batch_gradients\): expected gradients of two batches or m"
    ):
        gnomon.gradient_noise_scale(one)
    flat = nn.Linear(4, 3).double()
    nn.init.zeros_(flat.weight), nn.init.zeros_(flat.bias)
    with pytest.raises(
        RangeError, match=r"gradient_disparity\(loss\): .*, got a batch where all are 1.1. Compare it with"
    ):
        gnomon.gradient_disparity(flat, x, labels)
    assert gnomon.gradient_disparity(flat, x, labels, rescaled=False).value > 0
    with pytest.raises(EmptyError, match=r"GradientSums.compute\(x\): expected samples, got none"):
        gnomon.GradientSums().compute()
    with pytest.raises(RangeError, match=r"GradientSums: expected batches a whole number of at least 2, got 1"):
        gnomon.GradientSums(batches=1)
    with pytest.raises(
        UnsupportedModuleError, match=r"batch_gradients\(model\): expected parameters that require grad"
    ):
        gnomon.batch_gradients(flat.requires_grad_(False), x, labels)


@pytest.mark.unchecked
def test_what_mean_losses_give_in_half_precision_does_not_depend_on_the_number_of_samples():
    """Of fitted samples, whose gradients over their number float16 does not hold."""
    torch.manual_seed(0)
    labels = torch.arange(500) % 4
    x = (torch.randn(500, 20) + 3 * torch.randn(4, 20)[labels]).half()
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    for _ in range(101):
        optimizer.zero_grad()
        cross_entropy(model(x.float()), labels).backward()
        optimizer.step()
    half = copy.deepcopy(model).half()
    many, their = x.repeat(40, 1), labels.repeat(40)

    def read(network, x, labels):
        found = {
            "fact_table": gnomon.fact_table(network, x, labels, weight_decay=1e-3).residual,
            "hessian_trace": gnomon.hessian_trace(network, x, labels).value,
            "gauss_newton_trace": gnomon.gauss_newton_trace(network, x, labels).value,
            "gradient_sharpness": gnomon.gradient_sharpness(network, x, labels),
            "gradient_disparity": gnomon.gradient_disparity(network, x, labels).value,
            "not rescaled": gnomon.gradient_disparity(network, x, labels, rescaled=False).value,
        }
        return {name: value.double() for name, value in found.items()}

    torch.testing.assert_close(
        read(half, many, their), read(copy.deepcopy(half).float(), many.float(), their), rtol=0.04, atol=0
    )
