"""Deep RFM with kernels and features that are linear apart from a ridge: the recursion on Gram matrices, solved."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from gnomon import _checks
from gnomon._precision import full_precision, single
from gnomon.errors import ConvergenceError, RangeError, ShapeError, public
from gnomon.linalg import identity

STEPS = 10_000
"""How often the scalar map is iterated for a fixed point, at most."""


@dataclass(frozen=True)
class LinearDeepRFMRun:
    r"""The recursion, layer by layer.

    Attributes:
        factors: (l n k), $F_l$ with $\tilde G_l = F_lF_l^\top$, for the layers 2 to L + 1.
        distance: (l), $\|\tilde G_l - yy^\top\|_2$, the largest singular value.
        to_limit: (l), $\|\tilde G_l - g\,yy^\top\|_2$, with the fixed point's factor g.
    """

    factors: Float[Tensor, "l n k"]
    distance: Float[Tensor, "l"]
    to_limit: Float[Tensor, "l"]


class LinearDeepRFM:
    r"""The recursion of theorem 4.3, in which deep neural collapse can be proved.

    $\tilde G_{l+1} = \kappa^{-1}P_l\,yy^\top P_l$, $\quad P_l = A_l(A_l + \lambda_kI)^{-1}$,
    $\quad A_l = \tilde G_l + \lambda_\Phi I$

    from $A_1 = G$, the Gram matrix of the data. Here $P_ly$ are the outputs on the data of the linear part of a
    ridgeless kernel machine with $k(X) = A + \lambda_kI$, and y are the one-hot labels (n k). All layers after the
    first have rank k and are kept as factors.

    With N samples per class, $yy^\top$ has the eigenvalue N with multiplicity k. It is a fixed point exactly for
    $\kappa = \big(\frac{N + \lambda_\Phi}{N + \lambda_\Phi + \lambda_k}\big)^2$, "exact", and near it distances shrink
    by `rate` per layer, with no remainder. Where $\lambda_k$ is large the recursion has a second fixed point, a small
    multiple of $yy^\top$, and may converge to that. The paper's $\kappa = 1 - 2\lambda_k(1 + \lambda_\Phi^{-1})$,
    "printed", comes from an error in its use of lemma B.2; with it the limit is $g\,yy^\top$, also collapsed, but at a
    distance of order $\lambda_k$. At $\lambda_k = 0$ both are 1, and one layer collapses any data. At
    $\lambda_\Phi = 0$, without nonlinear features, the range of the Gram matrix stays that of the second layer: what
    differs within classes there stays, and nothing collapses further.

    Source:
        Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728, theorem 4.3, lemma B.2 and section B.1. Departs from it
        in $\kappa$ and the rate (docs/errata.md).
    Args:
        gram: $X_1^\top X_1$ of the data, (n n), symmetric and positive semi-definite; positive definite if
            `kernel_ridge` is 0. All results are in its dtype, those of half precision in float32.
        labels: the classes, all equally frequent.
        kernel_ridge: $\lambda_k$, what the kernel adds to the diagonal; at least 0.
        feature_ridge: $\lambda_\Phi$, what the random features add; at least 0, and above 0 where `kernel_ridge` is 0
            or for "printed".
        scaling: $\kappa$, "exact" or "printed".
    Attributes:
        target: y, (n k).
        kappa: $\kappa$.
    Raises:
        ShapeError: if gram is not (n n) or labels not (n).
        EmptyError: if gram has no entries.
        RangeError: at NaN or infinity, at a gram that is not as described, beyond n single-precision epsilons of its
            largest entry; at settings out of range, if classes differ in size, or for "printed" if its $\kappa$ is not
            above 0.
        ConvergenceError: from `fixed_point`, `rate` and `run`, if the map of its scalar does not settle.
    Example:
        >>> import torch, gnomon
        >>> gram, labels = torch.eye(6, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 0, 1])
        >>> rfm = gnomon.LinearDeepRFM(gram, labels, kernel_ridge=0.1, feature_ridge=1.0)
        >>> round(rfm.rate(), 4), float(rfm.run(20).distance[-1]) < 1e-12  # 0.1 * 3 / (4 * 1.1)
        (0.0682, True)
        >>> linear = gnomon.LinearDeepRFM(gram, labels, kernel_ridge=0.0, feature_ridge=1.0)
        >>> float(linear.run(1).distance) < 1e-12
        True
    """

    @full_precision
    def __init__(
        self,
        gram: Float[Tensor, "n n"],
        labels: Int[Tensor, "n"],
        *,
        kernel_ridge: float | int,
        feature_ridge: float | int,
        scaling: Literal["exact", "printed"] = "exact",
    ) -> None:
        _checks.samples(gram=gram)
        _checks.finite(gram=gram)
        if gram.shape != (len(gram), len(gram)) or labels.shape != gram.shape[:1]:
            raise ShapeError(
                "gram",
                "(n, n) and labels (n,)",
                f"{_checks.shape_of(gram)} and {_checks.shape_of(labels)}",
                "Pass X @ X.T of the samples in rows, and one label per sample.",
            )
        if labels.is_floating_point() or labels.is_complex():
            raise RangeError("labels", "whole numbers", labels.dtype, "Pass one class per sample.")
        classes, places, counts = torch.unique(labels, return_inverse=True, return_counts=True)
        self.samples = int(counts[0])
        printed = 1 - 2 * kernel_ridge * (1 + 1 / feature_ridge) if feature_ridge > 0 else -math.inf
        least = "at least 0, above 0 without a kernel_ridge"
        _checks.settings(
            _checks.at_least_0("kernel_ridge", kernel_ridge),
            (
                "feature_ridge",
                feature_ridge,
                f"finite and {least}",
                0 <= feature_ridge < math.inf and feature_ridge + kernel_ridge > 0,
            ),
            ("scaling", scaling, "'exact' or 'printed'", scaling in ("exact", "printed")),
            ("sizes of classes", counts.tolist(), "equal", len(set(counts.tolist())) == 1),
            (
                "printed kappa",
                printed,
                "above 0 (take a smaller kernel_ridge, or a feature_ridge)",
                scaling != "printed" or printed > 0,
            ),
        )
        self.gram = gram.to(single(gram.dtype), copy=True)
        _check_gram(self.gram.detach(), torch.finfo(gram.dtype).eps, kernel_ridge)
        self.kernel_ridge, self.feature_ridge = float(kernel_ridge), float(feature_ridge)
        self.target = functional.one_hot(places, len(classes)).to(self.gram.dtype)
        exact = self.shrinkage(self.samples) ** 2
        self.kappa = exact if scaling == "exact" else printed

    def shrinkage(self, eigenvalue: float | int) -> float:
        r"""The eigenvalue $\frac{m + \lambda_\Phi}{m + \lambda_\Phi + \lambda_k}$ of P where $\tilde G$ has m."""
        shifted = eigenvalue + self.feature_ridge
        return shifted / (shifted + self.kernel_ridge)

    @full_precision
    def run(self, depth: int) -> LinearDeepRFMRun:
        """The recursion, for so many layers.

        Cost: O(n³) for the first layer, O(n k²) for each further one. The factors are differentiable in the Gram
            matrix, the distances are not.
        """
        _checks.settings(_checks.whole_number("depth", depth, 1))
        factors = [self.first()]
        while len(factors) < depth:
            factors.append(self.next(factors[-1]))
        limit, found = self.fixed_point(), [factor.detach() for factor in factors]
        return LinearDeepRFMRun(
            factors=torch.stack(factors),
            distance=torch.stack([_distance(factor, self.target) for factor in found]),
            to_limit=torch.stack([_distance(factor, self.target * limit**0.5) for factor in found]),
        )

    def first(self) -> Float[Tensor, "n k"]:
        r"""The factor of $\tilde G_2$, from the data: Py, or y less the rest of it where that is smaller."""
        solved = torch.linalg.solve(self.gram + self.kernel_ridge * identity(self.gram), self.target)
        kept, rest = self.gram @ solved, self.kernel_ridge * solved
        found = torch.where(rest.norm() < kept.norm(), self.target - rest, kept)
        return found / self.kappa**0.5

    def next(self, factor: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        r"""$Py/\sqrt\kappa$ for $\tilde G = FF^\top$: with $s = \lambda_\Phi + \lambda_k$, by Woodbury's formula.

        $Py = y - \lambda_k(FF^\top + sI)^{-1}y = y - \frac{\lambda_k}s\big(y - F(sI + F^\top F)^{-1}F^\top y\big)$
        """
        shift = self.feature_ridge + self.kernel_ridge
        inner = factor.mT @ factor
        across = self.target - factor @ torch.linalg.solve(inner + shift * identity(inner), factor.mT @ self.target)
        return (self.target - self.kernel_ridge / shift * across) / self.kappa**0.5

    @public
    def fixed_point(self) -> float:
        r"""The factor g of the fixed point $g\,yy^\top$; 1 for the exact $\kappa$.

        For the printed one, the limit of iterating $g\mapsto\kappa^{-1}p(gN)^2$ from above, where p is `shrinkage`.
        """
        if self.kappa == self.shrinkage(self.samples) ** 2:
            return 1.0
        value = 1 / self.kappa
        for _ in range(STEPS):
            following = self.shrinkage(value * self.samples) ** 2 / self.kappa
            if abs(following - value) <= 1e-15 * value:
                return following
            value = following
        raise ConvergenceError(
            None,
            f"the map to settle within {STEPS} steps",
            f"a value of {value} that still moves",
            "Take a smaller kernel_ridge.",
        )

    def rate(self) -> float:
        r"""The factor by which distances from the fixed point shrink per layer, asymptotically.

        $\frac{\lambda_k p N}{\kappa(q + \lambda_k)}
        \max\big(\frac1{\lambda_\Phi + \lambda_k}, \frac2{q + \lambda_k}\big)$
        with $q = gN + \lambda_\Phi$ and $p = \frac q{q + \lambda_k}$

        The first is for deviations within classes, which mix the range of $yy^\top$ with its complement, and of which
        there are none at one sample per class; the second is for deviations between classes. For the exact $\kappa$ the
        first is $\frac{\lambda_kN}{(N + \lambda_\Phi)(\lambda_\Phi + \lambda_k)}$, which is below 1 for all ridges but
        $\lambda_\Phi = 0$, where it is 1; the second is below 1 for
        $\lambda_k(N - \lambda_\Phi) < (N + \lambda_\Phi)^2$; beyond that the fixed point is repelling.
        """
        limit = self.fixed_point() * self.samples
        shifted = limit + self.feature_ridge + self.kernel_ridge
        slope = self.kernel_ridge * self.shrinkage(limit) * self.samples / (self.kappa * shifted)
        between = 2 / shifted
        return slope * (between if self.samples == 1 else max(1 / (self.feature_ridge + self.kernel_ridge), between))


def _check_gram(gram: Float[Tensor, "n n"], eps: float, kernel_ridge: float | int) -> None:
    """Raises RangeError unless, up to its epsilon, it is symmetric, semi-definite, and definite with the ridge."""
    n, largest, own = len(gram), float(gram.abs().max()), torch.finfo(gram.dtype)
    # Of single precision at best: what is in float64 may have been computed in float32.
    rounding = n * max(eps, torch.finfo(torch.float32).eps) * largest
    apart = float((gram - gram.mT).abs().max())
    if apart > rounding:
        raise RangeError(
            "gram",
            "a symmetric matrix",
            f"entries {apart:.1e} apart from those across the diagonal",
            "Pass X @ X.T of the samples in rows.",
        )
    shift = min(kernel_ridge - n * own.eps * largest, rounding + own.tiny)
    if torch.linalg.cholesky_ex(gram + shift * identity(gram)).info != 0:
        raise RangeError(
            "gram",
            "a positive semi-definite matrix, positive definite with kernel_ridge on its diagonal",
            f"one that is not, with {kernel_ridge:g}",
            "Pass X @ X.T of the samples in rows, or take a larger kernel_ridge.",
        )


def _distance(a: Float[Tensor, "n k"], b: Float[Tensor, "n k"]) -> Float[Tensor, ""]:
    r"""$\|aa^\top - bb^\top\|_2$, from matrices of 2k rows.

    By $aa^\top - bb^\top = \frac12(ds^\top + sd^\top)$ with $d = a - b$ and $s = a + b$, which preserves small
    differences.
    """
    joined = torch.cat([a - b, a + b], 1)
    triangle = torch.linalg.qr(joined, mode="r").R
    minus, plus = triangle.chunk(2, 1)
    product = minus @ plus.mT
    return torch.linalg.matrix_norm(product + product.mT, 2) / 2
