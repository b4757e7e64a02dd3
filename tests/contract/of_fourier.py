"""Of the waves that networks which add residues compute with."""

import torch
from torch.nn.functional import cross_entropy

import gnomon
from tests.contract.row import Contract


def by_projection(logits, labels, trained):
    """Onto each wave in the sum of a pair, over all pairs."""
    p, parts = logits.shape[1], []
    for k in range(1, p // 2 + 1):
        angle = 2 * torch.pi * k / p * labels.double()
        waves = [wave / wave.norm() for wave in (angle.cos(), angle.sin()) if wave.norm() > 1e-6]
        parts.append(sum(torch.outer(wave, wave @ logits) for wave in waves))
    sizes = torch.stack([part.square().sum() for part in parts])
    kept = sum(part for part, size in zip(parts, sizes, strict=True) if size >= (1 - 1e-9) * sizes.mean())
    restricted = cross_entropy(kept + logits.mean(0), labels)
    excluded = cross_entropy((logits - kept)[trained], labels[trained])
    return {"restricted": restricted, "excluded": excluded, "shares": sizes / sizes.sum()}


def all_pairs(s):
    """Of k residues."""
    of_pairs = torch.arange(s.sizes.k**2)
    return {
        "logits": s.normal(len(of_pairs), "k"),
        "labels": of_pairs % s.sizes.k,
        "trained": of_pairs < len(of_pairs) / 2,
    }


ROWS = [
    Contract(
        gnomon.fourier_losses,
        by_projection,
        all_pairs,
        invariances={
            "order": lambda a: {name: value.flip(0) for name, value in a.items()},
            "constant": lambda a: a | {"logits": a["logits"] + 7},
        },
        zero=False,
        settings=("trained",),
    ),
]
