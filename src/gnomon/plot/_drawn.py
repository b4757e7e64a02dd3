"""What is drawn, as far as a picture needs to know it: the floors that measure lie above, and draw what they have."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Read(Protocol):
    """A `gnomon.Reading`."""

    @property
    def step(self) -> int:
        """That of training."""

    @property
    def values(self) -> Mapping[str, Any]:
        """By name a tensor, an estimate or a dataclass of tensors."""

    def scalars(self) -> dict[str, float]:
        """The same as plain numbers."""


@runtime_checkable
class Series(Protocol):
    """A `gnomon.History`."""

    @property
    def steps(self) -> list[int]:
        """Those of training, rising."""

    @property
    def names(self) -> list[str]:
        """Those of all numbers, extremes and quartiles among them."""

    @property
    def quantities(self) -> list[str]:
        """Those of quantities alone."""

    def __getitem__(self, name: str) -> Tensor:
        """One number a step, NaN where there is none."""


@runtime_checkable
class Corners(Protocol):
    """A `gnomon.regions.Polygons`."""

    @property
    def vertices(self) -> Tensor:
        """The corners, (r v 2)."""

    @property
    def count(self) -> Tensor:
        """How many of them are each region's."""


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
