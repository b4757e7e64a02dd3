"""What quantities get if several positions of a sample are read: a row for each, whichever sample it belongs to."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from jaxtyping import Int
from torch import Tensor

from gnomon.autodiff import IGNORED, Positions
from gnomon.errors import RangeError
from gnomon.probe._levels import of_any_samples
from gnomon.probe._plan import Plan

OF_INPUT = frozenset({"x", "jacobian", "jacobian_operator", "centroid"})
"""What has no row for each of several positions, since all positions of a sample depend on the same input."""


def several(positions: Positions | None) -> bool:
    """Whether a sample has several rows."""
    return positions is not None and not positions.one


def by_position(seen: Mapping[str, Any], labels: Int[Tensor, "n *t"] | None, positions: Positions) -> dict[str, Any]:
    """The observations and labels of some samples, with a row for each position that its label does not exclude."""
    rows = {name: positions.split(value) if name == "logits" else value.flatten(0, 1) for name, value in seen.items()}
    if labels is None:
        return rows
    its = positions.of_labels(labels).flatten()
    there = its.long() != IGNORED
    rows["labels"] = its
    return rows if there.all() else {name: value[there] for name, value in rows.items()}


@contextmanager
def naming_ignored(positions: Positions | None) -> Iterator[None]:
    """Adds to errors about classes how a position that is no sample is labelled, for which many data have 255."""
    try:
        yield
    except RangeError as error:
        if positions is not None and error.argument == "labels" and error.expected.startswith("classes"):
            where = f"torch.where(labels == 255, {IGNORED}, labels.long())"
            error.advice += f" A position that is no sample has label {IGNORED}: {where}, if 255 marks such."
        raise


def of_several(plan: Plan) -> Plan:
    """The plan for several positions: logits are observed, which say where labels belong."""
    return replace(plan, observations=plan.observations - OF_INPUT | {"logits"})


def of_one_position(plan: Plan) -> Iterator[tuple[str, RangeError]]:
    """The quantities that are available for one position per sample only, and why."""
    for name, quantity in plan.quantities.items():
        wanted = OF_INPUT.intersection(plan.arguments[name].values())
        if wanted and not of_any_samples(quantity):
            yield name, by_input(min(wanted))
    for name in OF_INPUT.intersection(plan.reported):
        yield name, by_input(name)


def by_input(wanted: str) -> RangeError:
    """The error for what uses the input, or differentiates with respect to it."""
    return RangeError(
        "positions",
        f"one position per sample for quantities that use its {wanted}",
        "several",
        "Name one, such as 'last': what is differentiated are then the logits there, or their loss, and no others. To "
        "differentiate all, let the network return logits.flatten(1), bind a loss of that, and leave positions out.",
    )
