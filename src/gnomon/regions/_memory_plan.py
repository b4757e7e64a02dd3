"""How many polygons go through a network together, so that they fit a memory budget."""

from collections.abc import Mapping
from dataclasses import dataclass

from gnomon.errors import RangeError
from gnomon.regions._operations import Affine, PiecewiseLinear
from gnomon.regions._steps import Network

NUMBER = 8
"""Bytes of a number in float64."""
PASSING = 10
"""Numbers that a unit needs while pieces are given its value: its state, its hash, its slope and offset, its planes."""


@dataclass(frozen=True)
class MemoryPlan:
    """How a memory budget is shared.

    Attributes:
        polygons: by the place of a bending step, how many polygons it processes at a time.
        room: bytes for what a single step needs only while it runs.
    """

    polygons: Mapping[int, int]
    room: int


def memory_plan(network: Network, budget: int) -> MemoryPlan:
    """Shares a budget among the bending steps of a network: depth first, each of them holds some polygons at a time.

    Raises:
        RangeError: if it does not suffice for one polygon at each of them, saying what would.
    """
    stays: dict[int, int] = {}
    passes = {-1: 0}
    held = frozenset({network.source.name})
    for place, step in enumerate(network.steps):
        entries = 3 * sum(network.shapes[name].numel() for name in held)
        units = step.shape.numel()
        if isinstance(step.operation, Affine):
            passes[place] = NUMBER * (entries + 3 * units)
        else:
            if isinstance(step.operation, PiecewiseLinear):
                units *= len(step.operation.breaks)
            # Its tolerance and its piece.
            stays[place] = NUMBER * (entries + 2 * units)
            passes[place] = NUMBER * (entries + PASSING * units)
        held = network.needed_after[place]
    least = sum(stays.values()) + max(passes.values())
    if least > budget:
        raise RangeError(
            "memory",
            f"at least {least:,} bytes, for one polygon on its way through the network",
            f"{budget:,}",
            "Allow more.",
        )
    half = (budget - least) // 2
    polygons = {place: 1 + min(half // (len(stays) * size), half // passes[place]) for place, size in stays.items()}
    return MemoryPlan(polygons, max(passes.values()) + half)
