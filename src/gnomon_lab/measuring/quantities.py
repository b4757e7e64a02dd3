"""The quantities that a checkpoint can be asked for, by name, and what each looks at."""

from collections.abc import Callable, Iterable

from jaxtyping import Float
from torch import Tensor

import gnomon
from gnomon.errors import RangeError
from gnomon.measure import ClassMoments
from gnomon.probe import plan

Quantity = Callable[..., Tensor]
"""From what its argument names say to one number, or to one or more a sample."""

GIVEN = ("x", "labels", "model", "parameters", "memory")
TOGETHER = frozenset({"class_moments", "weight", "agop"})
"""What is of all samples, or of none: a quantity that looks at neither is one of each sample by itself."""


def nc2_equinorm(class_moments: ClassMoments) -> Float[Tensor, ""]:
    """The coefficient of variation of the lengths of the centred class means (NC2)."""
    return gnomon.equinorm(class_moments.centred_means)


def nc2_equiangularity(class_moments: ClassMoments) -> Float[Tensor, ""]:
    """The standard deviation of the cosines between the centred class means (NC2)."""
    return gnomon.equiangularity(class_moments.centred_means)


def nc2_maximal_equiangularity(class_moments: ClassMoments) -> Float[Tensor, ""]:
    """The mean distance of the cosines between the centred class means from those of a simplex (NC2)."""
    return gnomon.maximal_equiangularity(class_moments.centred_means)


def classifier_equinorm(weight: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    """The coefficient of variation of the lengths of the last layer's rows (NC2)."""
    return gnomon.equinorm(weight)


def classifier_equiangularity(weight: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    """The standard deviation of the cosines between the last layer's rows (NC2)."""
    return gnomon.equiangularity(weight)


def classifier_maximal_equiangularity(weight: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    """The mean distance of the cosines between the last layer's rows from those of a simplex (NC2)."""
    return gnomon.maximal_equiangularity(weight)


DEFAULT: tuple[Quantity, ...] = (
    gnomon.accuracy,
    gnomon.centroid_alignment,
    gnomon.jacobian_alignment,
    gnomon.explained_variance_ratio,
    gnomon.jacobian_norm,
    gnomon.nc1,
    nc2_equinorm,
    nc2_maximal_equiangularity,
    classifier_equinorm,
    classifier_maximal_equiangularity,
    gnomon.self_duality,
    gnomon.nearest_mean_disagreement,
)
OTHERS: tuple[Quantity, ...] = (
    gnomon.centroid_inner_product,
    gnomon.row_alignment,
    gnomon.singular_values,
    gnomon.effective_rank,
    gnomon.nc1_trace_ratio,
    nc2_equiangularity,
    classifier_equiangularity,
)
CAUTION = "Training with cross-entropy leaves it undetermined: use jacobian_alignment there."
CENTROIDS: tuple[Quantity, ...] = (gnomon.centroid_alignment, gnomon.centroid_inner_product)
"""Of the centroid, which that loss does not see (docs/quantities.md)."""
QUANTITIES = {quantity.__name__: quantity for quantity in (*DEFAULT, *OTHERS)}


def chosen(names: Iterable[str]) -> dict[str, Quantity]:
    """The quantities of these names; the default ones for none.

    Raises:
        RangeError: naming those that there are, if one is not among them.
    """
    names = list(dict.fromkeys(names)) or [quantity.__name__ for quantity in DEFAULT]
    unknown = [name for name in names if name not in QUANTITIES]
    if unknown:
        raise RangeError(
            "--quantities", f"some of {', '.join(QUANTITIES)}", ", ".join(unknown), "Correct it.", where="measure"
        )
    return {name: QUANTITIES[name] for name in names}


def needs(quantity: Quantity) -> frozenset[str]:
    """All that a quantity looks at, and what that in turn follows from."""
    arguments = plan([quantity], GIVEN).arguments
    return frozenset(name for names in arguments.values() for name in names)


def explanation(quantity: Quantity) -> str:
    """The first sentence of its docstring, its formulas as plain text; and where it says nothing."""
    first = (quantity.__doc__ or "").strip().partition("\n\n")[0]
    for written, plain in ((r"^\top", "ᵀ"), (r"\,", " "), ("$", ""), ("`", "")):
        first = first.replace(written, plain)
    return " ".join([*first.split(), *([CAUTION] if quantity in CENTROIDS else [])])
