"""The predicted rate of ⟨x, μ_x⟩ is that of one small step of gradient descent; the papers' formulas are its oracle."""

import copy
from statistics import median

import pytest
import torch
from torch import nn
from torch.nn import functional

from gnomon import centroid, centroid_inner_product
from gnomon.errors import EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.measure import centroid_influence, centroid_rate, ntk
from gnomon.models import mlp
from tests.drawn import normal
from tests.zoo import BUILDERS, zoo


def squared_error(logits, labels):
    """The papers': summed over outputs, its mean over samples."""
    return (functional.one_hot(labels, logits.shape[1]) - logits).square().sum(1).mean()


def inner(model, x):
    with torch.no_grad():
        return centroid_inner_product(centroid(model, x), x)


def stepped(model, x, labels, loss, eta):
    """The network after one step of gradient descent, and the gradients."""
    gradients = torch.autograd.grad(loss(model(x), labels), list(model.parameters()))
    moved = copy.deepcopy(model)
    with torch.no_grad():
        for parameter, gradient in zip(moved.parameters(), gradients, strict=True):
            parameter -= eta * gradient
    return moved, gradients


def two_layers(outputs, seed=0):
    """A network, its samples and labels, and what the formulas are made of."""
    model = mlp((5, 16, outputs), scale=2.0, generator=torch.Generator().manual_seed(seed)).double()
    first, second = (p.detach() for p in model.parameters())
    x = normal(20, 5, seed=seed)
    return model, x, torch.arange(20) % outputs, first, second


def binary(logits, labels):
    return functional.binary_cross_entropy_with_logits(logits[:, 0], labels)


@pytest.mark.parametrize("loss", [functional.cross_entropy, squared_error])
@pytest.mark.parametrize("name", BUILDERS)
def test_the_error_of_a_small_step_falls_linearly(name, loss):
    model, x = zoo(name)
    labels = torch.arange(len(x)) % model(x).shape[1]
    predicted = centroid_rate(model, x, x, labels, loss).detach()
    # Small enough that no sample of the zoo changes its linear region; large enough to stand above rounding.
    coarse, fine = (
        ((inner(stepped(model, x, labels, loss, eta)[0], x) - inner(model, x)) / eta - predicted).norm()
        for eta in (1e-4, 1e-5)
    )
    assert coarse < 1e-3 * predicted.norm() + 1e-9
    assert fine < 0.11 * coarse + 1e-9


@pytest.mark.parametrize("memory", [None, 20_000, 1])
@pytest.mark.parametrize("name", BUILDERS)
def test_any_memory_and_grad_mode_give_the_same(name, memory):
    model, x = zoo(name)
    labels = torch.arange(len(x)) % model(x).shape[1]
    expected = centroid_rate(model, x, x, labels, squared_error)
    with torch.no_grad():
        quiet = centroid_rate(model, x, x, labels, squared_error, memory=memory)
    assert not quiet.requires_grad
    torch.testing.assert_close(quiet, expected.detach())


@pytest.mark.parametrize("outputs", [1, 2, 10])
def test_one_step_differs_by_the_product_of_both_steps_where_no_activation_flips(outputs):
    """Two layers: all that the rate leaves out is η² 1ᵀ ΔW₂ Q ΔW₁ x, exactly."""
    model, x, labels, first, _ = two_layers(outputs)
    loss, eta = squared_error, 1e-3
    moved, (of_first, of_second) = stepped(model, x, labels, loss, eta)
    on = (x @ first.T > 0).double()
    stays = (on == (x @ moved[0].weight.T > 0)).all(1)
    assert stays.sum() >= 15
    rate = centroid_rate(model, x, x, labels, loss).detach()
    product = ((x @ of_first.T) * on @ of_second.T).sum(1)
    change = inner(moved, x) - inner(model, x)
    torch.testing.assert_close(change[stays], (eta * rate + eta**2 * product)[stays], rtol=0, atol=1e-14)


@pytest.mark.parametrize("widths", [(5, 16, 1), (5, 12, 12, 12, 1)])
def test_theorem_9_at_any_depth(widths):
    model, x = mlp(widths, generator=torch.Generator().manual_seed(0)).double(), normal(20, 5)
    labels = (normal(20, seed=1) > 0).double()
    residual = labels - model(x)[:, 0].sigmoid()
    rate = centroid_rate(model, x, x, labels, binary)
    torch.testing.assert_close(rate, ntk(model, x) @ residual / 20)


def relative_errors(pair):
    """Least, median and largest of twenty draws; of each, the pair is what is compared, and with what."""
    errors = [float((printed - holds).norm() / holds.norm()) for printed, holds in map(pair, range(20))]
    return [round(value, 1) for value in (min(errors), median(errors), max(errors))]


@pytest.mark.parametrize(
    ("activation", "bias", "expected"),
    [(nn.ReLU, False, [0, 0, 0]), (nn.Hardtanh, False, [0.6, 1.2, 1.7]), (nn.ReLU, True, [0.1, 0.5, 1.3])],
)
def test_theorem_9_needs_pieces_through_zero_and_no_biases(activation, bias, expected):
    def pair(seed):
        generator = torch.Generator().manual_seed(seed)
        model = mlp((5, 16, 1), bias=bias, scale=2.0, generator=generator).double()
        model[1] = activation()
        x, labels = normal(20, 5, seed=seed), (normal(20, seed=seed + 1) > 0).double()
        printed = ntk(model, x).detach() @ (labels - model(x)[:, 0].sigmoid().detach()) / 20
        return printed, centroid_rate(model, x, x, labels, binary).detach()

    assert relative_errors(pair) == expected


def proposition_7(m, x, first, second, *, corollary=False):
    on = (x @ first.T > 0).double()
    rate = torch.einsum("pc,ch,ph,nh,kh->np", m, second, on, on, second) * (x @ x.T)
    if not corollary:
        rate = rate + (x @ first.T * on) @ functional.relu(x @ first.T).T * m.sum(1)
    return rate.mean(1)


@pytest.mark.parametrize("outputs", [2, 10])
def test_proposition_7_and_corollary_8(outputs):
    model, x, labels, first, second = two_layers(outputs)
    logits, units = model(x).detach(), functional.one_hot(labels, outputs).double()
    for loss, m, corollary in (
        (functional.cross_entropy, units - logits.softmax(1), True),
        (functional.cross_entropy, units - logits.softmax(1), False),
        (squared_error, 2 * (units - logits), False),
    ):
        rate = centroid_rate(model, x, x, labels, loss).detach()
        torch.testing.assert_close(proposition_7(m, x, first, second, corollary=corollary), rate)
        kernel = ntk(model, x, trace=False).detach()
        torch.testing.assert_close(torch.einsum("npkl,pl->n", kernel, m) / 20, rate)


@pytest.mark.parametrize(
    ("loss", "corollary", "expected"),
    [
        (functional.cross_entropy, False, [1.4, 3.3, 8.4]),
        (functional.cross_entropy, True, [0.3, 0.9, 3.8]),
        (squared_error, True, [0.5, 0.7, 1.0]),
    ],
)
def test_proposition_7_as_printed_and_corollary_8_of_squared_errors_do_not_hold(loss, corollary, expected):
    """As printed m takes one number from all entries, the softmax of the right class; the corollary has no squares."""

    def pair(seed):
        model, x, labels, first, second = two_layers(10, seed)
        logits, units = model(x).detach(), functional.one_hot(labels, 10).double()
        m = 2 * (units - logits) if loss is squared_error else units - logits.softmax(1).gather(1, labels[:, None])
        rate = centroid_rate(model, x, x, labels, loss).detach()
        return proposition_7(m, x, first, second, corollary=corollary), rate

    assert relative_errors(pair) == expected


def test_the_traced_kernel_has_no_part_in_the_rate_of_cross_entropy():
    model, x, labels, _, _ = two_layers(10)
    m = functional.one_hot(labels, 10) - model(x).detach().softmax(1)
    traced = ntk(model, x).detach() @ m.sum(1)
    torch.testing.assert_close(traced, torch.zeros_like(traced), rtol=0, atol=1e-12)
    assert centroid_rate(model, x, x, labels, functional.cross_entropy).norm() > 0.1


def test_proposition_7_for_hard_tanh():
    """It holds where theorem 9 does not: it never says that σ(z) = σ'(z) z."""
    model = nn.Sequential(nn.Linear(5, 16, bias=False), nn.Hardtanh(), nn.Linear(16, 1, bias=False)).double()
    with torch.no_grad():
        for seed, parameter in enumerate(model.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=seed))
    first, second = (p.detach() for p in model.parameters())
    x, labels = normal(20, 5), (normal(20, seed=1) > 0).double()
    z, m = x @ first.T, labels - model(x)[:, 0].sigmoid().detach()
    on = (z.abs() < 1).double()
    expected = (on * second.square()) @ on.T * (x @ x.T) @ m + (z * on) @ z.clamp(-1, 1).T @ m
    torch.testing.assert_close(centroid_rate(model, x, x, labels, binary).detach(), expected / 20)


def test_the_inner_product_need_not_be_the_samples_own():
    """The proof of theorem 9 prints ⟨x', μ_ν⟩; its kernel is that of x' only where ν lies in the region of x'."""

    def pair(seed):
        model, x, _, _, _ = two_layers(1, seed)
        labels, other = (normal(20, seed=seed + 1) > 0).double(), x.roll(1, 0)
        moved, _ = stepped(model, x, labels, binary, 1e-6)
        with torch.no_grad():
            measured = ((centroid(moved, other) - centroid(model, other)) * x).sum(1) / 1e-6
            return ntk(model, x) @ (labels - model(x)[:, 0].sigmoid()) / 20, measured

    assert relative_errors(pair) == [0.3, 1.1, 2.7]


def test_a_training_point_does_not_always_pull_its_own_centroid():
    """After corollary 8: of random networks about half the points push it away."""
    shares = []
    for seed in range(20):
        model = mlp((64, 128, 10), generator=torch.Generator().manual_seed(seed)).double()
        first, second = (p.detach() for p in model.parameters())
        x, labels = normal(200, 64, seed=seed), torch.arange(200) % 10
        m = functional.one_hot(labels, 10) - model(x).detach().softmax(1)
        on = (x @ first.T > 0).double()
        pull = torch.einsum("pc,ch,ph,kh->p", m, second, on, second)
        shares.append((pull < 0).double().mean().item())
    assert [round(value, 2) for value in (min(shares), sum(shares) / 20, max(shares))] == [0.42, 0.49, 0.56]


def test_other_samples_than_those_trained_on():
    model, x = zoo("mlp")
    other, labels = normal(3, 6, seed=4), torch.arange(5) % 3
    moved, _ = stepped(model, x, labels, squared_error, 1e-6)
    measured = (inner(moved, other) - inner(model, other)) / 1e-6
    rate = centroid_rate(model, other, x, labels, squared_error).detach()
    torch.testing.assert_close(measured, rate, rtol=1e-4, atol=1e-8)


def test_is_linear_in_the_loss_and_differentiable():
    model, x = zoo("flatten")
    labels = torch.arange(5) % 3
    rate = centroid_rate(model, x, x, labels, squared_error)
    mean = centroid_rate(model, x, x, labels, lambda f, y: squared_error(f, y) / 3)
    torch.testing.assert_close(rate, 3 * mean)
    weight = model[1].weight

    def at(value):
        model[1]._parameters["weight"] = value
        return centroid_rate(model, x, x, labels, squared_error)

    assert torch.autograd.gradcheck(at, weight.detach().clone().requires_grad_())


def test_only_a_bias_moves():
    model, x = zoo("bias")
    for parameter in list(model.parameters())[:-1]:
        parameter.requires_grad_(requires_grad=False)
    torch.testing.assert_close(centroid_rate(model, x, x, torch.zeros(5).long(), squared_error), x.new_zeros(5))


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return 2 * grad


class OnceLayer(nn.Module):
    def forward(self, x):
        return Once.apply(x).sin()


class Twice(Once):
    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("no derivative of Twice\nException raised from backward")


class ByTwice(Once):
    @staticmethod
    def backward(ctx, grad):
        return Twice.apply(grad)


class ByTwiceLayer(nn.Module):
    def forward(self, x):
        return ByTwice.apply(x).sin()


@pytest.mark.bad_input
def test_of_what_torch_says_the_first_line_is_told():
    model, x = nn.Sequential(nn.Linear(6, 3), ByTwiceLayer(), nn.Linear(3, 3)).double(), zoo("mlp")[1]
    with pytest.raises(UnsupportedModuleError, match=r"second derivative, got no derivative of Twice\. Replace"):
        centroid_rate(model, x, x, torch.arange(5) % 3, squared_error)


@pytest.mark.parametrize("measure", [centroid_rate, centroid_influence])
def test_a_loss_by_its_name_is_the_mean_over_the_samples(measure):
    model, x, labels, *_ = two_layers(3)
    targets = functional.one_hot(labels, 3).double()

    def squares(logits, labels):
        return functional.mse_loss(logits, targets)

    expected = measure(model, x[:4], x, labels, functional.cross_entropy)
    torch.testing.assert_close(measure(model, x[:4], x, labels, "cross_entropy"), expected)
    for given in (labels, targets):
        torch.testing.assert_close(measure(model, x[:4], x, given, "mse"), measure(model, x[:4], x, labels, squares))
    with torch.no_grad():
        torch.testing.assert_close(measure(model, x[:4], x, labels, "cross_entropy"), expected.detach())


@pytest.mark.bad_input
@pytest.mark.parametrize("measure", [centroid_rate, centroid_influence])
def test_labels_that_a_named_loss_cannot_take_and_names_of_none_are_named(measure):
    model, x, labels, *_ = two_layers(3)
    where = measure.__name__
    with pytest.raises(RangeError, match=rf"^{where}\(train_labels\): expected classes 0 to 2, got 1 to 3"):
        measure(model, x, x, labels + 1, "cross_entropy")
    with pytest.raises(ShapeError, match=rf"^{where}\(train_labels\): expected shape \(n, 3\) as the outputs have"):
        measure(model, x, x, labels.double(), "mse")
    with pytest.raises(RangeError, match=rf"^{where}\(loss\): expected 'cross_entropy', 'mse' or a function, got 'hin"):
        measure(model, x, x, labels, "hinge")


@pytest.mark.bad_input
def test_bad_input_is_named():
    model, x = zoo("mlp")
    labels = torch.arange(5) % 3
    with pytest.raises(EmptyError, match=r"centroid_rate\(x\): expected at least one sample, got none"):
        centroid_rate(model, x[:0], x, labels, squared_error)
    with pytest.raises(ShapeError, match=r"centroid_rate\(train_labels\): expected 5 samples as in train_x, got 4"):
        centroid_rate(model, x, x, labels[:4], squared_error)
    with pytest.raises(RangeError, match=r"centroid_rate\(train_x\): expected finite numbers, got inf"):
        centroid_rate(model, x, x + torch.inf, labels, squared_error)
    with pytest.raises(RangeError, match=r"centroid_rate\(x\): expected a floating-point tensor"):
        centroid_rate(model, x.long(), x, labels, squared_error)
    with pytest.raises(RangeError, match=r"centroid_rate\(loss\): expected finite numbers, got nan"):
        centroid_rate(model, x, x, labels, lambda f, y: squared_error(f, y) * torch.nan)
    with pytest.raises(ShapeError, match=r"centroid_rate\(loss\): expected one number, got shape \(5,\)"):
        centroid_rate(model, x, x, labels, lambda f, y: f[:, 0])
    once = nn.Sequential(nn.Linear(6, 3), OnceLayer(), nn.Linear(3, 3)).double()
    with pytest.raises(
        UnsupportedModuleError, match=r"centroid_rate\(model\): expected layers with a second derivative"
    ):
        centroid_rate(once, x, x, labels, squared_error)
