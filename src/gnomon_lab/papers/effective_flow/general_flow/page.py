"""general-flow's page: its table, figures and claims, from its records."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from gnomon_lab.figures import Curves, Figure, Line, Panel, Points, RegionFrame, RegionMap
from gnomon_lab.papers.effective_flow._film import SECTORS, regions
from gnomon_lab.runs import Arm, Cells, Claim, Record, Seeds, at_most, by_arm

PLANE, SPACE, DIGITS, APART = "plane", "space", "digits", "separated"
ARMS = (*(f"{PLANE} {layers}" for layers in (1, 2, 3)), f"{SPACE} 2", f"{DIGITS} 2", f"{APART} 2")
"""The data and the number of layers."""
CLUSTERS, COMPONENTS = 3, 4
"""Clusters, and principal components of the digits."""
EXACT, SOLVED, SAME, ORTHOGONAL = 1e-10, 1e-9, 1e-8, 1e-12
"""Tolerances: right-hand sides; a sum of two integrals; two integrations of one flow; orthogonality, a falling loss."""
POWER = (0.9, 1.1)
"""The power of the step size in the error of small steps: between these it counts as one."""
HORIZON, STEPS = 0.2, (100, 200, 400, 800)
"""The time at which small steps are compared with the flow, and how many are taken up to it."""
BOX = 4.5
"""Half the side length of the square that the film shows."""
NONE = 1e-16
"""Smaller values are drawn as this, on logarithmic axes."""
SOURCE = "Chen, arXiv:2501.07400, "


def share(record: Record) -> float:
    """The share of all coordinates that are truncated; clusters and layers count equally."""
    return float(np.mean(record["truncated"]))


def power(arm: Arm) -> float:
    """The power of the step size in the distance of small steps from the flow: the slope of a line in logarithms."""
    return float(np.polyfit(np.log(1 / np.array(STEPS)), np.log(arm[0]["small_steps"]), 1)[0])


def known(arm: Arm, name: str = "gradient_error") -> list[float]:
    """The relative errors of the right-hand sides, as corrected or as printed, at the readings that have one."""
    return [record[name] for record in arm if record[name] is not None]


def slope(arm: Arm) -> float:
    """The largest of the rates at which β and R of a layer change the loss, over the first loss."""
    rates = [rate for record in arm for both in record["slopes"] or () for rate in both]
    return max(rates, default=math.inf) / float(arm[0]["loss"])


def rise(arm: Arm) -> float:
    """The most by which the loss rises from one reading to the next, over the first loss; below 0 if it never does."""
    return max(after["loss"] - before["loss"] for before, after in itertools.pairwise(arm)) / arm[0]["loss"]


def balance(arm: Arm) -> float:
    """By how much the first loss, the loss and the two decreases disagree, relative to the first loss."""
    first = arm[0]["loss"]
    return max(abs(first - record["loss"] - sum(record["decrease"])) / first for record in arm)


def table(records: Sequence[Record]) -> Cells:
    """What happened in every arm."""
    columns = ("maps", "crossings", "slides", "truncated", "loss", "by β", "by R", "off autodiff", "power")
    rows: list[tuple[str, ...]] = []
    for name, arm in by_arm(records).items():
        first, end = arm[0], arm[-1]
        spent = [f"{part / first['loss']:.0%}" for part in end["decrease"]]
        loss, gained = f"{first['loss']:.3g} → {end['loss']:.3g}", f"{share(first):.0%} → {share(end):.0%}"
        events = f"{first['crossings']:,}", f"{first['slides']:,}"
        rows.append((name, *events, gained, loss, *spent, f"{max(known(arm)):.0e}", f"{power(arm):.3f}"))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    every = by_arm(records)
    crossings, slides = (sum(arm[0][name] for arm in every.values()) for name in ("crossings", "slides"))
    return (
        f"Over {crossings:,} crossings of faces, after {slides:,} of which a point slides along, the flow is steepest "
        f"descent by automatic differentiation to {max(max(known(arm)) for arm in every.values()):.0e}. Where clusters "
        f"are separated it is the flow of each map alone, to {every[ARMS[-1]][0]['alone']:.0e}."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """All arms over time; and the plane with two maps as a film."""
    every = by_arm(records)
    return [film(every[ARMS[1]]), curves(every), truncations(every)]


def line(name: str, arm: Arm, colour: int, value: Callable[[Record], float]) -> Line:
    """Values of one arm over time."""
    return Line(name, tuple(record["s"] for record in arm), tuple(map(value, arm)), colour=colour)


def curves(every: Mapping[str, Arm]) -> Curves:
    """Loss, truncated share, what β and R do, and the errors of the right-hand sides."""

    def panel(
        title: str, unit: str, value: Callable[[Arm, Record], float], of: Mapping[str, Arm] = every, log_y: bool = False
    ) -> Panel:
        lines = (line(name, arm, k, partial(value, arm)) for k, (name, arm) in enumerate(of.items()))
        return Panel(title, unit, tuple(lines), log_y=log_y)

    compared = {name: [r for r in arm if r["gradient_error"] is not None] for name, arm in every.items()}

    return Curves(
        "general-flow",
        "Loss, truncation, and automatic differentiation",
        "Clusters that overlap in the plane and in space, and digits, with one to three maps; and two separated "
        "clusters with a map each. The errors are those of the right sides beside automatic differentiation; there is "
        "none at readings where a point slides along a face.",
        "s",
        (
            panel("Loss, of that at the start", "share", lambda arm, r: r["loss"] / arm[0]["loss"]),
            panel("Truncated coordinates", "share", lambda _, r: share(r)),
            panel("What R has lowered the loss by", "share of the first",
                  lambda arm, r: r["decrease"][1] / arm[0]["loss"]),
            panel("Right sides: relative error", "", lambda _, r: max(r["gradient_error"], NONE), compared, True),
        ),
        log_x=False,
    )  # fmt: skip


def truncations(every: Mapping[str, Arm]) -> Curves:
    """The truncated share of each cluster in each layer, for the arm with the most maps."""
    name, arm = max(every.items(), key=lambda pair: len(pair[1][0]["truncated"]))
    layers = range(len(arm[0]["truncated"]))
    panels = (
        Panel(
            f"Layer {layer + 1}", "share of coordinates",
            tuple(line(f"cluster {k + 1}", arm, k, partial(truncated, layer, k))
                  for k in range(CLUSTERS)), (), (0.0, 1.05),
        ) for layer in layers
    )  # fmt: skip
    caption = "Every map truncates points of all clusters: nothing is separated."
    return Curves(
        "layers", f"What each map truncates of each cluster: {name}", caption, "s", tuple(panels), log_x=False
    )


def truncated(layer: int, cluster: int, record: Record) -> float:
    """The share of a cluster's coordinates that a layer truncates."""
    return float(record["truncated"][layer][cluster])


def film(arm: Arm) -> RegionMap:
    """The linear regions of both maps, the points where they take them, and the targets."""
    return RegionMap(
        "plane",
        "Two truncation maps on three clusters that overlap",
        "The colours say what both maps together do to a point of the plane: nothing, take it to a line or to a point. "
        "Drawn are the points of the clusters where the maps take them, and where they should come to.",
        *("x₁", "x₂", "a point here is"),
        tuple(map(frame, itertools.repeat(arm[0]), arm)),
        classes=SECTORS,
    )


def frame(first: Record, record: Record) -> RegionFrame:
    """One moment."""
    polygons, values = regions(np.array(record["rotation"]), -np.array(record["beta"]), (-BOX, BOX, -BOX, BOX))
    images, labels = np.array(record["images"][-1]), np.array(first["labels"])
    points = []
    for k, target in enumerate(first["targets"]):
        x, y = images[labels == k].T
        points.append(Points(f"cluster {k + 1}", tuple(x), tuple(y), colour=k))
        points.append(Points(f"target {k + 1}", (target[0],), (target[1],), colour=k + CLUSTERS))
    return RegionFrame(f"s = {record['s']:.2f}", polygons, values, (), tuple(points))


def claims(seeds: Seeds) -> list[Claim]:
    """What theorem 5.1 says, for the worst of all arms and over all finished seeds."""

    def most(message: str, where: str, limit: float, measure: Callable[[Arm], float]) -> Claim:
        worst = [max(map(measure, by_arm(records).values())) for records in seeds]
        return at_most(message, SOURCE + where, limit, worst)

    powers = [power(arm) for records in seeds for arm in by_arm(records).values()]
    same = [by_arm(records)[ARMS[-1]][0]["alone"] for records in seeds]
    printed = [
        max((error for arm in by_arm(records).values() for error in known(arm, "printed_error")), default=math.inf)
        for records in seeds
    ]
    return [
        most("the right sides are steepest descent of the loss, by automatic differentiation: relative distance",
             "theorem 5.1, as corrected in docs/errata.md", EXACT, lambda arm: max(known(arm), default=math.inf)),
        at_most("the right side of β is as printed, where there are as many maps as clusters: the same",
                SOURCE + "theorem 5.1, (5.4)", EXACT, printed),
        Claim("small steps of that descent converge to the flow, in proportion to the step: power of the step",
              SOURCE + "theorem 5.1", f"{POWER[0]:g} to {POWER[1]:g}",
              f"{min(powers):.3f} to {max(powers):.3f} over {len(powers)} flows",
              POWER[0] <= min(powers) and max(powers) <= POWER[1]),
        most("every R stays orthogonal: largest rate of change of an entry of RRᵀ", "theorem 5.1", ORTHOGONAL,
             lambda arm: max(record["stretch"] for record in arm)),
        most("the loss falls: largest rise, of the first loss", "(3.27)", ORTHOGONAL, rise),
        most("so do both its parts: largest rate in a layer, of the first loss, by automatic differentiation",
             "(3.28), (3.29)", ORTHOGONAL, slope),
        most("the loss is what they leave of the first: difference, of the first loss", "(3.27)", SOLVED, balance),
        at_most("where clusters are separated the flow is that of each map alone: difference in β and R",
                SOURCE + "theorems 3.2 and 5.1", SAME, same),
    ]  # fmt: skip
