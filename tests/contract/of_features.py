"""Of what a layer puts out."""

import math

import torch

import gnomon
from tests.contract.row import Contract, loop, rotated, scaled


def rectified(s):
    """As behind a ReLU, with a unit that is never awake."""
    features = s.features().relu()
    features[:, 0] = 0
    return {"features": features}


def share_of_zeros(row):
    values = row.tolist()
    return sum(value == 0 for value in values) / len(values)


def never_awake(features):
    columns = zip(*features.tolist(), strict=True)
    return torch.tensor(sum(not any(column) for column in columns) / features.shape[1], dtype=torch.float64)


def perplexity(features):
    """From the eigenvalues of the Gram matrix, by way of their roots."""
    gram = features @ features.mT if len(features) < features.shape[1] else features.mT @ features
    values = [math.sqrt(max(value, 0)) for value in torch.linalg.eigvals(gram).real.tolist()]
    shares = [value / math.fsum(values) for value in values]
    return torch.tensor(math.exp(-math.fsum(p * math.log(p) for p in shares if p > 0)), dtype=torch.float64)


def of_features(s):
    return {"features": s.features()}


TURNED, STRETCHED = rotated("features"), scaled(features=-1e3)

ROWS = [
    Contract(
        gnomon.feature_norm, loop(lambda row: math.hypot(*row.tolist())), of_features, (0, math.inf), {"turn": TURNED}
    ),
    Contract(
        gnomon.activation_sparsity,
        loop(share_of_zeros),
        rectified,
        (0, 1),
        {"scale": STRETCHED},
        differentiable=False,
        zero=False,
        unit_free=False,
    ),
    Contract(gnomon.dead_units, never_awake, rectified, (0, 1), {"scale": STRETCHED}, differentiable=False, zero=False),
    Contract(gnomon.rank_me, perplexity, of_features, (1, 5), {"turn": TURNED, "scale": STRETCHED}),
]
