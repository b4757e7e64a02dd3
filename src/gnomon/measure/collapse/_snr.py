"""The class means in units of the spread within classes: the signal-to-noise ratio."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx

from gnomon._precision import half_as_single
from gnomon.errors import RangeError
from gnomon.linalg import Dense, Factored, gram_eigenvectors, marker, once
from gnomon.measure._least_squares import spreads
from gnomon.measure._moments import ClassMoments


@half_as_single
def snr(class_moments: ClassMoments) -> Float[Tensor, "p k"]:
    r"""The signal-to-noise ratio matrix, whose columns are the class means of the renormalised features.

    Reading:
        Low, high: Not a single number: look at the cosines between its columns, which in a simplex are all equal.
        Generalising: On training digits their standard deviation is 0.13 with true labels (96 % accuracy on unseen
            digits), 0.37 from a large initialisation (84 %).
        Misleads: Shuffled labels come close, 0.17. Where the spread within classes vanishes in a direction it is
            infinite.

    $\Sigma_W^{-1/2}\bar M$, the columns of $\bar M$ being $\mu_c - \mu_G$, with the symmetric root

    Directions in which features and their means are all constant, as for dead units, are left out by the pseudo-inverse
    root. Where only the spread within classes vanishes the ratio is infinite, and that is an error.

    Source:
        Han, Papyan, Donoho, arXiv:2106.02073, equation 8. For unequal classes the global mean is the mean over samples.
    Args:
        class_moments: the class moments of the features.
    Returns:
        Unit: class means per within-class standard deviation. A column is 0 where a class has no samples. The mean over
        samples of its columns is zero. Rotated by rotations of the features; its singular values are invariant under
        every invertible affine map. Differentiable once, for spreads of constant rank; a
        second derivative is an error.
    Raises:
        RangeError: if means differ by more than rounding, the root of the dtype's epsilon, in a direction in which
            samples of a class do not; always if there are fewer samples than features.
    Cost: O(p³). Precision: relative to the largest ratio, at most the epsilon times the condition number of Σ_W with
        every feature at spread 1; directions in which this matrix has eigenvalues below p epsilons of the largest count
        as constant, as do features that vary by no more than rounding.
    Example:
        >>> import torch, gnomon
        >>> h = torch.tensor([[-2.0], [0.0], [4.0], [6.0]])
        >>> gnomon.snr(gnomon.class_moments(h, torch.tensor([0, 0, 1, 1]), 2))
        tensor([[-3.,  3.]])
    """
    within, means = class_moments.within_covariance, class_moments.centred_means
    if isinstance(within, Factored):
        raise RangeError(
            "class_moments",
            f"more samples than features, of which there are {means.shape[1]}",
            "fewer",
            "Take more samples, or project the features first.",
        )
    eps, dtype = torch.finfo(means.dtype).eps, means.dtype
    # In float64, as a narrow feature beside a wide one has an eigenvalue below the rounding of the largest.
    within, means = within.to(torch.float64), means.double()
    rounding = eps * torch.linalg.vector_norm(class_moments.means.detach(), dim=0)
    covariance, rank = of_rank(within, eps, rounding)
    root, kept = _inverse_root(covariance, marker(covariance), rank)
    scale = spreads(within, [means.detach()], rounding)
    lost = torch.linalg.vector_norm((means - means @ kept).detach() / scale)
    if lost > eps**0.5 * torch.linalg.vector_norm(means.detach() / scale):
        raise RangeError(
            "class_moments",
            "class means that differ only where samples of a class do",
            f"a within-class covariance of rank {rank} of {len(kept)}, and means beyond it",
            "The ratio is infinite there; take more samples or fewer features.",
        )
    return (root @ means.mT).to(dtype)


def of_rank(within: Dense, eps: float, rounding: Float[Tensor, "p"]) -> tuple[Float[Tensor, "p p"], int]:
    """The covariance on the range that it has with every feature at spread 1, and that range's dimension.

    What rounding adds beyond it may be larger, along wide features, than the variance of a narrow one. The gradient is
    that of the whole.
    """
    spread = within.diagonal().detach().sqrt()
    varies = spread > rounding
    rows = within.over(torch.where(varies, spread, torch.inf)).spanning(eps).detach() * torch.where(varies, spread, 0)
    basis, _ = torch.linalg.qr(rows.mT)
    range_of = basis @ basis.mT
    matrix = within.matrix
    return matrix - (matrix - range_of @ matrix @ range_of).detach(), len(rows)


class _InverseRoot(torch.autograd.Function):
    r"""$\Sigma^{-1/2}$ on the range of $\Sigma$, 0 beyond, and the projection onto that range.

    The gradient of the root contains divided differences of $\lambda^{-1/2}$, not the $1/(\lambda_i - \lambda_j)$ of
    single eigenvectors, which are infinite for renormalised features, whose eigenvalues are all one.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, matrix: Tensor, mark: Tensor, rank: int) -> tuple[Tensor, Tensor]:
        """Root and projection; eigenvalues beyond the rank are rounding."""
        values, vectors = gram_eigenvectors(matrix)
        kept = (torch.arange(len(values), device=values.device) >= len(values) - rank) & (values > 0)
        scale = torch.where(kept, values.rsqrt(), 0)
        projection = (vectors * kept) @ vectors.mT
        ctx.save_for_backward(scale, vectors, mark)
        ctx.mark_non_differentiable(projection)
        return (vectors * scale) @ vectors.mT, projection

    @staticmethod
    @once("the inverse root of a covariance (snr)")
    def backward(ctx: FunctionCtx, saved: tuple[Tensor, ...], grad: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        """The divided differences; with s the inverse roots, -s_i² s_j²/(s_i + s_j), and s_i³ towards the kernel."""
        scale, vectors, _ = saved
        a, b = scale.unsqueeze(1), scale.unsqueeze(0)
        both = (a > 0) & (b > 0)
        divided = torch.where(both, -((a * b) ** 2) / (a + b), a**3 + b**3)
        return vectors @ (divided * (vectors.mT @ grad @ vectors)) @ vectors.mT, None, None


_inverse_root: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]] = _InverseRoot.apply
