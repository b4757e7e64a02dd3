"""The page: what each training came to know, and what became of it after each moment that the verdict was asked."""

from collections.abc import Sequence

from gnomon_lab.figures import Curves, Figure, Panel
from gnomon_lab.papers._shared import SEEN, UNSEEN, lines
from gnomon_lab.runs import Claim, Record, by_arm

MOMENTS = (32, 16, 8, 4)
"""The verdict is asked when a training has done one in so many of its steps."""


def asked(records: Sequence[Record]) -> list[tuple[int, int]]:
    """The places of the readings at which it is asked, each with that at four times as many steps."""
    steps = [record["step"] for record in records]
    return [(steps.index(steps[-1] // part), steps.index(4 * steps[-1] // part)) for part in MOMENTS]


def table(records: Sequence[Record]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """What became of each training after each of the moments."""
    columns = ("", "at step", "training", "unseen", "at four times the steps", "rise")
    return columns, [
        (name, f"{read[now]['step']:,}", *known(read, now, then))
        for name, read in by_arm(records).items()
        for now, then in asked(read)
    ]


def known(records: Sequence[Record], now: int, then: int) -> tuple[str, ...]:
    """Accuracies at a reading, and what came."""
    seen, unseen, later = records[now][SEEN], records[now][UNSEEN], records[then][UNSEEN]
    return f"{seen:.1%}", f"{unseen:.1%}", f"{later:.1%}", f"{100 * (later - unseen):+.1f} points"


def summary(records: Sequence[Record]) -> str:
    """What each came to."""
    ends = (f"{name} {read[-1][UNSEEN]:.1%}" for name, read in by_arm(records).items())
    return f"Unseen accuracy at the end: {', '.join(ends)}."


def figures(records: Sequence[Record]) -> list[Figure]:
    """The accuracies of all trainings."""
    names = {name: name for name in by_arm(records)}
    panels = tuple(
        Panel(title, "share correct", lines(records, names, name), (), (0.0, 1.05))
        for title, name in (("Training data", SEEN), ("Unseen data", UNSEEN))
    )
    caption = "The accuracy of each network on 256 training samples, and on 2,000 unseen ones."
    return [Curves("accuracies", "What the networks know", caption, "step", panels)]


def claims(seeds: Sequence[Sequence[Record]]) -> list[Claim]:
    """None: what came is shown."""
    return []
