"""Truncation maps: the pull-back identity on trained networks, sectors by two routes, and what the paper prints."""

import dataclasses
import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import prune

import gnomon
from gnomon.data import digits
from gnomon.errors import EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.linalg import polar_decomposition
from gnomon.measure import (
    activation_misalignment,
    cumulative_parameters,
    truncated_inputs,
    truncation_map,
    truncation_sectors,
)
from gnomon.models import mlp
from tests.contract.of_truncation import signs
from tests.drawn import normal, orthogonal


def network(*widths, seed=0, bias=True):
    """With normal weights, and biases large enough to matter."""
    model = mlp(widths, bias=bias).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator)
    return model


def setting(*weights_and_biases):
    """The network of these weights and biases, ReLUs between them and behind them."""
    layers = []
    for weight, bias in weights_and_biases:
        layer = nn.Linear(weight.shape[1], weight.shape[0]).double()
        layer.weight.data, layer.bias.data = weight, bias
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers)


def rotations_and_biases(*pairs):
    """The network with W^(l) = R_l and these beta^(l)."""
    q = len(pairs[0][1])
    before = (torch.eye(q).double(), torch.zeros(q).double())
    layers = []
    for rotation, beta in pairs:
        layers.append((rotation @ before[0].mT, rotation @ (beta - before[1])))
        before = rotation, beta
    return setting(*layers)


def clusters(n, q, classes, seed=0):
    """Normal clusters around random means."""
    labels = torch.arange(n) % classes
    return 2 * normal(classes, q, seed=seed)[labels] + normal(n, q, seed=seed + 1), labels


def train(model, x, labels, steps, lr=0.01):
    optimizer = torch.optim.Adam(model.parameters(), lr)
    for _ in range(steps):
        loss = functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def trained(*widths, seed=0):
    """A network after Adam on clusters, and their samples and labels."""
    x, labels = clusters(90, widths[0], widths[-1], seed)
    generator = torch.Generator().manual_seed(seed)
    return train(mlp(widths, bias=True, generator=generator).double(), x, labels, 150), x, labels


def hidden_layers(model, x):
    """What the ReLUs put out, by forward hooks' plain equivalent."""
    seen = []
    for child in model:
        x = child(x)
        if isinstance(child, nn.ReLU):
            seen.append(x)
    return seen


def linear_layers(model):
    return [(child.weight.detach(), child.bias.detach()) for child in model if isinstance(child, nn.Linear)]


def relative(a, b):
    return float((a - b).norm() / b.norm())


EQUAL = [(2, 2, 2, 2), (4, 4, 4, 4, 4), (6, 6, 6, 3)]
DECREASING = [(6, 5, 5, 3), (8, 4, 2)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("widths", EQUAL)
def test_cumulative_parameters_are_the_plain_products(widths, seed):
    model = network(*widths, seed=seed)
    with torch.no_grad():
        parameters = cumulative_parameters(model)
    layers = linear_layers(model)
    assert parameters.hidden == len(layers) - 1
    weight, beta = torch.eye(widths[0], dtype=torch.float64), torch.zeros(widths[0], dtype=torch.float64)
    zero = torch.zeros(1, widths[0], dtype=torch.float64)
    for number, (own, own_bias) in enumerate(layers):
        weight = own @ weight
        torch.testing.assert_close(parameters.weight[number], weight)
        values = torch.linalg.svdvals(weight)
        torch.testing.assert_close(parameters.condition[number], values[0] / values[-1])
        if len(own) == len(weight[0]):
            beta = beta + weight.inverse() @ own_bias
            torch.testing.assert_close(parameters.beta[number], beta, rtol=1e-8, atol=0)
        linear = nn.Sequential(*[child for child in model if isinstance(child, nn.Linear)][: number + 1])
        torch.testing.assert_close(parameters.affine(number + 1, zero), linear(zero).detach())
        torch.testing.assert_close(parameters.bias[number], linear(zero).detach()[0])
        torch.testing.assert_close(weight @ parameters.beta[number], parameters.bias[number])


def test_they_are_copies_which_training_leaves_alone():
    model = network(3, 3, 3)
    with torch.no_grad():
        parameters, again = cumulative_parameters(model), cumulative_parameters(model)
        for parameter in model.parameters():
            parameter.zero_()
    for number in range(2):
        assert parameters.weight[number].abs().min() > 0
        assert not parameters.weight[number].requires_grad
        torch.testing.assert_close(parameters.bias[number], again.bias[number])
        assert parameters.bias[number].abs().min() > 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("widths", EQUAL + DECREASING)
def test_layers_of_trained_networks_are_affine_images_of_the_truncated_inputs(widths, seed):
    model, x, labels = trained(*widths, seed=seed)
    with torch.no_grad():
        assert gnomon.accuracy(model(x), labels).mean() > 0.7
        parameters = cumulative_parameters(model)
        steps = truncated_inputs(parameters, x)
        layers = hidden_layers(model, x)
        outputs = model(x)
    assert steps.shape == (len(layers) + 1, *x.shape)
    torch.testing.assert_close(steps[0], x, rtol=0, atol=0)
    for number, layer in enumerate(layers, 1):
        torch.testing.assert_close(parameters.affine(number, steps[number]), layer, rtol=0, atol=1e-10)
    last = parameters.affine(len(layers) + 1, steps[-1])
    torch.testing.assert_close(last, outputs, rtol=0, atol=1e-10)


def test_digits_by_a_network_of_64_units_a_layer():
    samples, _ = digits(100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = samples.x / 16
    model = mlp((64, 64, 64, 10), bias=True, generator=torch.Generator().manual_seed(0)).double()
    train(model, x, samples.labels, 40, 0.005)
    with torch.no_grad():
        assert gnomon.accuracy(model(x), samples.labels).mean() > 0.95
        parameters = cumulative_parameters(model)
        steps = truncated_inputs(parameters, x)
        for number, layer in enumerate(hidden_layers(model, x), 1):
            torch.testing.assert_close(parameters.affine(number, steps[number]), layer, rtol=0, atol=1e-10)
        torch.testing.assert_close(parameters.affine(3, steps[-1]), model(x), rtol=0, atol=1e-10)


OFF = [
    [0.68, 3.08, 2.40, 0.34, 1.48, 3.00, 1.09, 2.35, 3.98, 3.63],
    [1.13, 0.99, 1.22, 0.79, 0.50, 0.97, 1.81, 0.80, 1.33, 1.00],
    [2.38, 1.29, 7.82, 0.79, 2.44, 2.72, 1.14, 2.80, 2.31, 2.23],
]
"""How far what the paper prints of the biases is off, in a network of each seed."""


@pytest.mark.parametrize("seed", range(3))
def test_what_the_paper_prints_of_the_biases(seed):
    """Errata: (2.6), (2.7), (2.17), (2.18) and (2.23) to (2.25), on a random network 3-3-3-3-3."""
    model, x = network(3, 3, 3, 3, 3, seed=seed), normal(1000, 3, seed=seed)
    with torch.no_grad():
        parameters, layers = cumulative_parameters(model), hidden_layers(model, x)
        steps, outputs = truncated_inputs(parameters, x), model(x)
    (_, b1), (w2, b2), (w3, b3), (w4, b4) = [(weight.clone(), bias.clone()) for weight, bias in linear_layers(model)]
    # (2.6): the term before the last has W_l, not W_2.
    torch.testing.assert_close(w3 @ w2 @ b1 + w3 @ b2 + b3, parameters.bias[2])
    off = [relative(w3 @ w2 @ b1 + w2 @ b2 + b3, parameters.bias[2])]
    # (2.7): with b_4 = 0 it is beta^(3) unchanged, with a general one the formula of the others.
    printed = w4.inverse() @ parameters.beta[2]
    off += [relative(printed, parameters.beta[3]), relative(printed, parameters.beta[2])]
    with torch.no_grad():
        model[-1].bias.zero_()
        without = cumulative_parameters(model)
    torch.testing.assert_close(without.beta[3], without.beta[2], rtol=1e-8, atol=1e-8)
    # (2.17), (2.18): the bias is missing.
    off += [relative(steps[number] @ parameters.weight[number - 1].mT, layer) for number, layer in enumerate(layers, 1)]
    off += [relative(layers[-1] @ w3.mT, outputs), relative(steps[-1] @ parameters.weight[3].mT, outputs)]
    # (2.23), (2.24): of the last truncation map alone, besides.
    alone = truncation_map(parameters, x, depth=3)
    off += [relative(alone @ parameters.weight[2].mT, layers[-1]), relative(alone @ parameters.weight[3].mT, outputs)]
    assert off == pytest.approx(OFF[seed], abs=0.0051)
    torch.testing.assert_close(layers[-1] @ w4.mT + b4, outputs)
    # (2.25): W_4 -> W_4 A^-1 leaves the metric as it is, W^(4) -> W^(4) A^-1 does not.
    a, weight = normal(3, 3, seed=9), parameters.weight[3]
    torch.testing.assert_close((weight / 2).mT @ (weight / 2), weight.mT @ weight / 4)
    kept = w4 @ a.inverse() @ (a @ parameters.weight[2])
    torch.testing.assert_close(kept.mT @ kept, weight.mT @ weight)


@pytest.mark.parametrize("widths", [(4, 4, 4, 4), (5, 5, 5, 2)])
def test_standard_loss_is_the_pulled_back_one_with_labels_pulled_back_by_the_affine_map(widths):
    """Errata: (2.22) and (2.26), whose labels are pulled back by the linear map alone."""
    model, x, labels = trained(*widths)
    targets = functional.one_hot(labels, widths[-1])
    with torch.no_grad():
        parameters = cumulative_parameters(model)
        loss = (model(x) - targets).square().sum(1)
        points = truncated_inputs(parameters, x)[-1]
    pulled = parameters.pull_back(3, targets)
    weight = parameters.weight[-1]
    torch.testing.assert_close(parameters.affine(3, pulled), targets.double())
    torch.testing.assert_close(((points - pulled) @ weight.mT).square().sum(1), loss)
    printed = pulled + parameters.beta[-1]
    torch.testing.assert_close(printed @ weight.mT, targets.double())
    assert relative(((points - printed) @ weight.mT).square().sum(1), loss) > 0.1


def in_one_dimension(last_bias):
    """Weights 2 and 3, and a first bias of 2: beta is 1."""
    one = torch.ones(1, 1).double()
    body = setting((2 * one, 2 * one[0]))
    head = nn.Linear(1, 1).double()
    head.weight.data, head.bias.data = 3 * one, last_bias * one[0]
    return body.append(head)


def test_the_errata_s_pulled_back_label_and_collapsed_outputs_in_one_dimension():
    """Errata: (2.22), whose printed label is 0 here; and (8.2), whose printed output is -3, with either last bias."""
    origin, collapsed = torch.zeros(1, 1).double(), -2 * torch.ones(1, 1).double()
    with torch.no_grad():
        for last_bias, label, output in ((0.0, -1.0, 0.0), (-6.0, 0.0, -6.0)):
            model = in_one_dimension(last_bias)
            parameters = cumulative_parameters(model)
            assert parameters.pull_back(2, origin).item() == label
            assert truncated_inputs(parameters, origin)[-1].item() == 0
            assert truncated_inputs(parameters, collapsed)[-1].item() == -1
            assert model(collapsed).item() == output
    assert in_one_dimension(0.0)(origin).item() ** 2 / 2 == 18


@pytest.mark.parametrize("widths", [(3, 3, 3), (5, 4, 3)])
@pytest.mark.parametrize("layer", [1, 2])
def test_truncation_map_keeps_one_sector_and_contracts_the_other(widths, layer):
    model, x = network(*widths, seed=3)[:3].append(nn.ReLU()), 10 * normal(2000, widths[0], seed=4)
    with torch.no_grad():
        parameters = cumulative_parameters(model)
    moved, z = truncation_map(parameters, x, depth=layer), parameters.affine(layer, x)
    untruncated, full = (z > 0).all(1), (z <= 0).all(1)
    assert untruncated.sum() > 5
    assert full.sum() > 5
    weight = parameters.weight[layer - 1]
    projection = torch.linalg.pinv(weight) @ weight
    torch.testing.assert_close(moved[untruncated], x[untruncated] @ projection)
    torch.testing.assert_close(moved[full], -parameters.beta[layer - 1].expand(int(full.sum()), -1))
    torch.testing.assert_close(truncation_map(parameters, moved, depth=layer), moved)
    torch.testing.assert_close(parameters.affine(layer, moved), z.relu())
    partial = ~untruncated & ~full
    assert ((moved - x).norm(dim=1)[partial] > 0).all()
    if len(weight) == len(x[0]):
        torch.testing.assert_close(projection, torch.eye(3, dtype=torch.float64))
        # Equation (3.15).
        open_, back = torch.diag_embed((z > 0).double()), weight.inverse()
        shut = torch.eye(3, dtype=torch.float64) - open_
        expected = back @ open_ @ weight @ x.unsqueeze(2) - back @ shut @ weight @ parameters.beta[layer - 1, :, None]
        torch.testing.assert_close(moved, expected.squeeze(2))


def test_truncation_map_does_not_see_the_lengths_of_rows():
    weight, bias, x = normal(4, 4), normal(4, seed=1), normal(50, 4, seed=2)
    lengths = torch.tensor([1e-2, 1.0, 7.0, 30.0], dtype=torch.float64)
    one = cumulative_parameters(setting((weight, bias)))
    other = cumulative_parameters(setting((lengths[:, None] * weight, lengths * bias)))
    torch.testing.assert_close(truncation_map(one, x, depth=1), truncation_map(other, x, depth=1))
    # With W = W_* R it depends on R and beta alone.
    rotation = orthogonal(4)
    aligned = cumulative_parameters(setting((lengths[:, None] * rotation, bias)))
    beta = aligned.beta[0]
    torch.testing.assert_close(truncation_map(aligned, x, depth=1), ((x + beta) @ rotation.mT).relu() @ rotation - beta)


def test_gradients_reach_inputs_and_weights():
    model, x = network(3, 3, 3, 3, seed=1), normal(4, 3, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: truncated_inputs(cumulative_parameters(model), x), x)

    def of_weights(*values):
        found = torch.func.functional_call(Reading(model), dict(zip(names, values, strict=True)), x.detach())
        return found.beta, activation_misalignment(found), truncated_inputs(found, x.detach())

    names = [f"model.{name}" for name, _ in model.named_parameters()]
    assert torch.autograd.gradcheck(of_weights, tuple(model.parameters()))


class Reading(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return cumulative_parameters(self.model)


@pytest.mark.parametrize("widths", [(3, 3, 3, 3, 2), (2, 7, 1, 4, 5), (6, 5, 3)])
def test_sectors_are_the_plain_loop(widths):
    model, (x, labels) = network(*widths, seed=2), clusters(60, widths[0], widths[-1])
    sectors = truncation_sectors(model, x, labels)
    for name, expected in signs(model, x, labels).items():
        torch.testing.assert_close(getattr(sectors, name), expected)


def test_sectors_stay_where_a_unit_is_scaled_and_what_leaves_it_is_divided():
    model, x, labels = network(4, 6, 5, 3), normal(20, 4), torch.arange(20) % 3
    before = truncation_sectors(model, x, labels)
    first, second, _ = (layer for layer in model if isinstance(layer, nn.Linear))
    factors = torch.tensor([4.0, 0.1, 1.0, 7.0, 2.0, 0.5]).double()
    with torch.no_grad():
        first.weight.mul_(factors[:, None])
        first.bias.mul_(factors)
    assert not torch.equal(truncation_sectors(model, x, labels).truncated_share, before.truncated_share)
    with torch.no_grad():
        second.weight.div_(factors)
    torch.testing.assert_close(vars(truncation_sectors(model, x, labels)), vars(before))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("widths", EQUAL + DECREASING)
def test_sectors_by_signs_are_those_of_the_truncated_inputs(widths, seed):
    model, x, labels = trained(*widths, seed=seed)
    sectors = truncation_sectors(model, x, labels)
    with torch.no_grad():
        parameters = cumulative_parameters(model)
        steps = truncated_inputs(parameters, x)
    for layer in range(1, parameters.hidden + 1):
        cut = parameters.affine(layer, steps[layer - 1]) <= 0
        assert torch.equal(sectors.untruncated[layer - 1], ~cut.any(1))
        assert torch.equal(sectors.full[layer - 1], cut.all(1))
        for label in range(widths[-1]):
            share = cut[labels == label].double().mean()
            torch.testing.assert_close(sectors.truncated_share[layer - 1, label], share)
    total = sectors.untruncated_share + sectors.partial_share + sectors.full_share
    torch.testing.assert_close(total, torch.ones_like(total))


def test_coordinate_shares_are_the_rates_at_which_the_effective_flow_moves_a_bias():
    """(3.39) with (3.42): the layer's bias moves by these shares of the way to the target."""
    points, target, rotation, beta = normal(40, 3), normal(3, seed=1), orthogonal(3), 0.3 * normal(3, seed=2)
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    model[0].weight.data, model[0].bias.data = rotation, rotation @ beta
    labels = torch.tensor([0, 1]).repeat_interleave(20)
    sectors = truncation_sectors(model, points, labels)
    (share,) = sectors.coordinate_share
    assert share.shape == (2, 3)
    torch.testing.assert_close(share.mean(1), sectors.truncated_share[0])
    for label in range(2):
        velocity, _ = gnomon.TruncationFlow(points[labels == label], target).velocity_at(beta, rotation)
        torch.testing.assert_close(velocity, -rotation.mT @ share[label].diag() @ rotation @ (beta + target))


def test_a_diverged_network_is_not_untruncated():
    model = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 2))
    model[0].weight.data.fill_(torch.nan)
    with pytest.raises(RangeError, match=r"truncation_sectors\(preactivations\): expected finite numbers, got nan"):
        truncation_sectors(model, torch.ones(2, 2), torch.tensor([0, 1]))


def test_on_a_face_a_coordinate_counts_as_truncated_and_does_not_move():
    """Errata: (2.14); h(0) = 0 puts the face outside the positive sector, though its points are fixed."""
    model = setting((torch.eye(2).double(), torch.zeros(2).double()))
    x = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, -1.0], [1.0, 2.0]], dtype=torch.float64)
    sectors = truncation_sectors(model, x, torch.tensor([0, 0, 1, 1]))
    assert sectors.untruncated.tolist() == [[False, False, False, True]]
    assert sectors.full.tolist() == [[False, True, True, False]]
    assert sectors.truncated_share.tolist() == [[0.75, 0.5]]
    moved = truncation_map(cumulative_parameters(model), x, depth=1)
    assert (moved == x).all(1).tolist() == [True, True, False, True]


def test_partially_truncated_are_those_in_neither_sector():
    """Errata: after (2.13), S^perp is called partially truncated, and S^- lies in it; here one point a quadrant."""
    x, labels = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]).double(), torch.tensor([0, 1, 0, 1])
    model = setting((torch.eye(2).double(), torch.zeros(2).double()))
    sectors = truncation_sectors(model, x, labels)
    assert sectors.partial_share.tolist() == [[0.5, 0.5]]
    assert (~sectors.untruncated).double().mean() == 0.75
    assert sectors.partial_share.mean() == 0.5


def test_separated_truncations():
    """Corners of the plane cut off: the first below 0, the second above 3, each with one cluster in it."""
    one = torch.eye(2).double()
    model = rotations_and_biases((one, torch.zeros(2).double()), (-one, torch.full((2,), -3.0).double()))
    x, labels = torch.tensor([[-1.0, -2.0], [-2.0, -1.0], [6.0, 7.0]]).double(), torch.tensor([0, 0, 1])
    sectors = truncation_sectors(model, x, labels)
    assert sectors.full_share.tolist() == [[1, 0], [0, 1]]
    assert sectors.untruncated_share.tolist() == [[0, 1], [1, 0]]
    assert sectors.cluster_separated
    steps = truncated_inputs(cumulative_parameters(model), x)
    assert steps[-1].tolist() == [[0, 0], [0, 0], [3, 3]]
    assert not truncation_sectors(model, x, labels.flip(0)).cluster_separated


def test_separation_of_the_samples_as_they_are_is_not_enough():
    """Errata: definition 3.1 holds here, (3.5) and (3.6) do not: the second layer truncates the truncated cluster."""
    one = torch.eye(2).double()
    model = rotations_and_biases((one, torch.full((2,), -5.0).double()), (-one, torch.full((2,), -3.0).double()))
    x, labels = torch.tensor([[-1.0, -1.0], [6.0, 6.0]]).double(), torch.tensor([0, 1])
    parameters = cumulative_parameters(model)
    torch.testing.assert_close(parameters.beta, torch.tensor([[-5.0, -5.0], [-3.0, -3.0]]).double())
    assert torch.equal(truncation_map(parameters, x[1:], depth=1), x[1:])
    assert torch.equal(truncation_map(parameters, x[:1], depth=2), x[:1])
    assert truncated_inputs(parameters, x[:1])[:, 0, 0].tolist() == [-1, 5, 3]
    each_by_its_own = torch.cat(
        [truncation_map(parameters, x[:1], depth=1), truncation_map(parameters, x[1:], depth=2)]
    )
    assert (each_by_its_own.square().sum() / 2).item() == 34
    assert (truncated_inputs(parameters, x)[-1].square().sum() / 2).item() == 18
    assert not truncation_sectors(model, x, labels).cluster_separated


@pytest.mark.parametrize(("seed", "share"), [(0, 0.541), (1, 0.418), (2, 0.481)])
def test_truncated_in_a_direction_is_of_the_cumulative_weight(seed, share):
    """Errata: definition 2.1 prints W_l where a^(l)'s W^(l) is meant."""
    model, x = network(4, 4, 4, 4, seed=seed), normal(1000, 4, seed=1)
    with torch.no_grad():
        parameters = cumulative_parameters(model)
    z = parameters.affine(2, x)
    printed = (x + parameters.beta[1]) @ linear_layers(model)[1][0].mT
    cumulative = (x + parameters.beta[1]) @ parameters.weight[1].mT
    assert torch.equal(cumulative <= 0, z <= 0)
    assert float(((printed <= 0) != (z <= 0)).double().mean()) == pytest.approx(share, abs=0.002)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 5), (3, 6)])
def test_polar_decomposition(shape):
    matrix = normal(*shape)
    polar = polar_decomposition(matrix)
    torch.testing.assert_close(polar.modulus @ polar.rotation, matrix)
    torch.testing.assert_close(polar.rotation @ polar.rotation.mT, torch.eye(shape[0]).double(), rtol=0, atol=1e-14)
    torch.testing.assert_close(polar.modulus @ polar.modulus, matrix @ matrix.mT)
    torch.testing.assert_close(polar.modulus, polar.modulus.mT)
    assert (torch.linalg.eigvalsh(polar.modulus) > 0).all()
    left, right = orthogonal(shape[0], 1), orthogonal(shape[1], 2)
    turned = polar_decomposition(3 * left @ matrix @ right)
    torch.testing.assert_close(turned.rotation, left @ polar.rotation @ right)
    torch.testing.assert_close(turned.modulus, 3 * left @ polar.modulus @ left.mT)
    for size in (1e-20, 1e20):
        torch.testing.assert_close(polar_decomposition(size * matrix).rotation, polar.rotation)
    assert polar_decomposition(matrix.float()).rotation.dtype == torch.float32


def test_rotation_is_the_nearest_of_many():
    matrix = normal(3, 3)
    nearest = (polar_decomposition(matrix).rotation - matrix).norm()
    for seed in range(200):
        assert (orthogonal(3, seed) - matrix).norm() >= nearest


def misalignment(weight):
    return activation_misalignment(cumulative_parameters(setting((weight, torch.zeros(len(weight)).double()))))[0]


def share_beside_the_diagonal(matrix):
    beside = sum(float(v) ** 2 for i, row in enumerate(matrix) for j, v in enumerate(row) if i != j)
    return (beside / sum(float(v) ** 2 for row in matrix for v in row)) ** 0.5


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 5), (3, 6)])
def test_misalignment_is_of_the_modulus_of_unit_rows(shape):
    weight = normal(*shape)
    rows = weight / weight.norm(dim=1, keepdim=True)
    expected = share_beside_the_diagonal(polar_decomposition(rows).modulus)
    value = misalignment(weight).detach()
    torch.testing.assert_close(float(value), expected, rtol=0, atol=1e-12)
    lengths = normal(shape[0], 1, seed=1).abs() + 0.1
    signs = torch.where(normal(shape[0], 1, seed=2) > 0, 1.0, -1.0)
    for same in (lengths * weight, signs * weight, weight.flip(0), weight @ orthogonal(shape[1])):
        torch.testing.assert_close(misalignment(same).detach(), value, rtol=0, atol=1e-12)
    assert 0 <= value < (1 - 1 / shape[0]) ** 0.5 + 1e-12


def test_misalignment_at_its_ends():
    lengths = torch.tensor([1e-3, 1.0, 2.0, 50.0], dtype=torch.float64)
    aligned = (lengths[:, None] * orthogonal(4)).requires_grad_()
    torch.testing.assert_close(misalignment(aligned), torch.zeros(()).double(), rtol=0, atol=1e-14)
    assert share_beside_the_diagonal(polar_decomposition(aligned.detach()).modulus) < 1e-12
    flat = torch.eye(3).double().requires_grad_()
    model = setting((flat, torch.zeros(3).double()))
    activation_misalignment(cumulative_parameters(model)).sum().backward()
    torch.testing.assert_close(model[0].weight.grad, torch.zeros(3, 3).double())
    almost = torch.ones(4, 4).double() + 1e-4 * torch.eye(4).double()
    torch.testing.assert_close(misalignment(almost), torch.tensor(0.75**0.5).double(), rtol=1e-3, atol=0)


def test_literal_share_misses_angles_between_rows_of_unequal_lengths():
    """Rows at an angle of cosine 0.7, one 100 times as long: |W| is near diagonal, and the faces meet at 45 degrees."""
    weight = torch.tensor([[1.0, 0.0], [70.0, 100 * 0.51**0.5]], dtype=torch.float64)
    assert share_beside_the_diagonal(polar_decomposition(weight).modulus) == pytest.approx(0.0099, abs=1e-4)
    assert misalignment(weight).item() == pytest.approx(((1.7**0.5 - 0.3**0.5) / 2), abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("widths", [(4, 4, 4, 4), (6, 5, 4, 3)])
def test_a_probe_follows_truncation_while_a_network_trains(dtype, widths):
    x, labels = clusters(60, widths[0], widths[-1])
    x = x.to(dtype)
    model = mlp(widths, bias=True, generator=torch.Generator().manual_seed(0)).to(dtype)
    quantities = [cumulative_parameters, truncated_inputs, truncation_sectors, activation_misalignment]
    probe = gnomon.Probe(model, (x, labels), quantities, gnomon.every(10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    readings = []
    for step in range(31):
        if reading := probe(step):
            readings.append(reading)
            with torch.no_grad():
                parameters, steps = reading.values["cumulative_parameters"], reading.values["truncated_inputs"]
                layer = model[:4](x)
            # In float32 the forward pass itself is only that exact.
            torch.testing.assert_close(
                parameters.affine(2, steps[2]), layer.double(), rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-12
            )
        optimizer.zero_grad()
        functional.cross_entropy(model(x), labels).backward()
        optimizer.step()
    assert [reading.step for reading in readings] == [0, 10, 20, 30]
    names = set(readings[-1].scalars())
    assert {"cumulative_parameters.condition.max", "truncation_sectors.full_share", "activation_misalignment"} <= names
    first, last = readings[0].values["truncation_sectors"], readings[-1].values["truncation_sectors"]
    assert first.full_share.dtype == dtype
    assert readings[-1].values["activation_misalignment"].shape == (2,)
    assert not torch.equal(first.truncated_share, last.truncated_share)
    assert not torch.equal(
        readings[0].values["activation_misalignment"], readings[-1].values["activation_misalignment"]
    )


def test_float64_whatever_the_network():
    """A float32 network's own weights, multiplied without further loss."""
    model = mlp((6, 6, 6, 6), bias=True, generator=torch.Generator().manual_seed(0))
    x = normal(5, 6).float()
    single, double = cumulative_parameters(model), cumulative_parameters(model.double())
    for field in dataclasses.fields(single):
        torch.testing.assert_close(getattr(single, field.name), getattr(double, field.name), rtol=0, atol=0)
    assert truncated_inputs(single, x).dtype == torch.float64
    sectors = truncation_sectors(model.half(), x.half().repeat(2, 1), torch.arange(10) % 6)
    assert sectors.full_share.dtype == torch.float32


def test_images_without_biases_and_without_a_readout():
    model = nn.Sequential(nn.Flatten(), mlp((6, 6, 6, 2), generator=torch.Generator().manual_seed(0))).double()
    x, labels = normal(8, 2, 3), torch.arange(8) % 2
    parameters = cumulative_parameters(model)
    torch.testing.assert_close(parameters.beta, torch.zeros(3, 6).double())
    points = truncated_inputs(parameters, x)
    torch.testing.assert_close(parameters.affine(3, points[-1]), model(x))
    body = nn.Sequential(*[*model[1]][:4])
    without = cumulative_parameters(body)
    assert (without.hidden, len(without.weight)) == (2, 2)
    torch.testing.assert_close(truncated_inputs(without, x), points)
    for one, other in itertools.zip_longest(
        dataclasses.astuple(truncation_sectors(model, x, labels)),
        dataclasses.astuple(truncation_sectors(body, x.flatten(1), labels, classes=2)),
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.bad_input
def test_networks_of_another_kind_are_named():
    with pytest.raises(
        UnsupportedModuleError, match=r"expected an nn.Sequential of Linear and ReLU in turn, got Linear"
    ):
        cumulative_parameters(nn.Linear(2, 2))
    tanh = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    for quantity in (cumulative_parameters, lambda model: truncation_sectors(model, torch.ones(2, 2), torch.arange(2))):
        with pytest.raises(UnsupportedModuleError, match=r"Linear and ReLU in turn, got Tanh '1'. Leave it out"):
            quantity(tanh)
        with pytest.raises(UnsupportedModuleError, match=r"got Linear '1'"):
            quantity(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
        with pytest.raises(UnsupportedModuleError, match=r"got Flatten '2'"):
            quantity(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2)))
        with pytest.raises(UnsupportedModuleError, match=r"got one without a ReLU"):
            quantity(nn.Sequential(nn.Linear(2, 2)))


class Normalised(nn.Linear):
    def forward(self, x):
        return functional.linear(x, functional.normalize(self.weight), self.bias)


class Leaky(nn.ReLU):
    def forward(self, x):
        return functional.leaky_relu(x)


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


def doubling(name, before=False):
    """The network with a hook that doubles what this module is given, or what it puts out."""
    model = network(3, 3, 3)
    if before:
        model.get_submodule(name).register_forward_pre_hook(lambda module, given: (2 * given[0],))
    else:
        model.get_submodule(name).register_forward_hook(lambda module, given, output: output.mul_(2))
    return model


def with_own(layer):
    layer.forward = lambda x: x.relu() / 2
    return layer


def between(layer, start=None):
    return nn.Sequential(start or nn.Linear(3, 3), layer, nn.Linear(3, 3)).double()


@pytest.mark.parametrize(
    ("build", "got"),
    [
        (lambda: between(nn.ReLU(), Normalised(3, 3)), "Normalised '0' with a forward of its own. Leave it out"),
        (lambda: between(Leaky()), "Leaky '1' with a forward of its own. Leave it out"),
        (lambda: between(with_own(nn.ReLU())), "ReLU '1' with a forward of its own. Leave it out"),
        (lambda: Residual(*network(3, 3, 3)), "Residual with a forward of its own. Write the network as one"),
        (lambda: nn.Sequential(Residual(*network(3, 3, 3))), "Residual '0' with a forward of its own. Leave it out"),
        (lambda: doubling("0"), "Linear '0', whose outputs one changes. Remove it"),
        (lambda: doubling("1"), "ReLU '1', whose outputs one changes. Remove it"),
        (lambda: doubling("2", before=True), "Linear '2', whose outputs one changes. Remove it"),
        (lambda: doubling(""), "Sequential, whose outputs one changes. Remove it"),
        (lambda: nn.Sequential(doubling("")), "Sequential '0', whose outputs one changes. Remove it"),
    ],
)
def test_layers_that_do_more_than_their_class_are_named(build, got):
    model, x = build(), normal(4, 3)
    for quantity in (cumulative_parameters, lambda model: truncation_sectors(model, x, torch.arange(4) % 3)):
        with pytest.raises(UnsupportedModuleError, match=rf"\(model\): expected .*, got {got}"):
            quantity(model)


MADE = {
    "weight norm of old": nn.utils.weight_norm,
    "spectral norm of old": nn.utils.spectral_norm,
    "pruning": lambda layer: prune.l1_unstructured(layer, "weight", amount=0.3),
    "weight norm": nn.utils.parametrizations.weight_norm,
    "spectral norm": nn.utils.parametrizations.spectral_norm,
}


@pytest.mark.filterwarnings("ignore:.torch.nn.utils.weight_norm. is deprecated")  # it is still what people use
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("training", [False, True])
def test_weights_made_of_others_are_those_of_the_parameters_now(made, training):
    torch.manual_seed(0)
    model = nn.Sequential(MADE[made](nn.Linear(3, 3)), nn.ReLU(), MADE[made](nn.Linear(3, 3))).double().train(training)
    seen = []
    model.register_forward_hook(lambda module, given, output: seen.append(output))
    with torch.no_grad():
        for parameter in model.parameters():  # as a step of training, after which the weights are ones of before
            parameter.mul_(torch.rand_like(parameter) + 0.5)
    x, labels = normal(20, 3), torch.arange(20) % 3
    untruncated = truncation_sectors(model.eval(), x, labels).untruncated
    parameters = cumulative_parameters(model.train(training))
    model.eval()
    first, last = model[0](x), model(x)
    exact = {"rtol": 1e-2, "atol": 1e-2} if training and "spectral" in made else {}  # whose iteration advances
    torch.testing.assert_close(parameters.affine(1, x), first, **exact)
    through = nn.functional.linear(first.relu(), parameters.weight[1] @ parameters.weight[0].inverse(), model[2].bias)
    torch.testing.assert_close(through, last, **exact)
    assert seen
    assert torch.equal(untruncated[0], (first > 0).all(1))


def test_what_cannot_be_pulled_back_is_named():
    with pytest.raises(ShapeError, match=r"expected widths that do not increase, got 2 to 3 at '2'. Pass the layers"):
        cumulative_parameters(network(2, 2, 3))
    model = network(3, 3, 3)
    with torch.no_grad():
        model[2].weight[2] = model[2].weight[1] * (1 + 1e-9)
    with pytest.raises(
        RangeError, match=r"condition numbers of at most 6.7e\+07, got .*e\+\d+ for W\^\(2\), up to '2'"
    ):
        cumulative_parameters(model)
    torch.testing.assert_close(cumulative_parameters(model[:2]).weight[0], model[0].weight)
    with torch.no_grad():
        model[0].weight.zero_()
    with pytest.raises(RangeError, match=r"condition numbers of at most 6.7e\+07, got (inf|nan) for W\^\(1\)"):
        cumulative_parameters(model)
    with torch.no_grad():
        model[0].bias[1] = torch.nan
    with pytest.raises(RangeError, match=r"cumulative_parameters\(0.bias\): expected finite numbers, got nan"):
        cumulative_parameters(model)


@pytest.mark.bad_input
def test_bad_points_labels_and_layers_are_named():
    model, x, labels = network(3, 3, 2), normal(4, 3), torch.tensor([0, 1, 1, 0])
    parameters = cumulative_parameters(model)
    for name, quantity in (
        ("truncation_map", lambda x: truncation_map(parameters, x, depth=1)),
        ("truncated_inputs", lambda x: truncated_inputs(parameters, x)),
        ("truncation_sectors", lambda x: truncation_sectors(model, x, labels)),
    ):
        with pytest.raises(ShapeError, match=rf"{name}\(x\): expected 3 numbers per sample as the network takes, got"):
            quantity(x[:, :2])
        with pytest.raises(RangeError, match=rf"{name}\(x\): expected finite numbers, got nan at index \(0, 0\)"):
            quantity(x * torch.nan)
        with pytest.raises(EmptyError, match=rf"{name}\(x\): expected at least one sample"):
            quantity(x[:0])
        with pytest.raises(RangeError, match=rf"{name}\(x\): expected a floating-point tensor, got torch.int64"):
            quantity(x.long())
    for layer in (0, 2, 1.0):
        with pytest.raises(
            RangeError, match=rf"truncation_map: expected depth a whole number from 1 to 1, got {layer}"
        ):
            truncation_map(parameters, x, depth=layer)
    for layer in (0, 1.5):
        with pytest.raises(
            RangeError, match=rf"CumulativeParameters.pull_back: expected layer a whole number from 1 to 2, got {layer}"
        ):
            parameters.pull_back(layer, x)
    with pytest.raises(
        RangeError, match=r"truncation_sectors: expected classes a whole number of at least 2, got 3\.0"
    ):
        truncation_sectors(model, x, labels, classes=3.0)
    with pytest.raises(ShapeError, match=r"CumulativeParameters.pull_back\(z\): expected shape \(n, 2\), got \(4, 3\)"):
        parameters.pull_back(2, x)
    with pytest.raises(ShapeError, match=r"CumulativeParameters.affine\(x\): expected shape \(n, 3\), got \(4,\)"):
        parameters.affine(1, x[:, 0])
    with pytest.raises(
        EmptyError, match=r"truncation_sectors\(labels\): expected samples of every class, got none of cla"
    ):
        truncation_sectors(model, x, torch.zeros(4, dtype=torch.long))
    with pytest.raises(RangeError, match=r"truncation_sectors\(labels\): expected classes 0 to 1, got 0 to 2"):
        truncation_sectors(model, x, torch.tensor([0, 1, 2, 0]))
    with pytest.raises(ShapeError, match=r"truncation_sectors\(labels\): expected shape \(4,\), got \(3,\)"):
        truncation_sectors(model, x, labels[:3])


@pytest.mark.bad_input
def test_matrices_without_a_polar_decomposition_are_named():
    with pytest.raises(
        ShapeError, match=r"polar_decomposition\(matrix\): expected no more rows than columns, got shape"
    ):
        polar_decomposition(normal(3, 2))
    with pytest.raises(RangeError, match=r"polar_decomposition\(matrix\): expected full row rank, got singular values"):
        polar_decomposition(normal(3, 2) @ normal(2, 3, seed=1))
    with pytest.raises(
        RangeError, match=r"got singular values from 0.0e\+00 down to 0.0e\+00. Leave out dependent rows"
    ):
        polar_decomposition(torch.zeros(2, 2))
    with pytest.raises(RangeError, match=r"polar_decomposition\(matrix\): expected finite numbers, got nan"):
        polar_decomposition(torch.full((2, 2), torch.nan))
    with pytest.raises(EmptyError, match=r"polar_decomposition\(matrix\): expected entries, got shape"):
        polar_decomposition(normal(0, 2))
