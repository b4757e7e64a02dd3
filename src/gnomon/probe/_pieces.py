"""Rows that come some at a time and are joined."""

import torch
from torch import Tensor

from gnomon.linalg import Estimate, joined

Rows = Tensor | Estimate


class Pieces:
    """What a quantity or an observation gives for the samples, some after others.

    Few pieces are kept, of doubling lengths: many small ones between the large blocks that come and go would keep the
    allocator from reusing the space of these blocks, and memory would grow with the number of batches.
    """

    def __init__(self) -> None:
        self._pieces: list[Rows] = []

    def add(self, piece: Rows) -> None:
        """Adds the rows of some samples."""
        self._pieces.append(piece)
        while len(self._pieces) > 1 and count(self._pieces[-2]) <= count(self._pieces[-1]):
            self._pieces[-2:] = [join(self._pieces[-2:])]

    def joined(self) -> Rows:
        """The rows of all samples."""
        return join(self._pieces)


def count(rows: Rows) -> int:
    """How many samples the rows belong to."""
    return len(rows.value if isinstance(rows, Estimate) else rows)


def join(pieces: list[Rows]) -> Rows:
    """All pieces, which are of one kind, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    estimates = [piece for piece in pieces if isinstance(piece, Estimate)]
    return joined(estimates) if estimates else torch.cat([piece for piece in pieces if isinstance(piece, Tensor)])
