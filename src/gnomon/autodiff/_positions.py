"""Sequences and images: the positions of its outputs at which a network is read."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon.autodiff._layers import WEIGHTED
from gnomon.errors import RangeError, ShapeError

Places = Literal["all", "last"] | int | Sequence[int]
"""All positions, the last, or those with these indices, counted from the end if negative."""
IGNORED = -100
"""The label of a position that is not a sample, as in torch's cross-entropy."""


class Positions:
    """The positions taken from outputs (n t c), as of language models, or (n c h w), pixels row by row.

    A network is run with all its outputs; a hook reduces these to one row per sample, in which the positions follow one
    another, so that samples are still the units that do not mix.

    Attributes:
        one: whether a single position of each sample is taken; the outputs are then rows like those of any network.
    """

    def __init__(self, places: Places) -> None:
        several: list[Any] = list(places) if isinstance(places, list | tuple | range) else [places]
        whole = bool(several) and all(isinstance(place, int) and not isinstance(place, bool) for place in several)
        expected = "'all', 'last', a whole number, or a list of some"
        _checks.settings(("positions", places, expected, whole or places in ("all", "last")))
        self.places: list[int] | None = None if places == "all" else [-1] if places == "last" else several
        self.one = places == "last" or isinstance(places, int)
        self._shape: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """The number of positions taken per sample, in the latest pass."""
        return math.prod(self._shape) if self.places is None else len(self.places)

    def of_outputs(self, outputs: object) -> Float[Tensor, "n q"]:
        """The network's outputs, as one row per sample: (n c) for one position, (n t·c) for several.

        Raises:
            ShapeError: if there are no positions.
            RangeError: if there are not that many.
        """
        if not isinstance(outputs, Tensor) or outputs.ndim not in (3, 4):
            raise ShapeError(
                "positions",
                "outputs (n, t, c) of sequences or (n, c, h, w) of images",
                f"shape {_checks.shape_of(outputs)}" if isinstance(outputs, Tensor) else type(outputs).__name__,
                "Leave positions out where outputs have none, or wrap the model so that it returns such.",
            )
        self._shape = tuple(outputs.shape[1:2] if outputs.ndim == 3 else outputs.shape[2:])
        return self._taken(outputs if outputs.ndim == 3 else outputs.flatten(2).mT).flatten(1)

    def split(self, outputs: Float[Tensor, "n q"]) -> Float[Tensor, "m c"]:
        """These outputs with a row for each position."""
        return outputs.reshape(len(outputs) * self.count, -1)

    def of_layer(self, layer: nn.Module, given: Tensor) -> Shaped[Tensor, "m p"] | None:
        """What a layer is given at these positions, or returns, a row for each.

        None if it lacks the positions of the outputs, or if a layer that is neither linear nor a convolution may have
        its channels before or after them.
        """
        axes = len(self._shape)
        first = given.shape[2:] == self._shape and (axes == 2 or isinstance(layer, nn.Conv1d))
        last = given.ndim > axes + 1 and given.shape[1 : axes + 1] == self._shape
        if first and last and isinstance(layer, WEIGHTED):
            first = not isinstance(layer, nn.Linear)
        elif first and last:
            return None
        if first:
            rows = given.flatten(2).mT
        elif last:
            rows = given.flatten(1, axes).flatten(2)
        elif axes == 2 and given.ndim > 2 and given.shape[1] == math.prod(self._shape):
            rows = given.flatten(2)
        else:
            return None
        return self._taken(rows).flatten(0, 1)

    def of_labels(self, labels: Int[Tensor, "n *t"]) -> Int[Tensor, "n *m"]:
        """The labels at these positions: (n) for one, where they may be (n) already, and (n t) for several."""
        if self.one:
            return labels if labels.ndim == 1 else self._taken(labels.flatten(1)).squeeze(1)
        if labels.shape[1:] != self._shape:
            raise ShapeError(
                "labels",
                f"shape {(len(labels), *self._shape)}, as the outputs' positions have",
                _checks.shape_of(labels),
                f"Pass one class per position, {IGNORED} at those that are not samples.",
            )
        return self.of_places(labels.flatten(1))

    def of_places(self, places: Shaped[Tensor, "n t"]) -> Shaped[Tensor, "n m"]:
        """What is known of every place, at these positions.

        Raises:
            RangeError: if there are not that many.
        """
        return self._taken(places)

    def _taken(self, rows: Shaped[Tensor, "n t *p"]) -> Shaped[Tensor, "n m *p"]:
        if self.places is None:
            return rows
        count = rows.shape[1]
        if wrong := [place for place in self.places if not -count <= place < count]:
            raise RangeError("positions", f"{-count} to {count - 1}", wrong[0], "Name some of these.")
        if len(self.places) == 1:
            return rows[:, self.places[0]].unsqueeze(1)
        return rows[:, torch.tensor(self.places, device=rows.device)]


@contextmanager
def at_positions(model: nn.Module, positions: Positions | None) -> Iterator[None]:
    """Inside, the network outputs one row per sample, for these positions."""
    if positions is None:
        yield
        return
    handle = model.register_forward_hook(lambda module, inputs, outputs: positions.of_outputs(outputs))
    try:
        yield
    finally:
        handle.remove()
