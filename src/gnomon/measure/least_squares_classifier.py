"""The linear classifier of least MSE for given features."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.measure.class_moments import ClassMoments


@full_precision
def least_squares_classifier(
    class_moments: ClassMoments, weight_decay: float | int = 0.0, *, with_bias: bool = True
) -> tuple[Float[Tensor, "k p"], Float[Tensor, "k"]]:
    r"""The weight and bias that minimise the MSE of one-hot labels, with weight decay.

    $\mathcal L(W, b) = \frac1{2n}\sum_i\|Wh_i + b - e_{y_i}\|^2 + \frac\lambda2\big(\|W\|_F^2 + \|b\|^2\big)$

    With $w_c = n_c/n$ and $\theta = \frac{\lambda}{1+\lambda}$, or $\theta = 1$ without bias,
    $W_{LS} = \Big(\sum_c w_c\,e_c(\mu_c - \mu_G)^\top + \theta w\mu_G^\top\Big)
    \big(\Sigma_W + \Sigma_B + \theta\mu_G\mu_G^\top + \lambda I\big)^{-1}$ and
    $b_{LS} = \frac{w - W_{LS}\,\mu_G}{1 + \lambda}$

    This is the paper's extended form with the bias eliminated: centred, so that large means cost no digits. Its loss
    sums squares over outputs. `torch.nn.MSELoss` averages over them, and torch's optimisers add $\mathrm{wd}\,W$ to
    the gradient: a network trained so descends $\frac2k\mathcal L$ with $\lambda = k\,\mathrm{wd}/2$. (The authors'
    notebook decomposes with $\lambda = \mathrm{wd}/2$, right for the squared norm averaged over samples alone.)

    Source:
        Han, Papyan, Donoho, arXiv:2106.02073, proposition 1. Departs from it in the weights $w_c$ for unequal classes,
        where $1/C$ is not the minimiser (docs/errata.md).
    Args:
        class_moments: those of the last layer's inputs, of the samples over which the loss is averaged.
        weight_decay: λ of the loss above, on weight and bias alike; from 0 on.
        with_bias: whether there is a bias to choose.
    Returns:
        Weight and bias; unit: 1 per feature, and 1. The bias is zero where there is none. Without weight decay the
        predictions are unchanged by every invertible linear map of the features, with bias by every affine one. Where
        features do not span all dimensions and there is no weight decay, the minimiser of least norm (with bias: of
        least norm of W).
    Raises:
        RangeError: if the weight decay is negative or not finite.
    Cost: O(p³), or O(n² p) where the scatter is held as rows, n < p; no p x p matrix is made then. Precision: without
        weight decay, directions of variance below p epsilons of the largest are taken as not there.
    Example:
        >>> import torch, gnomon
        >>> h = torch.tensor([[-1.0], [1.0]])
        >>> gnomon.least_squares_classifier(gnomon.class_moments(h, torch.tensor([0, 1]), 2))
        (tensor([[-0.5000],
                [ 0.5000]]), tensor([0.5000, 0.5000]))
    """
    decays("least_squares_classifier", weight_decay)
    shares, mean = class_moments.weights, class_moments.global_mean
    theta = weight_decay / (1 + weight_decay) if with_bias else 1.0
    root = shares.sqrt().unsqueeze(1)
    rows = torch.cat([root * class_moments.centred_means, math.sqrt(theta) * mean.unsqueeze(0)])
    targets = torch.cat([root.flatten().diag(), math.sqrt(theta) * shares.unsqueeze(0)])
    covariance = class_moments.within / class_moments.n.to(shares.dtype)
    weight = targets.mT @ covariance.regression(rows, weight_decay)
    offset = (shares - weight @ mean) / (1 + weight_decay)
    return weight, offset if with_bias else torch.zeros_like(offset)


def decays(where: str, weight_decay: float | int) -> None:
    """Raises RangeError unless the weight decay is finite and not negative."""
    _checks.settings(where, ("weight_decay", weight_decay, "finite and at least 0", 0 <= weight_decay < math.inf))
