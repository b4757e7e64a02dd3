"""Clusters of points with their targets, and what a truncation map needs from them, in NumPy."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from gnomon.dynamics._filippov import Coefficients, State


@dataclass(frozen=True)
class Clusters:
    """Points of several clusters.

    Attributes:
        points: (n q).
        labels: (n), the cluster of each.
        targets: (k q), of each cluster.
    """

    points: Float[np.ndarray, "n q"]
    labels: Int[np.ndarray, "n"]
    targets: Float[np.ndarray, "k q"]

    @classmethod
    def of(cls, points: Float[Tensor, "n q"], labels: Int[Tensor, "n"], targets: Float[Tensor, "k q"]) -> "Clusters":
        """The same, from tensors."""
        return cls(*(part.cpu().numpy() for part in (points, labels, targets)))

    @cached_property
    def goals(self) -> Float[np.ndarray, "n q"]:
        """The target of each point."""
        return self.targets[self.labels]

    @cached_property
    def members(self) -> list[Int[np.ndarray, "_"]]:
        """The points of each cluster."""
        return [np.flatnonzero(self.labels == k) for k in range(len(self.targets))]

    @cached_property
    def sizes(self) -> Float[np.ndarray, "n 1"]:
        """The size of the cluster of each point."""
        return np.bincount(self.labels).astype(float)[self.labels, None]

    @cached_property
    def weights(self) -> Float[np.ndarray, "n 1"]:
        """The weight of each point in the sum of the clusters' means."""
        return 1 / self.sizes

    @cached_property
    def places(self) -> Int[np.ndarray, "n"]:
        """A number for each point, the same for points that coincide."""
        return np.unique(self.points, axis=0, return_inverse=True)[1].ravel()

    @cached_property
    def _offsets(self) -> Float[np.ndarray, "n q"]:
        return self.points - self.goals

    @cached_property
    def _weighted(self) -> Float[np.ndarray, "n q"]:
        return len(self.points) / self.sizes * self._offsets

    @cached_property
    def _last(self) -> list[tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "q q q"]]]:
        """The last coefficients and their second moments; at first the coefficients are NaN, which equals nothing."""
        width = self.points.shape[1]
        return [(np.full_like(self.points, np.nan), np.empty((width, width, width)))]

    def loss(self, images: Float[np.ndarray, "n q"]) -> float:
        """Half the squared distances from images to targets, averaged over each cluster and summed over clusters."""
        shares = len(images) / self.sizes
        return float((shares * (images - self.goals) ** 2).sum() / 2 / len(images))

    def truncated(self, coefficients: Coefficients) -> Int[np.ndarray, "l k q"]:
        """How many points of each cluster are truncated."""
        return np.stack([(coefficients[:, of] < 1).sum(1) for of in self.members], 1)

    def velocity(self, alpha: Float[np.ndarray, "n q"]) -> Callable[[State], State]:
        r"""The velocity for a single map, which points enter through moments alone, constant between events.

        $\dot\beta = -\sum_kR^\top(1 - P_k)c_k$ and $\dot R = \Omega R$
        with $\Omega = \frac12\sum_k\frac1{n_k}\sum_i[H_i, c_kc_k^\top - a_ia_i^\top]$,

        $c_k = R(\beta + \tilde y_k)$, $a_i = R(x_i - \tilde y_k)$ and $P_k$ the mean of the cluster's $H_i$, the
        diagonals of the coefficients. The moments are the means of these, and of their products with
        $(x_i - \tilde y_k)(x_i - \tilde y_k)^\top$.
        """
        kept = np.array([alpha[of].sum(0) / len(of) for of in self.members]).T
        second = self._second_moments(alpha)

        def velocity(state: State) -> State:
            beta, rotation = state[0, 0], state[0, 1:]
            c = rotation @ (beta + self.targets).T
            pulled = (kept * c) @ c.T - np.einsum("ri,rij,kj->rk", rotation, second, rotation)
            change = -((1 - kept) * c).sum(1) @ rotation
            return np.concatenate([change[None], (pulled - pulled.T) / 2 @ rotation])[None]

        return velocity

    def _second_moments(self, alpha: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "q q q"]:
        """For each coordinate the mean of its coefficients times the offsets' products.

        Only coordinates whose coefficients have changed since the last call, at an event one, are summed again: in
        full, since sums that were only corrected would keep the rounding of what has left them.
        """
        before, second = self._last[0]
        second = second.copy()
        for r in np.flatnonzero((alpha != before).any(0)):
            second[r] = (self._weighted * alpha[:, r, None]).T @ self._offsets / len(alpha)
        self._last[0] = alpha.copy(), second
        return second
