"""Samples to which noise is added each time that they are taken."""

import random

import numpy as np
import torch
from torch.utils.data import Dataset

X, LABELS = torch.randn(12, 5, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3


class Noisy(Dataset):
    """Augmented by all the random numbers that there are."""

    def __init__(self):
        self.generator, self.draws = torch.Generator().manual_seed(0), random.Random(0)

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        noise = torch.rand(5, generator=self.generator) + self.draws.random() + random.random() + np.random.rand()
        return X[i] + noise + torch.rand(5), LABELS[i]
