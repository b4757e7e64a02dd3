"""Stochastic gradient Langevin dynamics around the parameters that a network has."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from gnomon.autodiff import Replicas
from gnomon.linalg import generator_of, normal

PRODUCTS = 10
"""Power iterations: these come within a few percent of the largest curvature, with a factor of 16 to spare."""


@dataclass(frozen=True)
class Rise:
    """How far the loss rises above that at the start.

    Attributes:
        replicas: the network.
        x: all samples.
        targets: their targets.
        losses: their losses at the start.
        piece: how many of a batch are gathered and computed together.
    """

    replicas: Replicas
    x: Shaped[Tensor, "n *d"]
    targets: Shaped[Tensor, "n *y"]
    losses: Float[Tensor, "n"]
    piece: int

    def at(
        self, points: Float[Tensor, "k p"], rows: Int[Tensor, "k m"]
    ) -> tuple[Float[Tensor, "k"], Float[Tensor, "k p"]]:
        """Its mean at each point over the samples in these rows, and the gradient of their mean loss there."""
        rise, gradient = torch.zeros_like(points[:, 0]), torch.zeros_like(points)
        for some in torch.split(rows, self.piece, 1):
            found, its = self.replicas.gradients(points, self.x[some], self.targets[some])
            share = some.shape[1] / rows.shape[1]
            # Sample by sample: the mean of all that they have in common would be rounded.
            rise, gradient = rise + share * (found - self.losses[some]).mean(1), gradient + share * its
        return rise, gradient


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
        seed: the seed of samples and noise.
    """

    n_beta: float | int
    localisation: float | int
    step_size: float | int | None
    chains: int
    steps: int
    batch: int
    seed: int

    def run(self, rise: Rise) -> tuple[Float[Tensor, "k s"], Float[Tensor, "k s"], Float[Tensor, ""]]:
        r"""By chain and step the rise, and what finite steps add to the coefficient; and the step size.

        Where chains have come to rest, the mean of $\|w - w^*\|^2$ stays the same from step to step: of a quadratic
        loss without pull, twice the coefficient is p plus $\frac\epsilon4$ times the mean of $\|n\beta\nabla L_B\|^2$.
        """
        # Drawn on the CPU in single precision: the same numbers on every device, in every precision.
        generator = generator_of(int(self.seed))
        start, n = rise.replicas.start, len(rise.x)

        def draw() -> Tensor:
            if self.batch >= n:
                return torch.arange(n, device=start.device).expand(self.chains, -1)
            return torch.randint(n, (self.chains, self.batch), generator=generator, device="cpu").to(start.device)

        def noise() -> Tensor:
            return normal(self.chains, len(start), generator=generator, like=start)

        size = self._fitting(rise, draw(), noise()) if self.step_size is None else start.new_tensor(self.step_size)
        points = start.expand(self.chains, -1)
        rises, added = start.new_empty(2, self.chains, self.steps)
        for step in range(self.steps):
            rises[:, step], gradient = rise.at(points, draw())
            added[:, step] = size / 8 * (self.n_beta * gradient).square().sum(1)
            force = self.n_beta * gradient + self.localisation * (points - start)
            points = points - size / 2 * force + size.sqrt() * noise()
        return rises, added, size

    def _fitting(self, rise: Rise, rows: Int[Tensor, "k m"], towards: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
        """A quarter of the inverse of the largest curvature; a chain is stable up to four times that inverse.

        The curvature of the loss is found by power iterations from a direction for each chain, as the change of the
        gradient over the distance to which the pull alone would let one parameter go: at a kink the exact second
        derivative is zero on both sides, but the chains feel one.
        """
        radius = 1 / math.sqrt(self.localisation)
        points = rise.replicas.start.expand(self.chains, -1)
        _, gradient = rise.at(points, rows)
        for _ in range(PRODUCTS):
            away = radius * torch.nn.functional.normalize(towards, dim=1)
            towards = rise.at(points + away, rows)[1] - gradient
        largest = torch.linalg.vector_norm(towards, dim=1).amax() / radius
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
