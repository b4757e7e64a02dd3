"""An estimated number, with its error."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Estimate:
    """An estimate from products with matrices, for each sample, or for all together.

    Attributes:
        value: the estimates, in the dtype and on the device of the samples.
        error: half the width of the 95 % interval around each, or around all in Frobenius norm, as for the AGOP; for
            singular values and eigenvalues a bound, which holds in 95 % of cases or more; 0 where it is exact up to
            rounding.
        passes: the number of products with its Jacobian, or with the matrix in question, behind each estimate.
    """

    value: Float[Tensor, "*_"]
    error: Float[Tensor, "*_"]
    passes: Int[Tensor, "*_"]


def joined(estimates: Sequence[Estimate]) -> Estimate:
    """The estimates for some samples after those for others."""
    if len(estimates) == 1:
        return estimates[0]
    return Estimate(*(torch.cat([getattr(each, name) for each in estimates]) for name in ("value", "error", "passes")))
