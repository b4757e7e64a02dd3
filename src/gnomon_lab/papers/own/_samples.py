"""Training and unseen samples that several experiments of this wing draw."""

import math
from pathlib import Path

import torch
from torch.nn.functional import avg_pool2d, one_hot

from gnomon.data import Samples, modular_addition, normalise
from gnomon_lab.runs.data import load_images

UNSEEN = 2000
"""Samples on which the accuracy is judged, where there are that many."""
Splits = tuple[Samples, Samples]


def images(name: str, count: int, data_dir: Path | None, generator: torch.Generator, *, halved: bool = False) -> Splits:
    """Images of a training set, and of its test set, normalised by the former; `halved` averages 2 x 2 pixels."""
    found = []
    for split, size in (("train", count), ("test", UNSEEN)):
        loaded = load_images(name, split, data_dir=data_dir, limit=5000)
        chosen = torch.randperm(len(loaded.x), generator=generator)[:size]
        x = loaded.x[chosen]
        found.append(Samples(avg_pool2d(x, 2) if halved else x, loaded.labels[chosen]))
    mean, deviation = found[0].x.mean().item(), found[0].x.std().item()
    seen, unseen = (normalise(samples, mean, deviation) for samples in found)
    return seen, unseen


def rows(splits: Splits) -> Splits:
    """The same samples, each as a row."""
    seen, unseen = (Samples(part.x.flatten(1), part.labels) for part in splits)
    return seen, unseen


def sums(prime: int, share: float, generator: torch.Generator) -> Splits:
    """A share of all sums modulo a prime; a token is a one-hot row, the last of three is "="."""
    seen, unseen = (
        Samples(one_hot(part.tokens, prime + 1).float(), part.labels)
        for part in modular_addition(prime, share, generator=generator)
    )
    return seen, unseen


def side_by_side(splits: Splits) -> Splits:
    """The two summands of sums side by side, without the token for "="."""
    seen, unseen = (Samples(part.x[:, :2, :-1].flatten(1), part.labels) for part in splits)
    return seen, unseen


def parities(count: int, signs: int, relevant: int, generator: torch.Generator) -> Splits:
    """Whether the first `relevant` of all signs have an even number of minuses."""

    def draw(size: int) -> Samples:
        x = 2.0 * torch.randint(2, (size, signs), generator=generator) - 1
        return Samples(x, (x[:, :relevant].prod(1) > 0).long())

    return draw(count), draw(UNSEEN)


def split(samples: Samples) -> tuple[Samples, Samples]:
    """The training samples, and a validation split of a tenth as many."""
    held_out = math.ceil(len(samples.x) / 11)
    return (
        Samples(samples.x[:-held_out], samples.labels[:-held_out]),
        Samples(samples.x[-held_out:], samples.labels[-held_out:]),
    )


def scaled(train: Samples, *others: Samples) -> list[Samples]:
    """Each pixel minus its mean over `train`, all divided by one standard deviation: rarely inked pixels stay small."""
    mean = train.x.mean(0)
    deviation = (train.x - mean).square().mean().sqrt().item()
    return [normalise(samples, mean.tolist(), deviation) for samples in (train, *others)]
