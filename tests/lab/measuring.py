"""Networks, weights and samples in a folder, and `gnomon measure` called there in this process."""

import os
import sys

import pytest
import torch

from gnomon.models import mlp
from gnomon_lab.cli import main

N, CLASSES = 40, 3
NETS = '''
"""Networks, of which the checkpoints of the tests hold weights."""

import torch
from torch import nn

from gnomon.models import mlp

print("a word at import")


def small():
    return mlp((6, 8, 3), bias=True)


made = small()


def one():
    return mlp((6, 8, 1), bias=True)


def two_logits():
    model = one()
    model[-1].register_forward_hook(lambda layer, x, z: torch.cat([torch.zeros_like(z), z], 1))
    return model


def wide():
    return mlp((6, 9, 3), bias=True)


def deep():
    return mlp((6, 8, 8, 3), bias=True)


def narrow():
    return mlp((5, 8, 3), bias=True)


def one():
    return mlp((6, 8, 1), bias=True)


def two_logits():
    model = one()
    model[-1].register_forward_hook(lambda layer, x, z: torch.cat([torch.zeros_like(z), z], 1))
    return model


def normalised():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def halved():
    return small().half()


class Telling(nn.Sequential):
    def forward(self, x):
        print("TF32:", torch.backends.cudnn.allow_tf32)
        return super().forward(x)


def telling():
    return Telling(*small())


class Merging(nn.Module):
    def __init__(self):
        super().__init__()
        self.whole, self.part = nn.Parameter(torch.randn(3, 6)), nn.Parameter(torch.randn(3, 6))
        self.merged = False

    def train(self, mode=True):
        if mode is self.merged:
            self.whole.data += (-1 if mode else 1) * self.part.data
            self.merged = not mode
        return super().train(mode)

    def forward(self, x):
        return x @ (self.whole if self.merged else self.whole + self.part).T


def merging():
    return Merging()


def headless():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), nn.Tanh())


def drawn():
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)
        self.last.weight = self.first.weight

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


def needy(width):
    return mlp((6, int(width), 3))


def nothing():
    return None


class Refusing(nn.Sequential):
    def forward(self, x):
        raise ValueError("the samples of this network are words")


def refusing():
    return Refusing(*small())


class Raising(nn.Module):
    def forward(self, x):
        raise ValueError("no\\nforward")
'''


class Malicious:
    """Its pickle makes a file where it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return exec, (f"open({str(self.path)!r}, 'w').close()",)


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network():
    return mlp((6, 8, CLASSES), bias=True, generator=torch.Generator().manual_seed(1))


def in_folder(folder, *arguments):
    """`gnomon` in a folder, where a process of its own may go."""
    os.chdir(folder)
    sys.argv = ["gnomon", *arguments]
    main()


def call(monkeypatch, capsys, *arguments, command="measure"):
    """The exit code, and what was printed."""
    monkeypatch.setattr(sys, "argv", ["gnomon", command, *map(str, arguments)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr()
    return stop.value.code, said.out, said.err
