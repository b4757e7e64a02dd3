"""general-flow: truncation maps one after the other, on clusters that are not separated (theorem 5.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import GeneralFlow, TruncationFlow, TruncationOrbit
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import plane_rotation, principal_digits
from gnomon_lab.papers.effective_flow._shared import images_through, largest_difference, turning
from gnomon_lab.papers.effective_flow.general_flow.page import (
    APART,
    ARMS,
    CLUSTERS,
    COMPONENTS,
    DIGITS,
    HORIZON,
    PLANE,
    STEPS,
    claims,
    figures,
    summary,
    table,
)
from gnomon_lab.runs import Run
from gnomon_lab.settings import Settings, at_least, between

NEAR = 1e-9
"""A point nearer than this to a face has no gradient to compare with."""
INTRODUCTION = """
In its input space a layer of a ReLU network acts as a truncation map. Where each map meets one cluster alone, its flow
is known in detail. In general every map acts on all clusters, as the maps before it have left them: clusters overlap,
maps compete for points, and a point may settle on a face and slide along it. Theorem 5.1 gives the gradient flow of the
maps for that case.

Here it is compared with automatic differentiation and with small steps, for overlapping clusters in the plane and in
space and for handwritten digits, with one to three layers. Where clusters are separated it must be the flow of each map
alone.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting, which is this project's: the paper states only the theorem."""

    points: Annotated[int, between(2, 170)] = 12
    """Points in each cluster."""
    until: Annotated[float, at_least(1.0)] = 6.0
    """The flows end at this s."""
    readings: Annotated[int, at_least(3)] = 40
    """Readings of each flow, denser at its start."""


SMALL = Config()
PAPER = Config(points=30, until=10.0)


@dataclass(frozen=True)
class Start:
    """Clusters, their targets, and the maps at time 0."""

    points: Float[Tensor, "n q"]
    labels: Int[Tensor, "n"]
    targets: Float[Tensor, "k q"]
    beta: Float[Tensor, "l q"]
    rotation: Float[Tensor, "l q q"]


def run(config: Config, run: Run) -> None:
    """Lets the maps flow on each data set; if it is stopped, an arm starts over."""
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
        points, labels = principal_digits(size, CLUSTERS, COMPONENTS, generator)
    else:
        width, labels = 2 if data == PLANE else 3, torch.arange(CLUSTERS).repeat_interleave(size)
        means = 1.2 * torch.randn(CLUSTERS, width, generator=generator, dtype=torch.float64)
        points = means[labels] + torch.randn(len(labels), width, generator=generator, dtype=torch.float64)
    shape = int(layers), points.shape[1]
    targets = 1.5 * torch.randn(CLUSTERS, shape[1], generator=generator, dtype=torch.float64)
    beta = 0.5 * torch.randn(shape, generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(torch.randn(*shape, shape[1], generator=generator, dtype=torch.float64))[0]
    return Start(points, labels, targets, beta, rotation)


def separated(size: int, generator: torch.Generator) -> Start:
    """Two clusters, 20 apart, each in front of its own map, whose positive sector holds the other one."""
    labels, ones = torch.arange(2).repeat_interleave(size), torch.ones(2, dtype=torch.float64)
    means = torch.stack([-7 * ones, 7 * ones])
    points = means[labels] + 0.5 * torch.randn(2 * size, 2, generator=generator, dtype=torch.float64).clamp(-2, 2)
    turns = 0.2 * torch.rand(2, generator=generator, dtype=torch.float64) - 0.1
    # The first map's positive sector opens to the upper right, the second one's to the lower left.
    rotation = torch.stack([plane_rotation(turns[0]), -plane_rotation(turns[1])])
    return Start(points, labels, means * 5 / 7, -means * 6.6 / 7, rotation)


def loss_of(start: Start, beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"]) -> Float[Tensor, ""]:
    """The loss (2.26), cluster by cluster and layer by layer."""
    images = images_through(start.points, beta, rotation)[-1]
    squares = (images - start.targets[start.labels]).square().sum(1)
    return (squares / torch.bincount(start.labels)[start.labels]).sum() / 2


def gradients(
    start: Start, beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"]
) -> tuple[Float[Tensor, "l q"], Float[Tensor, "l q q"]]:
    """The gradients of the loss, by automatic differentiation."""
    at = beta.clone().requires_grad_(), rotation.clone().requires_grad_()
    of_beta, of_rotation = torch.autograd.grad(loss_of(start, *at), at)
    return of_beta, of_rotation


def descent(
    start: Start, beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"]
) -> tuple[Float[Tensor, "l q"], Float[Tensor, "l q q"]]:
    """Steepest descent by automatic differentiation: for R, the generator Ω of its rotation."""
    of_beta, of_rotation = gradients(start, beta, rotation)
    return -of_beta, turning(of_rotation, rotation)


def compared(
    start: Start, flow: GeneralFlow, beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"]
) -> dict[str, Any]:
    """The right-hand sides against automatic differentiation; None where a point is near a face.

    How fast RRᵀ changes, which is 0 where R stays orthogonal; how far the right-hand sides are from steepest descent,
    over its length; the rates at which β and R of each layer change the loss; and, where there are as many maps as
    clusters, how far what (5.4) prints is from steepest descent in β.
    """
    velocity = flow.velocity_at(beta, rotation)
    changes = velocity[1] @ rotation.mT
    stretch = {"stretch": float((changes + changes.mT).abs().max())}
    *before, images = images_through(start.points, beta, rotation)
    heights = (torch.stack(before) + beta[:, None]) @ rotation.mT
    if heights.abs().min() < NEAR:
        return stretch | dict.fromkeys(("gradient_error", "slopes", "printed_error"))
    gradient = gradients(start, beta, rotation)
    steepest = (-gradient[0], turning(gradient[1], rotation) @ rotation)
    moved, wanted = (torch.cat([part.flatten() for part in parts]) for parts in (velocity, steepest))
    printed = None
    if len(beta) == len(start.targets):
        found = printed_descent(heights, images - start.targets[start.labels], start.labels, rotation)
        printed = float((found - steepest[0]).norm() / steepest[0].norm())
    return stretch | {
        "gradient_error": float((moved - wanted).norm() / wanted.norm()),
        "slopes": [(g * v).flatten(1).sum(1).tolist() for g, v in zip(gradient, velocity, strict=True)],
        "printed_error": printed,
    }


def printed_descent(
    heights: Float[Tensor, "l n q"],
    residuals: Float[Tensor, "n q"],
    labels: Int[Tensor, "n"],
    rotation: Float[Tensor, "l q q"],
) -> Float[Tensor, "l q"]:
    """The right side of each β as (5.4) prints it: with cluster k, from k = l on, goes the projector of layer k."""
    terms: list[Tensor] = []
    for k in reversed(range(len(rotation))):
        turned = residuals @ rotation[k].mT
        terms.append(((turned * (heights[k] <= 0)) @ rotation[k])[labels == k].mean(0))
        residuals = (turned * (heights[k] > 0)) @ rotation[k]
    return -torch.stack(terms).cumsum(0).flip(0)


def small_steps(start: Start, count: int) -> tuple[Float[Tensor, "l q"], Float[Tensor, "l q q"]]:
    """β and R after this many steps of gradient descent up to the horizon; R is rotated, and stays orthogonal."""
    beta, rotation, step = start.beta, start.rotation, HORIZON / count
    for _ in range(count):
        of_beta, turn = descent(start, beta, rotation)
        beta, rotation = beta + step * of_beta, torch.matrix_exp(step * turn) @ rotation
    return beta, rotation


def apart(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The largest difference in an entry of β or R."""
    return max(map(largest_difference, one, other))


def alone(start: Start, orbit: TruncationOrbit) -> float:
    """How far all maps together are from each map alone on its own cluster."""
    found = 0.0
    for k, target in enumerate(start.targets):
        flow = TruncationFlow(start.points[start.labels == k], target)
        own = flow.flow(start.beta[k], start.rotation[k], orbit.times)
        found = max(found, apart((own.beta, own.rotation), (orbit.beta[:, k], orbit.rotation[:, k])))
    return found


def observe(run: Run, start: Start, flow: GeneralFlow, orbit: TruncationOrbit, extra: dict[str, float]) -> None:
    """Records the orbit, what automatic differentiation says at each reading, and how far small steps are from it."""
    place = int((orbit.times == HORIZON).nonzero())
    there = orbit.beta[place], orbit.rotation[place]
    alpha = orbit.events.coefficients
    counts = torch.bincount(start.labels)
    first = {
        "crossings": len(alpha), "slides": int(((alpha > 0) & (alpha < 1)).sum()),
        "small_steps": [apart(small_steps(start, count), there) for count in STEPS],
        "targets": start.targets.tolist(), "labels": start.labels.tolist(), **extra,
    }  # fmt: skip
    for at, (beta, rotation) in enumerate(zip(orbit.beta, orbit.rotation, strict=True)):
        values = {"loss": orbit.loss, "decrease": orbit.decrease}
        drawn = {}
        if start.points.shape[1] == 2:
            images = torch.stack(images_through(start.points, beta, rotation))
            drawn = {"beta": beta, "rotation": rotation, "images": images.round(decimals=4)}
        run.record(
            at,
            s=float(orbit.times[at]),
            **{name: value[at].tolist() for name, value in values.items()},
            **{name: value.tolist() for name, value in drawn.items()},
            truncated=(orbit.truncated[at].double().mean(2) / counts).tolist(),
            **compared(start, flow, beta, rotation),
            **(first if at == 0 else {}),
        )


EXPERIMENT = Experiment(EXPERIMENTS["general-flow"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
