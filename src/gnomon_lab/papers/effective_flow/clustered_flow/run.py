"""clustered-flow: nothing is cut, so that the network is linear in its data and its flow is solved for all times."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_ivp
from torch import Tensor

from gnomon import ClusteredFlow
from gnomon.data import digits
from gnomon.errors import ConvergenceError
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.effective_flow._shared import largest_difference, near, normal, outputs
from gnomon_lab.papers.effective_flow.clustered_flow.page import ARMS, SETTLED, SHOWN, claims, figures, summary, table
from gnomon_lab.runs import Run
from gnomon_lab.settings import Settings, above, between

Parameters = tuple[Float[Tensor, "c q"], Float[Tensor, "l q"], Float[Tensor, "l q q"]]
"""The product W of all weights, the cumulative biases, the cumulative weights."""
SIZES = (2, 10)
LAYERS, LIFT = 2, 10.0
"""Hidden layers, and the entries of their cumulative biases: so large that no point is near a face."""
RTOL = 1e-12
"""The integrator's relative tolerance; the absolute one is a hundredth of it."""
STEADY = 2.0
"""Step size times the largest rate: beyond three times this the method is unstable, near that it loses four digits."""
READINGS, LATER = 10, 4
"""Readings in each factor of ten of the time, while it is integrated and later."""
INTRODUCTION = """
If every point lies where no layer cuts anything, a ReLU network is a linear map, and the gradient flow of the product W
of all its weights is that of least squares. It has a solution for all times: in each direction of the data W moves from
its initial value to the fit at its own rate, which is the data's second moment in that direction. Where there is no
data, it stays.

Here the gradient of the loss is computed through a real ReLU network by automatic differentiation and integrated, and
the solution is compared with it: on handwritten digits, some of whose pixels are always blank, so that the second
moments are not invertible, though theorem 9.1 requires it; and on two classes of different sizes.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of section 9."""

    digits: Annotated[int, between(1, 1_796)] = 1500
    """Number of handwritten digits, of 1,797."""
    until: Annotated[float, above(0.01)] = 30.0
    """The gradient flow is integrated up to this time."""


SMALL = Config()
PAPER = Config()


@dataclass(frozen=True)
class Problem:
    """Points and one-hot labels in rows, and each sample's weight in the loss, 1/N or one over its class's size."""

    points: Float[Tensor, "n q"]
    targets: Float[Tensor, "n c"]
    shares: Float[Tensor, "n 1"]

    def loss(
        self, weight: Float[Tensor, "c q"], biases: Float[Tensor, "l q"], layers: Float[Tensor, "l q q"]
    ) -> Float[Tensor, ""]:
        """The standard loss of a ReLU network in its cumulative parameters."""
        errors = outputs(self.points, weight, biases, layers) - self.targets
        return (self.shares * errors**2).sum() / 2

    def factors(self) -> Float[Tensor, "n 1"]:
        """The factors on points and targets for a flow in which samples count 1/N each: 1 if they do here."""
        return (self.shares * len(self.points)).sqrt()

    def flow(self, weight: Float[Tensor, "c q"]) -> ClusteredFlow:
        """The flow, solved."""
        factors = self.factors()
        return ClusteredFlow(factors * self.points, factors * self.targets, weight)


def problem(config: Config, arm: str, generator: torch.Generator) -> Problem:
    """The data of an arm."""
    if arm == "digits":
        drawn, _ = digits(config.digits, generator=generator, dtype=torch.float64)
        points, labels, sizes = drawn.x / 16, drawn.labels, torch.full((10,), config.digits)
    else:
        centres = torch.tensor([[2.0, 0.5], [0.5, 2.0]], dtype=torch.float64)
        labels = torch.arange(2).repeat_interleave(torch.tensor(SIZES))
        points = centres[labels] + 0.3 * normal(sum(SIZES), 2, generator)
        sizes = torch.tensor(SIZES if arm == "classes" else [sum(SIZES)] * 2)
    targets = torch.nn.functional.one_hot(labels, len(sizes)).double()
    return Problem(points, targets, 1 / sizes[labels, None].double())


def run(config: Config, run: Run) -> None:
    """Every arm: the solution, and the integrated flow of a network."""
    for arm in ARMS:
        follow(config, run, arm)


def follow(config: Config, run: Run, arm: str) -> None:
    """One arm; if it is stopped, it starts over."""
    generator = torch.Generator().manual_seed(run.seed)
    given = problem(config, arm, generator)
    width, classes = given.points.shape[1], given.targets.shape[1]
    layers = torch.stack([near(torch.eye(width, dtype=torch.float64), generator) for _ in range(LAYERS)])
    weight = normal(classes, width, generator) / math.sqrt(width)
    start = (weight, torch.full((LAYERS, width), LIFT, dtype=torch.float64), layers)
    flow, plain = given.flow(weight), ClusteredFlow(given.points, given.targets, weight)
    early = powers_of_ten(0.01, config.until, READINGS)
    late = powers_of_ten(config.until, SETTLED / float(flow.rates[-1]), LATER)
    times = torch.cat([torch.zeros(1, dtype=torch.float64), early, late])
    chosen = sorted({round(place) for place in np.linspace(0, len(flow.rates) - 1, SHOWN)})
    directions = flow.directions[:, chosen]
    for _ in run.steps(arm, 0, generator=generator):
        states = integrated(given, start, times[: len(early) + 1], STEADY / float(flow.rates[0]))
        solved, printed, losses = flow.weight(times), plain.weight(times), flow.loss(times)
        run.require_finite(loss=losses)
        size = {"directions": len(flow.rates), "width": width, "rates": flow.rates[chosen].tolist()}
        once = size | limits(given, flow, weight) | {"own": own_gradient(given, start)}
        for at, time in enumerate(times.tolist()):
            values = {"time": time, "solved_loss": float(losses[at]), "solved": left(solved[at], flow, directions)}
            if at < len(states):
                found, biases, moved = states[at]
                values["loss"] = float(given.loss(found, biases, moved))
                values["integrated"] = left(found, flow, directions)
                values["off"] = largest_difference(found, solved[at])
                values["off_printed"] = largest_difference(found, printed[at])
                values["moved"] = max(largest_difference(biases, start[1]), largest_difference(moved, layers))
            run.record(at, **values, **once)


def powers_of_ten(first: float, final: float, each: int) -> Float[Tensor, "t"]:
    """Times up to the final one, this many in each factor of ten, without the first."""
    count = math.ceil(each * math.log10(final / first))
    return torch.logspace(math.log10(first), math.log10(final), count + 1, dtype=torch.float64)[1:]


def integrated(given: Problem, start: Parameters, times: Float[Tensor, "t"], longest: float) -> list[Parameters]:
    """All cumulative parameters along the gradient flow of the network's loss, by automatic differentiation."""
    shapes = [part.shape for part in start]
    lengths = [part.numel() for part in start]

    def split(flat: Float[Tensor, "z"]) -> Parameters:
        weight, biases, layers = (
            part.view(shape) for part, shape in zip(torch.split(flat, lengths), shapes, strict=True)
        )
        return weight, biases, layers

    def right_side(_: float, flat: Float[np.ndarray, "z"]) -> Float[np.ndarray, "z"]:
        state = torch.from_numpy(flat).requires_grad_()
        return -torch.autograd.grad(given.loss(*split(state)), state)[0].numpy()

    initial, moments = torch.cat([part.flatten() for part in start]).numpy(), times.tolist()
    options = {"t_eval": moments, "rtol": RTOL, "atol": RTOL / 100, "max_step": longest}
    solved = solve_ivp(right_side, (0.0, moments[-1]), initial, "DOP853", **options)
    if not solved.success:
        raise ConvergenceError("times", "the integration to finish", solved.message, where="integrated")
    return [split(torch.from_numpy(flat)) for flat in solved.y.T.copy()]


def left(weight: Float[Tensor, "c q"], flow: ClusteredFlow, directions: Float[Tensor, "q k"]) -> list[float]:
    """How far W is from the limit in each direction."""
    distances: list[float] = ((weight - flow.limit) @ directions).norm(dim=0).tolist()
    return distances


def limits(given: Problem, flow: ClusteredFlow, weight: Float[Tensor, "c q"]) -> dict[str, float]:
    """The limit's relative distance from the least-squares fit nearest to the start, and from equation 9.12."""
    factors = given.factors()
    points, targets = factors * given.points, factors * given.targets
    # NumPy 1 has a different default for singular values, and warns.
    missing, *_ = np.linalg.lstsq(points.numpy(), (targets - points @ weight.mT).numpy(), rcond=None)
    fit = weight + torch.from_numpy(missing).mT
    printed = targets.mT @ torch.linalg.pinv(points.mT)
    return {
        f"off_{name}": float((flow.limit - of).norm() / of.norm()) for name, of in (("fit", fit), ("pinv", printed))
    }


def own_gradient(given: Problem, start: Parameters) -> float:
    """The largest gradient in a cumulative weight when the last layer's own weight is fixed, not the product of all."""
    weight, biases, layers = start
    own, layers = torch.linalg.solve(layers[-1], weight, left=False), layers.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(given.loss(own @ layers[-1], biases, layers), layers)
    return float(gradient.abs().max())


EXPERIMENT = Experiment(EXPERIMENTS["clustered-flow"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
