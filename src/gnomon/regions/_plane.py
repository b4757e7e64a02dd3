"""Two-dimensional slices of an input space."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision, single
from gnomon.errors import RangeError, ShapeError, public


@dataclass(frozen=True, eq=False)
class Plane:
    r"""The plane $\{o + u\,e_1 + v\,e_2\}$, with coordinates (u, v).

    Args:
        origin: o, one input, (*d).
        directions: e₁ and e₂, (2 *d); any two that are not parallel. Coordinates and areas are in their units, so use
            orthonormal ones, as `plane_through` does, if the units should be those of the input space.

    Raises:
        ShapeError: if the origin has fewer than two entries, or the directions are not two inputs of its shape.
        RangeError: at NaN or infinity, if the directions are parallel, or on another device than the origin.
    """

    origin: Float[Tensor, "*d"]
    directions: Float[Tensor, "2 *d"]

    @public
    def __post_init__(self) -> None:
        _checks.floating(origin=self.origin, directions=self.directions)
        require_two_entries(origin=self.origin)
        if self.directions.shape != (2, *self.origin.shape):
            raise ShapeError(
                "directions",
                f"shape {(2, *self.origin.shape)}",
                _checks.shape_of(self.directions),
                "Pass two directions of the origin's shape.",
            )
        _checks.one_device(origin=self.origin, directions=self.directions)
        _checks.finite(origin=self.origin, directions=self.directions)
        # Of unit length: directions may well be of very different sizes.
        directions = torch.nn.functional.normalize(self.directions.flatten(1).double(), dim=1, eps=0)
        singular = torch.linalg.svdvals(directions) if directions.isfinite().all() else torch.zeros(2)
        if singular[1] <= 1e-12:
            raise RangeError(
                "directions",
                "two directions that span a plane",
                "parallel ones",
                "Choose another point.",
            )

    @full_precision
    def embed(self, points: Float[Tensor, "n 2"]) -> Float[Tensor, "n *d"]:
        """The inputs at these coordinates; NaN for NaN.

        Raises:
            ShapeError: if the points are not (n, 2).
        """
        require_coordinates(points)
        directions = self.directions.to(points).flatten(1)
        return self.origin.to(points) + (points @ directions).reshape(-1, *self.origin.shape)

    @full_precision
    def project(self, x: Float[Tensor, "n *d"]) -> Float[Tensor, "n 2"]:
        """The coordinates of the points of the plane that are nearest to these inputs.

        Raises:
            ShapeError: if the inputs are not of the plane's shape.
            RangeError: at NaN or infinity.
        """
        self.require_inputs(x)
        directions, apart = self.directions.double().flatten(1), (x.double() - self.origin.double()).flatten(1)
        # Of unit length, and without looking for a rank: directions may well be of very different sizes.
        lengths = torch.linalg.vector_norm(directions, dim=1)
        found = torch.linalg.lstsq((directions / lengths[:, None]).T, apart.T, driver="gels").solution.T / lengths
        return found.to(single(x.dtype))

    def require_inputs(self, x: Tensor) -> None:
        """Raises unless these are inputs of the plane's shape, finite, one per row."""
        if x.shape[1:] != self.origin.shape or x.ndim == 0:
            raise ShapeError(
                "x",
                f"inputs of shape (n, {', '.join(map(str, self.origin.shape))}), as the plane's origin is",
                _checks.shape_of(x),
                "Pass inputs of the same space, one per row.",
            )
        _checks.finite(x=x)


def require_two_entries(**tensors: Tensor) -> None:
    """Raises ShapeError unless these have the entries that a plane needs."""
    for name, tensor in tensors.items():
        if tensor.numel() < 2:
            raise ShapeError(name, "inputs of two entries or more", f"shape {_checks.shape_of(tensor)}", "Pass some.")


def require_coordinates(points: Tensor) -> None:
    """Raises ShapeError unless these are coordinates in a plane, two per row."""
    if points.ndim != 2 or points.shape[1] != 2:
        raise ShapeError(
            "points",
            "two coordinates per row, shape (n, 2)",
            _checks.shape_of(points),
            "Take plane.project(x) for inputs.",
        )


@full_precision
def plane_through(x1: Float[Tensor, "*d"], x2: Float[Tensor, "*d"], x3: Float[Tensor, "*d"]) -> Plane:
    """The plane through three inputs, with orthonormal directions and its origin at their mean, in float64.

    Rounded to float32, it would miss the inputs, and the origin, where all regions of a network without biases meet.

    Args:
        x1: an input; the first direction goes from it to `x2`.
        x2: another input.
        x3: a third, on the side of the second direction.

    Returns:
        The plane: coordinates in it have the unit of the inputs, and distances are those between inputs.

    Raises:
        ShapeError: if their shapes differ, or they have fewer than two entries.
        RangeError: at NaN or infinity, or if they lie on a line, to within 1e-9 of their distances.

    Example:
        >>> import torch
        >>> plane = plane_through(torch.zeros(3), torch.tensor([2.0, 0, 0]), torch.tensor([0, 0, 5.0]))
        >>> plane.directions
        tensor([[1., 0., 0.],
                [0., 0., 1.]], dtype=torch.float64)
    """
    _checks.same_shape(x1=x1, x2=x2, x3=x3)
    require_two_entries(x1=x1)
    _checks.one_device(x1=x1, x2=x2, x3=x3)
    _checks.finite(x1=x1, x2=x2, x3=x3)
    x1, x2, x3 = x1.double(), x2.double(), x3.double()
    spread = torch.stack([x2 - x1, x3 - x1]).flatten(1)
    first = spread[0] / torch.linalg.vector_norm(spread[0])
    second = spread[1]
    for _ in range(2):  # near the line, the first leaves rounding errors along it
        second = second - (second @ first) * first
    length = torch.linalg.vector_norm(second)
    if not length > 1e-9 * torch.linalg.vector_norm(spread):
        raise RangeError("x3", "three points that span a plane", "points on a line", "Take another.")
    directions = torch.stack([first, second / length]).reshape(2, *x1.shape)
    return Plane((x1 + x2 + x3) / 3, directions)
