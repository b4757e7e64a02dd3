"""A ReLU network whose layers cut each class to a point, and gradient descent in its cumulative parameters."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

WIDTH = 0.05
"""How far the rows of a cone's matrix spread from its axis; the matrix's condition number is one over this."""


def outputs(
    points: Float[Tensor, "n q"],
    weight: Float[Tensor, "c q"],
    biases: Float[Tensor, "l q"],
    layers: Float[Tensor, "l q q"],
) -> Float[Tensor, "n c"]:
    r"""A ReLU network of l layers and an output, whose own weights and biases are computed from the cumulative ones.

    Without a cumulative bias at the output it is $W\underline\tau^{(l)}(x)$, with W the product of all weights.
    """
    before, shift = torch.eye(points.shape[1], dtype=points.dtype), torch.zeros_like(points[0])
    for layer, bias in zip(layers, biases, strict=True):
        own = torch.linalg.solve(before, layer, left=False)
        points = torch.relu(points @ own.mT + layer @ (bias - shift))
        before, shift = layer, bias
    return points @ torch.linalg.solve(before, weight, left=False).mT - weight @ shift


@dataclass(frozen=True)
class CollapsedNetwork:
    """A network given by its cumulative parameters, with its data.

    Attributes:
        start: (2 q q), W, the product of all weights, and B, the cumulative biases as columns.
        layers: (q q q), the cumulative weight of each layer.
        clusters: the points of each class, in rows.
        labels: (q q), Y, one column per class.
    """

    start: Float[Tensor, "2 q q"]
    layers: Float[Tensor, "q q q"]
    clusters: Sequence[Float[Tensor, "_ q"]]
    labels: Float[Tensor, "q q"]

    def loss(self, state: Float[Tensor, "2 q q"], layers: Float[Tensor, "q q q"]) -> Float[Tensor, ""]:
        """The standard loss, equation 2.22: the sum of the class averages."""
        pairs = zip(self.clusters, self.labels.mT, strict=True)
        errors = [outputs(points, state[0], state[1].mT, layers) - label for points, label in pairs]
        return torch.stack([error.square().sum(1).mean() / 2 for error in errors]).sum()

    def gradients(
        self, state: Float[Tensor, "2 q q"], layers: Float[Tensor, "q q q"]
    ) -> tuple[Float[Tensor, "2 q q"], Float[Tensor, "q q q"]]:
        """The gradients of the loss, by automatic differentiation."""
        state, layers = state.detach().requires_grad_(), layers.detach().requires_grad_()
        of_state, of_layers = torch.autograd.grad(self.loss(state, layers), (state, layers))
        return of_state, of_layers

    def descend(
        self, step: float, every: int, readings: int
    ) -> tuple[Float[Tensor, "t 2 q q"], Float[Tensor, "t"], Float[Tensor, "t"]]:
        """Gradient descent in all cumulative parameters.

        Returns:
            At the start and after each `every` steps: W and B, the loss, and the largest entry so far of a gradient
            with respect to a cumulative weight.
        """
        state, layers, most = self.start, self.layers, torch.zeros((), dtype=self.start.dtype)
        found = [(state, self.loss(state, layers), most)]
        for _ in range(readings):
            for _ in range(every):
                of_state, of_layers = self.gradients(state, layers)
                most = torch.maximum(most, of_layers.abs().max())
                state, layers = state - step * of_state, layers - step * of_layers
            found.append((state, self.loss(state, layers), most))
        states, losses, rests = map(torch.stack, zip(*found, strict=True))
        return states, losses, rests


def collapsed_network(q: int, reach: float, goal: float, generator: torch.Generator) -> CollapsedNetwork:
    """Layer l cuts class l to a point and leaves the others alone, at the start and while the points are far enough.

    B and -W start near orthogonal matrices, one the transpose of the other, and grow by the root of `goal`: labels are
    `goal` times the unit vectors. Class l lies at about `reach` times the point to which it is cut.
    """
    turn = torch.linalg.qr(normal(q, q, generator))[0]
    start = torch.stack([near(-turn.mT, generator), near(turn, generator)])
    clusters = [-reach * bias + 0.02 * normal(3 + at, q, generator) for at, bias in enumerate(start[1].mT)]
    # On the axis of layer l its own bias is at 1 and the others are at 0.
    layers = torch.stack([cone(axis) for axis in torch.linalg.inv(start[1])])
    return CollapsedNetwork(start, layers, clusters, goal * torch.eye(q, dtype=start.dtype))


def cone(axis: Float[Tensor, "q"]) -> Float[Tensor, "q q"]:
    """A matrix that maps a wide cone about an axis to positive entries, and the opposite cone to negative ones."""
    axis, diagonal = axis / axis.norm(), torch.full_like(axis, 1 / math.sqrt(len(axis)))
    between = (axis - diagonal) / (axis - diagonal).norm()
    mirror = torch.eye(len(axis), dtype=axis.dtype) - 2 * torch.outer(between, between)
    return WIDTH * mirror + (1 - WIDTH) * torch.outer(diagonal, axis)


def near(matrix: Float[Tensor, "q q"], generator: torch.Generator) -> Float[Tensor, "q q"]:
    """The matrix plus normal noise with a spectral norm of about a fifth."""
    return matrix + 0.1 / math.sqrt(len(matrix)) * normal(len(matrix), len(matrix), generator)


def normal(rows: int, columns: int, generator: torch.Generator) -> Float[Tensor, "r c"]:
    """Standard normal entries."""
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64)


def images_through(
    points: Float[Tensor, "*n q"], beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"]
) -> list[Float[Tensor, "*n q"]]:
    """The points, and their images after each truncation map in turn, Rᵀσ(R(x + β)) - β: (2.9)."""
    images = [points]
    for b, r in zip(beta, rotation, strict=True):
        images.append(((images[-1] + b) @ r.mT).relu() @ r - b)
    return images


def turning(gradient: Float[Tensor, "l q q"], rotation: Float[Tensor, "l q q"]) -> Float[Tensor, "l q q"]:
    """The generator Ω of the rotation of R along the steepest descent, from the gradient in R."""
    turn = gradient @ rotation.mT
    return (turn.mT - turn) / 2


def largest_difference(found: Tensor, expected: Tensor) -> float:
    """The largest difference between two entries."""
    return float((found - expected).abs().max())


def extrapolated(paths: Sequence[Float[Tensor, "*any"]]) -> Float[Tensor, "*any"]:
    """The path at step size 0, by the polynomial through the paths for several step sizes, each half the one before."""
    for power in range(1, len(paths)):
        paths = [fine + (fine - coarse) / (2**power - 1) for coarse, fine in itertools.pairwise(paths)]
    return paths[0]
