"""What a flow of truncation maps returns."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor

from gnomon.dynamics._filippov import SwitchingEvents


@dataclass(frozen=True)
class TruncationOrbit:
    r"""Truncation maps along their flow, at the requested times; l maps, k clusters.

    Attributes:
        times: (t).
        beta: (t l q), the cumulative biases; (t q) from `TruncationFlow`.
        rotation: (t l q q), the orthogonal cumulative weights R; (t q q) from `TruncationFlow`.
        loss: (t).
        rates: (t 2), the rates at which all β and all R change the loss: $-\sum_l\|\dot\beta_l\|^2$,
            $-\sum_l\|\dot R_l\|_F^2$.
        decrease: (t 2), by how much they have lowered it: their sum is the initial loss minus `loss`.
        truncated: (t l k q), how many points of each cluster each map truncates in each coordinate, those on the
            surface among them; (t q) from `TruncationFlow`.
        events: what happened at the discontinuity surfaces up to the last time.
        collapse: (), the time $s_1$ from which on a single map permanently truncates all points in all coordinates;
            infinite if this is not so at the last time, or if there are several maps.
        equilibrium: "untruncated" if in the end no point is truncated and nothing moves; "truncated" if a single map
            truncates all points, permanently, so that R stays fixed and β decays to minus the targets' mean; otherwise
            None, as where one of several maps truncates all.
    """

    times: Float[Tensor, "t"]
    beta: Float[Tensor, "t *l q"]
    rotation: Float[Tensor, "t *l q q"]
    loss: Float[Tensor, "t"]
    rates: Float[Tensor, "t 2"]
    decrease: Float[Tensor, "t 2"]
    truncated: Int[Tensor, "t *lk q"]
    events: SwitchingEvents
    collapse: Float[Tensor, ""]
    equilibrium: Literal["untruncated", "truncated"] | None
