"""What papers say about their methods, as far as the board's tasks can tell, and what is asked of GrokAlign."""

import math
import statistics
from collections.abc import Callable

from gnomon_lab.papers._shared import SPREAD
from gnomon_lab.papers.own.steering.chosen import (
    ALONE,
    NO_DECAY,
    ON_TOP,
    REFERENCE,
    UNTUNED,
    Comparison,
    compare,
    scored,
)
from gnomon_lab.runs import Claim, Seeds

AT_ONCE = 2.0
"""A network generalises at once if it arrives within this many times the steps to fitting its training data."""
LATE = ("digits", "addition", "transformer", "parity")
Asked = Callable[[Seeds], Claim | None]
"""A claim, from the records; None where the board was run without what it is about."""


def words(found: Comparison) -> str:
    """A factor, its interval, and how many arrived."""
    least = "at least " if found.bound else ""
    return f"{least}{found.value:.3g} x ({found.low:.3g} to {found.high:.3g}), {found.arrived} of {found.seeds} arrive"


def compared(
    task: str, entrant: str, other: str, message: str, source: str, expected: str, holds: Callable[[Comparison], bool],
    *, unit: str = "steps", measured: Callable[[Comparison], str] = words,
) -> Asked:  # fmt: skip
    """How an entrant compares with another."""

    def claim(seeds: Seeds) -> Claim | None:
        found = compare(seeds, task, entrant, other, unit)
        return None if found is None else Claim(f"{task}: {message}", source, expected, measured(found), holds(found))

    return claim


def faster(task: str, entrant: str, other: str, factor: float, message: str, source: str) -> Asked:
    """This many times fewer steps than another."""
    expected = f"a median of at least {factor:.3g} x"
    return compared(task, entrant, other, message, source, expected, lambda found: found.value >= factor)


def no_faster(task: str, entrant: str, factor: float, message: str, source: str) -> Asked:
    """Not this many times fewer steps than tuned weight decay."""
    return compared(task, entrant, REFERENCE, message, source, f"a median below {factor:.3g} x",
                    lambda found: found.value < factor and not found.bound)  # fmt: skip


def arrives(task: str, entrant: str, message: str, source: str) -> Asked:
    """The entrant arrives with every seed."""
    return compared(task, entrant, REFERENCE, message, source, "all networks",
                    lambda found: found.arrived == found.seeds,
                    measured=lambda found: f"{found.arrived} of {found.seeds}")  # fmt: skip


def at_once(task: str, entrant: str, message: str, source: str) -> Asked:
    """Without a plateau between fitting the training data and recognising unseen ones; beside it the reference's."""

    def claim(seeds: Seeds) -> Claim | None:
        found, reference = (delay(seeds, task, each) for each in (entrant, REFERENCE))
        if found is None:
            return None
        measured = in_words(found)
        if reference is not None:
            passes = ", which passes too" if max(found, reference) <= AT_ONCE else ""
            measured += f" (tuned weight decay: {in_words(reference)}{passes})"
        expected = f"a median of at most {AT_ONCE:g} times the steps to fitting"
        return Claim(f"{task}: {message}", source, expected, measured, found <= AT_ONCE)

    return claim


def delay(seeds: Seeds, task: str, entrant: str) -> float | None:
    """The median of the steps to the goal over those to fitting; None without scored trials."""
    trials = [trial for records in seeds for trial in scored(records, task, entrant)]
    # A network that arrives without having fitted the training data has no plateau either.
    delays = [
        math.inf if trial["steps"] is None else trial["steps"] / (trial["fits"] or trial["steps"]) for trial in trials
    ]
    return statistics.median_low(delays) if delays else None


def in_words(found: float) -> str:
    """A delay."""
    return "most never arrive" if math.isinf(found) else f"{found:.3g} x"


def worth_it(task: str) -> Asked:
    """Whether GrokAlign adds to a tuned weight decay, in time."""
    message = "GrokAlign at one step in 16 on top of tuned weight decay takes less time than it"
    return compared(task, f"GrokAlign, k = 16, {ON_TOP}", REFERENCE, message, "question of this project",
                    "an interval above 1", lambda found: found.low > 1, unit="time")  # fmt: skip


WALKER, PRIETO = "Walker et al., arXiv:2506.12284, table 1", "Prieto et al., arXiv:2501.04697"
PASAND = "Pasand, Dohmatob, arXiv:2510.04930"
MUON = 153.09 / 102.89 * (1 - SPREAD)
"""Times fewer steps than AdamW, of Tveit et al., less the spread."""
CLAIMS = (
    faster("digits", f"GrokAlign, {ALONE}", NO_DECAY, 7.56 * (1 - SPREAD),
           "GrokAlign takes 7.56 times fewer steps than without it", WALKER),
    faster("digits", f"input noise, {ALONE}", NO_DECAY, 1.32 * (1 - SPREAD),
           "input noise takes 1.32 times fewer steps than without it", WALKER),
    faster("transformer", f"Grokfast, {ON_TOP}", NO_DECAY, 43.84 * (1 - SPREAD),
           "Grokfast with weight decay takes 43.84 times fewer steps than neither", "Lee et al., arXiv:2405.20233"),
    faster("transformer", f"Muon, {ON_TOP}", UNTUNED, MUON,
           "Muon takes 153.09 / 102.89 times fewer steps than AdamW", "Tveit et al., arXiv:2504.16041, abstract"),
    no_faster("transformer", f"Muon, {ON_TOP}", MUON, "beside tuned AdamW that advantage disappears",
              "Essential AI, Muon doesn't clearly grok faster, 2025"),
    arrives("addition", f"⊥Grad, {ALONE}", "⊥Grad generalises without weight decay", PRIETO),
    faster("addition", f"⊥Grad, {ALONE}", REFERENCE, 1.0, "⊥Grad is sooner than weight decay", PRIETO),
    arrives("addition", f"StableMax, {ALONE}", "StableMax generalises without weight decay", PRIETO),
    at_once("addition", f"egalitarian, {ALONE}", "egalitarian descent has no plateau", PASAND),
    at_once("parity", f"egalitarian, {ALONE}", "egalitarian descent has no plateau", PASAND),
    at_once("digits", f"constant norm, {ALONE}", "held at a smaller norm, networks generalise at once",
            "Liu et al., arXiv:2210.01117"),
    *(worth_it(task) for task in LATE),
)  # fmt: skip
"""In the order of the page."""
