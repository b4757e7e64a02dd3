"""Sums of outer products of rows that arrive bit by bit, exact or as a sketch."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon.linalg._covariance import Covariance, Dense, Factored, covariance

BLOCK = 4096
"""Rows whose product is computed at once: enough to be fast, few enough for the cache and for float32."""
SQUARED = 1e12
"""If the largest entry is between 1 / SQUARED and SQUARED, squares, and sums of them, keep their digits in float32."""


@dataclass(frozen=True)
class Sketch(Factored):
    r"""Rows F whose product falls short of the matrix G that they represent, by at most a known bound.

    $0 \preceq G - F^\top F \preceq \mathrm{error}\cdot I$

    Attributes:
        error: the largest eigenvalue that the difference can have.
    """

    error: Float[Tensor, ""]


class GramSum:
    r"""$F^\top F$ for rows that arrive bit by bit: held as rows while these are fewer than columns, then in full.

    Products over up to 4,096 rows, or p if that is more, are computed in the rows' own dtype, and summed in float64:
    float32 loses nothing with the number of rows, nor with their size. With a limit, at most that many rows are kept,
    by Frequent Directions.

    Args:
        settled: the sum so far, as one matrix, in full if it is square and as rows if not; empty for none.
        pending: rows yet to be added. Both lists are changed in place, and may be the states of a metric.
        limit: the largest number of rows to keep.
    """

    def __init__(self, settled: list[Tensor], pending: list[Tensor], limit: int | None = None) -> None:
        self.settled = settled
        self.pending = pending
        self.limit = limit
        self.lost: Float[Tensor, ""] = torch.zeros((), dtype=torch.float64)
        """How much further short the sketch may have fallen since this was created: an eigenvalue."""

    def add(self, rows: Float[Tensor, "r p"]) -> None:
        """Accepts further rows."""
        self.pending.append(rows)
        if sum(map(len, self.pending)) >= (max(BLOCK, rows.shape[1]) if self.limit is None else self.limit):
            self.settle()

    def settle(self) -> None:
        """Adds the pending rows."""
        total = self.total()
        self.pending.clear()
        if self.limit is not None and isinstance(total, Factored):
            total, lost = frequent_directions(total.rows, self.limit)
            self.lost = self.lost + lost
        if total is not None:
            self.settled[:] = [total.held]

    def total(self) -> Covariance | None:
        """The sum, in float64; None if no rows have arrived."""
        settled = [part for part in self.settled if part.numel()]
        if not settled and not self.pending:
            return None
        if self.limit is not None:
            return Factored(torch.cat([*settled, *self.pending]).double())
        parts = [*map(covariance, settled)]
        if self.pending:
            rows = self.pending[0] if len(self.pending) == 1 else torch.cat(self.pending)
            parts += map(_products, rows.chunk(max(1, -(-len(rows) // max(BLOCK, rows.shape[1])))))
        whole: Covariance = parts[0]
        for part in parts[1:]:
            whole = whole + part
        return whole.to(torch.float64)

    def width(self) -> int | None:
        """The number p of columns; None if no rows have arrived."""
        return next((part.shape[1] for part in (*self.settled, *self.pending) if part.numel()), None)


def _products(rows: Float[Tensor, "r p"]) -> Covariance:
    r"""$F^\top F$ in float64, as its rows if they are fewer than its columns.

    Rows whose squares float32 might not hold are divided by a power of two first, which is exact.
    """
    if rows.shape[0] < rows.shape[1]:
        return Factored(rows.double())
    largest = max(abs(float(end)) for end in torch.aminmax(rows))
    if 1 / SQUARED < largest < SQUARED:
        return Dense(Factored(rows).dense().double())
    # Within 2^±100, whose inverse float32 holds too.
    scale = 2.0 ** min(max(math.frexp(largest)[1], -100), 100)
    return Dense(Factored(rows / scale).dense().double() * scale**2)


def frequent_directions(rows: Float[Tensor, "r p"], limit: int) -> tuple[Factored, Float[Tensor, ""]]:
    r"""At most `limit` rows in place of all: $0 \preceq F^\top F - F'^\top F' \preceq \delta I$, and $\delta$.

    The right singular vectors, with squared singular values minus the first that is left out, $\delta$. Over a stream
    the bounds add up, and their sum is at most $\sum_{i>m}\lambda_i/(\mathrm{limit} + 1 - m)$ of the complete matrix
    for every $m \le$ limit: a matrix of rank `limit` loses nothing.

    Source:
        Ghashami, Liberty, Phillips, Woodruff, Frequent Directions: Simple and Deterministic Matrix Sketching,
        arXiv:1501.01711, section 1.2; sums of sketches after its section 3.
    """
    if len(rows) <= limit:
        return Factored(rows), rows.new_zeros(())
    _, values, directions = torch.linalg.svd(rows, full_matrices=False)
    squares = values.square()
    lost = squares[limit] if len(squares) > limit else squares.new_zeros(())
    return Factored((squares[:limit] - lost).sqrt().unsqueeze(1) * directions[:limit]), lost
