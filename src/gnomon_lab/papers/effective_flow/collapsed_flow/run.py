"""collapsed-flow: each class is one point; an integral of motion makes the loss decay while the classes stay so."""

import itertools
import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import CollapsedFlow
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.effective_flow._shared import collapsed_network, extrapolated, largest_difference, near, normal
from gnomon_lab.papers.effective_flow.collapsed_flow.page import (
    DEFINITE,
    HALVINGS,
    NETWORKS,
    STARTS,
    claims,
    figures,
    summary,
    table,
)
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, Positive, Range, Settings

GOAL = 3.0
PACE, PACES = 0.05, 40
"""Time from one reading of a network to the next, and how many such intervals there are."""
RTOL = 1e-12
"""The integrator's relative tolerance; with 1e-10 two integrations differ by more than TOLERANCE beyond a saddle."""
NODES = 32
"""Gauss-Legendre nodes on [0, 1] for the integrals in Duhamel's formula."""
SIDES = ("outer", "inner")
INTRODUCTION = """
As far as its loss is concerned, a network whose layers have cut every class to a single point is two matrices: W, the
product of all its weights, and B, whose columns are the cumulative biases and thus the classes. Their gradient flow has
an integral of motion, BBᵀ - WᵀW. Where it is definite, the loss falls exponentially at a rate that is known from the
start, and both matrices converge; where it is not, nothing is promised.

A real ReLU network is then trained by gradient descent in its cumulative parameters, from the same start: by the theory
it approaches the flow with smaller and smaller steps, as long as every class stays in the sector where it is cut to its
point, and leaves the flow where the biases grow past the points.
"""

SIZES = Range("2 or more, each once", lambda sizes, _: min(sizes, default=0) >= 2 and len({*sizes}) == len(sizes))
SMALLER = Range("above 0 and at most a quarter of larger", lambda smaller, config: 0 < smaller <= config.larger / 4)
LATER = Range("finite and above early", lambda late, config: config.early < late < math.inf)


@dataclass(frozen=True)
class Config(Settings):
    """The setting of section 8."""

    classes: Annotated[tuple[int, ...], SIZES] = (3, 4, 5, 6)
    """Number of classes Q, and of dimensions, in each flow; the networks have the first."""
    smaller: Annotated[float, SMALLER] = 0.3
    """Initial size of the smaller of W and B, in units of an orthogonal matrix."""
    larger: Positive = 2.0
    """Initial size of the larger of the two."""
    early: Positive = 8.0
    """The flows are read at 80 evenly spaced times up to this one."""
    late: Annotated[float, LATER] = 40.0
    """The flows are also read at 8 later times up to this one, when they should have settled."""
    steps: Count = 5
    """Steps of gradient descent on the networks in 0.05 of the flow's time; also 2, 4 and 8 times as many."""


SMALL = Config()
PAPER = Config()


def run(config: Config, run: Run) -> None:
    """Every flow, then the two networks."""
    early = torch.linspace(0, config.early, 81, dtype=torch.float64)
    late = torch.linspace(config.early, config.late, 9, dtype=torch.float64)[1:]
    sizes = {"biases": (config.smaller, config.larger), "weight": (config.larger, config.smaller), "even": (1.0, 1.0)}
    for q, start in itertools.product(config.classes, STARTS):
        follow(run, q, start, sizes[start], torch.cat([early, late]))
    for name, reach in NETWORKS.items():
        train(run, config.classes[0], name, reach, config.steps)


def follow(run: Run, q: int, start: str, sizes: tuple[float, float], times: Float[Tensor, "t"]) -> None:
    """One flow with its propagators; if it is stopped, it starts over."""
    generator = torch.Generator().manual_seed(run.seed)
    weight, biases = (size * near(torch.linalg.qr(normal(q, q, generator))[0], generator) for size in sizes)
    flow = CollapsedFlow(weight, biases, normal(q, q, generator))
    for _ in run.steps(f"{q} {start}", 0, generator=generator):
        found, carried = flow.flow(times, rtol=RTOL), flow.propagators(times, rtol=RTOL)
        run.require_finite(loss=found.loss)
        residual, gap = found.weight @ found.biases + flow.labels, flow.spectral_gap
        outer = carried.outer_weight @ residual[0] @ carried.outer_biases
        inner = carried.inner_weight @ residual[0] @ carried.inner_biases
        bounded = [getattr(carried, f"{side}_{'biases' if start == 'biases' else 'weight'}") for side in SIDES]
        series = {
            "time": times,
            "loss": found.loss,
            "bound": found.bound,
            "drift": found.drift,
            "weight": torch.linalg.svdvals(found.weight),
            "biases": torch.linalg.svdvals(found.biases),
            "way": largest(found.weight - found.weight[-1], found.biases - found.biases[-1]),
            "way_bound": (2 * found.bound).sqrt() * largest(found.weight, found.biases).max() / gap,
            "propagator": largest(*bounded),
            "decay": torch.exp(-gap * times),
            "off_outer": (outer - residual).abs().amax((1, 2)),
            "off_inner": (inner - residual).abs().amax((1, 2)),
        }
        if start not in DEFINITE:  # nothing is promised
            del series["way_bound"], series["decay"]
        minus, plus = duhamel(flow)
        # From the starts, for the claims not to rest on the flow's own.
        least = torch.linalg.eigvalsh(biases @ biases.mT - weight.mT @ weight).abs().amin()
        once = {"classes": q, "start": start, "gap": float(gap), "least": float(least)}
        once |= {"off_minus": minus, "off_plus": plus}
        for at in range(len(times)):
            run.record(at, **{name: values[at].tolist() for name, values in series.items()}, **once)


def largest(*matrices: Float[Tensor, "t q q"]) -> Float[Tensor, "t"]:
    """The largest of several matrices' spectral norms."""
    return torch.linalg.matrix_norm(torch.stack(matrices), 2).amax(0)


def duhamel(flow: CollapsedFlow) -> tuple[float, float]:
    """How far equations 8.16 and 8.17 are from B and W at time 1: with a minus before the integrals, and as printed."""
    nodes, shares = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(NODES))
    times = torch.cat([(nodes + 1) / 2, torch.ones(1, dtype=torch.float64)])
    found, carried = flow.flow(times, rtol=RTOL), flow.propagators(times, rtol=RTOL)
    by_weight, by_biases = carried.inner_weight, carried.inner_biases
    pulls = by_weight[-1] @ torch.linalg.solve(by_weight[:-1], found.weight[:-1].mT @ flow.labels)
    pushes = torch.linalg.solve(by_biases[:-1], flow.labels @ found.biases[:-1].mT, left=False) @ by_biases[-1]
    integrals = torch.einsum("t,mtij->mij", shares / 2, torch.stack([pulls, pushes]))
    free = torch.stack([by_weight[-1] @ flow.biases, flow.weight @ by_biases[-1]])
    exact = torch.stack([found.biases[-1], found.weight[-1]])
    return largest_difference(free - integrals, exact), largest_difference(free + integrals, exact)


def train(run: Run, q: int, name: str, reach: float, steps: int) -> None:
    """Gradient descent on one network with several step sizes, and the flow from the same start."""
    generator = torch.Generator().manual_seed(run.seed)
    net = collapsed_network(q, reach, GOAL, generator)
    flow = CollapsedFlow(net.start[0], net.start[1], net.labels)
    for _ in run.steps(f"network {name}", 0, generator=generator):
        found = flow.flow(PACE * torch.arange(PACES + 1, dtype=torch.float64), rtol=RTOL)
        exact = torch.stack([found.weight, found.biases], 1)
        descents = [net.descend(PACE / every, every, PACES) for every in (steps * 2**k for k in range(HALVINGS))]
        paths = [states for states, _, _ in descents]
        states, losses, rests = descents[-1]
        run.require_finite(loss=losses)
        limit = extrapolated(paths)
        for at, state in enumerate(exact):
            weight, biases = states[at]
            residual = state[0] @ state[1] + net.labels
            field = torch.stack([residual @ state[1].mT, state[0].mT @ residual])
            run.record(
                at,
                time=float(found.times[at]),
                flow_loss=float(found.loss[at]),
                loss=float(losses[at]),
                off_field=largest_difference(net.gradients(state, net.layers)[0], field),
                off_steps=[largest_difference(path[at], state) for path in paths],
                off_limit=largest_difference(limit[at], state),
                layers=float(rests[at]),
                drift=largest_difference(biases @ biases.mT - weight.mT @ weight, flow.integral),
                moved_out=float((torch.linalg.inv(net.start[1]) @ biases).diagonal().max()),
            )


EXPERIMENT = Experiment(EXPERIMENTS["collapsed-flow"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
