"""What adds up over batches: by quantity, what takes some samples at a time, and gives the result for all."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

from jaxtyping import Float, Int, Real, Shaped
from torch import Tensor, nn

from gnomon._precision import single
from gnomon.linalg import Covariance
from gnomon.measure import BatchGradients, ClassMoments, GradientSums, batch_gradients, class_moments
from gnomon.probe._derived import agop_of


class Sum(Protocol):
    """The samples so far; constructed from what the quantity uses, which `update` gets too."""

    @property
    def update(self) -> Callable[..., None]:
        """Adds some samples."""

    def result(self) -> object:
        """The quantity's result for all of them."""


class ClassMomentSum:
    """The class moments, in the precision that they have if all samples are there at once."""

    def __init__(self, features: Float[Tensor, "n *p"], labels: Int[Tensor, "n"], classes: int) -> None:
        from gnomon.measure.metrics import ClassStatistics  # imports torchmetrics: only where it is used

        self._statistics = ClassStatistics(classes, sync_on_compute=False)  # a reading waits for no other process
        self._dtype = single(features.dtype)

    def update(self, features: Float[Tensor, "n *p"], labels: Int[Tensor, "n"], classes: int | None = None) -> None:
        """Adds some samples."""
        self._statistics.update(features, labels)

    def result(self) -> ClassMoments:
        """The result for all of them."""
        found = self._statistics.compute()
        return ClassMoments.rounded(found.counts, found.means, found.within.to(self._dtype))


class AGOPSum:
    """The average gradient outer product at the network's input."""

    def __init__(self, model: nn.Module, x: Float[Tensor, "n *d"], memory: int | None) -> None:
        from gnomon.measure.metrics import AGOP  # as above

        self._agop = AGOP(memory=memory, sync_on_compute=False)

    def update(self, model: nn.Module, x: Float[Tensor, "n *d"], memory: int | None) -> None:
        """Adds some samples."""
        self._agop.update(model, x)

    def result(self) -> Covariance:
        """The result for all of them."""
        return self._agop.compute()[""]


class BatchGradientSum:
    """The gradients of a loss on random batches."""

    def __init__(
        self,
        model: nn.Module,
        x: Shaped[Tensor, "n *d"],
        labels: Real[Tensor, "n *y"],
        memory: int | None,
        **settings: object,
    ) -> None:
        self._sums = GradientSums(memory=memory, **cast(dict[str, Any], settings))

    def update(
        self, model: nn.Module, x: Shaped[Tensor, "n *d"], labels: Real[Tensor, "n *y"], memory: int | None = None
    ) -> None:
        """Adds some samples."""
        self._sums.update(model, x, labels)

    def result(self) -> BatchGradients:
        """The result for all of them."""
        return self._sums.compute()


SUMS: tuple[tuple[Callable[..., object], Callable[..., Sum]], ...] = (
    (class_moments, ClassMomentSum),
    (agop_of, AGOPSum),
    (batch_gradients, BatchGradientSum),
)
"""By quantity, what adds it up."""


def sum_of(quantity: Callable[..., object]) -> Callable[..., Sum] | None:
    """What adds this quantity up over batches, with its settings; None if nothing does."""
    settings = quantity.keywords if isinstance(quantity, partial) and not quantity.args else {}
    function = quantity.func if settings and isinstance(quantity, partial) else quantity
    return next((partial(made, **settings) for known, made in SUMS if known is function), None)
