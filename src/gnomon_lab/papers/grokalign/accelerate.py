"""accelerate: how much sooner GrokAlign groks MNIST than weight decay, Grokfast and input noise (table 1)."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, Panel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import (
    LOSSES,
    UNSEEN,
    arms,
    firsts,
    geometry,
    lines,
    marked,
)
from gnomon_lab.papers.grokalign._tables import METHODS, START, Config, run
from gnomon_lab.runs import Cells, Claim, Record, Seeds, last


@dataclass(frozen=True)
class Cell:
    """A cell of table 1: how many times fewer steps or seconds than the baseline, or how many times more.

    Attributes:
        factor: the mean over ten seeds.
        deviation: their standard deviation.
        more: whether the method takes more than the baseline.
    """

    factor: float
    deviation: float
    more: bool = False


PAPER_STEPS = {
    ("cross-entropy", "GrokAlign"): Cell(7.56, 0.82),
    ("cross-entropy", "Grokfast"): Cell(1.01, 0.04, more=True),
    ("cross-entropy", "input noise"): Cell(1.32, 0.18),
    ("mse", "GrokAlign"): Cell(1.69, 0.31),
    ("mse", "Grokfast"): Cell(1.08, 0.17),
    ("mse", "input noise"): Cell(1.23, 0.26),
}
PAPER_SECONDS = {
    ("cross-entropy", "GrokAlign"): Cell(6.41, 0.69),
    ("mse", "GrokAlign"): Cell(1.46, 0.30),
    ("cross-entropy", "input noise"): Cell(1.92, 0.29, more=True),
}
PAPER_PHASE = {
    ("mse", "GrokAlign"): Cell(1.77, 0.53),
    ("mse", "Grokfast"): Cell(1.05, 0.27),
    ("mse", "input noise"): Cell(2.02, 0.37, more=True),
}
"""The column "grokking phase time", which the paper has for the squared error alone."""
UNITS = {
    "steps": PAPER_STEPS,
    "seconds": PAPER_SECONDS,
    "seconds from 20% of unseen digits on": PAPER_PHASE,
}
"""What is counted, in the order of `end`."""
INTRODUCTION = """
Networks with large initial weights are said to memorise at once and to generalise late; here one learns 1,024 MNIST
digits. With each method a network is trained until it recognises more than 85 % of 1,024 unseen digits; the paper says
how many times sooner than with weight decay alone.
"""


SMALL = Config()
PAPER = Config(losses=tuple(LOSSES), methods=METHODS)
HALVES = tuple(Config(losses=(loss,), methods=METHODS) for loss in LOSSES)
"""The paper's setting with one loss each: its halves share nothing."""
MIXED = replace(HALVES[0], dtype="mixed")
"""Cross-entropy in float32 except for the loss, with which the passes to the goal agree; with mse they do not."""


def end(records: Sequence[Record], loss: str, method: str) -> tuple[int, float, float] | None:
    """The steps and seconds to the goal, and the seconds since the phase began; None if it was never reached."""
    final = last(records, f"{loss} {method}")
    if not final["reached"]:
        return None
    first = next(record for record in records if record["arm"] == final["arm"] and record[UNSEEN] > START)
    seconds = final["seconds"]["trained"]
    return final["step"], seconds, seconds - first["seconds"]["trained"]


def fewer(base: tuple[int, float, float], ours: tuple[int, float, float], place: int) -> float | None:
    """How many times less than the baseline; None for a phase that began at its end."""
    return base[place] / ours[place] if ours[place] > 0 else None


def table(records: Sequence[Record]) -> Cells:
    """Table 1, and the row alignment of table 2."""
    columns = ("", "steps", "seconds", "fewer steps", "less time", "from 20% on", "test", "row alignment")
    rows: list[tuple[str, ...]] = []
    for loss, method in arms(records):
        final, ours, base = (
            last(records, f"{loss} {method}"),
            end(records, loss, method),
            end(records, loss, "baseline"),
        )
        known = [fewer(base, ours, place) if base and ours else None for place in range(len(UNITS))]
        ratios = ("" if ratio is None else f"{ratio:.2f} x" for ratio in known)
        took = (f"{ours[0]:,}", f"{ours[1]:.0f}") if ours else ("not reached", f"{final['seconds']['trained']:.0f}")
        rows_aligned = f"{final['train/row_alignment.min']:.3f} / {final['train/row_alignment.max']:.3f}"
        rows.append((f"{loss}, {method}", *took, *ratios, f"{final[UNSEEN]:.1%}", rows_aligned))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """When each method reaches the goal, a sentence for each loss."""
    sentences = []
    for loss in firsts(records):
        ends = {method: end(records, loss, method) for of, method in arms(records) if of == loss}
        base = ends.pop("baseline")
        told = [f"the baseline reaches the goal at step {base[0]:,}" if base else "the baseline never reaches the goal"]
        for method, ours in ends.items():
            sooner = f" ({base[0] / ours[0]:.2f} times as soon)" if base and ours else ""
            told.append(f"{method} " + (f"at step {ours[0]:,}{sooner}" if ours else "never"))
        sentences.append(f"With {loss} {', '.join(told)}.")
    return " ".join(sentences)


def figures(records: Sequence[Record]) -> list[Figure]:
    """Accuracy and geometry against steps, a figure for each loss."""
    return [curves(records, loss) for loss in firsts(records)]


def curves(records: Sequence[Record], loss: str) -> Curves:
    """All methods for one loss, with the step at which each reaches the goal."""
    methods = [method for of, method in arms(records) if of == loss]
    reached = {method: end(records, loss, method) for method in methods}
    marks = marked({method: at[0] if at else None for method, at in reached.items()})
    named = {f"{loss} {method}": method for method in methods}
    panels = (Panel("Test accuracy", "share correct", lines(records, named, UNSEEN), marks, (0.0, 1.05)),)
    caption = "Each until it recognises more than the goal of the unseen digits. Geometry: training means."
    return Curves(
        loss,
        f"How soon each method groks, {loss}",
        caption,
        "step (a pass over all batches)",
        panels + geometry(records, named, marks),
    )


def claims(seeds: Seeds) -> list[Claim]:
    """Table 1: how many times sooner than the baseline, over all finished seeds."""
    found = []
    for place, (unit, expected) in enumerate(UNITS.items()):
        for (loss, method), cell in expected.items():
            if (loss, method) in arms(seeds[0]):
                found.append(claim(seeds, loss, method, unit, place, cell))
    return found


def claim(seeds: Seeds, loss: str, method: str, unit: str, place: int, cell: Cell) -> Claim:
    """One cell of table 1; the claim holds if the mean ratio lies within the deviation that the paper prints for it."""
    pairs = [(end(records, loss, "baseline"), end(records, loss, method)) for records in seeds]
    known = [ratio for base, ours in pairs if base and ours and (ratio := fewer(base, ours, place))]
    ratios = [1 / ratio if cell.more else ratio for ratio in known]
    mean = statistics.mean(ratios) if ratios else float("nan")
    missed = len(pairs) - len(ratios)
    spread = f" ± {statistics.stdev(ratios):.2f}" if len(ratios) > 1 else ""
    many = f"{mean:.2f} x{spread} over {len(ratios)} seed{'s' * (len(ratios) > 1)}"
    measured = many if ratios else "goal not reached"
    return Claim(
        f"{loss}: {method} takes {cell.factor:.2f} times {'more' if cell.more else 'fewer'} {unit} than the baseline",
        "Walker et al., arXiv:2506.12284, table 1",
        f"{cell.factor:.2f} x ± {cell.deviation:.2f}",
        measured + (f", {missed} did not reach the goal" if missed and ratios else ""),
        not missed and abs(mean - cell.factor) <= cell.deviation,
    )


EXPERIMENT = Experiment(
    EXPERIMENTS["accelerate"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, (*HALVES, MIXED)
)
