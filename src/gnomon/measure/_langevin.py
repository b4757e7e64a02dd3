"""Stochastic gradient Langevin dynamics around the parameters that a network has."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from gnomon.autodiff import Replicas
from gnomon.linalg import generator_of, normal

PRODUCTS = 10
"""Power iterations: these come within a few percent of the largest curvature, with a factor of 16 to spare."""

Draw = Callable[[], tuple[Shaped[Tensor, "k m *d"], Shaped[Tensor, "k m *y"], Float[Tensor, "k"]]]
"""Returns the samples that each chain sees next, their targets, and their mean loss at the start."""


@dataclass(frozen=True)
class Langevin:
    r"""What the chains do.

    Attributes:
        n_beta: the samples over the temperature.
        localisation: the strength of the pull towards the start.
        step_size: $\epsilon$; None for a quarter of the inverse of the largest curvature.
        chains: the number of chains.
        steps: the number of steps of each chain.
        batch: the number of samples that each chain sees at a step.
        piece: how many of them are computed together.
        seed: the seed of samples and noise.
    """

    n_beta: float | int
    localisation: float | int
    step_size: float | int | None
    chains: int
    steps: int
    batch: int
    piece: int
    seed: int

    def run(
        self,
        replicas: Replicas,
        x: Shaped[Tensor, "n *d"],
        targets: Shaped[Tensor, "n *y"],
        losses: Float[Tensor, "n"],
    ) -> tuple[Float[Tensor, "k s"], Float[Tensor, ""]]:
        """By chain and step, how far the loss is above its value at the start on the same samples; and the step size.

        Args:
            replicas: the network.
            x: all samples.
            targets: their targets.
            losses: their losses at the start.
        """
        # Drawn on the CPU in single precision: the same numbers on every device, in every precision.
        generator = generator_of(int(self.seed))
        start = replicas.start

        def draw() -> tuple[Tensor, Tensor, Tensor]:
            if self.batch >= len(x):
                return x.expand(self.chains, *x.shape), targets.expand(self.chains, *targets.shape), losses.mean()
            rows = torch.randint(len(x), (self.chains, self.batch), generator=generator, device="cpu").to(x.device)
            return x[rows], targets[rows], losses[rows].mean(1)

        def noise() -> Tensor:
            return normal(self.chains, len(start), generator=generator, like=start)

        size = self._fitting(replicas, draw, noise) if self.step_size is None else start.new_tensor(self.step_size)
        points, above = start.expand(self.chains, -1), start.new_empty(self.chains, self.steps)
        for step in range(self.steps):
            some, theirs, before = draw()
            found, gradient = self._gradients(replicas, points, some, theirs)
            above[:, step] = found - before
            force = self.n_beta * gradient + self.localisation * (points - start)
            points = points - size / 2 * force + size.sqrt() * noise()
        return above, size

    def _gradients(
        self, replicas: Replicas, points: Float[Tensor, "k p"], x: Shaped[Tensor, "k m *d"], targets: Tensor
    ) -> tuple[Float[Tensor, "k"], Float[Tensor, "k p"]]:
        """The mean loss of a batch at each point and its gradient, summed over pieces of the batch."""
        losses, gradient = torch.zeros_like(points[:, 0]), torch.zeros_like(points)
        for some, theirs in zip(torch.split(x, self.piece, 1), torch.split(targets, self.piece, 1), strict=True):
            found, its = replicas.gradients(points, some, theirs)
            share = some.shape[1] / x.shape[1]
            losses, gradient = losses + share * found, gradient + share * its
        return losses, gradient

    def _fitting(self, replicas: Replicas, draw: Draw, noise: Callable[[], Tensor]) -> Float[Tensor, ""]:
        """A quarter of the inverse of the largest curvature; a chain is stable up to four times that inverse.

        The curvature of the loss is found by power iterations, as the change of the gradient over the distance to which
        the pull alone would let one parameter go: at a kink the exact second derivative is zero on both sides, but the
        chains feel one.
        """
        radius = 1 / math.sqrt(self.localisation)
        some, theirs, _ = draw()
        points = replicas.start.expand(self.chains, -1)
        _, gradient = self._gradients(replicas, points, some, theirs)
        change = noise()
        for _ in range(PRODUCTS):
            away = radius * torch.nn.functional.normalize(change, dim=1)
            change = self._gradients(replicas, points + away, some, theirs)[1] - gradient
        largest = torch.linalg.vector_norm(change, dim=1).amax() / radius
        return 1 / (4 * (self.n_beta * largest + self.localisation))


def split_r_hat(traces: Float[Tensor, "k s"]) -> Float[Tensor, ""]:
    r"""How far apart the halves of chains are, relative to the spread of each: 1 where they have forgotten the start.

    $\sqrt{\frac{m-1}m + \frac BW}$ with the variance B of the means of the halves, m draws each, and the mean W of
    their variances; 1 where there is none, NaN without chains.
    """
    if len(traces) == 0:
        return traces.new_tensor(math.nan)
    m = traces.shape[1] // 2
    halves = torch.cat([traces[:, :m], traces[:, -m:]])
    within, between = halves.var(1).mean(), halves.mean(1).var()
    ratio = torch.where(between > 0, between / within, torch.zeros_like(between))
    return torch.where(between > 0, ((m - 1) / m + ratio).sqrt(), torch.ones_like(between))
