"""general-flow: truncation maps one after the other, on clusters that are not separated (theorem 5.1)."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import GeneralFlow, GeneralOrbit, TruncationFlow, _checks
from gnomon.data import digits
from gnomon.plot import Curves, Figure, Line, Panel, Points, RegionFrame, RegionMap
from gnomon_lab.papers.truncation_film import SECTORS, regions
from gnomon_lab.runs import Claim, Record, Run, over_seeds

PLANE, SPACE, DIGITS, APART = "plane", "space", "digits", "separated"
ARMS = (*(f"{PLANE} {layers}" for layers in (1, 2, 3)), f"{SPACE} 2", f"{DIGITS} 2", f"{APART} 2")
"""The data and the number of layers."""
CLUSTERS, COMPONENTS = 3, 4
"""Clusters, and principal components of the digits."""
EXACT, SOLVED, SAME, ORTHOGONAL = 1e-10, 1e-9, 1e-8, 1e-12
"""Right sides; a sum of two integrals; two integrations of one flow; an orthogonal matrix, and a loss that falls."""
POWER = (0.9, 1.1)
"""Of the step, in the error of small steps: between them it is one."""
HORIZON, STEPS = 0.2, (100, 200, 400, 800)
"""Where small steps are compared with the flow, and how many are taken to there."""
NEAR = 1e-9
"""Nearer than this to a face a point has no gradient to compare with."""
BOX = 4.5
"""Half the side of the square that the film shows."""
NONE = 1e-16
"""What is less is drawn as this, on logarithmic axes."""
Arm = Sequence[Record]
SOURCE = "Chen, arXiv:2501.07400, "
INTRODUCTION = """
In its input space a layer of a ReLU network acts as a truncation map. Where each map meets one cluster alone, its flow
is known in detail. In general every map acts on all clusters, and on what the maps before it have made of them:
clusters overlap, maps compete for points, and a point may come to rest on a face and slide along it. Theorem 5.1 has
the gradient flow of the maps for that case, without backpropagation through a network.

Here it is held against automatic differentiation and against small steps, for overlapping clusters in the plane and in
space and for handwritten digits, with one to three layers. Where clusters are separated it has to be the flow of each
map alone.
"""


@dataclass(frozen=True)
class Config:
    """The setting, which is this project's: the paper states the theorem alone."""

    points: int = 12
    """Of each cluster."""
    until: float = 6.0
    """The flows end at this s."""
    readings: int = 40
    """Of each flow, denser at its start."""
    threads: int = 1
    """Processor threads."""

    def __post_init__(self) -> None:
        _checks.settings(
            "general-flow",
            ("points", self.points, "from 2 to 170", 2 <= self.points <= 170),
            ("until", self.until, "finite and at least 1", 1 <= self.until < math.inf),
            ("readings", self.readings, "at least 3", self.readings >= 3),
            ("threads", self.threads, "at least 1", self.threads >= 1),
        )


SMALL = Config()
PAPER = Config(points=30, until=10.0)
SETTINGS = (SMALL, PAPER)


@dataclass(frozen=True)
class Start:
    """Clusters, their targets, and the maps at time 0."""

    points: Float[Tensor, "n q"]
    labels: Int[Tensor, "n"]
    targets: Float[Tensor, "k q"]
    beta: Float[Tensor, "l q"]
    rotation: Float[Tensor, "l q q"]


def run(config: Config, run: Run) -> None:
    """Lets the maps flow on each of the data; where it is stopped, an arm begins again."""
    torch.set_num_threads(config.threads)
    later = config.until * torch.linspace(0, 1, config.readings, dtype=torch.float64) ** 2
    times = torch.tensor(sorted({*later.tolist(), HORIZON}), dtype=torch.float64)
    for arm in ARMS:
        for _ in run.steps(arm, 0):
            start = begin(arm, config.points, torch.Generator().manual_seed(run.seed))
            flow = GeneralFlow(start.points, start.labels, start.targets)
            orbit = flow.flow(start.beta, start.rotation, times)
            run.require_finite(loss=orbit.loss)
            observe(run, start, flow, orbit, {"alone": alone(start, orbit)} if arm.startswith(APART) else {})


def begin(arm: str, size: int, generator: torch.Generator) -> Start:
    """Overlapping clusters with targets at a distance, and random maps; or separated ones that face each other."""
    data, layers = arm.split()
    if data == APART:
        return separated(size, generator)
    if data == DIGITS:
        points, labels = components(size, generator)
    else:
        width, labels = 2 if data == PLANE else 3, torch.arange(CLUSTERS).repeat_interleave(size)
        means = 1.2 * torch.randn(CLUSTERS, width, generator=generator, dtype=torch.float64)
        points = means[labels] + torch.randn(len(labels), width, generator=generator, dtype=torch.float64)
    shape = int(layers), points.shape[1]
    targets = 1.5 * torch.randn(CLUSTERS, shape[1], generator=generator, dtype=torch.float64)
    beta = 0.5 * torch.randn(shape, generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(torch.randn(*shape, shape[1], generator=generator, dtype=torch.float64))[0]
    return Start(points, labels, targets, beta, rotation)


def components(size: int, generator: torch.Generator) -> tuple[Float[Tensor, "n q"], Int[Tensor, "n"]]:
    """Principal components of images of the first digits, of mean square 1."""
    images = digits(1796, generator=generator, dtype=torch.float64)[0]
    chosen = torch.cat([(images.labels == k).nonzero()[:size, 0] for k in range(CLUSTERS)])
    x = images.x[chosen] - images.x[chosen].mean(0)
    points = x @ torch.linalg.svd(x, full_matrices=False).Vh[:COMPONENTS].mT
    return points / points.square().mean().sqrt(), images.labels[chosen]


def separated(size: int, generator: torch.Generator) -> Start:
    """Two clusters, 20 apart, each in front of its own map, whose positive sector holds the other one."""
    labels, ones = torch.arange(2).repeat_interleave(size), torch.ones(2, dtype=torch.float64)
    means = torch.stack([-7 * ones, 7 * ones])
    points = means[labels] + 0.5 * torch.randn(2 * size, 2, generator=generator, dtype=torch.float64).clamp(-2, 2)
    turns = 0.2 * torch.rand(2, generator=generator, dtype=torch.float64) - 0.1
    turned = [torch.stack([a.cos(), -a.sin(), a.sin(), a.cos()]).view(2, 2) for a in turns]
    # The first map's positive sector opens to the upper right, the second one's to the lower left.
    rotation = torch.stack([turned[0], -turned[1]])
    return Start(points, labels, means * 5 / 7, -means * 6.6 / 7, rotation)


def loss_of(start: Start, beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"]) -> Float[Tensor, ""]:
    """(2.26), cluster by cluster and layer by layer."""
    images = start.points
    for b, r in zip(beta, rotation, strict=True):
        images = ((images + b) @ r.mT).relu() @ r - b
    squares = (images - start.targets[start.labels]).square().sum(1)
    return (squares / torch.bincount(start.labels)[start.labels]).sum() / 2


def descent(
    start: Start, beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"]
) -> tuple[Float[Tensor, "l q"], Float[Tensor, "l q q"]]:
    """Steepest descent by automatic differentiation: of R, the generator Ω of its rotation."""
    at = beta.clone().requires_grad_(), rotation.clone().requires_grad_()
    of_beta, of_rotation = torch.autograd.grad(loss_of(start, *at), at)
    turning = of_rotation @ rotation.mT
    return -of_beta, (turning.mT - turning) / 2


def gradient_error(
    start: Start, flow: GeneralFlow, beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"]
) -> float | None:
    """How far the right sides are from steepest descent, of its length; None where a point is near a face."""
    images, nearest = start.points, math.inf
    for b, r in zip(beta, rotation, strict=True):
        heights = (images + b) @ r.mT
        nearest = min(nearest, float(heights.abs().min()))
        images = heights.relu() @ r - b
    if nearest < NEAR:
        return None
    velocity, (of_beta, turn) = flow.velocity_at(beta, rotation), descent(start, beta, rotation)
    wanted = torch.cat([of_beta.flatten(), (turn @ rotation).flatten()])
    found = torch.cat([velocity[0].flatten(), velocity[1].flatten()])
    return float((found - wanted).norm() / wanted.norm())


def small_steps(start: Start, count: int) -> tuple[Float[Tensor, "l q"], Float[Tensor, "l q q"]]:
    """β and R after so many steps of gradient descent up to the horizon; R is turned, and stays orthogonal."""
    beta, rotation, step = start.beta, start.rotation, HORIZON / count
    for _ in range(count):
        of_beta, turn = descent(start, beta, rotation)
        beta, rotation = beta + step * of_beta, torch.matrix_exp(step * turn) @ rotation
    return beta, rotation


def apart(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The largest difference of an entry of β or R."""
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


def alone(start: Start, orbit: GeneralOrbit) -> float:
    """How far all maps together are from each on its own cluster."""
    found = 0.0
    for k, target in enumerate(start.targets):
        flow = TruncationFlow(start.points[start.labels == k], target)
        own = flow.flow(start.beta[k], start.rotation[k], orbit.times)
        found = max(found, apart((own.beta, own.rotation), (orbit.beta[:, k], orbit.rotation[:, k])))
    return found


def observe(run: Run, start: Start, flow: GeneralFlow, orbit: GeneralOrbit, extra: dict[str, float]) -> None:
    """Records the orbit, what automatic differentiation says at each reading, and how far small steps are from it."""
    place = int((orbit.times == HORIZON).nonzero())
    there = orbit.beta[place], orbit.rotation[place]
    sides = orbit.crossings.sides
    counts = torch.bincount(start.labels)
    first = {
        "crossings": len(sides), "slides": int(((sides > 0) & (sides < 1)).sum()),
        "small_steps": [apart(small_steps(start, count), there) for count in STEPS],
        "targets": start.targets.tolist(), "labels": start.labels.tolist(), **extra,
    }  # fmt: skip
    eye = torch.eye(start.points.shape[1], dtype=torch.float64)
    for at, (beta, rotation) in enumerate(zip(orbit.beta, orbit.rotation, strict=True)):
        values = {"loss": orbit.loss, "rates": orbit.rates, "decrease": orbit.decrease}
        drawn = {}
        if len(eye) == 2:
            images = [start.points]
            for b, r in zip(beta, rotation, strict=True):
                images.append(((images[-1] + b) @ r.mT).relu() @ r - b)
            drawn = {"beta": beta, "rotation": rotation, "images": torch.stack(images).round(decimals=4)}
        run.record(
            at,
            s=float(orbit.times[at]),
            **{name: value[at].tolist() for name, value in values.items()},
            **{name: value.tolist() for name, value in drawn.items()},
            truncated=(orbit.truncated[at].double().mean(2) / counts).tolist(),
            defect=float((rotation @ rotation.mT - eye).abs().max()),
            gradient_error=gradient_error(start, flow, beta, rotation),
            **(first if at == 0 else {}),
        )


def arms(records: Sequence[Record]) -> dict[str, Arm]:
    """The records of each arm."""
    return {arm: list(part) for arm, part in itertools.groupby(records, key=lambda record: record["arm"])}


def share(record: Record) -> float:
    """Of all coordinates, those that are truncated; clusters and layers count alike."""
    return float(np.mean(record["truncated"]))


def power(arm: Arm) -> float:
    """Of the step, in the distance of small steps from the flow: the slope of a line through logarithms."""
    return float(np.polyfit(np.log(1 / np.array(STEPS)), np.log(arm[0]["small_steps"]), 1)[0])


def known(arm: Arm) -> list[float]:
    """The relative errors of the right sides, at the readings that have one."""
    return [record["gradient_error"] for record in arm if record["gradient_error"] is not None]


def rise(arm: Arm) -> float:
    """The most by which the loss rises from one reading to the next, of the first loss; below 0 if it never does."""
    return max(after["loss"] - before["loss"] for before, after in itertools.pairwise(arm)) / arm[0]["loss"]


def balance(arm: Arm) -> float:
    """By how much first loss, loss and the two decreases disagree, of the first loss."""
    first = arm[0]["loss"]
    return max(abs(first - record["loss"] - sum(record["decrease"])) / first for record in arm)


def table(records: Sequence[Record]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """What happened in every arm."""
    columns = ("maps", "crossings", "slides", "truncated", "loss", "by β", "by R", "off autodiff", "power")
    rows: list[tuple[str, ...]] = []
    for name, arm in arms(records).items():
        first, end = arm[0], arm[-1]
        spent = [f"{part / first['loss']:.0%}" for part in end["decrease"]]
        loss, gained = f"{first['loss']:.3g} → {end['loss']:.3g}", f"{share(first):.0%} → {share(end):.0%}"
        events = f"{first['crossings']:,}", f"{first['slides']:,}"
        rows.append((name, *events, gained, loss, *spent, f"{max(known(arm)):.0e}", f"{power(arm):.3f}"))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    every = arms(records)
    crossings, slides = (sum(arm[0][name] for arm in every.values()) for name in ("crossings", "slides"))
    return (
        f"Over {crossings:,} crossings of faces, after {slides:,} of which a point slides along, the flow is steepest "
        f"descent by automatic differentiation to {max(max(known(arm)) for arm in every.values()):.0e}. Where clusters "
        f"are separated it is the flow of each map alone, to {every[ARMS[-1]][0]['alone']:.0e}."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """All arms over time; and the plane with two maps as a film."""
    every = arms(records)
    return [film(every[ARMS[1]]), curves(every), truncations(every)]


def line(name: str, arm: Arm, colour: int, value: Callable[[Record], float]) -> Line:
    """Values of one arm over time."""
    return Line(name, tuple(record["s"] for record in arm), tuple(map(value, arm)), colour=colour)


def curves(every: dict[str, Arm]) -> Curves:
    """Loss, truncated share, what β and R do, and the right sides' errors."""

    def panel(title: str, unit: str, value: Callable[[Arm, Record], float], log_y: bool = False) -> Panel:
        pairs = enumerate(every.items())
        lines = (line(name, arm, k, partial(value, arm)) for k, (name, arm) in pairs)
        return Panel(title, unit, tuple(lines), log_y=log_y)

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
            panel("Right sides: relative error", "", lambda _, r: max(r["gradient_error"] or 0, NONE), True),
        ),
        log_x=False,
    )  # fmt: skip


def truncations(every: dict[str, Arm]) -> Curves:
    """The truncated share of each cluster in each layer, of the arm with most maps."""
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
    """The linear regions of both maps, the points as they take them, and the targets."""
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


def claims(seeds: Sequence[Sequence[Record]]) -> list[Claim]:
    """What theorem 5.1 says, for the worst of all arms and over all finished seeds."""

    def most(says: str, where: str, limit: float, measure: Callable[[Arm], float]) -> Claim:
        worst = [max(map(measure, arms(records).values())) for records in seeds]
        return Claim(says, SOURCE + where, f"at most {limit:g}", over_seeds(worst), max(worst) <= limit)

    powers = [power(arm) for records in seeds for arm in arms(records).values()]
    same = [arms(records)[ARMS[-1]][0]["alone"] for records in seeds]
    return [
        most("the right sides are steepest descent of the loss, by automatic differentiation: relative distance",
             "theorem 5.1, as corrected in docs/errata.md", EXACT, lambda arm: max(known(arm), default=math.inf)),
        Claim("small steps of that descent come to the flow, in proportion to the step: power of the step",
              SOURCE + "theorem 5.1", f"{POWER[0]:g} to {POWER[1]:g}",
              f"{min(powers):.3f} to {max(powers):.3f} over {len(powers)} flows",
              POWER[0] <= min(powers) and max(powers) <= POWER[1]),
        most("every R stays orthogonal: largest entry of RRᵀ - 1", "theorem 5.1", ORTHOGONAL,
             lambda arm: max(record["defect"] for record in arm)),
        most("the loss falls: largest rise, of the first loss", "(3.27)", ORTHOGONAL, rise),
        most("so do both its parts: largest rate, of the first loss", "(3.28), (3.29)", ORTHOGONAL,
             lambda arm: max(rate for record in arm for rate in record["rates"]) / arm[0]["loss"]),
        most("the loss is what they leave of the first: difference, of the first loss", "(3.27)", SOLVED, balance),
        Claim("where clusters are separated the flow is that of each map alone: difference in β and R",
              SOURCE + "theorems 3.2 and 5.1", f"at most {SAME:g}", over_seeds(same), max(same) <= SAME),
    ]  # fmt: skip
