"""Faces, at which a flow of pieces is not smooth, and the velocity of points that slide along them."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

State = Shaped[np.ndarray, "_ _ _"]
"""For each layer the row β, and below it the q rows of the orthogonal R."""
Sides = Shaped[np.ndarray, "_ _ _"]
"""For each layer, point and coordinate 0 below the face, 1 above it, and a number between while sliding along it."""
Face = tuple[int, Int[np.ndarray, "_"], int]
"""A layer, the points that are in one place on a face, and the coordinate."""

NEWTON = 8
"""Newton steps to the sides of sliding points, at most."""
NEAR = 1e-8
"""A Newton step after which the next one would be rounding."""
SINGULAR = 1e-10
"""Singular values, as shares of the largest, that count as zero."""


@runtime_checkable
class Flow(Protocol):
    """What is integrated."""

    def heights(self, state: State, sides: Sides) -> Sides:
        """Of each point over each face; for given sides a polynomial in the state, which may be complex."""
        ...

    def velocity(self, sides: Sides) -> Callable[[State], State]:
        """The right side for given sides; affine in each of them on its face."""
        ...

    def places(self, sides: Sides) -> Int[np.ndarray, "l n"]:
        """Where each point is when it comes to each layer: points of one number are in one place in every state."""
        ...


def faces(flow: Flow, sides: Sides, touched: Bool[np.ndarray, "l n q"]) -> list[Face]:
    """The faces that are touched; points that stay in one place, as when truncated fully before, touch them as one."""
    found, places = [], flow.places(sides)
    for layer, coordinate in np.argwhere(touched.any(1)).tolist():
        points = np.flatnonzero(touched[layer, :, coordinate])
        here = places[layer, points]
        found += [(layer, points[here == place], coordinate) for place in np.unique(here)]
    return found


def placed(sides: Sides, touched: list[Face], shares: Float[np.ndarray, "k"]) -> Sides:
    """The sides, with these at the faces."""
    sides = sides.copy()
    for face, share in zip(touched, shares, strict=True):
        sides[face] = share
    return sides


def speeds(flow: Flow, state: State, velocity: State, sides: Sides) -> Sides:
    """At which the heights change: their derivative along the velocity, exact, by a step in the complex plane."""
    step = 1e-100
    return flow.heights(state + 1j * step * velocity, sides).imag / step


class Motion:
    """The velocity from one crossing to the next.

    By how much it jumps across a face is normal to that face. Thus the one that stays on all faces along which points
    slide is that for any sides of theirs, projected along these jumps.
    """

    def __init__(self, flow: Flow, sides: Sides, sliding: Bool[np.ndarray, "l n q"]) -> None:
        self.flow, self.sides, self.faces = flow, sides, faces(flow, sides, sliding)
        self.smooth, self.across = flow.velocity(sides), self.beyond(sides)

    def __call__(self, state: State) -> State:
        """The velocity. Heights h over faces that points slide along change by -h, so that errors fade."""
        velocity = self.smooth(state)
        if not self.faces:
            return velocity
        jumps = np.stack([across(state) - velocity for across in self.across])
        slopes = np.stack([self.over(speeds(self.flow, state, jump, self.sides)) for jump in jumps], 1)
        missed = self.over(speeds(self.flow, state, velocity, self.sides) + self.flow.heights(state, self.sides))
        return velocity - np.tensordot(solved(slopes, missed), jumps, 1)

    def held(self, state: State, sides: Sides) -> Sides:
        """The sides of points that slide for which the velocity is that one, by Newton's method from these sides.

        Velocities are affine in each side, thus differences are derivatives.
        """
        if not self.faces:
            return self.sides
        wanted = self(state)
        for _ in range(NEWTON):
            velocity = self.flow.velocity(sides)(state)
            jumps = np.stack([(across(state) - velocity).ravel() for across in self.beyond(sides)], 1)
            change = solved(jumps, (velocity - wanted).ravel())
            # Far out of their range there may be none, and near it they have left it.
            sides = placed(sides, self.faces, (self.over(sides) - change).clip(-1, 2))
            if np.abs(change).max() < NEAR:
                break
        return sides

    def beyond(self, sides: Sides) -> list[Callable[[State], State]]:
        """The velocities for sides that are greater by 1 at one face each."""
        units, shares = np.eye(len(self.faces)), self.over(sides)
        return [self.flow.velocity(placed(sides, self.faces, shares + unit)) for unit in units]

    def over(self, values: Sides) -> Float[np.ndarray, "k"]:
        """The values at the faces."""
        return np.array([values[face].mean() for face in self.faces])


def solved(slopes: Float[np.ndarray, "m k"], values: Float[np.ndarray, "m"]) -> Float[np.ndarray, "k"]:
    """What slopes take to values: the least, since faces coincide where points do."""
    return np.linalg.lstsq(slopes, values, SINGULAR)[0]
