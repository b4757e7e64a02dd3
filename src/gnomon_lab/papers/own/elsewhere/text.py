"""Texts that everybody with the laboratory has: scikit-learn's descriptions of its data sets, in characters."""

from importlib.resources import files

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from gnomon.data import Samples

LETTERS = "\n abcdefghijklmnopqrstuvwxyz0123456789.,:;-()_*'/="
"""All other characters are left out."""
CONTEXT = 32
"""Characters per sample."""
DOCUMENTS = (
    "breast_cancer",
    "california_housing",
    "covtype",
    "diabetes",
    "digits",
    "kddcup99",
    "lfw",
    "rcv1",
    "twenty_newsgroups",
    "wine_data",
)


def document(name: str) -> Tensor:
    """The characters of a description, as their indices in `LETTERS`."""
    written = (files("sklearn.datasets.descr") / f"{name}.rst").read_text(encoding="utf-8").lower()
    return torch.tensor([LETTERS.index(letter) for letter in written if letter in LETTERS])


def windows(text: Tensor, starts: Tensor) -> Tensor:
    """The characters from each start on, as one-hot rows."""
    return one_hot(text[starts[:, None] + torch.arange(CONTEXT)], len(LETTERS)).float()


def next_characters(count: int, unseen: int, generator: torch.Generator) -> tuple[Samples, Samples]:
    """Windows of the first nine tenths of all texts with the character that comes next, and of the rest."""
    text = torch.cat([document(name) for name in DOCUMENTS])
    first = len(text) * 9 // 10
    found = []
    for part, size in ((text[:first], count), (text[first:], unseen)):
        starts = torch.randperm(len(part) - CONTEXT, generator=generator)[:size]
        found.append(Samples(windows(part, starts), part[starts + CONTEXT]))
    return found[0], found[1]


def whose(count: int, unseen: int, generator: torch.Generator) -> tuple[Samples, Samples]:
    """Windows with the document that they are from: from its first half, and from its second."""
    found = []
    for half, size in ((0, count), (1, unseen)):
        x, labels = [], []
        for label, name in enumerate(DOCUMENTS):
            text = document(name)
            part = text[half * len(text) // 2 : (half + 1) * len(text) // 2]
            starts = torch.randint(len(part) - CONTEXT, (size // len(DOCUMENTS),), generator=generator)
            x.append(windows(part, starts))
            labels.append(torch.full((len(starts),), label))
        mixed = torch.randperm(sum(map(len, x)), generator=generator)
        found.append(Samples(torch.cat(x)[mixed], torch.cat(labels)[mixed]))
    return found[0], found[1]
