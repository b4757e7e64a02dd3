"""What anatomy watches, when each quantity is done changing, in which order, and what papers say about that order."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from gnomon import feature_learning_interval
from gnomon_lab.figures import Points, Scatter, ScatterPanel
from gnomon_lab.papers._shared import SEEN, UNSEEN
from gnomon_lab.runs import Claim, Record, Seeds, series, settled_at

WALKER = "Walker et al., arXiv:2506.12284"
ARMS = ("weight decay", "GrokAlign")
WAY = 0.9
"""The part of its way from its first to its last value after which a quantity counts as done. Half would be reached by
the test accuracy while the network memorises."""
MOVES = 0.1
"""A quantity whose last value is nearer to its first than this share of its largest does not change."""
APART = 0.18
"""How far each arm is drawn from the middle of its row, as a share of the row's height."""
KERNEL, UNRELATED = "kernel/alignment", "kernel/unrelated"
"""The kernel's CKA with that of the start, and what that of another untrained network has."""


@dataclass(frozen=True)
class Quantity:
    """A watched quantity: its name in the records, in words, its unit, and whether it is judged by its logarithm."""

    name: str
    title: str
    unit: str
    log: bool = False


QUANTITIES = (
    Quantity(SEEN, "Training accuracy", "share"),
    Quantity(UNSEEN, "Test accuracy", "share"),
    Quantity("jacobians/robust_radius", "Robust radius", "inputs"),
    Quantity("jacobians/centroid_alignment", "Centroid alignment", "cosine"),
    Quantity("jacobians/jacobian_alignment", "Jacobian alignment", "share"),
    Quantity("jacobians/jacobian_norm", "Jacobian norm", "outputs / input", log=True),
    Quantity("jacobians/explained_variance_ratio", "PC1 of the Jacobians", "share"),
    Quantity("jacobians/effective_rank", "Effective rank of the Jacobians' AGOP", "directions"),
    Quantity(KERNEL, "NTK beside its start", "CKA"),
    Quantity("jacobians/feature_ansatz", "NFA of the first layer", "correlation"),
    Quantity("train/nc1", "NC1: spread within classes", "ratio", log=True),
    Quantity("train/equinorm", "NC2: unequal lengths", "std / mean"),
    Quantity("train/equiangularity", "NC2: unequal angles", "std of cosines"),
    Quantity("train/self_duality", "NC3: weights off the means", "distance²"),
    Quantity("train/nearest_mean_disagreement", "NC4: off the nearest mean", "share"),
    Quantity("train/truncated", "Truncated by the ReLUs", "share"),
    Quantity("near/boundary_distance", "Way to the region's edge", "inputs", log=True),
    Quantity("near/regions", "Regions around a digit", "count", log=True),
)
COLLAPSE = tuple(quantity.name for quantity in QUANTITIES if quantity.title.startswith("NC"))
"""The quantities of neural collapse."""
ALIGNMENTS = {
    "jacobians/centroid_alignment": "the centroids' alignment",
    "jacobians/jacobian_alignment": "the Jacobians' alignment",
}
"""The paper measures the first, about which its theorem 2 says nothing under cross-entropy (docs/errata.md)."""
RISES = {UNSEEN, "jacobians/robust_radius", *ALIGNMENTS, "jacobians/explained_variance_ratio"}
"""What a claim speaks of as gained: it has to rise; that of the kernel and those of neural collapse have to fall."""


@dataclass(frozen=True)
class Change:
    """When a quantity is done: the reading from which it has gone `WAY` of its way, its value there, its direction."""

    step: float
    value: float
    rises: bool


def change(records: Sequence[Record], arm: str, quantity: Quantity) -> Change | None:
    """The change point of a quantity in one arm of one run; None where it does not change.

    The rule is the same for all: with v the quantity, or its logarithm where it is drawn on a logarithmic axis and
    above 0, the first reading from which on v is never again on the near side of v_first + WAY (v_last - v_first).
    """
    steps, values = series(records, arm, quantity.name)
    first, last = values[0], values[-1]
    if feature_learning_interval(steps, values, MOVES).change <= MOVES:
        return None
    far = first ** (1 - WAY) * last**WAY if quantity.log and min(first, last) > 0 else first + WAY * (last - first)
    short = [place for place, value in enumerate(values) if (value - far) * (last - first) < 0]
    return Change(steps[short[-1] + 1], values[short[-1] + 1], last > first)


def done(seeds: Seeds, arm: str, name: str) -> list[float | None]:
    """The change points of a quantity in one arm, seed by seed."""
    return [None if at is None else at.step for at in changes(seeds, arm, name)]


def gained(seeds: Seeds, arm: str, name: str) -> list[float | None]:
    """The same of what a claim speaks of; None also where the quantity changes in the other direction."""
    return [None if at is None or at.rises != (name in RISES) else at.step for at in changes(seeds, arm, name)]


def changes(seeds: Seeds, arm: str, name: str) -> list[Change | None]:
    """The changes of a quantity in one arm, seed by seed."""
    (quantity,) = (quantity for quantity in QUANTITIES if quantity.name == name)
    return [change(records, arm, quantity) for records in seeds]


def memorised(seeds: Seeds, arm: str) -> list[float | None]:
    """The steps from which on no training digit is misread, seed by seed: zero training error."""
    return [settled_at(records, arm, SEEN, 1.0) for records in seeds]


def arrow(seeds: Seeds, quantity: Quantity) -> str:
    """Which way a quantity goes: up, down, or both where arms or seeds differ."""
    rises = {at.rises for arm in ARMS for at in changes(seeds, arm, quantity.name) if at is not None}
    return "".join(sign for sign, way in (("↑", True), ("↓", False)) if way in rises)


def spans(seeds: Seeds) -> dict[str, dict[str, list[float]]]:
    """By the names of the figure's rows and by arm: the change points of the seeds that have one, in order.

    A name says of how many seeds these are, where not all of an arm have one.
    """
    found = {"Zero training error": {arm: memorised(seeds, arm) for arm in ARMS}}
    for quantity in QUANTITIES:
        found[f"{quantity.title} {arrow(seeds, quantity)}"] = {arm: done(seeds, arm, quantity.name) for arm in ARMS}
    named = {}
    for row, by_arm in found.items():
        there = {arm: sorted(step for step in steps if step is not None) for arm, steps in by_arm.items()}
        some = [f"{arm} {len(steps)} of {len(seeds)}" for arm, steps in there.items() if len(steps) < len(seeds)]
        named[f"{row} ({', '.join(some)})" if some else row] = there
    return named


def order(seeds: Seeds) -> Scatter:
    """The order of all changes: a row for each quantity, a point for each seed, the arms side by side.

    Sorted by the median over the seeds of the first arm in which a quantity changes in half of them, or of the one with
    the most; what changes in none is left out.
    """
    found = {row: by_arm for row, by_arm in spans(seeds).items() if any(by_arm.values())}
    sorting = {row: max(by_arm.values(), key=lambda at: min(2 * len(at), len(seeds))) for row, by_arm in found.items()}
    rows = sorted(found, key=lambda row: statistics.median(sorting[row]))
    points: list[Points] = []
    for place, arm in enumerate(ARMS):
        last_two = series(seeds[0], arm, SEEN)[0][-2:]
        for height, row in enumerate(rows):
            middle = height + (2 * place - 1) * APART
            if steps := found[row][arm]:
                points.append(Points(arm, tuple(steps), (middle,) * len(steps), joined=True, colour=place))
            if late := [step for step in steps if step >= last_two[0]]:  # over those that are filled
                words = f"{arm}, still changing at the end"
                points.append(Points(words, tuple(late), (middle,) * len(late), colour=place, hollow=True))
    return Scatter(
        "order",
        "The order in which a network changes",
        f"For each quantity the step from which on it has gone {WAY:.0%} of its way from its first to its last value: "
        f"a point for each seed, one for all that agree, a line over their range. {interval(len(seeds))} In brackets: "
        f"how many seeds of an arm have a point, where not all do; in the others the quantity ends where it began, "
        f"within {MOVES:.0%} of its largest value, or there is training error to the end. Sorted by weight decay's "
        f"median, or by GrokAlign's where fewer than half of weight decay's seeds change. "
        f"What is drawn on a logarithmic axis goes its way by its logarithm. A hollow point is at one of the last two "
        f"readings: still changing when training ends, and later in a longer run.",
        (
            ScatterPanel(
                "When each quantity is done",
                "step (a pass over all batches)",
                "",
                tuple(points),
                log_x=True,
                rows=tuple(rows),
            ),
        ),
    )


def interval(seeds: int) -> str:
    """How surely the range of the seeds holds the median over all seeds; it fails to only if all lie on one side."""
    if seeds == 1:
        return "1 seed."
    return (
        f"{seeds} seeds: where all change, their range holds the median over all seeds with {1 - 2 ** (1 - seeds):.0%}."
    )


def claims(seeds: Seeds) -> list[Claim]:
    """What the papers say about the order, over all finished seeds."""
    return [claim for arm in ARMS for claim in of_arm(seeds, arm)] + sooner(seeds)


def of_arm(seeds: Seeds, arm: str) -> list[Claim]:
    """What comes before what in one arm; alignment twice, as the paper measures it and as its definition 1 says it."""
    memory, known = memorised(seeds, arm), gained(seeds, arm, UNSEEN)
    alignments = [(message, gained(seeds, arm, name)) for name, message in ALIGNMENTS.items()]
    collapse = [gained(seeds, arm, name) for name in COLLAPSE]
    earliest = [min((at for at in steps if at is not None), default=None) for steps in zip(*collapse, strict=True)]
    return [
        before(f"{arm}: memorisation before generalisation", f"{WALKER}, section 4", memory, known),
        *(before(f"{arm}: memorisation before {what}", f"{WALKER}, figure 4", memory, at) for what, at in alignments),
        *(before(f"{arm}: {what} before generalisation", f"{WALKER}, figure 1", at, known) for what, at in alignments),
        before(f"{arm}: generalisation before robustness (the radius)", f"{WALKER}, figure 4", known,
               gained(seeds, arm, "jacobians/robust_radius")),
        before(f"{arm}: memorisation before the kernel has turned (feature learning)", f"{WALKER}, section 1", memory,
               gained(seeds, arm, KERNEL)),
        before(f"{arm}: zero training error before the first of NC1 to NC4 is done",
               "Papyan, Han, Donoho, arXiv:2008.08186", memory, earliest),
    ]  # fmt: skip


def sooner(seeds: Seeds) -> list[Claim]:
    """What GrokAlign brings forward: generalisation, as the paper says, and what we ask besides."""
    base, ours = ({q.name: done(seeds, arm, q.name) for q in QUANTITIES} for arm in ARMS)
    base_gain, our_gain = ({name: gained(seeds, arm, name) for name in RISES} for arm in ARMS)
    expected = (
        ("generalisation", UNSEEN, f"{WALKER}, table 1"),
        *((message, name, "question of this project") for name, message in ALIGNMENTS.items()),
        ("the Jacobians' rank", "jacobians/explained_variance_ratio", "question of this project"),
    )
    more = "sooner with GrokAlign than with weight decay"
    found = [
        before(f"{more}: {message}", source, our_gain[name], base_gain[name]) for message, name, source in expected
    ]
    late = [q.title for q in QUANTITIES if q.name != SEEN and not all(map(comes_first, ours[q.name], base[q.name]))]
    message = "sooner with GrokAlign in every seed: all that is watched but the training accuracy; exceptions"
    return [
        *found,
        Claim(message, "setting of this project", "no exception", "; ".join(late) or "no exception", not late),
    ]


def before(message: str, source: str, earlier: Sequence[float | None], later: Sequence[float | None]) -> Claim:
    """One thing is done at an earlier reading than another, in every seed."""
    pairs = list(zip(earlier, later, strict=True))
    measured = "; ".join(f"{words(a)} and {words(b)}" for a, b in pairs)
    return Claim(message, source, "the first step below the second", measured, all(comes_first(a, b) for a, b in pairs))


def comes_first(earlier: float | None, later: float | None) -> bool:
    """Whether both exist, in this order; what does not change comes neither before nor after anything."""
    return earlier is not None and later is not None and earlier < later


def words(step: float | None, none: str = "never") -> str:
    """A step, or that there is none."""
    return none if step is None else f"{step:,.0f}"
