"""MNIST as the GrokAlign papers take it: the first digits of each split, normalised, as rows of pixels."""

import torch

from gnomon.data import Samples, load_images, normalise
from gnomon_lab.runs import Run

MEAN, DEVIATION = 0.1307, 0.3081
"""Of all training pixels."""


def mnist_rows(run: Run, split: str, samples: int, dtype: torch.dtype) -> Samples:
    """The first digits of a split, "train" or "test", as rows of 784 normalised pixels."""
    images = normalise(load_images("mnist", split, data_dir=run.data_dir, limit=samples), MEAN, DEVIATION)
    return Samples(images.x.flatten(1).to(dtype), images.labels)
