"""Quantities estimated from products with the Jacobian instead of computed from its entries."""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import HALF, in_single, narrowed, single
from gnomon._warn import warn
from gnomon.autodiff import FEW_OUTPUTS, JacobianOperator, TapeProducts
from gnomon.linalg import Estimate, Krylov, Products, SquaredNorm, joined, krylov, length, squared_norm

MOST = 256
"""The products that are allowed for each sample by default."""
OF_FIRST = 0.05
"""The first singular value's part of the error: steps reduce it quickly, random vectors that of a norm slowly."""
WORTH = 48
"""If the norm would need more random vectors than this, the directions that carry most of it are computed exactly."""


@dataclass(frozen=True)
class Accuracy:
    """What an estimate may cost.

    Attributes:
        rtol: the relative error at which it stops; at most `passes` products with each Jacobian are computed for it,
            with random vectors that are determined by the `seed`.
    """

    rtol: float | int
    passes: int
    seed: int

    @classmethod
    def of(cls, rtol: float | int, passes: int | None, seed: int) -> "Accuracy":
        """What a user requests.

        Raises:
            RangeError: if one of them is out of range.
        """
        most = MOST if passes is None else passes
        _checks.settings(
            _checks.above_0("rtol", rtol),
            _checks.whole_number("passes", most, 16),
            _checks.whole_number("seed", seed),
        )
        return cls(float(rtol), operator.index(most), operator.index(seed))

    @property
    def of_squares(self) -> float:
        """The relative error that is allowed for squares, so that their roots have the requested one."""
        return (1 + self.rtol) ** 2 - 1


def estimated(
    jacobian: JacobianOperator,
    accuracy: Accuracy,
    exact: Callable[[Float[Tensor, "n c *d"], slice], Float[Tensor, "n *_"]],
    estimate: Callable[[Products, slice], Estimate],
) -> Estimate:
    """A quantity for all samples, by chunks, which come with their places among them: exact where outputs are few."""
    parts: list[Estimate] = []
    start = 0
    for part in jacobian.parts():
        where = slice(start, start + part.shape[0])
        start = where.stop
        if part.shape[1] <= FEW_OUTPUTS:
            matrix = in_single(part.jacobian())
            _checks.finite(jacobian=matrix)
            parts.append(certain(exact(matrix, where), part.shape[1]))
        else:
            parts.append(estimate(products_of(part, accuracy.seed), where))
    return to_dtype(joined(parts), jacobian.dtype)


def norm_of(jacobian: JacobianOperator, accuracy: Accuracy) -> Estimate:
    """The Frobenius norms; kept with the operator, since several quantities need them."""

    def estimate(products: Products, _: slice) -> Estimate:
        known = jacobian.known.get((accuracy, products.first))
        if known is not None and (known.norm.relative() <= accuracy.of_squares).all():
            return norm_from_square(known.norm)
        return norm_from_square(squared_norm_of(products, accuracy))

    jacobian.require_unchanged()
    if accuracy not in jacobian.known:
        jacobian.known[accuracy] = estimated(jacobian, accuracy, lambda matrix, _: length(matrix.flatten(1)), estimate)
    return jacobian.known[accuracy]


def warn_if_inaccurate(
    name: str, estimate: Estimate, accuracy: Accuracy, size: Tensor | None = None, *, fitting: int | None = None
) -> Estimate:
    """The estimate, with a warning if it is less accurate than requested.

    The error is measured relative to the value, or to the largest of several, unless a size is given. Where memory
    limits the passes too, `fitting` is the number that it allows.
    """
    if size is None:
        size = estimate.value if estimate.value.ndim == 1 else estimate.value.amax(1, keepdim=True)
    # Rounding counts as well; and an error whose squares the dtype does not hold, which is NaN.
    beyond = ~(estimate.error <= (accuracy.rtol + 4 * torch.finfo(size.dtype).eps) * size)
    if beyond.any():
        limit = f"{accuracy.passes} passes. Allow more passes."
        if fitting is not None and int(estimate.passes.max()) == fitting < accuracy.passes:
            limit = f"the {fitting} passes that the memory allows. Allow more memory."
        worst = float(torch.where(size > 0, estimate.error / size, 0).max())
        warn(
            f"{name}: expected an error of at most {accuracy.rtol:.2g} of the value, got up to {worst:.2g}, at "
            f"{int(beyond.sum())} of {beyond.numel()} values, within {limit}",
        )
    return estimate


def squared_norm_of(products: Products, accuracy: Accuracy) -> SquaredNorm:
    """The squared norms, for norms to this accuracy: by random vectors alone where few of them suffice.

    Hutch++ and XTrace spend products on a space in any case: after the same number of products they are up to twice as
    far off where many directions carry the norm, and no closer where few do, since a space is then found here too
    (benchmarks/norm.py).
    """
    tolerance = products.like.new_full((products.shape[0],), accuracy.of_squares)
    plain = squared_norm(products, tolerance, accuracy.passes, worth=WORTH)
    open_ = plain.relative() > tolerance
    rest = accuracy.passes - int(plain.passes.max())
    if not open_.any() or rest < 16:
        return plain
    known = krylov(products, 1, accuracy.rtol / 10, rest // 2)
    deflated = squared_norm(products, tolerance, rest - int(known.passes.max()), known)
    better = open_ & (deflated.relative() < plain.relative())
    spent = torch.where(open_, plain.passes + known.passes + deflated.passes, plain.passes)
    found = deflated.where(better, plain)
    return SquaredNorm(found.scale, found.value, found.low, found.high, spent)


@dataclass(frozen=True)
class FirstAndNorm:
    """The first singular values and the norms, as accurate as their quotient needs, to whose error both contribute.

    Attributes:
        first: the square of the first value over that of the norm's scale: the middle of its interval, since nothing
            says where between the bounds it lies.
        apart: the factor by which it may be larger or smaller.
        norm: the squared norm; its passes are those of both.
    """

    first: Float[Tensor, "n"]
    apart: Float[Tensor, "n"]
    norm: SquaredNorm

    @classmethod
    def of(cls, products: Products, accuracy: Accuracy) -> "FirstAndNorm":
        """From products."""
        known = krylov(products, 1, accuracy.rtol * OF_FIRST, accuracy.passes // 2)
        rest = accuracy.passes - int(known.passes.max())
        return cls.beside(known, accuracy.rtol, lambda tolerance: squared_norm(products, tolerance, rest, known))

    @classmethod
    def beside(
        cls, known: Krylov, rtol: float | int, norm_to: Callable[[Float[Tensor, "n"]], SquaredNorm]
    ) -> "FirstAndNorm":
        """From the known singular value, and the norm computed to a tolerance."""
        first, error = known.values[:, 0] / known.scale, known.errors[:, 0] / known.scale
        apart = torch.where(first > 0, (first + error) / first, 1)
        norm = norm_to(((1 + rtol) / apart - 1).clamp_min(rtol / 4))
        return cls(first.square() * apart, apart, replace(norm, passes=known.passes + norm.passes))

    @classmethod
    def kept(cls, jacobian: JacobianOperator, products: Products, accuracy: Accuracy) -> "FirstAndNorm":
        """The values of a chunk of an operator, which keeps them: several quantities follow from them."""
        key = accuracy, products.first
        if key not in jacobian.known:
            jacobian.known[key] = cls.of(products, accuracy)
        found: FirstAndNorm = jacobian.known[key]
        return found

    def share(self) -> Estimate:
        """The share of the first singular value's square in the squared norm."""
        positive = self.norm.value > 0
        return self._estimate(lambda first, squared: torch.where(positive, first / squared, 0).clamp(max=1))

    def stable_rank(self) -> Estimate:
        """The squared norm over the first singular value's square."""
        positive = self.first > 0
        return self._estimate(lambda first, squared: torch.where(positive, (squared / first).clamp(min=1), 0))

    def _estimate(self, quotient: Callable[[Tensor, Tensor], Tensor]) -> Estimate:
        """A quotient of the two squares, which is farthest off where one is at its least and the other at its most."""
        norm, value = self.norm, quotient(self.first, self.norm.value)
        ends = quotient(self.first / self.apart, norm.high), quotient(self.first * self.apart, norm.low)
        return Estimate(value, torch.maximum(*((end - value).abs() for end in ends)), norm.passes)


def first_values(products: Products, k: int, accuracy: Accuracy) -> Estimate:
    """The first k singular values."""
    known = krylov(products, k, accuracy.rtol, accuracy.passes)
    return Estimate(known.values, known.errors, known.passes)


def norm_from_square(norm: SquaredNorm) -> Estimate:
    """The norm itself, with its error."""
    value = norm.value.sqrt()
    error = torch.maximum(norm.high.sqrt() - value, value - norm.low.sqrt())
    return Estimate(norm.scale * value, norm.scale * error, norm.passes)


def certain(value: Float[Tensor, "n *_"], passes: int) -> Estimate:
    """A value that is known without an error, from this many passes."""
    return Estimate(value, torch.zeros_like(value), torch.full((len(value),), passes, device=value.device))


def to_dtype(estimate: Estimate, dtype: torch.dtype) -> Estimate:
    """The same estimate in the dtype of the network's outputs.

    Raises:
        RangeError: if that cannot hold it.
    """
    if dtype in HALF:
        estimate = cast(Estimate, narrowed(estimate, {estimate.value.dtype, estimate.error.dtype}, dtype))
    value = estimate.value.to(dtype)
    _checks.held("jacobian", "an estimate", value)
    return Estimate(value, estimate.error.to(dtype), estimate.passes)


def products_of(part: TapeProducts, seed: int) -> Products:
    """A chunk's products, with inputs as vectors, in float32 at least: half precision has no decompositions."""
    n, c, *d = part.shape
    dtype = part.tape.logits.dtype
    like = part.tape.x.new_empty(0, dtype=single(dtype))
    return Products(
        (n, c, math.prod(d)),
        like,
        lambda u: part.right(u.to(dtype).view(n, *d)).to(like),
        lambda v: part.left(v.to(dtype)).reshape(n, -1).to(like),
        part.first,
        seed,
    )
