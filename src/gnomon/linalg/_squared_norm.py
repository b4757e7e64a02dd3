"""The squared norm of matrices that are known only by their products, with an interval that contains it."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gnomon.linalg._directions import length
from gnomon.linalg._krylov import ROOM, Krylov
from gnomon.linalg._products import Products

BLOCK = 8
"""Random vectors between two checks of the error, whose products are held in memory together."""
HELD = 3 * (ROOM + BLOCK)
"""Vectors of length c that are in memory together: the basis and these, with copies of each while it is projected."""


@dataclass(frozen=True)
class SquaredNorm:
    """The squared Frobenius norm of each matrix over the square of a scale of its own, with its 95 % interval.

    Attributes:
        scale: in the unit of the norm, not 0.
        value: the estimate.
        low: where the interval begins.
        high: where it ends.
        passes: the number of products for each sample.
    """

    scale: Float[Tensor, "n"]
    value: Float[Tensor, "n"]
    low: Float[Tensor, "n"]
    high: Float[Tensor, "n"]
    passes: Int[Tensor, "n"]

    def relative(self) -> Float[Tensor, "n"]:
        """The factor, minus 1, by which the true value may be above or below the estimate."""
        apart = torch.maximum(self.value / self.low, self.high / self.value) - 1
        return torch.where(self.value > 0, apart, 0)

    def where(self, condition: Bool[Tensor, "n"], other: "SquaredNorm") -> "SquaredNorm":
        """This where the condition holds for a sample, and the other elsewhere."""
        mine, others = vars(self), vars(other)
        return SquaredNorm(**{name: torch.where(condition, mine[name], others[name]) for name in mine})


def squared_norm(
    products: Products, tolerance: Tensor, most: int, known: Krylov | None = None, worth: float | int = torch.inf
) -> SquaredNorm:
    r"""Hutchinson's estimate: for a normal z, the squared length of $z^\top A$ has the squared norm as its mean.

    Where a basis is known, $\|V^\top A\|^2$ is taken from it, and only the remainder is estimated. The mean over m
    vectors is distributed nearly as $\chi^2_\nu/\nu$ with $\nu = m\,(\sum\sigma^2)^2/\sum\sigma^4$: exactly, if all
    singular values other than 0 are equal. $\sum\sigma^4$ is the mean of the squares of
    $\langle z_i^\top A, z_j^\top A\rangle$, and $(\sum\sigma^2)^2$ that of $\|z_i^\top A\|^2\|z_j^\top A\|^2$, of which
    there are more than there are vectors; for a single direction both are the same. $\sum\sigma^6$ is the mean of
    products in a ring of three: it distinguishes few strong directions among many weak ones, see `interval`.

    Source:
        Hutchinson 1990; Satterthwaite 1946 for the distribution; Meyer et al. 2021 (Hutch++) for taking a part exactly,
        Chen and Hallman 2023 for taking it from a Krylov space.
    Args:
        products: the matrices.
        tolerance: the relative error at which it ends, for each sample.
        most: the number of products allowed.
        known: what is known about the matrices.
        worth: if more products than this would be needed, one block is taken and no more.
    """
    n, like = products.shape[0], products.like
    going = torch.ones(n, dtype=torch.bool, device=like.device)
    total, squared, fourth, sixth = like.new_zeros(4, n)
    scale, captured = (known.scale, known.captured) if known else (like.new_ones(n), like.new_zeros(n))
    norm = SquaredNorm(scale, captured, captured, like.new_full((n,), torch.inf), going.long())
    for block in range(max(1, most // BLOCK)):
        z = products.normal(1 + block, BLOCK)
        if known:
            z = z - (z @ known.basis.mT) @ known.basis
        rows = torch.stack([products.left(z[:, j].contiguous()) for j in range(BLOCK)], 1)
        if block == 0 and not known:
            largest = length(rows.flatten(1))
            scale = torch.where(largest > 0, largest, 1)
        rows = rows / scale[:, None, None]
        gram = rows @ rows.mT
        square = gram.diagonal(dim1=1, dim2=2)
        others = gram - torch.diag_embed(square)
        total = total + square.sum(1)
        squared = squared + square.sum(1).square() - square.square().sum(1)
        fourth = fourth + others.square().sum((1, 2))
        sixth = sixth + ((others @ others) * others).sum((1, 2)) / (BLOCK - 2)
        count = (block + 1) * BLOCK
        share = share_of(fourth, squared)
        pairs = count * (BLOCK - 1)
        # With its standard error for this many rings: a strong direction that few vectors have met is estimated poorly.
        largest = share_of(sixth, fourth * (squared / pairs).sqrt()) + (share * 6 / pairs / (BLOCK - 2)).sqrt()
        found = interval(total, share, largest, count, pairs // 2)
        value, low, high = (captured + part for part in found)
        now = SquaredNorm(scale, value, low, high, torch.full_like(norm.passes, count))
        norm = now.where(going, norm)
        error = norm.relative()
        going = going & (error > tolerance) & (count * (error / tolerance).square() <= worth)
        if not going.any():
            break
    return norm


def share_of(part: Float[Tensor, "n"], whole: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """The quotient, at most 1; 1 where rounding leaves nothing of the whole."""
    return torch.where(whole > 0, part / whole, 1).clamp(max=1)


def interval(
    total: Float[Tensor, "n"], share: Float[Tensor, "n"], largest: Float[Tensor, "n"], count: int, pairs: int
) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"], Float[Tensor, "n"]]:
    r"""The mean of this many squared lengths, and where its 95 % interval begins and ends.

    As if d equal directions, with the share $\ell$ each, `largest`, accounted for all that varies:
    $\ell = \sum\sigma^6/(\sum\sigma^4\sum\sigma^2)$ and $d = r/\ell^2$ with r, `share`, make three moments right. The
    estimate of their part is distributed as $\chi^2_{md}/md$ times it, with quantiles after Wilson and Hilferty 1931.
    The share is itself estimated, from so many pairs of vectors, which are as good as independent where many directions
    carry the norm: so quantiles of Student's t replace the normal ones. Where one direction does, the share is 1, for
    any vectors.
    """
    mean = total / count
    largest = torch.maximum(share, torch.minimum(largest, share.sqrt()))
    varies = mean * torch.where(share > 0, share / largest, 0)
    narrow = 2 / (9 * count) * torch.where(share > 0, largest.square() / share, 0)
    width = student(pairs)
    low, high = (mean - varies + varies / (1 - narrow + sign * width * narrow.sqrt()) ** 3 for sign in (1, -1))
    return mean, low, high


def student(degrees: int) -> float:
    """The distance from the centre within which 95 % of Student's t distribution lies."""
    from scipy.special import stdtrit  # SciPy's import takes time: only where it is used

    return float(stdtrit(degrees, 0.975))
