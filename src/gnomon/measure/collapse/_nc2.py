"""Whether class means are orthogonal, or form a simplex equiangular tight frame (NC2)."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import ShapeError
from gnomon.linalg import unit


@half_as_single
def nc2_etf(means: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""How far the centred directions of the class means are from a simplex equiangular tight frame.

    $\|\bar M\bar M^\top - \Sigma_{\mathrm{ETF}}\|_F$, rows $\bar\mu_c = (\mu_c - \bar\mu)/\|\mu_c - \bar\mu\|$ with
    $\bar\mu = \frac1k\sum_c\mu_c$, and
    $\Sigma_{\mathrm{ETF}} = (1 + \frac1{k-1})I - \frac1{k-1}\mathbf 1\mathbf 1^\top$

    Lengths are divided out, but where it is 0 they are equal, since centred means sum to 0 and the directions of a
    simplex do so with equal weights alone: so exactly then are the centred means' inner products
    $\propto\Sigma_{\mathrm{ETF}}$.

    Source:
        Beaglehole et al., arXiv:2402.13728, figure 3 and definition 3.1, the norm taken as Frobenius'.
    Args:
        means: the class means, of k at least 2; `moments.means`.
    Returns:
        At least 0; 0 exactly where all angles between centred means are those of the simplex, as they are for two
        classes. Unchanged by scaling, shift and rotation.
    Raises:
        ShapeError: if the means are not (k p) with k at least 2.
        EmptyError: if there are none.
        RangeError: at NaN or infinity.
    Cost: O(k² p).
    Example:
        >>> import torch, gnomon
        >>> gnomon.nc2_etf(torch.eye(3)) < 1e-6
        tensor(True)
    """
    check("nc2_etf", means)
    k = len(means)
    one = torch.eye(k, dtype=means.dtype, device=means.device)
    return apart(means - means.mean(0), (1 + 1 / (k - 1)) * one - 1 / (k - 1))


@half_as_single
def nc2_orthogonal(means: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""How far the directions of the class means, not centred, are from being orthogonal.

    $\|\hat M\hat M^\top - I\|_F$, rows $\hat\mu_c = \mu_c/\|\mu_c\|$

    Lengths are divided out, and may differ where it is 0: $M M^\top \propto I$ asks for `equinorm` of the means to be 0
    too. Orthogonal means of one length have centred ones that form a simplex.

    Source:
        Beaglehole et al., arXiv:2402.13728, definition 3.1, measured as its figure 3 measures the other form.
    Args:
        means: the class means, of k at least 2; `moments.means`.
    Returns:
        In [0, k]; 0 exactly where all means are orthogonal. Unchanged by positive scaling of each mean, and by
        rotations of all; not by shifts.
    Raises:
        ShapeError: if the means are not (k p) with k at least 2.
        EmptyError: if there are none.
        RangeError: at NaN or infinity.
    Cost: O(k² p).
    Example:
        >>> import torch, gnomon
        >>> gnomon.nc2_orthogonal(torch.tensor([[3.0, 0.0], [0.0, 5.0]]))
        tensor(0.)
    """
    check("nc2_orthogonal", means)
    return apart(means, torch.eye(len(means), dtype=means.dtype, device=means.device))


def check(where: str, means: Tensor) -> None:
    """Raises unless the means are finite, and two or more."""
    _checks.rows(where, means=means)
    _checks.finite(where, means=means)
    if len(means) < 2:
        raise ShapeError(
            "means",
            "the means (k, p) of at least 2 classes",
            f"shape {_checks.shape_of(means)}",
            "Pass one for each class.",
            where=where,
        )


def apart(vectors: Float[Tensor, "k p"], wanted: Float[Tensor, "k k"]) -> Float[Tensor, ""]:
    """The Frobenius norm of the difference of the cosines between all vectors from those wanted."""
    directions = unit(vectors)
    return torch.linalg.matrix_norm(directions @ directions.mT - wanted)
