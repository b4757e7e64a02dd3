"""The board's page: every method compared with weight decay that was tuned as long."""

from collections.abc import Sequence

from gnomon_lab.figures import Figure, Points, Scatter, ScatterPanel
from gnomon_lab.papers.own.steering.chosen import ALONE, BASELINE, NO_DECAY, ON_TOP, REFERENCE, UNTUNED, compare, scored
from gnomon_lab.papers.own.steering.claimed import CLAIMS
from gnomon_lab.runs import Cells, Claim, Record, Seeds

NEVER = 0.02
"""Where the figure shows a factor of zero, and factors below this."""
MOST = 50.0
"""Where it shows factors above this."""


def tasks(records: Sequence[Record]) -> dict[str, bool]:
    """The tasks, in the order in which they ran, and whether networks train to the end there."""
    return {record["task"]: record["whole"] for record in records}


def entrants(records: Sequence[Record]) -> list[str]:
    """All that were scored, in the order in which they ran."""
    return list(dict.fromkeys(record["entrant"] for record in records if record["scored"]))


def table(records: Sequence[Record]) -> Cells:
    """For this run alone."""
    return table_over_seeds([records])


def table_over_seeds(seeds: Seeds) -> Cells:
    """Each entrant on each task: times fewer steps, and times less time, than tuned weight decay.

    With the share of seeds that arrived where it is not all, and ≥ where tuned weight decay arrives too rarely to tell.
    """
    on = tasks(seeds[0])
    columns = ("", *(f"{task}, points" if whole else f"{task}, steps / time" for task, whole in on.items()))
    return columns, [
        (entrant, *(cell(seeds, task, entrant, whole) for task, whole in on.items())) for entrant in entrants(seeds[0])
    ]


def cell(seeds: Seeds, task: str, entrant: str, whole: bool) -> str:
    """One entrant on one task."""
    steps, time = (compare(seeds, task, entrant, REFERENCE, unit) for unit in ("unseen" if whole else "steps", "time"))
    if steps is None or time is None:
        return ""
    if whole:
        return f"{steps.value:+z.1f} ({steps.low:+z.1f} to {steps.high:+z.1f})"
    if steps.arrived == 0:
        return "never"
    arrived = "" if steps.arrived == steps.seeds else f", {steps.arrived} of {steps.seeds}"
    least = "≥ " if steps.bound else ""
    # Spaces at which a factor and its interval are not broken.
    fewer, less = (f"{each.value:.2f}\u00a0({each.low:.2f}\u00a0to\u00a0{each.high:.2f})" for each in (steps, time))
    return f"{least}{fewer} / {less}{arrived}"


def summary(records: Sequence[Record]) -> str:
    """What arrives first on each task, or knows most in the end."""
    sentences = []
    for task, whole in tasks(records).items():
        unit = "unseen" if whole else "time"
        found = {entrant: compare([records], task, entrant, REFERENCE, unit) for entrant in entrants(records)}
        best, gained = max(((name, each) for name, each in found.items() if each), key=lambda pair: pair[1].value)
        more = f"{gained.value:+z.1f} points of unseen accuracy" if whole else f"{gained.value:.1f} times less time"
        sentences.append(f"{task}: {best} ({more})")
    return f"Best beside tuned weight decay: {'; '.join(sentences)}."


def figures(records: Sequence[Record]) -> list[Figure]:
    """For this run alone."""
    return figures_over_seeds([records])


def figures_over_seeds(seeds: Seeds) -> list[Figure]:
    """A panel per task, a row per method: how many times less time than tuned weight decay, with its interval."""
    on = tasks(seeds[0])
    count = len(scored([record for records in seeds for record in records], next(iter(on)), REFERENCE))
    caption = (
        "Beside weight decay that was tuned with as many settings: the median over "
        f"{count} networks, and its 95 % interval by resampling them."
    )
    if not all(on.values()):
        caption += (
            f" How many times less processor time until the goal; at the left edge: at most {NEVER:g} times, or never."
        )
    if ends := [task for task, whole in on.items() if whole]:
        caption += f" On {' and '.join(ends)}: points of unseen accuracy more at the end."
    panels = tuple(panel(seeds, task, whole) for task, whole in on.items())
    return [Scatter("less-time", "What makes networks generalise sooner", caption, panels)]


def panel(seeds: Seeds, task: str, whole: bool) -> ScatterPanel:
    """One task."""
    here = [record for record in seeds[0] if record["task"] == task]
    names = list(dict.fromkeys(method(entrant) for entrant in entrants(here)))
    points: list[Points] = []
    for colour, way in enumerate((ALONE, ON_TOP)):
        spans, ys = [], []
        for place, name in enumerate(names):
            by_itself = name in (BASELINE, UNTUNED, NO_DECAY)
            found = compare(
                seeds, task, name if by_itself else f"{name}, {way}", REFERENCE, "unseen" if whole else "time"
            )
            if found is None or (by_itself and way == ON_TOP):
                continue
            spans.append([each if whole else shown(each) for each in (found.low, found.value, found.high)])
            ys.append(place + (colour - 0.5) / 3)
        if spans:
            label = "alone" if way == ALONE else "on top of tuned weight decay"
            low, value, high = zip(*spans, strict=True)
            points.append(Points(label, value, tuple(ys), colour=colour, low=low, high=high))
    unit = "points of unseen accuracy more" if whole else "times less time"
    return ScatterPanel(task, unit, "", tuple(points), log_x=not whole, rows=tuple(names))


def method(entrant: str) -> str:
    """An entrant's method, without the way in which it is used."""
    return entrant.removesuffix(f", {ALONE}").removesuffix(f", {ON_TOP}")


def shown(factor: float) -> float:
    """Where a factor is drawn in the figure."""
    return min(max(factor, NEVER), MOST)


def claims(seeds: Seeds) -> list[Claim]:
    """What papers say about their methods, and what we ask of ours."""
    return [found for claim in CLAIMS if (found := claim(seeds)) is not None]
