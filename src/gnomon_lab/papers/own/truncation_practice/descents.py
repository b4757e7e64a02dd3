"""Descents of one loss from one start: from the effective gradient flow to training, one difference at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, jvp

from gnomon import GeneralFlow
from gnomon.models import mlp
from gnomon_lab.papers._shared import plane_rotation, principal_digits

EFFECTIVE, ADAPTED, CUMULATIVE, OWN, HEAD, TRAINING, LARGE = RUNGS = (
    "effective flow",
    "adapted weights",
    "cumulative weights",
    "own weights",
    "fixed head",
    "training",
    "training, large steps",
)
"""From the paper's flow to practice: each differs from the one before in one thing (docs/experiments)."""
LAYERS = 2


class Affine(NamedTuple):
    """Layers, each with its own weight and bias, or cumulative ones: W and β."""

    weight: Float[Tensor, "m q q"]
    bias: Float[Tensor, "m q"]


@dataclass(frozen=True)
class Start:
    """Data, and the cumulative weights and biases of all layers at time 0, those of the outputs last."""

    points: Float[Tensor, "n q"]
    labels: Int[Tensor, "n"]
    at: Affine

    @property
    def flow(self) -> GeneralFlow:
        """The effective flow, to the labels pulled back by the outputs' W and β (docs/errata.md on (2.26))."""
        return GeneralFlow(self.points, self.labels, torch.linalg.inv(self.at.weight[-1]).mT - self.at.bias[-1])


def clusters_start(size: int, name: str, generator: torch.Generator) -> Start:
    """Two clusters in the plane, and a map for each, slightly turned, that has the other's in its positive sector.

    Seen from the origin the first map truncates to the lower left, the second to the upper right. The outputs turn the
    plane by a right angle, so that the labels' preimages, (-½, -½) and (½, ½), lie between the clusters: with its apex
    there, each map truncates its cluster to a point, and does nothing to the other.
    """
    middle, ones = torch.tensor([[-1.5], [1.5]]).double(), torch.ones(2, dtype=torch.float64)
    labels = torch.arange(2).repeat_interleave(size)
    noise = 0.3 * torch.randn(len(labels), 2, generator=generator, dtype=torch.float64)
    # How far each map's apex lies from the middle of its cluster towards the other.
    inward = {"clusters": 0.3, "collapsed": 1.3, "untruncated": -1.5}[name]
    apexes = (middle - inward * middle.sign()) * ones
    turn = 0.2 * torch.rand(2, generator=generator, dtype=torch.float64) - 0.1
    turned = torch.stack([plane_rotation(angle) for angle in turn])
    quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]]).double()
    weight = torch.cat([turned * torch.tensor([1.0, -1.0])[:, None, None], quarter[None]])
    bias = torch.cat([-apexes, (quarter.mT @ (ones / 2))[None]])
    return Start(middle[labels] + noise.clamp(-0.75, 0.75), labels, Affine(weight, bias))


def digits_start(size: int, q: int, generator: torch.Generator) -> Start:
    """Principal components of digits; random orthogonal weights, hidden biases of 1, and outputs with b^(L+1) = 0."""
    points, labels = principal_digits(size, q, q, generator)
    own = torch.linalg.qr(torch.randn(LAYERS + 1, q, q, generator=generator, dtype=torch.float64)).Q
    at = together(Affine(own, torch.ones(LAYERS + 1, q, dtype=torch.float64)))
    at.bias[-1] = 0
    return Start(points, labels, at)


def together(own: Affine) -> Affine:
    """The cumulative weights and biases of layers, as in gnomon.cumulative_parameters: (2.6)."""
    weights, betas = [own.weight[0]], [torch.linalg.solve(own.weight[0], own.bias[0])]
    for weight, bias in zip(own.weight[1:], own.bias[1:], strict=True):
        weights.append(weight @ weights[-1])
        betas.append(betas[-1] + torch.linalg.solve(weights[-1], bias))
    return Affine(torch.stack(weights), torch.stack(betas))


def apart(cumulative: Affine) -> Affine:
    """The layers of cumulative weights and biases: W_l = W^(l) W^(l-1)⁻¹ and b_l = W^(l)(β^(l) - β^(l-1))."""
    eye = torch.eye(cumulative.weight.shape[1], dtype=cumulative.weight.dtype)
    before = torch.cat([eye[None], cumulative.weight[:-1]])
    steps = torch.diff(cumulative.bias, dim=0, prepend=torch.zeros_like(cumulative.bias[:1]))
    own = torch.linalg.solve(before, cumulative.weight, left=False)
    return Affine(own, torch.einsum("lij,lj->li", cumulative.weight, steps))


def joined(first: Affine, then: Affine) -> Affine:
    """Layers after layers."""
    return Affine(torch.cat([first.weight, then.weight]), torch.cat([first.bias, then.bias]))


def hidden(layers: Affine) -> Affine:
    """All layers but the outputs'."""
    return Affine(layers.weight[:-1], layers.bias[:-1])


def coordinates(rung: str, start: Affine) -> tuple[Affine, Callable[[Affine], Affine]]:
    """Where a rung starts in its own coordinates, and the network's layers as a function of these."""
    own, outputs = apart(start), Affine(start.weight[-1:], start.bias[-1:])
    if rung in (EFFECTIVE, ADAPTED, CUMULATIVE):
        return hidden(start), lambda free: apart(joined(free, outputs))
    if rung == OWN:
        return hidden(own), lambda free: apart(joined(together(free), outputs))
    if rung == HEAD:
        return hidden(own), lambda free: joined(free, Affine(own.weight[-1:], own.bias[-1:]))
    return own, lambda free: free


def standard_loss(logits: Float[Tensor, "n k"], labels: Int[Tensor, "n"]) -> Float[Tensor, ""]:
    """The loss (2.22), with one-hot labels."""
    return halved(logits - torch.eye(logits.shape[1], dtype=logits.dtype)[labels], labels)


def halved(errors: Float[Tensor, "n q"], labels: Int[Tensor, "n"]) -> Float[Tensor, ""]:
    """Half the squared lengths, the mean over each class, summed over the classes."""
    return (errors.square().sum(1) / torch.bincount(labels)[labels]).sum() / 2


def named(own: Affine) -> dict[str, Tensor]:
    """The layers under the names that `gnomon.models.mlp` gives them."""
    return {f"{2 * k}.{name}": part for name, parts in own._asdict().items() for k, part in enumerate(parts)}


def network(start: Start) -> nn.Sequential:
    """An ordinary ReLU network of equal widths."""
    return mlp((start.points.shape[1],) * (LAYERS + 2), bias=True).double()


def descent(rung: str, start: Start, free: Affine, model: nn.Module) -> tuple[Float[Tensor, ""], Affine]:
    """The loss, and the direction of its steepest descent in a rung's coordinates."""
    weight, bias = (part.detach().requires_grad_() for part in free)
    layers = coordinates(rung, start.at)[1]
    loss = standard_loss(functional_call(model, named(layers(Affine(weight, bias))), start.points), start.labels)
    of_weight, of_bias = torch.autograd.grad(loss, [weight, bias])
    if rung == ADAPTED:
        turning = of_weight @ free.weight.mT
        of_weight = (turning - turning.mT) / 2 @ free.weight
    return loss.detach(), Affine(-of_weight, -of_bias)


def velocities(rung: str, start: Start) -> dict[str, Any]:
    """At time 0, for the hidden layers: that of β, and that of the cumulative weight times the weight's transpose."""
    if rung == EFFECTIVE:
        bias, weight = start.flow.velocity_at(start.at.bias[:-1], start.at.weight[:-1])
    else:
        free, layers = coordinates(rung, start.at)
        towards = descent(rung, start, free, network(start))[1]
        weight, bias = hidden(Affine(*jvp(lambda *at: together(layers(Affine(*at))), tuple(free), tuple(towards))[1]))
    return {"beta_velocity": bias.tolist(), "weight_velocity": (weight @ start.at.weight[:-1].mT).tolist()}


def moved(rung: str, free: Affine, towards: Affine, step: float) -> Affine:
    """One step; adapted weights are rotated, and stay orthogonal."""
    if rung == ADAPTED:
        turn = torch.linalg.matrix_exp(step * towards.weight @ free.weight.mT)
        return Affine(turn @ free.weight, free.bias + step * towards.bias)
    return Affine(free.weight + step * towards.weight, free.bias + step * towards.bias)
