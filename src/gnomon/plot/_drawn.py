"""What is drawn, as far as a figure needs to know it: the packages that measure lie above, and draw what they have."""

from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Series(Protocol):
    """A `gnomon.History`."""

    @property
    def steps(self) -> list[int]:
        """The steps of training, increasing."""

    @property
    def names(self) -> list[str]:
        """The names of all numbers, including extremes and quartiles."""

    @property
    def quantities(self) -> list[str]:
        """The names of the quantities alone."""

    def __getitem__(self, name: str) -> Tensor:
        """One number per step, NaN where there is none."""

    def steps_of(self, name: str) -> list[int]:
        """The steps at which this was read."""


@runtime_checkable
class Corners(Protocol):
    """A `gnomon.regions.Polygons`."""

    @property
    def vertices(self) -> Tensor:
        """The corners, (r v 2)."""

    @property
    def count(self) -> Tensor:
        """How many corners each region has."""


@runtime_checkable
class Partition(Protocol):
    """A `gnomon.regions.Regions`."""

    @property
    def polygons(self) -> Corners:
        """The regions' corners."""

    @property
    def pattern(self) -> Tensor:
        """A hash of each region's activation pattern, (r)."""

    @property
    def slopes(self) -> Tensor:
        """The network's derivative in each region, (r c 2)."""

    @property
    def offsets(self) -> Tensor:
        """Its value at the plane's origin, (r c)."""

    def region_of_points(self, points: Tensor) -> Tensor:
        """The region of each point, (n 2)."""

    def decision_boundary(self) -> list[Tensor]:
        """The lines on which the predicted class changes, each (s 2)."""
