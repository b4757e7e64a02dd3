"""The quantities that a checkpoint can be asked for, by name, and what each looks at."""

import inspect
from collections.abc import Callable, Iterable

import gnomon
from gnomon import measure
from gnomon.errors import RangeError
from gnomon.history import corpus
from gnomon.probe import about, plan

Quantity = Callable[..., object]
"""From what its argument names say to a tensor or a dataclass of tensors."""

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
"""Of the centroid, which that loss does not see (docs/quantities/jacobian.md)."""


def wanting(quantity: Quantity) -> str | None:
    """What a quantity looks at and a checkpoint with samples has not; None if they suffice."""
    try:
        plan([quantity], GIVEN)
    except RangeError as error:
        return error.got
    return None


FUNCTIONS = {name: getattr(measure, name) for name in measure.__all__ if inspect.isfunction(getattr(measure, name))}
WANTING = {name: found for name, quantity in FUNCTIONS.items() if (found := wanting(quantity)) is not None}
"""Those of gnomon's that cannot be had, and why."""
QUANTITIES = {
    quantity.__name__: quantity for quantity in (*DEFAULT, *FUNCTIONS.values()) if quantity.__name__ not in WANTING
}
"""All others; the default ones first."""


def chosen(names: Iterable[str]) -> dict[str, Quantity]:
    """The quantities of these names; the default ones for none.

    Raises:
        RangeError: naming those that there are, if one is not among them.
    """
    names = list(dict.fromkeys(names)) or [quantity.__name__ for quantity in DEFAULT]
    unknown = [name for name in names if name not in QUANTITIES]
    if unknown:
        got = [f"{name}, which also needs {WANTING[name]}" if name in WANTING else name for name in unknown]
        raise RangeError("--quantities", f"some of {', '.join(QUANTITIES)}", "; ".join(got), "Correct it.")
    return {name: QUANTITIES[name] for name in names}


def also(asked: Iterable[str]) -> dict[str, Quantity]:
    """What a verdict on several checkpoints looks at beside what is asked for."""
    return {name: QUANTITIES[name] for name in corpus().quantities if name not in asked}


def explanation(name: str) -> str:
    """The first sentence on a quantity, or on that whose part this is; formulas as plain text, and where it is moot."""
    quantity = name.partition(".")[0]
    caution = [CAUTION] if QUANTITIES[quantity] in CENTROIDS else []
    return " ".join([about(quantity).sentence, *caution])


def explanations(names: Iterable[str]) -> dict[str, str]:
    """By name the explanation; of the parts of one result only the first has it."""
    seen: set[str] = set()
    found = {}
    for name in names:
        quantity = name.partition(".")[0]
        found[name] = "" if quantity in seen else explanation(name)
        seen.add(quantity)
    return found
