"""Sequences and images: at which of the positions of its outputs a network is read."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon.errors import RangeError, ShapeError

Places = Literal["all", "last"] | int | Sequence[int]
"""All positions, the last, or those of these numbers, from the end where they are negative."""
IGNORED = -100
"""The label of a position that is no sample, as in torch's cross-entropy."""


class Positions:
    """The positions that are taken of outputs (n t c), as of language models, or (n c h w), pixels row by row.

    A network is run with all that it puts out; a hook cuts this down to one row a sample, in which the positions stand
    one behind the other, so that samples are still what do not mix.

    Attributes:
        one: whether it is one position of each sample, whose outputs are then rows as those of any network.
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
        """How many are taken of a sample, in the latest pass."""
        return math.prod(self._shape) if self.places is None else len(self.places)

    def of_outputs(self, outputs: object) -> Float[Tensor, "n q"]:
        """What the network puts out, as one row a sample: (n c) of one position, (n t·c) of several.

        Raises:
            ShapeError: if there are no positions.
            RangeError: if there are not as many.
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

    def of_layer(self, given: Tensor) -> Shaped[Tensor, "m p"] | None:
        """What a layer is given at these positions, a row for each; None if it has not the positions of the outputs."""
        axes = len(self._shape)
        if axes == 2 and given.shape[2:] == self._shape:
            rows = given.flatten(2).mT
        elif given.ndim > axes + 1 and given.shape[1 : axes + 1] == self._shape:
            rows = given.flatten(1, axes).flatten(2)
        elif axes == 2 and given.ndim > 2 and given.shape[1] == math.prod(self._shape):
            rows = given.flatten(2)
        else:
            return None
        return self._taken(rows).flatten(0, 1)

    def of_labels(self, labels: Int[Tensor, "n *t"]) -> Int[Tensor, "n *m"]:
        """The labels at these positions: (n) of one, where they may be (n) already, and (n t) of several."""
        if self.one:
            return labels if labels.ndim == 1 else self._taken(labels.flatten(1)).squeeze(1)
        if labels.shape[1:] != self._shape:
            raise ShapeError(
                "labels",
                f"shape {(len(labels), *self._shape)}, as the outputs' positions have",
                _checks.shape_of(labels),
                f"Pass one class a position, {IGNORED} at those that are no samples.",
            )
        return self._taken(labels.flatten(1))

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
    """Inside, the network puts out one row a sample, of these positions."""
    if positions is None:
        yield
        return
    handle = model.register_forward_hook(lambda module, inputs, outputs: positions.of_outputs(outputs))
    try:
        yield
    finally:
        handle.remove()
