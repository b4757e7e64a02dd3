"""The measured values as numbers for a table, as JSON, and as a page."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnomon._words import counted
from gnomon.probe import about
from gnomon_lab.figures import Curves, Line, Panel
from gnomon_lab.measuring.measure import Measured
from gnomon_lab.measuring.quantities import explanation, explanations
from gnomon_lab.report import Report, Table
from gnomon_lab.runs.machine import machine

COLUMNS = ("mean", "median", "min", "max")
POINTS = 201
"""The points of a curve: enough to be smooth, few enough for a small page."""
SHARE = re.compile(r"0 or 1|\[(0|1/.*), 1\]")
"""The ranges of shares, as docstrings state them."""
MARGIN = 0.05
"""The part of the axis of shares that is left free on either side, and what is around a constant one."""


@dataclass(frozen=True)
class Summary:
    """A measurement, with its setting.

    Attributes:
        setting: checkpoint, network, data, samples and so on, by name.
        measured: the values.
        left_out: the quantities that could not be measured, with the reasons.
    """

    setting: dict[str, Any]
    measured: Measured
    left_out: dict[str, str]

    def numbers(self) -> dict[str, dict[str, float]]:
        """For each quantity its value, or the mean, median, smallest and largest of all its values."""
        return {name: numbers(value.double()) for name, value in self.measured.values.items()}

    def rows(self) -> list[tuple[str, ...]]:
        """For each quantity its name, and its numbers under `COLUMNS`; a single value takes the place of the mean."""
        cells = {name: {"mean": found.get("value"), **found} for name, found in self.numbers().items()}
        return [(name, *(shown(found.get(column)) for column in COLUMNS)) for name, found in cells.items()]


def numbers(value: Tensor) -> dict[str, float]:
    """A single number as it is, several as four summary numbers."""
    if value.ndim == 0:
        return {"value": value.item()}
    values = value.numpy()
    found = (values.mean(), np.median(values), values.min(), values.max())
    return dict(zip(COLUMNS, map(float, found), strict=True))


def shown(number: float | None) -> str:
    """A number with four digits; empty for None."""
    return "" if number is None else f"{number:.4g}"


def as_json(summary: Summary) -> dict[str, Any]:
    """Everything as values that JSON can hold: a number that is NaN or infinite is null."""
    return {
        **summary.setting,
        "quantities": {
            name: {"explanation": explanation(name)}
            | {kind: number if math.isfinite(number) else None for kind, number in found.items()}
            for name, found in summary.numbers().items()
        },
        "left_out": summary.left_out,
        "seconds": summary.measured.seconds,
        "made_with": machine(),
    }


def as_report(summary: Summary) -> Report:
    """The page: the table, and how the values spread over the samples."""
    setting, values = summary.setting, summary.measured.values
    accuracy = f", {values['accuracy'].mean():.1%} of them classified correctly" if "accuracy" in values else ""
    paragraphs = [
        f"The network that {setting['model']} builds, with {setting['taken']}, in eval mode and {setting['dtype']}. "
        f"Quantities of each sample stand with their mean, median, least and largest value, others as one number.",
        *([f"Caution: {setting['outputs']}."] if setting["outputs"] else []),
        *([f"Padding: {setting['mask']}."] if setting["mask"] else []),
        *(f"Left out: {', '.join(names)}. Reason: {reason}." for reason, names in by_reason(summary.left_out).items()),
    ]
    return Report(
        title=f"{setting['checkpoint']} at {setting['data']}",
        summary=f"{counted(setting['samples'], 'sample')}{accuracy}.",
        introduction="\n\n".join(paragraphs),
        table=Table(("", *COLUMNS), tuple(summary.rows()), explanations(values)),
        figures=figures(values, setting["samples"]),
        details={"setting": setting, "seconds": summary.measured.seconds, "made with": machine()},
    )


def by_reason(left_out: Mapping[str, str]) -> dict[str, list[str]]:
    """The quantities that were left out, by reason."""
    return {reason: [name for name in left_out if left_out[name] == reason] for reason in left_out.values()}


def figures(values: Mapping[str, Tensor], samples: int) -> tuple[Curves, ...]:
    """How per-sample values spread, separately for right and wrong samples where there are both; empty without any."""
    spread = {name: value.double() for name, value in values.items() if of_samples(name, value, samples)}
    right = spread.pop("accuracy", None)
    spread.pop("nearest_mean_disagreement", None)  # 0 or 1, about which the mean says everything
    if not spread:
        return ()
    kinds: dict[str, Tensor | None] = {"all samples": None}
    if right is not None and right.min() < right.max():
        kinds = {"classified correctly": right == 1, "classified wrongly": right == 0}
    panels = tuple(
        Panel(
            title_of(name),
            "",
            tuple(
                quantiles(kind, value if which is None else value[which], colour)
                for colour, (kind, which) in enumerate(kinds.items())
            ),
            y_range=share_axis(name, value.tolist()),
        )
        for name, value in spread.items()
    )
    caption = (
        "The values of the samples from the least to the largest: at 50 % is the median, and where a curve is flat "
        "the samples are alike."
    )
    title = "How the quantities spread over the samples"
    return (Curves("samples", title, caption, "share of the samples (%)", panels, log_x=False),)


def of_samples(name: str, value: Tensor, samples: int) -> bool:
    """Whether these are finite numbers, one for each sample, and not for each layer or direction."""
    axes = about(name).axes  # unknown for what is an estimate where outputs are many
    return (
        value.ndim == 1
        and (axes == ("n",) or (axes is None and len(value) == samples))
        and bool(value.isfinite().all())
    )


def title_of(name: str) -> str:
    """The title of a quantity's panel, as `gnomon watch` and `History.plot` write it."""
    return name.replace("_", " ")


def share_axis(name: str, values: Sequence[float]) -> tuple[float, float] | None:
    """Both ends of the axis for values of a share, within 0 and 1; None for what is no share: the values fit it."""
    if SHARE.fullmatch(about(name).range) is None:
        return None
    low, high = (min(max(pick(values), 0.0), 1.0) for pick in (min, max))
    room = MARGIN * (high - low) or MARGIN
    return max(low - room, 0.0), min(high + room, 1.0)


def quantiles(label: str, value: Tensor, colour: int) -> Line:
    """The value below which each share of the samples lies."""
    shares = torch.linspace(0, 1, POINTS, dtype=value.dtype)
    return Line(label, tuple((100 * shares).tolist()), tuple(value.quantile(shares).tolist()), colour=colour)
