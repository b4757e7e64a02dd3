"""How many of the samples a quantity needs at once: some, whose rows are joined or added up, or all."""

import inspect
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from torch import Tensor

from gnomon._budget import budget_of
from gnomon._kinds import members
from gnomon.errors import RangeError
from gnomon.linalg import Estimate
from gnomon.probe._derived import OF_ANY_SAMPLES, own
from gnomon.probe._plan import Plan, Quantity
from gnomon.probe._sums import sum_of


class Level(IntEnum):
    """What has to be available for a quantity to be computed."""

    NETWORK = 0
    BATCH = 1
    """Samples as they come."""
    CHUNK = 2
    """The observations of as many samples as the memory budget allows."""
    ALL = 3


def levels(plan: Plan, *, rows: bool) -> dict[str, Level]:
    """The level of everything that a plan names.

    A quantity with one row per sample is computed on batches or chunks if all that it uses is available then, and so is
    anything that adds up; everything else waits for all samples. If a sample has several `rows`, labels come with them.
    """
    found = {"x": Level.BATCH, "labels": Level.CHUNK if rows else Level.BATCH} | dict.fromkeys(
        plan.observed, Level.CHUNK
    )
    seen = dict(found)  # as their users see them: what is the same for any samples counts as the network's own
    for name, quantity in plan.quantities.items():
        arguments = plan.arguments[name].values()
        level = max((seen.get(key, Level.NETWORK) for key in arguments), default=Level.NETWORK)
        in_parts = sum_of(quantity) or of_any_samples(quantity) or one_row_per_sample(quantity)
        too_early = any(found.get(key, level) > level for key in arguments)
        found[name] = Level.ALL if too_early or (level > Level.NETWORK and not in_parts) else level
        seen[name] = Level.ALL if sum_of(quantity) else Level.NETWORK if of_any_samples(quantity) else found[name]
    return found


def of_any_samples(quantity: Quantity) -> bool:
    """Whether its result is the same whatever the samples."""
    return any(quantity is each for each in OF_ANY_SAMPLES)


def gives_rows(quantity: Quantity, level: Level) -> bool:
    """Whether a quantity at this level is joined along the samples."""
    return level in (Level.BATCH, Level.CHUNK) and not (sum_of(quantity) or of_any_samples(quantity))


def with_rows(plan: Plan, levels: Mapping[str, Level]) -> set[str]:
    """The names of all that has one row per sample: the samples, observations, and quantities that are joined."""
    joined = {name for name, quantity in plan.quantities.items() if gives_rows(quantity, levels[name])}
    return {"x", "labels", *plan.observed, *joined}


def one_row_per_sample(quantity: Quantity) -> bool | None:
    """Whether its result has one row per sample, as its return annotation says; None if that says nothing about it."""
    annotation = inspect.signature(quantity).return_annotation
    if isinstance(annotation, str):
        try:
            annotation = inspect.signature(quantity, eval_str=True).return_annotation
        except (NameError, AttributeError, SyntaxError, TypeError):  # for what is imported for type checkers only
            return None
    exact = [part for part in members(annotation) if part is not Estimate]  # which has the rows of what it stands for
    axes: str | None = getattr(exact[0], "dim_str", None) if len(exact) == 1 else None
    if axes is not None:
        first, *others = axes.split() or [""]
        return first == "n" and "n" not in others  # with both, it has an entry for each pair of samples
    return None if annotation in (inspect.Signature.empty, Tensor, Any) else False


def require_room(plan: Plan, rows: Mapping[str, int], n: int, memory: int | None) -> None:
    """Raises RangeError unless what functions without an annotation use, for all samples, fits the memory budget.

    For what is held for all n samples, `rows` are the bytes of one sample, by name.
    """
    budget = budget_of(memory)
    for name, quantity in plan.quantities.items():
        size = n * sum(rows.get(key, 0) for key in plan.arguments[name].values())
        if size > budget and not own(quantity) and one_row_per_sample(quantity) is None:
            raise RangeError(
                "quantities",
                f"{name} to use no more than memory={budget:,} bytes for all samples at once",
                f"{size:,} at {n:,} samples",
                f"If it returns one row per sample, say so, and it is given some at a time: def {name}(...) "
                '-> Float[Tensor, "n"], with Float of jaxtyping. Else allow more memory.',
            )
