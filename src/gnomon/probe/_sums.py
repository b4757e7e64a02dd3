"""What adds up over batches: by quantity, what takes some samples at a time, and gives the result for all."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from jaxtyping import Float
from torch import Tensor, nn

from gnomon._precision import full_precision
from gnomon.autodiff import add_gradients
from gnomon.linalg import Covariance, GramSum, covariance
from gnomon.measure import GradientSums, batch_gradients, class_moments
from gnomon.measure._class_sums import ClassSums
from gnomon.probe._derived import agop_of

SETTINGS = frozenset({"classes", "memory"})
"""What a quantity uses that is neither a network nor samples."""


class Sum(Protocol):
    """The samples so far; constructed from the quantity's settings, while `update` gets all else that it uses."""

    @property
    def update(self) -> Callable[..., None]:
        """Adds some samples."""

    def compute(self) -> object:
        """The quantity's result for all of them."""


class AGOPSum:
    """The average gradient outer product at the network's input; `AGOP` on one process."""

    def __init__(self, memory: int | None) -> None:
        self._memory, self._samples = memory, 0
        self._products = GramSum([], [])

    @full_precision
    def update(self, model: nn.Module, x: Float[Tensor, "n *d"]) -> None:
        """Adds some samples."""
        add_gradients(model, x, {"": self._products}, memory=self._memory, independent=self._samples > 0)
        self._samples += len(x)

    @full_precision
    def compute(self) -> Covariance:
        """The result for all of them."""
        self._products.settle()
        return covariance(self._products.settled[0]) / self._samples


SUMS: tuple[tuple[Callable[..., object], Callable[..., Sum]], ...] = (
    (class_moments, ClassSums),
    (agop_of, AGOPSum),
    (batch_gradients, GradientSums),
)
"""By quantity, what adds it up."""


def in_settings_and_samples(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a `Sum` of a quantity with these arguments is constructed from, and what its `update` gets."""
    settings = {name: value for name, value in arguments.items() if name in SETTINGS}
    return settings, {name: value for name, value in arguments.items() if name not in SETTINGS}


def sum_of(quantity: Callable[..., object]) -> Callable[..., Sum] | None:
    """What adds this quantity up over batches, with its settings; None if nothing does."""
    settings = quantity.keywords if isinstance(quantity, partial) and not quantity.args else {}
    function = quantity.func if settings and isinstance(quantity, partial) else quantity
    return next((partial(made, **settings) for known, made in SUMS if known is function), None)
