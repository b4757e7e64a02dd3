"""The data set that needs no download: scikit-learn's 1,797 handwritten digits."""

import torch

from gnomon import _checks
from gnomon._extras import extra
from gnomon._kinds import checked
from gnomon.data._samples import Samples

_SIZE = 1797


@checked
def digits(
    train: int = 500, *, generator: torch.Generator, dtype: torch.dtype = torch.float32
) -> tuple[Samples, Samples]:
    """Real 8 × 8 grey images of the digits 0–9, split at random into train and test.

    Source:
        The test set of the UCI "Optical Recognition of Handwritten Digits", embedded in scikit-learn.

    Args:
        train: number of train samples; the other 1797 − train are the test samples.
        generator: draws the permutation of which the first `train` are taken; its state decides the split.
        dtype: floating-point type of the inputs.

    Returns:
        Train and test samples on the CPU. Inputs of shape (n, 64), rows of pixels one after the other, each an
        integer from 0 (background) to 16: not rescaled, see `standardise`. Labels 0–9, int64.

    Raises:
        RangeError: `train` is not whole and in 1..1796, or `dtype` not of floating point.
        MissingExtraError: the extra `lab` is not installed, or broken.

    Example:
        >>> train, test = digits(500, generator=torch.Generator().manual_seed(0))
        >>> train.x.shape, test.x.shape
        (torch.Size([500, 64]), torch.Size([1297, 64]))
        >>> train.x.min().item(), train.x.max().item()
        (0.0, 16.0)
    """
    _checks.settings(
        _checks.whole_number("train", train, 1, _SIZE - 1),
        ("dtype", dtype, "of floating point", _checks.is_floating(dtype)),
    )
    x, labels = extra("digits", "sklearn.datasets", "lab").load_digits(return_X_y=True)
    order = torch.randperm(_SIZE, generator=generator, device=generator.device).cpu()
    everything = Samples(torch.from_numpy(x).to(dtype)[order], torch.from_numpy(labels).to(torch.int64)[order])
    return (
        Samples(everything.x[:train], everything.labels[:train]),
        Samples(everything.x[train:], everything.labels[train:]),
    )
