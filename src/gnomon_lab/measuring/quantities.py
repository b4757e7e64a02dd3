"""The quantities that can be measured on a checkpoint, by name, and what each needs."""

import difflib
import inspect
from collections.abc import Callable, Iterable

import gnomon
from gnomon import linalg, measure
from gnomon.errors import RangeError
from gnomon.history import corpus
from gnomon.probe import about, plan

Quantity = Callable[..., object]
"""From what its argument names request to a tensor, or a dataclass of tensors and numbers."""

GIVEN = ("x", "labels", "model", "parameters", "memory", "head", "positions")
DEFAULT: tuple[Quantity, ...] = (
    gnomon.accuracy,
    gnomon.centroid_alignment,
    gnomon.jacobian_alignment,
    gnomon.explained_variance_ratio,
    gnomon.jacobian_norm,
    gnomon.nc1,
    gnomon.equinorm,
    gnomon.maximal_equiangularity,
    gnomon.classifier_equinorm,
    gnomon.classifier_maximal_equiangularity,
    gnomon.self_duality,
    gnomon.nearest_mean_disagreement,
)
CAUTION = "Training with cross-entropy leaves it undetermined: use jacobian_alignment there."
CENTROIDS: tuple[Quantity, ...] = (gnomon.centroid_alignment, gnomon.centroid_inner_product)
"""Quantities of the centroid, which that loss does not see (docs/quantities/jacobian.md)."""


def wanting(quantity: Quantity) -> str | None:
    """What a quantity needs and a checkpoint with samples does not have; None if they suffice."""
    try:
        plan([quantity], GIVEN)
    except RangeError as error:
        return error.got
    return None


FUNCTIONS = {name: getattr(measure, name) for name in measure.__all__ if inspect.isfunction(getattr(measure, name))}
OF_MATRICES = {name: getattr(linalg, name) for name in linalg.__all__ if name.islower() and name in gnomon.__all__}
WANTING = {name: found for name, of in (FUNCTIONS | OF_MATRICES).items() if (found := wanting(of)) is not None}
"""What of gnomon cannot be measured here, and why."""
QUANTITIES = {
    quantity.__name__: quantity for quantity in (*DEFAULT, *FUNCTIONS.values()) if quantity.__name__ not in WANTING
}
"""All others; the default ones first."""


def chosen(names: Iterable[str]) -> dict[str, Quantity]:
    """The quantities with these names; the default ones if there are no names.

    Raises:
        RangeError: listing the available ones, if a name is not among them.
    """
    names = list(dict.fromkeys(names)) or [quantity.__name__ for quantity in DEFAULT]
    unknown = [name for name in names if name not in QUANTITIES]
    if unknown:
        got = [f"{name}, which also needs {WANTING[name]}" if name in WANTING else name for name in unknown]
        # Of a part, such as mse_decomposition.total, the whole is meant.
        misspelt = [name.partition(".")[0] for name in unknown if name not in WANTING]
        near = [match for name in misspelt for match in difflib.get_close_matches(name, QUANTITIES, 1)]
        meant = f"Did you mean {', '.join(near)}?" if near else "Correct it."
        raise RangeError("--quantities", f"some of {', '.join(QUANTITIES)}", "; ".join(got), meant)
    return {name: QUANTITIES[name] for name in names}


def also(asked: Iterable[str]) -> dict[str, Quantity]:
    """The quantities that a verdict on several checkpoints uses in addition to those requested."""
    return {name: QUANTITIES[name] for name in corpus().quantities if name not in asked}


def explanation(name: str) -> str:
    """The first sentence about a quantity, or the one this is a part of; formulas as plain text, and any caution.

    Empty for a name that is not a quantity's, as a line of a history may have.
    """
    quantity = name.partition(".")[0]
    caution = [CAUTION] if QUANTITIES.get(quantity) in CENTROIDS else []
    return " ".join([about(quantity).sentence, *caution])


def explanations(names: Iterable[str]) -> dict[str, str]:
    """The explanation for each name; of the parts of one result, only the first has one."""
    seen: set[str] = set()
    found = {}
    for name in names:
        quantity = name.partition(".")[0]
        found[name] = "" if quantity in seen else explanation(name)
        seen.add(quantity)
    return found
