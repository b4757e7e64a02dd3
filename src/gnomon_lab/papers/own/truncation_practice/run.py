"""truncation-practice: ordinary gradient descent next to the effective gradient flow, one difference at a time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gnomon import (
    Probe,
    activation_misalignment,
    cumulative_parameters,
    polar_decomposition,
    truncated_inputs,
)
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.own.truncation_practice.descents import (
    EFFECTIVE,
    LARGE,
    LAYERS,
    RUNGS,
    Affine,
    Start,
    clusters_start,
    coordinates,
    descent,
    digits_start,
    halved,
    moved,
    named,
    network,
    standard_loss,
    velocities,
)
from gnomon_lab.papers.own.truncation_practice.page import FOLLOWED, claims, figures, summary, table
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, Positive, Range, Settings, at_least, between

RESTS = ("untruncated", "collapsed")
"""Starts at which only the velocities are read: all points in every positive sector; each cluster cut to a point."""
ON_FACE = 1e-9
"""Heights over a face that count as on it, and thus as truncated: the flow slides there up to rounding."""
INTRODUCTION = """
The effective gradient flow is a flow of truncation maps: cumulative biases and orthogonal matrices, in the input space,
with the map from there to the outputs held fixed. Practice trains the weights and biases of layers, including those of
the last layer. Both start here from the same network, and between them are descents on the same loss that adopt
practice one step at a time: adapted weights (the paper's setting, by automatic differentiation), cumulative weights
that need not stay orthogonal, the layers' own weights and biases, a last layer that does not follow, one that is
trained too, and steps of the usual size.

What differs, then, is neither the network nor the loss but the coordinates in which it descends.
"""

LARGE_STEP_OR_MORE = Range(
    "finite and at least large_step", lambda until, config: config.large_step <= until < math.inf
)


@dataclass(frozen=True)
class Config(Settings):
    """The setting, which is this project's: the paper has no experiment."""

    cluster: Annotated[int, at_least(2)] = 30
    """Points in each of the two clusters in the plane."""
    images: Annotated[int, between(2, 170)] = 10
    """Images of each digit."""
    classes: Annotated[int, between(2, 10)] = 4
    """Number of digits 0, 1, ..., and of principal components: the network's width."""
    until: Annotated[float, LARGE_STEP_OR_MORE] = 10.0
    """The end, in units of time of gradient flow on the loss."""
    large_step: Positive = 0.1
    """The usual learning rate."""
    finer: Count = 50
    """How many small steps make a large one."""
    readings: Count = 40
    """Readings of each orbit, denser at its start."""


SMALL = Config()
PAPER = Config(cluster=100, images=15, until=20.0, finer=200)


@dataclass(frozen=True)
class Seen:
    """A network's truncation maps: numbers for the record, and what is compared with the effective flow's."""

    numbers: dict[str, Any]
    beta: Float[Tensor, "l q"]
    rotation: Float[Tensor, "l q q"]
    truncated: Bool[Tensor, "l n q"]


def run(config: Config, run: Run) -> None:
    """Records the velocities at the starts that should rest, and follows all rungs from the others."""
    large = round(config.until / config.large_step)
    marks = sorted({round(large * (k / config.readings) ** 2) for k in range(config.readings + 1)})
    for name in (*RESTS, *FOLLOWED):
        generator = torch.Generator().manual_seed(run.seed)
        start = (
            digits_start(config.images, config.classes, generator)
            if name == "digits"
            else clusters_start(config.cluster, name, generator)
        )
        if name in FOLLOWED:
            follow(config, run, name, start, marks)
        else:
            for rung in RUNGS[:-1]:
                for step in run.steps(f"{name} {rung}", 0):
                    run.record(step, **velocities(rung, start))


def follow(config: Config, run: Run, name: str, start: Start, marks: Sequence[int]) -> None:
    """All rungs from one start, read at the same times."""
    probe = Probe(
        network(start),
        (start.points, start.labels),
        [standard_loss, cumulative_parameters, truncated_inputs, activation_misalignment],
    )
    times = torch.tensor(marks, dtype=torch.float64) * config.large_step
    beta, layers = start.at.bias[:-1], coordinates(EFFECTIVE, start.at)[1]
    orbit = start.flow.flow(beta, start.at.weight[:-1], times)
    flow = [look(probe, layers(Affine(*at)), start) for at in zip(orbit.rotation, orbit.beta, strict=True)]
    way = float((orbit.beta - beta).flatten(1).norm(dim=1).max())

    def record(step: int, rung: str, place: int, seen: Seen) -> None:
        beside, first = flow[place], velocities(rung, start) if place == 0 else {}
        turned = torch.linalg.matrix_norm(seen.rotation - beside.rotation, 2)
        run.record(
            step,
            s=float(times[place]),
            beta_apart=float((seen.beta - beside.beta).norm()) / way,
            rotation_apart=float(turned.max()),
            same=float((seen.truncated == beside.truncated).double().mean()),
            **seen.numbers,
            **first,
        )

    for _ in run.steps(f"{name} {EFFECTIVE}", 0):
        for place, seen in enumerate(flow):
            seen.numbers["effective_loss"] = float(orbit.loss[place])
            record(marks[place], EFFECTIVE, place, seen)
    for rung in RUNGS[1:]:
        finer = 1 if rung == LARGE else config.finer
        due = {mark * finer: place for place, mark in enumerate(marks)}
        at, layers = coordinates(rung, start.at)
        free = nn.ParameterDict({name: part.clone() for name, part in at._asdict().items()})
        for step in run.steps(f"{name} {rung}", marks[-1] * finer, free=free):
            at = Affine(free["weight"].detach(), free["bias"].detach())
            if step > 0:
                loss, towards = descent(rung, start, at, probe.model)
                run.require_finite(loss=loss)
                at = moved(rung, at, towards, config.large_step / finer)
                free.load_state_dict(at._asdict())
            if step in due:
                record(step, rung, due[step], look(probe, layers(at), start))


def look(probe: Probe, own: Affine, start: Start) -> Seen:
    """The truncation maps of the network with these layers, as the probe sees them."""
    probe.model.load_state_dict(named(own))
    values, labels = probe.read().values, start.labels
    parameters, images = values["cumulative_parameters"], values["truncated_inputs"]
    weights, maps = parameters.weight[:LAYERS], range(1, LAYERS + 1)
    preimages = parameters.pull_back(LAYERS + 1, torch.eye(own.weight.shape[1]))
    off = images[-1] - preimages[labels]
    truncated = torch.stack([parameters.affine(layer, images[layer - 1]) <= ON_FACE for layer in maps])
    classes = nn.functional.one_hot(labels).double() / torch.bincount(labels)
    numbers = {
        "loss": float(values["standard_loss"]),
        "pulled_back": float(halved(off @ parameters.weight[-1].mT, labels)),
        "spread": float(halved(images[-1] - (classes.mT @ images[-1])[labels], labels)),
        "truncated": (truncated.double().mean(2) @ classes).tolist(),
        "singular_values": torch.linalg.svdvals(torch.stack(weights)).tolist(),
        "condition": float(parameters.condition.max()),
        "misalignment": values["activation_misalignment"].tolist(),
    }
    if own.weight.shape[1] == 2:
        drawn = {"weight": torch.stack(weights), "beta": parameters.beta[:LAYERS], "images": images[-1]}
        numbers |= {name: rounded(values) for name, values in (drawn | {"preimages": preimages}).items()}
    rotation = torch.stack([polar_decomposition(weight).rotation for weight in weights])
    return Seen(numbers, parameters.beta[:LAYERS], rotation, truncated)


def rounded(values: Tensor) -> list[Any]:
    """To four decimals, which is enough to draw; records stay small."""
    return values.round(decimals=4).tolist()


EXPERIMENT = Experiment(
    EXPERIMENTS["truncation-practice"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims
)
