"""How similar the similarity matrices of features now and at initialisation are."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import RangeError
from gnomon.linalg import cka, norm, scaled


@half_as_single
def start_cka(features: Float[Tensor, "n *p"], start: Float[Tensor, "m *q"]) -> Float[Tensor, ""]:
    r"""The linear centred kernel alignment of the features with those at initialisation.

    Reading:
        Low, high: 1: samples are as similar to each other as at the start, as in lazy training. Low: the features are
            learnt.
        Generalising: On digits, from a large initialisation, it falls to 0.37 in a network that generalises, and stays
            at 0.81 in one that memorised.
        Misleads: Features that have nothing in common give values near 1 where there are many more of them than
            samples, 0.95 for 2,000 at 100 samples: compare at the same number of samples. A few wide directions
            dominate it.

    $\dfrac{\|H_0^\top H\|_F^2}{\|H^\top H\|_F\,\|H_0^\top H_0\|_F}$ for the features H and those at the start, $H_0$,
    both centred: the same alignment as in `label_cka`, biased as in the source

    Source:
        Kornblith, Norouzi, Lee, Hinton, arXiv:1905.00414, with the linear kernel.
    Args:
        features: a layer's output for each sample; further axes are flattened.
        start: the same before training, for the same samples in the same order and from the same layer:
            `gnomon.features(model, x).detach()`, with a layer's name after x for another layer. In a probe on these
            samples and this layer, use `functools.partial(start_cka, start=...)`. Their width may differ.
    Returns:
        In [0, 1] up to rounding; 1 for features that scaling, shift and rotation turn into those at the start, and 0
        where all samples coincide, now or then. Invariant under scaling, shift and rotation of either.
    Raises:
        ShapeError: if either has fewer than two axes.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, or if the start does not have the same number of samples.
    Cost: O(n p q), or O(n² (p + q)) where samples are fewer than p or q, and all features of all samples in memory.
    Example:
        >>> import torch, gnomon
        >>> start = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
        >>> gnomon.start_cka(start[:, :1], start)
        tensor(0.7071)
    """
    _checks.samples(features=features)
    _checks.samples(start=start)
    _checks.finite(features=features, start=start)
    if len(start) != len(features):
        # Not a ShapeError, which would be permanent: when a probe is created, it reads only a few samples.
        advice = "Take the features of the same samples at the start."
        raise RangeError("start", f"{len(features)} samples as in features", len(start), advice)
    now, then = _centred(features), _centred(start.to(features.device))
    if max(now.shape[1], then.shape[1]) > len(now):
        return cka(now @ now.mT, then @ then.mT)
    shared = (then.mT @ now).square().sum()
    size = norm((now.mT @ now).flatten()) * norm((then.mT @ then).flatten())
    return torch.where(size > 0, shared / torch.where(size > 0, size, 1), 0)


def _centred(features: Float[Tensor, "n *p"]) -> Float[Tensor, "n _"]:
    """The rows minus their mean, at size one: squares of squares neither overflow nor underflow.

    The first row is subtracted beforehand, so that rows that coincide become exactly zero.
    """
    rows = features.flatten(1)
    rows = scaled(rows / 2 - rows[:1] / 2)  # of half, as differences may overflow
    return rows - rows.mean(0)
