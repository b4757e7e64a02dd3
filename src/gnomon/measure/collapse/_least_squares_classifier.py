"""The linear classifier with the least MSE for given features."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure._least_squares import decays, fitted
from gnomon.measure._moments import ClassMoments


@dataclass(frozen=True)
class LinearClassifier:
    """A linear layer from p features to k outputs.

    Attributes:
        weight: W, one row per class; unit: 1 per feature.
        bias: b; unit: 1.
    """

    weight: Float[Tensor, "k p"]
    bias: Float[Tensor, "k"]


@half_as_single
def least_squares_classifier(
    class_moments: ClassMoments, *, weight_decay: float | int = 0.0, with_bias: bool = True
) -> LinearClassifier:
    r"""The weight and bias that minimise the MSE of one-hot labels, with weight decay.

    Reading:
        Low, high: Not a single number: compare the network's own classifier with it, by cosine or by
            `central_path_distance`.
        Generalising: On training digits the cosine is 0.96 with true labels (96 % accuracy on unseen digits), 0.73 from
            a large initialisation (84 %).
        Misleads: Shuffled labels come closer, 0.99. Until the learning rate falls, a network need not come close to it
            (mse-collapse).

    $\mathcal L(W, b) = \frac1{2n}\sum_i\|Wh_i + b - e_{y_i}\|^2 + \frac\lambda2\big(\|W\|_F^2 + \|b\|^2\big)$

    With $w_c = n_c/n$ and $\theta = \frac{\lambda}{1+\lambda}$, or $\theta = 1$ without bias,
    $W_{LS} = \Big(\sum_c w_c\,e_c(\mu_c - \mu_G)^\top + \theta w\mu_G^\top\Big)
    \big(\Sigma_W + \Sigma_B + \theta\mu_G\mu_G^\top + \lambda I\big)^{-1}$ and
    $b_{LS} = \frac{w - W_{LS}\,\mu_G}{1 + \lambda}$

    This is the paper's extended form with the bias eliminated: centred, and in float64, so that large means cost no
    more digits than they cost the moments. Its loss sums squares over outputs. `torch.nn.MSELoss` averages over them,
    and torch's optimizers add $\mathrm{wd}\,W$ to the gradient: a network trained this way descends $\frac2k\mathcal L$
    with $\lambda = k\,\mathrm{wd}/2$. (The authors' notebook decomposes with $\lambda = \mathrm{wd}/2$, which is right
    for the squared norm averaged over samples alone.)

    Source:
        Han, Papyan, Donoho, arXiv:2106.02073, proposition 1. Departs from it in the weights $w_c$ for unequal classes,
        where $1/C$ is not the minimiser (docs/errata.md).
    Args:
        class_moments: the class moments of the last layer's inputs, of the samples over which the loss is averaged.
        weight_decay: λ of the loss above, on weight and bias alike; at least 0.
        with_bias: whether the classifier has a bias.
    Returns:
        Weight and bias; the bias is zero where there is none. Without weight decay the predictions at these samples are
        invariant under every invertible linear map of the features, and with a bias under every affine one. Where
        features do not span all dimensions and there is no weight decay, the minimiser of least norm (with a bias: of
        least norm of W).
    Raises:
        RangeError: if the weight decay is negative or not finite, or if squares of the features are beyond float64.
    Cost: O(p³), or O(n² p) where the scatter is stored as rows, n < p; no p x p matrix is formed then; and O(k³).
        Precision: features are judged by their spreads within classes, so that a wide one hides none of the others.
        Without weight decay, features that vary by no more than rounding, and combinations of features with a variance
        below p epsilons of the largest, both at spread 1, are left out unless the means differ along them by ten times
        more. A weight decay below 1e-12 of a feature's variance times p, or in float32, with a scatter stored in full,
        below 1e-7 of it, counts as this for that feature.
    Example:
        >>> import torch, gnomon
        >>> h = torch.tensor([[-1.0], [1.0]])
        >>> best = gnomon.least_squares_classifier(gnomon.class_moments(h, torch.tensor([0, 1]), 2))
        >>> best.weight, best.bias
        (tensor([[-0.5000],
                [ 0.5000]]), tensor([0.5000, 0.5000]))
    """
    decays(weight_decay)
    weight, offset = fitted(class_moments, weight_decay, with_bias=with_bias)
    return LinearClassifier(weight.to(class_moments.means.dtype), offset.to(class_moments.means.dtype))
