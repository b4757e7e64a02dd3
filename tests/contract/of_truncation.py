"""Of the effective data that the layers of a network leave of its inputs."""

import torch
from torch import nn

import gnomon
from tests.contract.row import Contract


def products(model):
    """Weights and biases taken together from the input up to each layer, by the network without its ReLUs."""
    linear = [layer for layer in model if isinstance(layer, nn.Linear)]
    zero, units = torch.zeros(1, linear[0].in_features).double(), torch.eye(linear[0].in_features).double()
    upto = [nn.Sequential(*linear[: number + 1]) for number in range(len(linear))]
    biases = [layers(zero)[0].detach() for layers in upto]
    weights = [(layers(units).detach() - bias).mT for layers, bias in zip(upto, biases, strict=True)]
    values = [torch.linalg.svdvals(weight) for weight in weights]
    beta = [torch.linalg.pinv(weight) @ bias for weight, bias in zip(weights, biases, strict=True)]
    return {
        "weight": tuple(weights),
        "bias": tuple(biases),
        "beta": torch.stack(beta),
        "condition": torch.stack([value[0] / value[-1] for value in values]),
    }


def cut(cumulative_parameters, x, depth=1):
    """To the layer, cut off there, and back by the pseudo-inverse."""
    weight, bias = cumulative_parameters.weight[depth - 1], cumulative_parameters.bias[depth - 1]
    return torch.stack([torch.linalg.pinv(weight) @ ((weight @ point + bias).relu() - bias) for point in x.double()])


def cut_in_turn(cumulative_parameters, x):
    steps = [x.double()]
    for depth in range(1, cumulative_parameters.hidden + 1):
        steps.append(cut(cumulative_parameters, steps[-1], depth))
    return torch.stack(steps)


def off_diagonal(cumulative_parameters):
    found = []
    for weight in cumulative_parameters.weight[: cumulative_parameters.hidden]:
        left, values, _ = torch.linalg.svd(weight / weight.norm(dim=1, keepdim=True))
        modulus = (left * values) @ left.mT
        found.append((modulus - modulus.diagonal().diag()).norm() / modulus.norm())
    return torch.stack(found)


def signs(model, x, labels):
    """Unit by unit, sample by sample."""
    found = {name: [] for name in ("untruncated", "full")}
    share = {name: [] for name in ("untruncated", "partial", "full", "truncated")}
    by_coordinate = []
    for place, layer in enumerate(model):
        if isinstance(layer, nn.ReLU):
            off = [[bool(z <= 0) for z in row] for row in model[:place](x)]
            sectors = {"untruncated": [not any(row) for row in off], "full": [all(row) for row in off]}
            sectors["partial"] = [any(row) and not all(row) for row in off]
            sectors["truncated"] = [sum(row) / len(row) for row in off]
            classes = range(int(labels.max()) + 1)
            own = [[row for row, label in zip(off, labels.tolist(), strict=True) if label == c] for c in classes]
            counts = [[sum(column) / len(rows) for column in zip(*rows, strict=True)] for rows in own]
            by_coordinate.append(torch.tensor(counts, dtype=torch.float64))
            for name, column in found.items():
                column.append(torch.tensor(sectors[name]))
            for name, column in share.items():
                values = torch.tensor(sectors[name], dtype=torch.float64)
                column.append(torch.stack([values[labels == c].mean() for c in range(int(labels.max()) + 1)]))
    found |= {f"{name}_share": column for name, column in share.items()}
    stacked = {name: torch.stack(column) for name, column in found.items()}
    return stacked | {"coordinate_share": tuple(by_coordinate)}


def cumulative(s):
    return {"cumulative_parameters": s.cumulative()}


def at_points(s):
    return {"cumulative_parameters": s.cumulative(), "x": s.normal("n", "d")}


ROWS = [
    Contract(
        gnomon.activation_misalignment, off_diagonal, cumulative, (0, 1), differentiable=False, dtype=torch.float64
    ),
    Contract(
        gnomon.cumulative_parameters,
        products,
        lambda s: {"model": s.network()},
        differentiable=False,
        dtype=torch.float64,
    ),
    Contract(gnomon.truncated_inputs, cut_in_turn, at_points, differentiable=False, dtype=torch.float64),
    Contract(gnomon.truncation_map, cut, at_points, differentiable=False, dtype=torch.float64),
    Contract(
        gnomon.truncation_sectors,
        signs,
        lambda s: {"model": s.network(), "x": s.normal("n", "d"), "labels": s.labels()},
        differentiable=False,
    ),
]
