"""Of the average gradient outer product, and its likeness to the weights."""

import math

import torch
from torch import nn

import gnomon
from tests.contract.row import Contract, jacobian_of, scaled


def outer(jacobian):
    """Number by number."""
    rows = [row.flatten().tolist() for sample in jacobian for row in sample]
    p = len(rows[0])
    entries = [[sum(row[i] * row[j] for row in rows) / len(jacobian) for j in range(p)] for i in range(p)]
    return torch.tensor(entries, dtype=torch.float64)


def root(matrix):
    """By Newton's iteration (Denman, Beavers), not by eigenvectors."""
    inverse = torch.eye(len(matrix), dtype=matrix.dtype)
    for _ in range(50):
        matrix, inverse = (matrix + inverse.inverse()) / 2, (inverse + matrix.inverse()) / 2
    return matrix


def correlation(layer_weight, agop, power=0.5, centred=True):
    columns = layer_weight.T.tolist()
    gram = [[sum(a * b for a, b in zip(p, q, strict=True)) for q in columns] for p in columns]
    other = root(agop) if power == 0.5 else agop
    a, b = [v for row in gram for v in row], other.flatten().tolist()
    if centred:
        a, b = [v - math.fsum(a) / len(a) for v in a], [v - math.fsum(b) / len(b) for v in b]
    product = math.fsum(p * q for p, q in zip(a, b, strict=True))
    value = product / math.sqrt(math.fsum(p * p for p in a) * math.fsum(q * q for q in b))
    return torch.tensor(value, dtype=torch.float64)


def table(model, x):
    """Layer by layer, from the Jacobian of what follows in what the layer is given; the root by eigenvectors."""
    found = {name: [] for name in ("pearson_root", "cosine_root", "pearson", "cosine")}
    for place, layer in enumerate(model):
        if isinstance(layer, nn.Linear):
            values, vectors = torch.linalg.eigh(outer(jacobian_of(model[place:], model[:place](x).detach())))
            for name, column in found.items():
                power = 0.5 if name.endswith("root") else 1
                matrix = (vectors * values.clamp_min(0) ** power) @ vectors.mT
                column.append(correlation(layer.weight.detach(), matrix, 1, name.startswith("pearson")))
    return {name: torch.stack(column) for name, column in found.items()}


def of_loss_gradients(model, x, labels, weight_decay, loss):
    """From the gradient of each sample's loss in what the layer is given, the first of the formulas."""
    found = {name: [] for name in ("residual", "pearson", "cosine", "pearson_root")}
    for place, layer in enumerate(model):
        if isinstance(layer, nn.Linear):
            said = torch.zeros(layer.in_features, layer.in_features, dtype=torch.float64)
            for sample, label in zip(x, labels, strict=True):
                given = model[:place](sample[None]).detach().requires_grad_()
                target = nn.functional.one_hot(label, model[-1].out_features).double()
                value = ((model[place:](given)[0] - target) ** 2).mean()
                (gradient,) = torch.autograd.grad(value, given)
                said -= torch.outer(gradient[0], given[0].detach()) / (weight_decay * len(x))
            gram = layer.weight.detach().mT @ layer.weight.detach()
            values, vectors = torch.linalg.eigh(said @ said.mT)
            apart = math.dist(gram.flatten(), said.flatten())
            found["residual"].append(apart / (math.hypot(*gram.flatten()) + math.hypot(*said.flatten())))
            matrices = (said, True), (said, False), ((vectors * values.clamp_min(0).sqrt()) @ vectors.mT, True)
            for name, (matrix, centred) in zip(("pearson", "cosine", "pearson_root"), matrices, strict=True):
                found[name].append(float(correlation(layer.weight.detach(), matrix, 1, centred)))
    return {name: torch.tensor(column, dtype=torch.float64) for name, column in found.items()}


def rank(agop):
    values = torch.linalg.eigvalsh(agop).tolist()
    return torch.tensor(sum(values) / max(values), dtype=torch.float64)


def one_after_the_other(agop, k):
    """By power iteration, each direction taken out before the next."""
    values, vectors = [], []
    for _ in range(k):
        vector = torch.ones(len(agop), dtype=agop.dtype)
        for _ in range(5000):
            vector = agop @ vector / (agop @ vector).norm()
        vector = vector * vector[vector.abs().argmax()].sign()
        values.append(vector @ agop @ vector)
        vectors.append(vector)
        agop = agop - values[-1] * torch.outer(vector, vector)
    return {"values": torch.stack(values), "vectors": torch.stack(vectors)}


def turned(arguments):
    turn = torch.linalg.qr(arguments["agop"])[0]
    return {"agop": turn.mT @ arguments["agop"] @ turn}


ROWS = [
    Contract(
        gnomon.agop,
        outer,
        lambda s: {"jacobian": s.normal("n", "k", 2, 3)},
        invariances={"sign": scaled(jacobian=-1.0), "samples": lambda a: {"jacobian": a["jacobian"].flip(0)}},
    ),
    Contract(
        gnomon.effective_rank,
        rank,
        lambda s: {"agop": s.square()},
        (1, 4),
        {"scale": scaled(agop=7.0), "rotation": turned},
    ),
    Contract(
        gnomon.top_eigenvectors,
        one_after_the_other,
        lambda s: {"agop": s.square(), "k": 2},
        settings=("k",),
    ),
    Contract(
        gnomon.nfa_correlation,
        correlation,
        lambda s: {"layer_weight": s.normal("p", "d"), "agop": s.square()},
        (-1, 1),
        {
            "scale": scaled(layer_weight=-7.0, agop=1e-3),
            "outputs": lambda a: a | {"layer_weight": a["layer_weight"].flip(0)},
        },
        zero=False,  # the root has no gradient there
    ),
    Contract(
        gnomon.fact_table,
        of_loss_gradients,
        lambda s: {
            "model": s.network(),
            "x": s.normal("n", "d"),
            "labels": s.labels(),
            "weight_decay": 0.1,
            "loss": "mse",
        },
        differentiable=False,
        dtype=torch.float64,
        settings=("weight_decay", "loss"),
    ),
    Contract(
        gnomon.nfa_table,
        table,
        lambda s: {"model": s.network(), "x": s.normal("n", "d")},
        differentiable=False,
        dtype=torch.float64,
    ),
]
