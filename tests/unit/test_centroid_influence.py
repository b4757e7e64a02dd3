"""The influence of a training sample is one small step on its part of the loss; the paper's terms are its oracle."""

from statistics import median

import pytest
import torch
from torch import nn
from torch.nn import functional

from gnomon import centroid, centroid_influence, centroid_rate
from gnomon.autodiff import centroid_velocity
from gnomon.errors import EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.models import mlp
from tests.drawn import normal
from tests.unit.test_centroid_rate import OnceLayer, inner, squared_error, stepped, two_layers
from tests.zoo import BUILDERS, zoo


def spread(logits, labels):
    """A loss that is no mean over samples."""
    return logits.var(0, correction=0).sum() + logits.square().mean().sqrt()


def alone(loss, n):
    """The part of one of n samples in the mean over all."""
    return lambda logits, labels: loss(logits, labels) / n


@pytest.mark.unchecked
@pytest.mark.parametrize("memory", [None, 20_000, 1])
@pytest.mark.parametrize("loss", [functional.cross_entropy, squared_error, spread])
@pytest.mark.parametrize("name", BUILDERS)
def test_the_sum_over_training_samples_is_the_rate(name, loss, memory):
    model, x = zoo(name)
    labels = torch.arange(len(x)) % model(x).shape[1]
    influence = centroid_influence(model, x[:3], x, labels, loss, memory=memory)
    assert not influence.requires_grad
    torch.testing.assert_close(influence.sum(1), centroid_rate(model, x[:3], x, labels, loss).detach())


@pytest.mark.parametrize("loss", [functional.cross_entropy, squared_error])
@pytest.mark.parametrize("name", BUILDERS)
def test_the_error_of_a_small_step_on_one_sample_falls_linearly(name, loss):
    model, x = zoo(name)
    labels = torch.arange(len(x)) % model(x).shape[1]
    influence = centroid_influence(model, x, x, labels, loss)

    def error(eta):
        moved = [stepped(model, x[p : p + 1], labels[p : p + 1], alone(loss, len(x)), eta)[0] for p in range(len(x))]
        return (torch.stack([inner(network, x) - inner(model, x) for network in moved], 1) / eta - influence).norm()

    coarse, fine = error(1e-4), error(1e-5)
    assert coarse < 1e-3 * influence.norm() + 1e-9
    assert fine < 0.11 * coarse + 1e-9


def motions(model, x, labels, loss):
    """How each training sample moves each centroid, (p n d)."""
    parts = zip(x.split(1), labels.split(1), strict=True)
    return torch.stack(
        [centroid_velocity(model, x, *part, alone(loss, len(x)), memory=None).detach() for part in parts]
    )


def test_corollary_11_term_by_term_of_the_centroids_too():
    model, x, labels, first, second = two_layers(10)
    on = (x @ first.T > 0).double()
    m = functional.one_hot(labels, 10) - model(x).detach().softmax(1)
    iota = x.norm(dim=1) * torch.einsum("pc,ch,ph,nh,kh->np", m, second, on, on, second)
    influence = centroid_influence(model, x, x, labels, functional.cross_entropy)
    torch.testing.assert_close(influence, iota / x.norm(dim=1) * (x @ x.T) / 20)
    motion = (iota / x.norm(dim=1)).T.unsqueeze(2) * x.unsqueeze(1) / 20
    torch.testing.assert_close(motions(model, x, labels, functional.cross_entropy), motion)
    moved, _ = stepped(model, x[:1], labels[:1], alone(functional.cross_entropy, 20), 1e-6)
    measured = (centroid(moved, x) - centroid(model, x)).detach() / 1e-6
    torch.testing.assert_close(measured, motion[0], rtol=1e-5, atol=1e-8)


@pytest.mark.unchecked
@pytest.mark.parametrize(
    ("widths", "loss", "expected"),
    [
        ((5, 16, 10), functional.cross_entropy, [1, 1, 1]),
        ((5, 16, 10), squared_error, [0.74, 0.84, 0.91]),
        ((5, 16, 16, 10), functional.cross_entropy, [0.65, 0.75, 0.89]),
    ],
)
def test_centroids_move_along_the_training_samples_with_two_layers_and_cross_entropy_only(widths, loss, expected):
    """The share of the squared motion in the direction of the training sample: least, median, largest of 20 draws."""
    shares = []
    for seed in range(20):
        model = mlp(widths, scale=2.0, generator=torch.Generator().manual_seed(seed)).double()
        x = normal(20, 5, seed=seed)
        motion = motions(model, x, torch.arange(20) % 10, loss)
        along = (motion * functional.normalize(x).unsqueeze(1)).sum(2)
        shares.append(float(along.square().sum() / motion.square().sum()))
    assert [round(value, 2) for value in (min(shares), median(shares), max(shares))] == expected


def test_only_a_bias_moves():
    model, x = zoo("bias")
    for parameter in list(model.parameters())[:-1]:
        parameter.requires_grad_(requires_grad=False)
    influence = centroid_influence(model, x[:2], x, torch.zeros(5).long(), squared_error)
    torch.testing.assert_close(influence, x.new_zeros(2, 5))


@pytest.mark.bad_input
def test_bad_input_is_named():
    model, x = zoo("mlp")
    labels = torch.arange(5) % 3
    with pytest.raises(EmptyError, match=r"centroid_influence\(x\): expected at least one sample, got none"):
        centroid_influence(model, x[:0], x, labels, squared_error)
    with pytest.raises(
        ShapeError, match=r"centroid_influence\(train_labels\): expected 5 samples as in train_x, got 4"
    ):
        centroid_influence(model, x, x, labels[:4], squared_error)
    with pytest.raises(RangeError, match=r"centroid_influence\(train_x\): expected finite numbers, got inf"):
        centroid_influence(model, x, x + torch.inf, labels, squared_error)
    with pytest.raises(RangeError, match=r"centroid_influence\(loss\): expected finite numbers, got nan"):
        centroid_influence(model, x, x, labels, lambda f, y: squared_error(f, y) * torch.nan)
    with pytest.raises(RangeError, match=r"centroid_influence\(loss\): expected a function of the outputs that auto"):
        centroid_influence(model, x, x, labels, lambda f, y: f.detach().sum())
    with pytest.raises(ShapeError, match=r"centroid_influence\(loss\): expected one number, got shape \(5,\)"):
        centroid_influence(model, x, x, labels, lambda f, y: f[:, 0])
    once = nn.Sequential(nn.Linear(6, 3), OnceLayer(), nn.Linear(3, 3)).double()
    with pytest.raises(
        UnsupportedModuleError, match=r"centroid_influence\(model\): expected layers with a second derivative"
    ):
        centroid_influence(once, x, x, labels, squared_error)
    constant = nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 3)).double()
    constant.register_forward_hook(lambda module, given, made: made.detach())
    with pytest.raises(UnsupportedModuleError, match=r"centroid_influence\(model\): expected outputs that depend on"):
        centroid_influence(constant, x, x, labels, squared_error)
