"""The class moments of data that come in batches."""

import dataclasses
import functools
import operator
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon._precision import in_single
from gnomon.errors import EmptyError, ShapeError
from gnomon.linalg import covariance, smaller
from gnomon.measure._by_class import check_classes, check_samples, check_squares, further
from gnomon.measure._moments import ClassMoments

BLOCK = 4096
"""The number of samples per product: large enough to be fast, small enough for the cache."""


class ClassSums:
    """Counts, means and scatter of each class, summed in float64 batch by batch; `ClassStatistics` on one process."""

    # The first four have one entry per shard: one between updates, one per process while these are gathered.
    class_counts: list[Tensor]
    class_means: list[Tensor]
    within_scatter: list[Tensor]
    """Stored in full, or as fewer rows than columns: the shape tells which."""
    single_counts: list[Tensor]
    """The number of samples that came in float32 or less."""
    within_rows: list[Tensor]
    """Rows whose Gram product is yet to be added: products of many rows take less time per row."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.class_counts, self.class_means, self.within_scatter = [], [], []
        self.single_counts, self.within_rows = [], []

    def update(self, features: Float[Tensor, "n *p"], labels: Int[Tensor, "n"]) -> None:
        """Adds one batch: a layer's output for each sample, further axes flattened, and the classes."""
        check_samples(features, labels, self.classes)
        batch = features.detach().flatten(1)
        width = batch.shape[1]
        none = batch.new_zeros(0, width, dtype=torch.float64)
        if len(self.class_counts) != 1 or self.class_means[0].shape[1] == 0:
            self._keep(self._joined(none))
        if self.class_means[0].shape[1] != width:
            raise ShapeError(
                "features",
                f"{self.class_means[0].shape[1]} features per sample as before",
                width,
                "Use one ClassStatistics per layer.",
            )
        if batch.dtype != torch.float64:
            self.single_counts[0] = self.single_counts[0] + len(batch)
        block = max(BLOCK, width)
        for part, classes in zip(torch.split(batch, block), torch.split(labels.long(), block), strict=True):
            self.class_counts[0], self.class_means[0], rows = further(
                self.class_counts[0], self.class_means[0], in_single(part), classes
            )
            self.within_rows.append(rows)
            if sum(map(len, self.within_rows)) >= block:
                self._keep(self._joined(none))

    def compute(self) -> ClassMoments:
        """The moments of all samples seen so far."""
        return finished(self._joined(torch.zeros(0, 0, dtype=torch.float64)), self.single_counts)

    def _joined(self, none: Float[Tensor, "0 p"]) -> ClassMoments:
        """The shards merged into one; without any, the moments of no samples, with this width and device."""
        shards = [
            ClassMoments(counts, means, covariance(scatter))
            for counts, means, scatter in zip(self.class_counts, self.class_means, self.within_scatter, strict=True)
            if means.shape[1] > 0
        ]
        moments = functools.reduce(operator.add, shards) if shards else ClassMoments.none(self.classes, none)
        if not self.within_rows:
            return moments
        rows = self.within_rows[0] if len(self.within_rows) == 1 else torch.cat(self.within_rows)
        return dataclasses.replace(moments, within=moments.within + smaller(rows))

    def _keep(self, moments: ClassMoments) -> None:
        self.class_counts, self.class_means, self.within_rows = [moments.counts], [moments.means], []
        self.within_scatter = [moments.within.held]
        self.single_counts = [sum(self.single_counts, moments.counts.new_zeros(1))]


def finished(moments: ClassMoments, single_counts: Sequence[Tensor]) -> ClassMoments:
    """Moments that no later update changes, in the coarsest dtype in which samples came; half precision in float32.

    Raises:
        EmptyError: if there are no samples, or all are of one class.
        RangeError: if that dtype does not hold the features' squares.
    """
    if moments.n == 0:
        raise EmptyError("features", "samples", "none", "Call update first.")
    check_classes(moments.counts)
    dtype = torch.float32 if sum(single_counts) > 0 else torch.float64
    within = type(moments.within)(moments.within.held.clone())
    moments = ClassMoments.rounded(moments.counts.clone(), moments.means.clone(), within, dtype)
    check_squares(moments.within, moments.means, moments.centred_means)
    return moments
