"""What the pages of mse-collapse and mse-vs-ce share: terminal phases, curves, claims over runs."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from gnomon_lab.figures import Line, Mark, Panel
from gnomon_lab.papers._shared import SEEN, UNSEEN
from gnomon_lab.runs import Claim, Record, last

SOURCE = "Han, Papyan, Donoho, arXiv:2106.02073"
NC1, UNSEEN_NC1 = "train/nc1", "test/nc1"
VISIBLE = 0.5
"""A sign of which at most this share is left has visibly fallen; the paper gives no number."""
SEARCH = "search"
"""What the arms that search for a learning rate begin with."""
SIGNS = {
    "equinorm.means": ("NC2: equal norms", "Std / Ave of norms"),
    "equiangularity.means": ("NC2: equal angles", "Std of cosines"),
    "maximal_equiangularity.means": ("NC2: widest angles", "Ave |cos + 1/(C-1)|"),
    "self_duality": ("NC3: self-duality", "squared distance"),
    "nc1": ("NC1: variability within classes", "NC1"),
    "disagreement": ("NC4: disagreement with the nearest mean", "share of images"),
    "accuracy": ("Accuracy", "share correct"),
}
"""Figures 3 to 8: title and unit of each panel. The paper has a logarithmic axis for NC1 alone."""
OTHER = tuple(name for name in SIGNS if name not in ("nc1", "accuracy"))
"""The signs of collapse of which section A.8 says that on test images they behave as NC1 does."""


def terminal(records: Sequence[Record], arm: str) -> list[Record]:
    """The readings of an arm from the first one without training error onwards; none if there is no such reading."""
    ours = [record for record in records if record["arm"] == arm]
    starts = [place for place, record in enumerate(ours) if record[SEEN] == 1]
    return ours[starts[0] :] if starts else []


def chosen_arms(records: Sequence[Record], loss: str) -> dict[str, str]:
    """By case, the arm of a loss: the one at the learning rate that was chosen.

    In records without a search, which read every rate's arm, the one with the best test accuracy at the end, among
    those that did not diverge.
    """
    by_case: dict[str, list[str]] = {}
    for arm in dict.fromkeys(record["arm"] for record in records):
        case, of, *_ = arm.split(" ")
        if of == loss:  # not in a search, whose arms have this word later
            by_case.setdefault(case, []).append(arm)

    def how_good(arm: str) -> tuple[int, float]:
        end = last(records, arm)
        return end["epoch"], end[UNSEEN]

    return {case: max(arms, key=how_good) for case, arms in by_case.items()}


def curve(
    label: str,
    records: Sequence[Record],
    arm: str,
    name: str,
    colour: int,
    *,
    dashed: bool = False,
    log: bool = False,
) -> Line:
    """A quantity against epochs; without zeros if `log`, for a logarithmic axis."""
    points = [(r["epoch"], r[name]) for r in records if r["arm"] == arm and name in r and (not log or r[name] > 0)]
    epochs, values = (tuple(float(point[axis]) for point in points) for axis in range(2))
    return Line(label, epochs, values, dashed, colour)


def panels(records: Sequence[Record], arms: Mapping[str, str], marks: tuple[Mark, ...]) -> dict[str, Panel]:
    """A panel for each sign of collapse, on training and test images; `arms` by the labels of their curves."""
    found = {}
    for name, (title, unit) in SIGNS.items():
        log, lines = name == "nc1", []
        for colour, (label, arm) in enumerate(arms.items()):
            lines.append(curve(f"{label}, training images", records, arm, f"train/{name}", colour, log=log))
            lines.append(curve(f"{label}, test images", records, arm, f"test/{name}", colour, log=log, dashed=True))
        found[name] = Panel(title, unit, tuple(lines), marks, log_y=log)
    # The untrained network's value would flatten the rest: it gives all images one class, and little changes that.
    trained = [record for record in records if record["epoch"] > 0]
    attacked = (
        curve(f"{label}, test images", trained, arm, "robustness.mean", colour, dashed=True)
        for colour, (label, arm) in enumerate(arms.items())
    )
    return found | {"robustness.mean": Panel("Robustness", "Ave |r| / |x|", tuple(attacked), marks)}


def starts(records: Sequence[Record], arm: str, label: str, colour: int = 0) -> tuple[Mark, ...]:
    """The first epoch without training error, if there is one."""
    return tuple(Mark(f"{label}, epoch {r['epoch']}", float(r["epoch"]), colour) for r in terminal(records, arm)[:1])


def share(start: float, end: float) -> float:
    """What is left of a quantity, as a share of its first value; zero over zero is zero."""
    return end / start if start > 0 else math.inf if end > 0 else 0.0


def unseen_over_seen(reading: Record, name: str) -> float:
    """How many times larger a sign of collapse is on test images than on training images; equal if both are zero."""
    return times(float(reading[f"train/{name}"]), float(reading[f"test/{name}"]))


def left_over_left(phase: Sequence[Record], name: str) -> float:
    """How many times as much of a sign is left at the end of a phase on test images as on training images."""
    seen, unseen = (share(float(phase[0][key]), float(phase[-1][key])) for key in (f"train/{name}", f"test/{name}"))
    return times(seen, unseen)


def times(seen: float, unseen: float) -> float:
    """The second over the first; 1 if both are zero."""
    return unseen / seen if seen > 0 else math.inf if unseen > 0 else 1.0


def first_epoch(records: Sequence[Record], arm: str) -> Record:
    """The reading of an arm after the first epoch."""
    return next(record for record in records if record["arm"] == arm and record["epoch"] == 1)


def left_unseen(records: Sequence[Record], arm: str) -> float:
    """What is left of NC1 on test images at the end, as a share of its value after the first epoch."""
    return float(last(records, arm)[UNSEEN_NC1] / first_epoch(records, arm)[UNSEEN_NC1])


def visible_unseen(shares: Sequence[float]) -> Claim:
    """The caption of figure 12, of what is left of NC1 on test images."""
    return checked(
        "on test images activation collapse visibly occurs: NC1 at the end, as a share of that after the first epoch",
        "figure 12", f"median at most {VISIBLE:g} times", shares, ".2f",
        lambda values: statistics.median(values) <= VISIBLE,
    )  # fmt: skip


def slower_unseen(phases: Sequence[Sequence[Record]]) -> list[Claim]:
    """The rates of figure 12 and section A.8, of the terminal phases of all runs; empty where there is none."""
    nc1 = [left_over_left(phase, "nc1") if phase else None for phase in phases]
    least = [min(left_over_left(phase, name) for name in OTHER) if phase else None for phase in phases]
    return [
        checked("after zero training error NC1 falls more slowly on test images: what is left, over that on training",
                "figure 12, section A.8", "above 1 times", nc1, ".3g", lambda values: min(values) > 1),
        checked("so do the other signs, NC2 to NC4, after zero training error: the smallest of their factors",
                "section A.8", "above 1 times", least, ".3g", lambda values: min(values) > 1),
    ]  # fmt: skip


def others_unseen(ends: Sequence[Record | None]) -> Claim:
    """Section A.8, of the last readings of all runs; None where training error never vanished."""
    least = [min(unseen_over_seen(end, name) for name in OTHER) if end else None for end in ends]
    return checked(
        "the other signs, NC2 to NC4, end larger on test images too: the smallest of their factors",
        "section A.8", "above 1 times", least, ".3g", lambda values: min(values) > 1,
    )  # fmt: skip


def checked(
    message: str,
    figure: str,
    expected: str,
    values: Sequence[float | None],
    how: str,
    holds: Callable[[Sequence[float]], bool],
) -> Claim:
    """A claim about one value per run; None where a network never gets all training images right."""
    known = [value for value in values if value is not None]
    measured, missed = [over_runs(known, how)] if known else [], len(values) - len(known)
    if missed:
        measured.append(f"no zero training error in {missed} of {len(values)}")
    return Claim(message, f"{SOURCE}, {figure}", expected, ", ".join(measured), not missed and holds(known))


def over_runs(values: Sequence[float], how: str) -> str:
    """What was measured, in words: the value, or the lowest, the highest and the median of several runs."""
    low, middle, high = (format(of(values), how) for of in (min, statistics.median, max))
    return low if len(values) == 1 else f"{low} to {high} over {len(values)} runs, median {middle}"
