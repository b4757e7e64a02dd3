"""What a probe read at one step."""

import sys
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields, is_dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gnomon import linalg, measure
from gnomon.autodiff import same, storage_of
from gnomon.errors import within
from gnomon.linalg import Estimate
from gnomon.probe._html import table
from gnomon.probe._names import about_in, chosen, logarithmic, quantities
from gnomon.probe._text import in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gnomon.probe._history import History

Value = Any
"""A tensor, or a frozen dataclass of tensors and numbers."""


@dataclass(frozen=True, eq=False)
class Reading:
    """The quantities at one step.

    Two readings are equal if their steps, values and `missing` are, with NaN equal to NaN, whatever they cost.
    `torch.save` writes a reading, and `torch.load` reads it, also with `weights_only`, once `gnomon.Reading` has been
    imported.

    Attributes:
        step: the training step.
        values: each quantity's result, as the function returned it.
        seconds: the wall time of each observation and each quantity; an observation that several quantities share
            counts once, under its own name (`logits` is the forward pass).
        missing: by quantity, why it has no value at this step; its value is then NaN.
        docstrings: by quantity, for those that are not gnomon's own or have another name: what tables say about them.
    """

    step: int
    values: dict[str, Value]
    seconds: dict[str, float]
    missing: dict[str, str] = field(default_factory=dict)
    docstrings: dict[str, str] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reading):
            return NotImplemented
        return self.step == other.step and self.missing == other.missing and equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.step, *self.values))

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name.

        Those of a dataclass are named by its name and theirs, as in `mse_decomposition.total`; an estimate by its own
        name, next to its error, as in `jacobian_norm` and `jacobian_norm.error`. A dataclass in a dataclass, such as
        the scatter of `class_moments`, is left out.
        """
        return tensors(self.values)

    def scalars(self) -> dict[str, float]:
        """Plain numbers for a log, by the names of `tensors`: the mean; of several values also `.min` and `.max`."""
        numbers: dict[str, float] = {}
        for name, value in self.tensors().items():
            value = value.detach().double()
            numbers[name] = value.mean().item()
            if value.numel() > 1:
                numbers |= {f"{name}.min": value.min().item(), f"{name}.max": value.max().item()}
        return numbers

    @within("Reading")
    def plot(
        self, *names: str, ax: "Axes | None" = None, size: tuple[float | int, float | int] | None = None
    ) -> "tuple[Figure, Axes | list[Axes]]":
        """Draws quantities at this step, one panel each: one value per sample as a histogram, a matrix as colours.

        Samples that are classified correctly are drawn separately from the others if `accuracy` was read on the same
        ones. The value axis is logarithmic if the quantity's docstring says that its range is from 0 or above to
        infinity.

        Args:
            names: such as `test/jacobian_norm`, or `jacobian_norm` for all splits and layers that have it, or
                `mse_decomposition` for all its parts; default: all.
            ax: where to draw, for one panel; default: a new figure.
            size: the width and the height of a new figure, in inches; default: what its panels need.

        Returns:
            The figure and its axes; for several panels, a list of axes.

        Raises:
            MissingExtraError: if matplotlib is not installed.
            ArgumentTypeError: if `ax` is not one Axes, or the size no numbers.
            EmptyError: if no quantity has a value.
            RangeError: if there is no quantity of a given name, or there are several panels and axes are given; if the
                size is not two numbers above 0, or axes are given too.
        """
        from gnomon import plot

        there = self.tensors()
        found = chosen(names, quantities(there))
        return plot.quantities(
            {name: there[name] for name in found},
            ax=ax,
            size=size,
            axes_of={name: about_in(self.docstrings, name).axes for name in found},
            logarithmic=logarithmic(found, self.docstrings),
            right={name: right for name in found if (right := correct(name, there)) is not None},
        )

    def __repr__(self) -> str:
        found = self.scalars()
        shown = [f"{name} {found[name]:.4g}" for name in quantities(found)]
        return f"Reading(step {self.step:,}: {', '.join(shown) or 'nothing'})"

    def __str__(self) -> str:
        return in_words(f"Reading at step {self.step:,}", {"": self._alone()})

    def _repr_html_(self) -> str:
        return table(f"Reading at step {self.step:,}", {"": self._alone()})

    def _alone(self) -> "History":
        """This reading as a history."""
        from gnomon.probe._history import History

        history = History()
        history.append(self)
        return history


def correct(name: str, values: Mapping[str, Tensor]) -> Tensor | None:
    """Which samples are right, if this reading has `accuracy` of as many samples on the split, and some are wrong."""
    prefix, _, quantity = name.rpartition("/")
    while quantity != "accuracy" and values[name].ndim:
        found = values.get(f"{prefix}/accuracy".lstrip("/"))
        if found is not None and found.shape == values[name].shape[:1] and found.min() < found.max():
            return found
        if not prefix:
            break
        prefix = prefix.rpartition("/")[0]
    return None


def equal(one: Value, other: Value) -> bool:
    """Whether two values are the same numbers, in one dtype and on one device."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and one.device == other.device and same(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(value, other[name]) for name, value in one.items())
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(equal, one, other))
    if is_dataclass(one):
        return all(equal(getattr(one, part.name), getattr(other, part.name)) for part in fields(one))
    return bool(one == other)


def tensors(values: dict[str, Value]) -> dict[str, Tensor]:
    """All tensors by name, as in `Reading.tensors`."""
    found: dict[str, Tensor] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, Estimate):
            found |= {name: value.value, f"{name}.error": value.error}
        else:
            named = {f"{name}.{field.name}": getattr(value, field.name) for field in fields(value) if field.repr}
            parts = {place: as_tensor(part) for place, part in named.items()}
            found |= tensors({place: part for place, part in parts.items() if isinstance(part, Tensor | Estimate)})
    return found


def as_tensor(value: object) -> object:
    """A number of Python or NumPy as a tensor in float64; anything else as it is."""
    if isinstance(value, Real | np.bool_):
        return torch.tensor(float(value), dtype=torch.float64, device="cpu")
    return value


def apart(value: Value, live: Set[int]) -> Value:
    """The value, copied if it lies in one of these storages, to which training will write."""
    if isinstance(value, Tensor):
        return value.clone() if address(value) in live else value
    parts = {name: getattr(value, name) for name in (field.name for field in fields(value))}
    shared = {name: part for name, part in parts.items() if isinstance(part, Tensor) and address(part) in live}
    return replace(value, **{name: part.clone() for name, part in shared.items()}) if shared else value


def address(tensor: Tensor) -> int:
    """Where the tensor's storage lies."""
    return storage_of(tensor).data_ptr()


def kinds_of_values() -> list[type]:
    """The dataclasses that gnomon's quantities return: they hold numbers, and do nothing when they are loaded."""
    places = (linalg, *(sys.modules[quantity.__module__] for quantity in vars(measure).values() if callable(quantity)))
    found = {kind for place in places for kind in vars(place).values() if isinstance(kind, type) and is_dataclass(kind)}
    return [kind for kind in found if kind.__module__.startswith(("gnomon.measure", "gnomon.linalg"))]


torch.serialization.add_safe_globals([Reading, *kinds_of_values()])
