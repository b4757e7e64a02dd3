"""How the quantities of many checkpoints moved: as a table, as JSON, and as a page."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gnomon import History, Verdict
from gnomon._words import counted
from gnomon.probe import about, from_records, unfit
from gnomon_lab.figures import Curves, Line, Mark, Panel
from gnomon_lab.measuring.kept import Record
from gnomon_lab.measuring.quantities import explanation, explanations
from gnomon_lab.measuring.shown import by_reason, share_axis, shown, title_of
from gnomon_lab.report import Report, Table
from gnomon_lab.report.worth import as_numbers, in_details, in_sight, worth
from gnomon_lab.runs.machine import machine
from gnomon_lab.watching.curves import early

SPREAD = (".min", ".q25", ".q75", ".max")
"""What accompanies a mean of several values."""
BESIDE = (*SPREAD, ".error")
"""What accompanies a number, such as the error of an estimate."""
BARS = "▁▂▃▄▅▆▇█"
FLAT = 1e-4
"""A smaller relative change, which four digits do not show, is drawn flat."""
DECADE = 10
"""From this ratio of the largest number to the smallest on, the axis of a quantity may be logarithmic."""


@dataclass(frozen=True)
class Moved:
    """The readings of several checkpoints.

    Attributes:
        setting: network, data, samples and so on, by name.
        records: the readings, by ascending step.
        steps: where the steps come from, in words.
        skipped: the checkpoints that could not be read, each with the reason.
    """

    setting: Mapping[str, Any]
    records: Sequence[Record]
    steps: str
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def at(self) -> list[int]:
        """The steps."""
        return [record["step"] for record in self.records]

    @cached_property
    def history(self) -> History:
        """The numbers of the readings."""
        return from_records(self.records)

    @property
    def names(self) -> list[str]:
        """The names of the quantities, and of the parts of their results."""
        return self.history.quantities

    @property
    def left_out(self) -> dict[str, str]:
        """The quantities that could not be measured, with the reasons."""
        return {name: why for record in self.records for name, why in record["measured"]["left_out"].items()}

    @cached_property
    def worth(self) -> Verdict | str:
        """The verdict, or why there is none."""
        return no_verdict(self.setting) or assuming(self.setting, worth(self.history))

    def series(self, name: str) -> list[float]:
        """One number per step; NaN where there is none."""
        return [math.nan if (value := record.get(name)) is None else float(value) for record in self.records]

    def points(self, name: str) -> list[tuple[int, float]]:
        """Step and number, where there is one."""
        return [(step, value) for step, value in zip(self.at, self.series(name), strict=True) if not math.isnan(value)]


def no_verdict(setting: Mapping[str, object]) -> str | None:
    """Why readings that were taken in a setting allow no verdict, whatever they are; None if they may."""
    why = unfit(setting)
    return None if why is None else f"No verdict: it {why}."


def assuming(setting: Mapping[str, object], found: Verdict | str) -> Verdict | str:
    """The verdict, with what it assumes of samples that are of no split: that the network was trained on them."""
    if isinstance(found, str) or setting.get("split") is not None or "data" not in setting:
        return found
    return replace(found, message=f"{found.message} This takes {setting['data']} for what it was trained on.")


def bars(values: Sequence[float], width: int) -> str:
    """The values as bars from lowest to highest, one character each; of more than `width`, as many evenly chosen."""
    chosen = [values[place] for place in some(len(values), width)]
    finite = [value for value in chosen if not math.isnan(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    top, moves = len(BARS) - 1, high - low > FLAT * max(abs(low), abs(high))
    return "".join(
        " " if math.isnan(value) else BARS[round(top * (value - low) / (high - low)) if moves else top // 2]
        for value in chosen
    )


def some(count: int, most: int) -> list[int]:
    """So many evenly spaced places among `count`, including the first and the last."""
    if count <= most or most < 2:
        return [*range(count)][: max(most, 1)]
    return [round(place * (count - 1) / (most - 1)) for place in range(most)]


def as_columns(moved: Moved) -> dict[str, Any]:
    """Everything as values that JSON can hold: lists with a number per checkpoint, null for NaN and infinity."""
    last = moved.records[-1]["measured"] if moved.records else {}
    return {
        **moved.setting,
        "steps_from": moved.steps,
        "steps": moved.at,
        "checkpoints": [record["checkpoint"]["path"] for record in moved.records],
        "quantities": {name: dict(numbers_of(moved, name)) for name in moved.names},
        "missing": {
            str(record["step"]): record["checkpoint"]["missing"]
            for record in moved.records
            if "missing" in record["checkpoint"]
        },
        "skipped": dict(moved.skipped),
        "verdict": as_numbers(moved.worth),
        "outputs": last.get("outputs"),
        "mask": last.get("mask"),
        "left_out": moved.left_out,
        "made_with": machine(),
    }


def numbers_of(moved: Moved, name: str) -> Iterator[tuple[str, object]]:
    """What JSON has about a quantity: the explanation, and a list for each kind of number."""
    there = [end for end in BESIDE if any(f"{name}{end}" in record for record in moved.records)]
    yield "explanation", explanation(name)
    yield "mean" if {*there} & {*SPREAD} else "value", [record.get(name) for record in moved.records]
    for end in there:
        yield end[1:], [record.get(f"{name}{end}") for record in moved.records]


def as_page(moved: Moved) -> Report:
    """The page: where each quantity began and ended, and how it moved."""
    setting, at = moved.setting, moved.at
    outputs = {record["measured"]["outputs"] for record in moved.records} - {None}
    masks = {record["measured"].get("mask") for record in moved.records} - {None}  # which older histories lack
    paragraphs = [
        f"The network of {setting['model']} with the weights of one checkpoint after another, in eval mode and "
        f"{setting['dtype']}, at the same samples. Of a quantity of each sample the table shows the mean. "
        f"Steps: {moved.steps}.",
        *(f"Caution: {words}." for words in sorted(outputs)),
        *(f"Padding: {words}." for words in sorted(masks)),
        *(f"Left out: {', '.join(names)}. Reason: {reason}." for reason, names in by_reason(moved.left_out).items()),
        *(
            f"No value at step {record['step']:,}: {', '.join(record['checkpoint']['missing'])}."
            for record in moved.records
            if "missing" in record["checkpoint"]
        ),
        *(f"Skipped: {path}. Reason: {reason}" for path, reason in moved.skipped.items()),
    ]
    rows = tuple((name, *ends(moved.points(name), at)) for name in moved.names)
    verdicts = {"": moved.worth}
    answer = in_sight(verdicts)
    span = f"Step {at[0]:,}" if len(at) == 1 else f"Steps {at[0]:,} to {at[-1]:,}"
    return Report(
        title=f"{counted(len(at), 'checkpoint')} at {setting['data']}",
        summary=f"{span}, {counted(setting['samples'], 'sample')}{of_accuracy(moved)}.",
        introduction="\n\n".join(paragraphs),
        table=Table(("", "first", "last", "lowest", "highest"), rows, explanations(moved.names)),
        worth=answer,
        figures=figures(moved),
        details={
            **({} if answer else in_details(verdicts)),
            "setting": setting,
            "checkpoints": {f"{record['step']:,}": record["checkpoint"]["path"] for record in moved.records},
            "made with": machine(),
        },
    )


def ends(points: Sequence[tuple[int, float]], at: Sequence[int]) -> tuple[str, ...]:
    """The first and the last number, with their steps if there is none at the first or last step; lowest, highest."""
    if not points:
        return ("", "", "", "")
    low, high = (pick(points, key=lambda point: point[1]) for pick in (min, max))

    def with_step(step: int, value: float) -> str:
        return f"{shown(value)}\N{NO-BREAK SPACE}at\N{NO-BREAK SPACE}{step:,}"

    outer = ((points[place], at[place]) for place in (0, -1))
    return (
        *(shown(value) if step == end else with_step(step, value) for (step, value), end in outer),
        *(with_step(*point) for point in (low, high)),
    )


def of_accuracy(moved: Moved) -> str:
    """How the accuracy moved, in words; empty if there is none."""
    points = moved.points("accuracy")
    if not points:
        return ""
    (first, before), (last, after) = points[0], points[-1]
    start = "at first" if first == moved.at[0] else f"at step {first:,}"
    end = "at last" if last == moved.at[-1] else f"at step {last:,}, the last with a value"
    return f", of which {before:.1%} were classified correctly {start} and {after:.1%} {end}"


def figures(moved: Moved) -> tuple[Curves, ...]:
    """A panel for each quantity over the steps; none where there is no number."""
    log_x = early(moved.at)
    start = left_end(moved.at) if log_x else None
    panels = tuple(panel(moved, name, start) for name in moved.names if moved.points(name))
    if not panels:
        return ()
    caption = (
        "The mean over the samples, and between the dashed lines the middle half of them, where they are several. "
        "A checkpoint without a value is left out."
    )
    if start is not None:
        caption += " Step 0, which has no place on a logarithmic axis, is at its left end."
    return (Curves("timeline", "How each quantity moved", caption, "step", panels, log_x=log_x, zero=start),)


def left_end(steps: Sequence[int]) -> float | None:
    """Where step 0 is drawn on a logarithmic axis, before the first step after it; None if it is not among them."""
    return next(step for step in steps if step > 0) / 2 if 0 in steps else None


def panel(moved: Moved, name: str, start: float | None = None) -> Panel:
    """One quantity: its mean, and the quartiles unless each sample is right or wrong, 0 or 1.

    Args:
        moved: the readings.
        name: the quantity.
        start: where step 0 is drawn; None for its own place.
    """
    quartiles = [points for end in (".q25", ".q75") if (points := moved.points(f"{name}{end}"))]
    if all(value in (0, 1) for end in (".min", ".max") for _, value in moved.points(f"{name}{end}")):
        quartiles = []  # which lie between 0 and 1 where a quarter of the samples is wrong, as they are interpolated
    curves = [("mean", moved.points(name)), *(("quartiles", points) for points in quartiles)]
    lines = tuple(line(label, points, start, dashed=label != "mean") for label, points in curves)
    heights = [y for curve in lines for y in curve.y]
    log_y = about(name).logarithmic and min(heights) > 0 and max(heights) > DECADE * min(heights)
    marks = () if start is None else (Mark("step 0", start),)
    return Panel(title_of(name), "", lines, marks, y_range=share_axis(name, heights), log_y=log_y)


def line(label: str, points: Sequence[tuple[int, float]], start: float | None, *, dashed: bool) -> Line:
    """One curve, on which step 0 is drawn at `start`, unless that is None."""
    steps, values = zip(*points, strict=True)
    places = tuple(start if step == 0 and start is not None else float(step) for step in steps)
    return Line(label, places, values, dashed=dashed)
