"""What adds up over batches: by quantity, what takes in some samples at a time, and gives the result of all."""

from collections.abc import Callable
from typing import Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gnomon.linalg import Covariance
from gnomon.measure import ClassMoments, class_moments
from gnomon.probe._derived import agop_of


class Sum(Protocol):
    """The samples so far; made of what the quantity looks at, as `update` is given it."""

    @property
    def update(self) -> Callable[..., None]:
        """Takes in some samples."""

    def result(self) -> object:
        """What the quantity is of all of them."""


class Moments:
    """The class moments, in the precision that they have where all samples are there at once."""

    def __init__(self, features: Float[Tensor, "n *p"], labels: Int[Tensor, "n"], classes: int) -> None:
        from gnomon.measure.metrics import ClassStatistics  # with torchmetrics: only where it is used

        self._statistics = ClassStatistics(classes)
        self._dtype = torch.promote_types(features.dtype, torch.float32)

    def update(self, features: Float[Tensor, "n *p"], labels: Int[Tensor, "n"], classes: int) -> None:
        """Takes in some samples."""
        self._statistics.update(features, labels)

    def result(self) -> ClassMoments:
        """Of all of them."""
        found = self._statistics.compute()
        return ClassMoments(found.counts, found.means.to(self._dtype), found.within.to(self._dtype))


class Gradients:
    """The average gradient outer product at the network's input."""

    def __init__(self, model: nn.Module, x: Float[Tensor, "n *d"], memory: int | None) -> None:
        from gnomon.measure.metrics import AGOP  # as above

        self._agop = AGOP(memory=memory)

    def update(self, model: nn.Module, x: Float[Tensor, "n *d"], memory: int | None) -> None:
        """Takes in some samples."""
        self._agop.update(model, x)

    def result(self) -> Covariance:
        """Of all of them."""
        return self._agop.compute()[""]


SUMS: tuple[tuple[Callable[..., object], Callable[..., Sum]], ...] = (
    (class_moments, Moments),
    (agop_of, Gradients),
)
"""By quantity what adds it up."""


def sum_of(quantity: Callable[..., object]) -> Callable[..., Sum] | None:
    """What adds this quantity up over batches; None if nothing does."""
    return next((made for known, made in SUMS if known is quantity), None)
