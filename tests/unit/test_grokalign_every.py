"""The GrokAlign penalty at some calls, and of some samples: what stays the same in the mean, and what it costs."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional

from gnomon import GrokAlign
from gnomon.autodiff._operations import Operations
from gnomon.errors import RangeError, UnsupportedModuleError
from gnomon.models import mlp
from gnomon.steer._turns import place
from tests.zoo import BUILDERS, zoo


def gradients(loss, model):
    return torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True)


def acting(every, calls):
    """The calls at which it acts."""
    penalty, model, x = GrokAlign(1.0, "exact", every=every), nn.Linear(2, 2), torch.ones(1, 2)
    return [call for call in range(calls) if penalty(model, x) > 0]


@pytest.mark.parametrize("every", [2, 5])
@pytest.mark.parametrize("level", [None, 4.0])
def test_its_mean_is_that_of_the_penalty_at_every_call(every, level):
    model, x = zoo("bias")
    whole = GrokAlign(0.3, "exact", level=level)(model, x)
    seldom = GrokAlign(0.3, "exact", level=level, every=every)
    penalties = [seldom.logits_and_penalty(model, x)[1] if call % 2 else seldom(model, x) for call in range(3 * every)]
    torch.testing.assert_close(sum(penalties) / len(penalties), whole)
    torch.testing.assert_close(gradients(sum(penalties) / len(penalties), model), gradients(whole, model))
    for turn in range(3):
        assert sum(penalty != 0 for penalty in penalties[turn * every : (turn + 1) * every]) == 1


@pytest.mark.parametrize("every", [1, 2, 5, 16, 64])
def test_it_acts_at_the_first_call_and_then_once_in_each_turn(every):
    calls = acting(every, 40 * every)
    assert calls[0] == 0
    assert calls == [turn * every + place(turn, every) for turn in range(40)]


def test_the_places_are_the_published_numbers_of_splitmix64():
    numbers = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    assert [place(turn, 2**64) for turn in range(1, 5)] == numbers
    assert [place(turn, 10) for turn in range(1, 5)] == [number % 10 for number in numbers]


@pytest.mark.parametrize("every", [2, 3, 4, 10, 16, 21, 29, 32, 34, 55, 64])
def test_batches_in_a_fixed_order_have_it_equally_often(every):
    """For any number of batches, also near Fibonacci ratios, as often as by chance: 100 times each in the mean."""
    calls = torch.tensor([turn * every + place(turn, every) for turn in range(100 * 130)])
    for batches in range(2, 131):
        counts = torch.bincount(calls[: 100 * batches] % batches, minlength=batches)
        assert (counts - 100).abs().max() < 5 * (100 * (1 - 1 / batches)) ** 0.5


def test_where_it_does_not_act_nothing_is_multiplied():
    """In forward and backward pass, to the operation."""
    model, x, labels = mlp((12, 8, 3)), torch.randn(5, 12), torch.tensor([0, 1, 2, 0, 1])
    seldom = GrokAlign(0.1, every=100)

    def step(logits_and_penalty):
        with Operations() as counter:
            logits, penalty = logits_and_penalty(model, x)
            (functional.cross_entropy(logits, labels) + penalty).backward()
        return counter.flops

    def own(model, x):
        return model(x), seldom(model, x)

    plain, first = step(lambda model, x: (model(x), 0)), step(own)
    assert first > 2 * plain
    assert step(own) == step(seldom.logits_and_penalty) == plain
    zero = seldom(model, x)
    zero.backward()
    assert zero == 0
    assert zero.dtype == x.dtype


def test_it_may_be_added_to_in_place_whether_it_acts_or_not():
    (model, x), seldom = zoo("bias"), GrokAlign(0.3, "exact", every=2)
    for call in (seldom, lambda model, x: seldom.logits_and_penalty(model, x)[1]):
        for _ in range(4):
            penalty = call(model, x)
            expected = 2 * penalty.detach()
            penalty *= 2
            penalty.backward()
            torch.testing.assert_close(penalty.detach(), expected)


def test_a_network_that_changes_its_samples_changes_copies():
    class InPlace(nn.Linear):
        def forward(self, x):
            return super().forward(x.sub_(1))

    model, x, seldom = InPlace(3, 2), torch.ones(4, 3), GrokAlign(0.1, every=2)
    for _ in range(4):
        seldom.logits_and_penalty(model, x)
    torch.testing.assert_close(x, torch.ones(4, 3), rtol=0, atol=0)


def test_a_call_without_gradients_is_not_counted_and_reads_the_whole_penalty():
    model, x = zoo("bias")
    seldom, whole = GrokAlign(0.3, "exact", every=4), GrokAlign(0.3, "exact")(model, x).detach()
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(seldom(model, x), whole)
            # As in training, whose loss may be read on other samples too.
            logits, penalty = seldom.logits_and_penalty(model, x)
            torch.testing.assert_close(penalty, whole)
            assert not logits.requires_grad
    assert seldom.state_dict() == {"calls": 0}
    torch.testing.assert_close(seldom(model, x), 4 * whole, check_dtype=True)


def trained(seldom, generator, model, steps, states=None):
    """Two batches a step; `states`: what is put away after the second step."""
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    parts = {"model": model, "optimizer": optimizer, "penalty": seldom}
    if states is not None:
        for name, part in parts.items():
            part.load_state_dict(states[name])
        generator.set_state(states["generator"])
    x = torch.randn(12, 6, generator=torch.Generator().manual_seed(1))
    for _ in range(steps):
        for batch in x.split(6):
            (model(batch).square().mean() + seldom(model, batch)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return copy.deepcopy({name: part.state_dict() for name, part in parts.items()}) | {
        "generator": generator.get_state()
    }


@pytest.mark.parametrize("every", [2, 3, 5])
def test_a_resumed_training_is_the_unbroken_one(every):
    """Bit for bit, gradients accumulated."""

    def parts(seed):
        generator = torch.Generator().manual_seed(seed)
        return GrokAlign(0.1, every=every, fraction=0.5, generator=generator), generator, mlp((6, 5, 3))

    penalty, generator, model = parts(0)
    start = copy.deepcopy(model)
    whole = trained(penalty, generator, model, 7)
    penalty, generator, _ = parts(0)
    half = trained(penalty, generator, start, 3)
    assert half["penalty"] == {"calls": 6}
    again = trained(*parts(5), 4, half)
    for name, value in whole["model"].items():
        assert torch.equal(again["model"][name], value)
    assert again["penalty"] == whole["penalty"]


def test_with_gradients_accumulated_over_k_batches_each_step_has_it_once():
    """So that steps feel nothing of the distance."""
    model, x = zoo("bias")
    seldom = GrokAlign(0.3, "exact", every=4)
    expected = gradients(GrokAlign(0.3, "exact")(model, x), model)
    for _ in range(3):
        torch.testing.assert_close(gradients(sum(seldom(model, x) for _ in range(4)) / 4, model), expected)


def test_it_stays_a_frozen_setting_that_can_be_compared_and_copied():
    seldom = GrokAlign(0.1, every=3)
    seldom(nn.Linear(2, 2), torch.ones(1, 2))
    assert seldom == GrokAlign(0.1, every=3)
    assert hash(seldom) == hash(GrokAlign(0.1, every=3))
    assert "calls" not in repr(seldom)
    for copied in (copy.deepcopy(seldom), pickle.loads(pickle.dumps(seldom))):
        assert copied.state_dict() == {"calls": 1}
    with pytest.raises(AttributeError, match=r"^cannot assign to field 'every'$"):
        seldom.every = 2


@pytest.mark.bad_input
@pytest.mark.parametrize("every", [0, -1, 1.5])
def test_k_is_a_whole_number(every):
    with pytest.raises(RangeError, match=rf"GrokAlign: expected every a whole number of at least 1, got {every}"):
        GrokAlign(1.0, every=every)


def test_the_part_of_a_batch_has_the_mean_of_the_whole_in_any_order():
    """Each sample is in the part as often as another: over many draws the gradient comes out too."""
    generator = torch.Generator().manual_seed(0)
    model = mlp((4, 6, 3), generator=generator).double()
    x = 5 * torch.randn(8, 4, generator=generator, dtype=torch.float64).sort(0).values
    drawn = [GrokAlign(1.0, "exact", fraction=0.25, generator=generator)(model, x) for _ in range(300)]
    values, whole = torch.stack(drawn).detach(), GrokAlign(1.0, "exact")(model, x)
    error = values.std() / len(values) ** 0.5
    assert error < 0.03 * whole
    torch.testing.assert_close(values.mean(), whole.detach(), rtol=0, atol=5 * error.item())
    for found, wanted in zip(gradients(sum(drawn) / 300, model), gradients(whole, model), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0.1 * wanted.abs().max().item())


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("fraction", [0.25, 0.6, 1.0])
def test_a_part_shares_the_pass_of_the_loss(name, fraction):
    """The outputs of the whole batch in order, the penalty of a pass of its own, and the gradients of both."""
    model, x = zoo(name)
    shared, own = (GrokAlign(1.0, fraction=fraction, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        logits, penalty = shared.logits_and_penalty(model, x)
        whole, expected = model(x), own(model, x)
    torch.testing.assert_close(logits, whole)
    torch.testing.assert_close(penalty, expected)
    weights = torch.arange(float(logits.numel())).to(logits).view_as(logits)
    found, wanted = ((weights * each).sum() + more for each, more in ((logits, penalty), (whole, expected)))
    torch.testing.assert_close(gradients(found, model), gradients(wanted, model))


@pytest.mark.bad_input
def test_batch_statistics_and_two_passes_exclude_each_other():
    model, x = zoo("BatchNorm")
    part = GrokAlign(1.0, fraction=0.5)
    before = {name: buffer.clone() for name, buffer in model.train().named_buffers()}
    for network in (model, lambda x: model(x)):
        with pytest.raises(UnsupportedModuleError, match=r"no batch statistics where the fraction.*BatchNorm2d.*1, or"):
            part.logits_and_penalty(network, x)
    torch.testing.assert_close(dict(model.named_buffers()), before, rtol=0, atol=0)
    GrokAlign(1.0).logits_and_penalty(model, x)
    GrokAlign(1.0, fraction=0.9).logits_and_penalty(model, x)  # of four samples: all
    part(model, x)
    part.logits_and_penalty(model.eval(), x)


def test_a_call_whose_network_fails_is_made_again():
    """As after running out of memory."""
    seldom, (model, x) = GrokAlign(1.0, "exact", every=3), zoo("bias")
    for call in (seldom, seldom.logits_and_penalty):
        with pytest.raises(ZeroDivisionError):
            call(lambda x: model(x) / (1 // 0), x)
    assert seldom(model, x) > 0
    assert seldom.state_dict() == {"calls": 1}


def counted(model, x, penalty):
    with Operations() as counter:
        loss = penalty(model, x)
        gradients(loss, model)
    return counter.flops


def test_a_part_costs_its_share_and_its_own_pass_no_more_than_is_needed():
    """Per sample: d h + h c forward, h c back, 3 d h for the norm and its gradients, h c once more."""
    d, h, c, n = 30, 20, 4, 16
    model, x = mlp((d, h, c)), torch.randn(n, d)
    for fraction in (1.0, 0.5, 0.25):
        each = counted(model, x, GrokAlign(1.0, fraction=fraction)) / (2 * n * fraction)
        assert each == (d * h + h * c) + h * c + 3 * d * h + h * c


@pytest.mark.parametrize(("settings", "count"), [({"estimator": "exact"}, 8), ({"projections": 6}, 6)])
def test_one_gram_matrix_of_a_narrow_entrance_serves_all_vectors(settings, count):
    """Half of W Wᵀ, a quarter of it, and its derivative; for each vector two products back, and two again.

    For a single vector per sample the batch is too small for it to pay.
    """
    d, h, c, n = 100, 10, 8, 4
    model, x = mlp((d, h, c)), torch.randn(n, d)
    shared = (d * h + h * c) * n + 3 * h * h * d // 4 + h * h * d
    assert counted(model, x, GrokAlign(1.0, **settings)) / 2 == shared + count * n * (2 * h * c + 2 * h * h)
    assert counted(model, x, GrokAlign(1.0)) / 2 == n * (d * h + 3 * h * c + 3 * d * h)


def test_the_smallest_part_is_one_sample():
    model, x = zoo("bias")
    same = x[:1].expand_as(x)
    torch.testing.assert_close(
        GrokAlign(1.0, "exact", fraction=1e-12)(model, same), GrokAlign(1.0, "exact")(model, same)
    )


@pytest.mark.parametrize("fraction", [1.0, 0.5, 0.25])
def test_a_shared_pass_adds_only_the_penalty_of_the_part(fraction):
    """Per sample of the part: h c back and 3 d h for the norm, h c once more, and d h for the gradient in x.

    The last only if the backward pass is not told which parameters to differentiate.
    """
    d, h, c, n = 30, 20, 4, 16
    model, x = mlp((d, h, c)), torch.randn(n, d)
    plain = 3 * n * (d * h + h * c) - n * d * h
    for inputs, in_x in ((None, d * h), (list(model.parameters()), 0)):
        with Operations() as counter:
            logits, penalty = GrokAlign(1.0, fraction=fraction).logits_and_penalty(model, x)
            (logits.square().sum() + penalty).backward(inputs=inputs)
        assert counter.flops / 2 == plain + fraction * n * (h * c + 3 * d * h + h * c + in_x)


WITHOUT_CURVATURE = {
    "ReLU": nn.ReLU,
    "LeakyReLU": nn.LeakyReLU,
    "ReLU6": nn.ReLU6,
    "PReLU": nn.PReLU,
    "MaxPool1d": lambda: nn.MaxPool1d(2, 1, 1),
    "AdaptiveMaxPool1d": lambda: nn.AdaptiveMaxPool1d(6),
}


@pytest.mark.parametrize("name", WITHOUT_CURVATURE)
@pytest.mark.parametrize("estimator", ["projection", "exact"])
def test_zeros_are_spared_and_nothing_else(monkeypatch, name, estimator):
    """The same gradients, bit for bit, by fewer products."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 6), WITHOUT_CURVATURE[name](), nn.LazyLinear(3)).double()
        x = torch.randn(4, 5, dtype=torch.float64)
        model(x)
    found = []
    for spare in (True, False):
        if not spare:
            monkeypatch.setattr("gnomon.steer._grokalign.spare_zeros", lambda tape, derivative: None)
        penalty = GrokAlign(1.0, estimator, generator=torch.Generator().manual_seed(2))
        found.append((gradients(penalty(model, x), model), counted(model, x, penalty)))
    for ours, theirs in zip(found[0][0], found[1][0], strict=True):
        assert torch.equal(ours, theirs)
    assert found[0][1] < found[1][1]


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("shared", [False, True])
def test_sparing_zeros_changes_no_gradient(monkeypatch, name, shared):
    found = []
    for spare in (True, False):
        model, x = zoo(name)
        if not spare:
            monkeypatch.setattr("gnomon.steer._grokalign.spare_zeros", lambda tape, derivative: None)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            penalty = GrokAlign(1.0, generator=torch.Generator().manual_seed(2))
            logits, added = penalty.logits_and_penalty(model, x) if shared else (model(x), penalty(model, x))
        found.append(gradients(logits.square().mean() + added, model))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_a_batch_made_in_inference_mode_will_do_whether_it_acts_or_not():
    model, penalty = nn.Linear(2, 2), GrokAlign(1.0, "exact", every=4)
    with torch.inference_mode():
        x = torch.ones(1, 2)
    for _ in range(2):
        logits, added = penalty.logits_and_penalty(model, x)
        (logits.sum() + added).backward()
