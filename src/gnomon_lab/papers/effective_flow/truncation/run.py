"""truncation: each layer's sector takes in one cluster and carries it to its target (theorem 3.2, proposition 4.2)."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gnomon import GeneralFlow, TruncationFlow, TruncationOrbit, truncation_time_bound
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.effective_flow._shared import images_through, turning
from gnomon_lab.papers.effective_flow.truncation.page import ESTIMATES, KINDS, Kind, claims, figures, summary, table
from gnomon_lab.runs import Run
from gnomon_lab.settings import Positive, Settings, at_least

UNIT: dict[Kind, float] = {"collapse": 0.001, "large": 4.0, "inside": 1.0, "rest": 1.0, "near": 0.001}
"""A cluster's spread: to the flow more than a unit, as the speed of β goes with it and that of R with its square."""
BEYOND: dict[Kind, float] = {"collapse": 3.5, "large": 3.5, "inside": 0.8, "rest": 3.5, "near": 3.5}
"""How far beyond the mean the target lies, in each of the sector's coordinates. All lengths are in spreads."""
AHEAD: dict[Kind, tuple[float, float]] = {
    "collapse": (4.0, 4.0), "large": (4.0, 4.0), "inside": (2.0, 2.0), "near": (1.7, 1.7),
}  # fmt: skip
"""How far the sectors' corners are from the targets at the start."""
APART = 10.0
"""How far the means are from each other, in each coordinate."""
FLATTEST = 0.4
"""The smallest standard deviation of a cluster; the largest is 1. Each cluster has its own axes."""
DRAWN = 60
"""Points of each cluster in the films."""
LIMIT = 0.1
"""Below this proposition 4.2 has η₀, η₁ and γ."""
NEAR = 1e-9
"""A point nearer than this to a face, in spreads, has no gradient to compare with."""
INTRODUCTION = """
In its input space a layer of a ReLU network acts as a truncation map: points in its positive sector stay, points in its
negative sector all move to the sectors' common corner, the others lose some of their coordinates. Where each layer
truncates one cluster and leaves the others alone, gradient descent moves each map separately. The corner, which is
minus the cumulative bias β, moves towards the cluster's target, and the sectors turn with the orthogonal R. Proposition
4.2 says when an entire cluster is in the negative sector after a finite time: it is one point then, and this moves to
the target.

The films show two clusters with their maps: as the proposition requires them; the same clusters measured in a larger
unit, where R turns faster than β moves and the last points end on the faces instead of behind them; and with targets
inside the clusters, which then do not become points.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of the truncation flow."""

    dimensions: tuple[Annotated[int, at_least(2)], ...] = (2, 3)
    """Q, the dimension of the input space and of both layers."""
    points: Annotated[int, at_least(2)] = 60
    """Points in each of the two clusters."""
    until: Positive = 4.0
    """The flows end at this s."""
    readings: Annotated[int, at_least(12)] = 44
    """Readings of each flow, without those at the moments of collapse."""


SMALL = Config()
PAPER = Config(dimensions=(2, 3, 8, 16), points=300)


class Cluster(NamedTuple):
    """The points, their target, and the map at the start."""

    points: Float[Tensor, "n q"]
    target: Float[Tensor, "q"]
    beta: Float[Tensor, "q"]
    rotation: Float[Tensor, "q q"]


def run(config: Config, run: Run) -> None:
    """Lets two clusters flow, in every dimension and kind; if it is stopped, an arm starts over."""
    for width, kind in itertools.product(config.dimensions, KINDS):
        generator = torch.Generator().manual_seed(run.seed)
        for _ in run.steps(f"{width} {kind}", 0, generator=generator):
            observe(config, run, kind, clusters(kind, config.points, width, generator))


def clusters(kind: Kind, count: int, width: int, generator: torch.Generator) -> list[Cluster]:
    """Two clusters, each in front of the other's positive sector; all kinds have the same points, in their units."""
    found, first = [], torch.eye(width, dtype=torch.float64)[0]
    # At rest one corner is as far in front of its cluster as the target is behind it, the other almost at the target.
    distances = AHEAD.get(kind, (2 * BEYOND[kind] * width**0.5, 0.1))
    for towards, distance in zip((first, -first), distances, strict=True):
        rotation = facing(towards, generator)
        axes = torch.linspace(1, FLATTEST, width, dtype=torch.float64)[:, None] * orthogonal(width, generator)
        mean = -APART / 2 * width**0.5 * towards
        points = mean + torch.randn(count, width, dtype=torch.float64, generator=generator) @ axes
        target = mean + BEYOND[kind] * width**0.5 * towards
        unit, beta = UNIT[kind], distance * towards - target
        found.append(Cluster(unit * points, unit * target, unit * beta, rotation))
    return found


def orthogonal(width: int, generator: torch.Generator) -> Float[Tensor, "q q"]:
    """A random orthogonal matrix."""
    return torch.linalg.qr(torch.randn(width, width, dtype=torch.float64, generator=generator))[0]


def facing(towards: Float[Tensor, "q"], generator: torch.Generator) -> Float[Tensor, "q q"]:
    """A random R whose positive sector opens towards a unit vector: R maps the vector to the diagonal."""
    rotation = orthogonal(len(towards), generator)
    across = rotation @ towards - len(towards) ** -0.5
    return rotation - 2 * torch.outer(across, across @ rotation) / across.square().sum()


def observe(config: Config, run: Run, kind: Kind, pair: Sequence[Cluster]) -> None:
    """Integrates each cluster with its map alone, and all with both maps, and records them side by side."""
    flows = [TruncationFlow(cluster.points, cluster.target) for cluster in pair]
    end = torch.tensor([config.until], dtype=torch.float64)
    times = moments([flow.flow(*c[2:], end) for flow, c in zip(flows, pair, strict=True)], config)
    orbits = [flow.flow(*c[2:], times) for flow, c in zip(flows, pair, strict=True)]
    run.require_finite(loss=torch.stack([orbit.loss for orbit in orbits]))
    points, targets, *start = map(torch.stack, zip(*pair, strict=True))
    labels = torch.arange(2).repeat_interleave(config.points)
    whole = GeneralFlow(points.flatten(0, 1), labels, targets).flow(start[0], start[1], times)

    beta, rotation = torch.stack([o.beta for o in orbits], 1), torch.stack([o.rotation for o in orbits], 1)
    aside = torch.cat([(whole.beta - beta) / UNIT[kind], (whole.rotation - rotation).flatten(2)], 2)
    # R of both maps together, as it is when its cluster has collapsed, or at the end.
    rest = torch.stack([whole.rotation[times.clamp(max=o.collapse).argmax(), k] for k, o in enumerate(orbits)])
    columns = {
        "s": times,
        **{name: torch.stack([getattr(orbit, name) for orbit in orbits], 1) for name in ("loss", "rates", "decrease")},
        "truncated": torch.stack([orbit.truncated for orbit in orbits], 1),
        "to_go": ((points + beta[:, :, None]) @ rotation.mT > NEAR * UNIT[kind]).any(3).sum(2),
        "distance": (beta + targets).norm(dim=2) / UNIT[kind],
        "moved": (beta - beta[0]).norm(dim=2) / UNIT[kind],
        "turned": torch.linalg.matrix_norm(rotation - rotation[0], 2),
        "clearance": torch.stack([flows[k].clearance(pair[1 - k].points, orbits[k]) for k in (0, 1)], 1) / UNIT[kind],
        "aside": aside.abs().amax(2),
        "whole_distance": (whole.beta + targets).norm(dim=2) / UNIT[kind],
        "whole_unrest": torch.linalg.matrix_norm(whole.rotation - rest, 2),
    }
    if targets.shape[1] <= 3:
        columns |= {"beta": beta / UNIT[kind], "rotation": rotation}
    for at in range(len(times)):
        values = {name: column[at].tolist() for name, column in columns.items()}
        gradient = compared(flows, points, targets, beta[at], rotation[at], NEAR * UNIT[kind])
        run.record(at, **values, **gradient, **(outcome(kind, pair, orbits) if at == 0 else {}))


def moments(looks: Sequence[TruncationOrbit], config: Config) -> Float[Tensor, "t"]:
    """Half evenly over s, half where faces are crossed, if there are many crossings; and the moments of collapse."""
    events = torch.cat([orbit.events.times for orbit in looks])
    even = torch.linspace(0, config.until, max(len(events), config.readings // 4), dtype=torch.float64)
    marks = torch.cat([events, even]).sort().values
    # Between the marks: at a crossing itself the loss has no gradient to compare with.
    between = ((marks[1:] + marks[:-1]) / 2).quantile(torch.linspace(0, 1, config.readings, dtype=torch.float64))
    collapses = (time for time in (float(orbit.collapse) for orbit in looks) if time < config.until)
    return torch.tensor(sorted({0.0, config.until, *between.tolist(), *collapses}), dtype=torch.float64)


def compared(
    flows: Sequence[TruncationFlow],
    points: Float[Tensor, "2 n q"],
    targets: Float[Tensor, "2 q"],
    beta: Float[Tensor, "2 q"],
    rotation: Float[Tensor, "2 q q"],
    near: float,
) -> dict[str, Any]:
    """The right-hand sides against the gradient of both maps' loss, and both parts of its rate; None near a face.

    Also how fast RRᵀ changes, which is 0 where R stays orthogonal; what (3.25) prints; and what the right-hand sides
    are for points with the same zeroth and first moments in each sector.
    """
    velocity = velocities(flows, beta, rotation)
    changes = velocity[1] @ rotation.mT
    stretch = {"stretch": (changes + changes.mT).abs().amax((1, 2)).tolist()}
    heights = (points + beta[:, None]) @ rotation.mT
    if heights.abs().min() < near:
        return stretch | dict.fromkeys(("gradient_error", "slopes", "printed_error", "moments_error"))
    state = [beta.clone().requires_grad_(), rotation.clone().requires_grad_()]
    gradient = torch.autograd.grad(loss(points, targets, *state), state)
    descent = (-gradient[0], turning(gradient[1], rotation) @ rotation)
    slopes = [(g * v).flatten(1).sum(1) for g, v in zip(gradient, velocity, strict=True)]

    def off(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
        errors = [(f - e).norm() / g.norm() for f, e, g in zip(found, expected, gradient, strict=True)]
        return float(max(errors))

    means = [at_sector_means(*c) for c in zip(points, heights > 0, strict=True)]
    others = [TruncationFlow(mean, target) for mean, target in zip(means, targets, strict=True)]
    return stretch | {
        "gradient_error": off(velocity, descent),
        "slopes": torch.stack(slopes, 1).tolist(),
        "printed_error": off((descent[0], printed_turning(heights, targets, beta, rotation) @ rotation), descent),
        "moments_error": off(velocities(others, beta, rotation), velocity),
    }


def velocities(
    flows: Sequence[TruncationFlow], beta: Float[Tensor, "2 q"], rotation: Float[Tensor, "2 q q"]
) -> tuple[Float[Tensor, "2 q"], Float[Tensor, "2 q q"]]:
    """The right-hand sides of both maps, each alone."""
    found = [flow.velocity_at(*at) for flow, *at in zip(flows, beta, rotation, strict=True)]
    of_beta, of_rotation = zip(*found, strict=True)
    return torch.stack(of_beta), torch.stack(of_rotation)


def printed_turning(
    heights: Float[Tensor, "2 n q"],
    targets: Float[Tensor, "2 q"],
    beta: Float[Tensor, "2 q"],
    rotation: Float[Tensor, "2 q q"],
) -> Float[Tensor, "2 q q"]:
    """The generator Ω of each R as (3.25) prints it: the mean of [H, M]; heights are R(x + β)."""
    goals = torch.einsum("kij,kj->ki", rotation, beta + targets)
    outer = torch.einsum("kni,kj->knij", heights, goals)
    above = (heights > 0).to(heights)
    # [H, M] has the entries (Hᵢ - Hⱼ) Mᵢⱼ (3.38).
    return ((above[..., None] - above[..., None, :]) * (outer + outer.mT) / 2).mean(1)


def at_sector_means(points: Float[Tensor, "n q"], above: Bool[Tensor, "n q"]) -> Float[Tensor, "n q"]:
    """Each point moved to the mean of its sector; a sector is where the same coordinates are above their faces."""
    together = (above[:, None] == above).all(2).to(points)
    return together @ points / together.sum(1, keepdim=True)


def loss(
    points: Float[Tensor, "2 n q"],
    targets: Float[Tensor, "2 q"],
    beta: Float[Tensor, "2 q"],
    rotation: Float[Tensor, "2 q q"],
) -> Float[Tensor, ""]:
    """Equation 2.26, with both maps on both clusters."""
    images = images_through(points, beta, rotation)[-1]
    return (images - targets[:, None]).square().sum(2).mean(1).sum() / 2


def outcome(kind: Kind, pair: Sequence[Cluster], orbits: Sequence[TruncationOrbit]) -> dict[str, Any]:
    """The clusters, what is known about them beforehand, and what becomes of them; None for infinity."""
    bounds = {e: [asdict(truncation_time_bound(*c, estimates=e)) for c in pair] for e in ESTIMATES}
    plainly: dict[str, Any] = {
        e: [{name: plain(x) for name, x in bound.items()} for bound in both] for e, both in bounds.items()
    }
    limits = [{"bound": bound_at_limits(cluster)} for cluster in pair]
    coefficients = [orbit.events.coefficients for orbit in orbits]
    return {
        "points": [(cluster.points[:DRAWN] / UNIT[kind]).tolist() for cluster in pair],
        "targets": [(cluster.target / UNIT[kind]).tolist() for cluster in pair],
        "count": len(pair[0].points),
        "collapse": [plain(orbit.collapse) for orbit in orbits],
        "equilibrium": [orbit.equilibrium for orbit in orbits],
        "slides": [int(((alpha > 0) & (alpha < 1)).sum()) for alpha in coefficients],
        "limits": limits,
        **plainly,
    }


def bound_at_limits(cluster: Cluster) -> float | None:
    """The bound (4.30) with η₀, η₁ and γ at the paper's limits; None if a hypothesis fails with them."""
    offsets, distance = cluster.points - cluster.target, float((cluster.beta + cluster.target).norm())
    reach, lengths = 1.1 * distance, offsets.norm(dim=1, keepdim=True)
    rate = 1 - LIMIT - reach * LIMIT
    if rate <= 0:
        return None
    bound = math.log(1 / LIMIT) / rate
    # A rotation that is η₂ away moves a height by η₂ times the point's distance from the target, at most.
    heights = offsets @ cluster.rotation.mT + reach * LIMIT * bound * lengths
    unsure = heights > -reach
    shares, moment = unsure.double().mean(0), (unsure.any(1, keepdim=True) * (lengths + reach)).mean()
    holds = shares.amax() < LIMIT and moment < LIMIT and heights.amax() < -LIMIT * distance
    return bound if holds else None


def plain(value: Tensor | str | None) -> float | str | None:
    """A number; None if it is infinite."""
    if isinstance(value, Tensor):
        return float(value) if value.isfinite() else None
    return value


EXPERIMENT = Experiment(EXPERIMENTS["truncation"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
