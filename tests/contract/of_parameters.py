"""Of the weights alone."""

import torch

import gnomon
from tests.contract.row import Contract, orthogonal


def entry_by_entry(parameters):
    entries = [entry for parameter in parameters.values() for entry in parameter.flatten().tolist()]
    return torch.tensor(sum(entry**2 for entry in entries) ** 0.5, dtype=torch.float64)


def turned(a):
    return a | {"parameters": {name: orthogonal(len(part)) @ part for name, part in a["parameters"].items()}}


ROWS = [
    Contract(
        gnomon.parameter_norm,
        entry_by_entry,
        lambda s: {"parameters": dict(s.network(bias=False).named_parameters())},
        (0, torch.inf),
        {"rotation": turned},
        differentiable=False,
        halves=False,
    )
]
