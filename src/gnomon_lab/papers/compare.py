"""Arms beside each other: a panel with a curve for each, and the readings that most experiments show."""

from collections.abc import Mapping, Sequence

from gnomon.plot import Line, Mark, Panel
from gnomon_lab.runs import Record, series

GEOMETRY = (
    ("centroid_alignment", "Centroid alignment", "cosine"),
    ("jacobian_norm", "Jacobian norm", "outputs per input"),
    ("explained_variance_ratio", "PC1", "share of first direction"),
)
"""What a panel of geometry shows: the record's name, the title, the unit."""


def lines(records: Sequence[Record], arms: Mapping[str, str], name: str, *, dashed: bool = False) -> tuple[Line, ...]:
    """A curve of `name` for each arm, under the label that `arms` gives it; an arm keeps its colour by its place."""
    return tuple(
        Line(label, *series(records, arm, name), dashed, place) for place, (arm, label) in enumerate(arms.items())
    )


def geometry(records: Sequence[Record], arms: Mapping[str, str], marks: tuple[Mark, ...] = ()) -> tuple[Panel, ...]:
    """A panel for each of alignment, norm and PC1."""
    return tuple(Panel(title, unit, lines(records, arms, name), marks) for name, title, unit in GEOMETRY)
