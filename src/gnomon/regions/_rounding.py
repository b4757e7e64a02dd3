"""How large rounding errors are where a network bends: where all terms of a unit cancel, nothing else is left of it."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon.regions._operations import Bend, Planes, bent, state_at_origin
from gnomon.regions._polygons import Polygons
from gnomon.regions._steps import NOISE, Network

ROUNDING = 1e-15
"""The noise of this size that float64 makes."""
LOOKED_AT = 8
"""Points of a box at which a network is shaken."""


def rounding_of(network: Network, image: Planes, box: Polygons, together: int) -> dict[int, Float[Tensor, "u"]]:
    """For what enters each bending step, the largest change by noise inside the box, as small as rounding errors are.

    Args:
        network: the network.
        image: the plane, as it enters the network.
        box: the part of the plane.
        together: at how many points to look together.
    """
    corners, generator = box.vertices[0], torch.Generator().manual_seed(0)
    weights = torch.rand(LOOKED_AT, len(corners), generator=generator, dtype=corners.dtype, device="cpu")
    weights = weights.to(corners.device)
    points = (weights / weights.sum(1, keepdim=True)) @ corners
    reach = torch.cat([corners.abs().amax(0), corners.new_ones(1)])
    states: dict[int, Tensor] = {}
    exact: dict[int, Planes] = {}
    found: dict[int, Tensor] = {}

    def plainly(place: int, operation: Bend, planes: Planes) -> Planes:
        states[place], exact[place] = state_at_origin(operation, planes), planes
        return bent(operation, planes, states[place])

    def noisily(place: int, operation: Bend, planes: Planes) -> Planes:
        apart = (planes - exact[place]).abs().nan_to_num(0).flatten(2)
        largest = ROUNDING / NOISE * torch.einsum("k,pku->pu", reach, apart).amax(0)
        found[place] = torch.maximum(found.get(place, largest), largest)
        return bent(operation, planes, states[place])

    for some in torch.split(points, together):
        planes = image.repeat(len(some), *[1] * (image.ndim - 1))
        planes[:, 2] += torch.tensordot(some, image[0, :2], 1)
        network.run(planes, plainly)
        network.with_noise().run(planes, noisily)
    return found
