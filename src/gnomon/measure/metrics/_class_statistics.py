"""The class moments of data that come in batches, on one process or several."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import public
from gnomon.measure._class_sums import ClassSums, finished
from gnomon.measure._moments import ClassMoments


class ClassStatistics(ClassSums, Metric):
    r"""Counts, means and scatter of each class, batch by batch: the streaming twin of `class_moments`.

    Any split into batches and any number of processes gives the same result, up to rounding. Each batch is centred
    before it is squared, and merged with the previous ones by Chan's formula, whose terms are all positive: features
    with mean 1e6 and spread 1 keep eight digits of the scatter in float64.

    All sums are of float64, so that float32 loses nothing as the number of samples grows. In a `MetricCollection`, pass
    `compute_groups=False`: torchmetrics would otherwise treat two of these metrics as one if they first saw the same
    shapes and values, as at two layers that start out equal.

    Source:
        Han, Papyan, Donoho, arXiv:2106.02073, section 1.1; merging after Chan, Golub, LeVeque (1979).
    Args:
        classes: the number k of classes, at least 2.
        kwargs: torchmetrics' own arguments, such as `process_group`.
    Returns:
        From `compute`, the `ClassMoments` of all samples on all processes, on the features' device and in their dtype,
        the coarsest if they came in several and float32 for half precision; the scatter in float64. Calling the metric
        is the same as `update`, and returns nothing: a single batch may lack classes. So may all batches together: a
        warning says which.
    Raises:
        ShapeError: from `update`, if labels are not (n) or the features' width is not that of previous batches.
        EmptyError: from `update` if there are no samples; from `compute` if there were none, or all are of one
            class.
        RangeError: from `update`, at NaN or infinity, or at a label that is not a class. The state stays unchanged.
            From `compute`, if features are so large or small that their dtype does not hold their squares, as float32
            from 1e19 on and below 1e-16: then reset the metric.
    Cost: O(n p min(n, p)) time, about that of the product $H^\top H$ in float64 for 60,000 x 512. Memory:
        O(p min(n, p)) besides 4,096 rows; no p x p matrix while samples are fewer than features.
    Example:
        >>> import torch, gnomon
        >>> statistics = gnomon.ClassStatistics(2)
        >>> statistics.update(torch.tensor([[1.0], [10.0]]), torch.tensor([0, 1]))
        >>> statistics.update(torch.tensor([[3.0]]), torch.tensor([0]))
        >>> moments = statistics.compute()
        >>> moments.counts, moments.means.flatten()
        (tensor([2, 1]), tensor([ 2., 10.]))
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False

    @public
    def __init__(self, classes: int, **kwargs: object) -> None:
        _checks.settings(_checks.whole_number("classes", classes, 2))
        Metric.__init__(self, **kwargs)
        self.classes = classes
        for name in ("class_counts", "class_means", "within_scatter", "single_counts", "within_rows"):
            self.add_state(name, [], dist_reduce_fx=None)

    @full_precision
    def update(self, features: Float[Tensor, "n *p"], labels: Int[Tensor, "n"]) -> None:
        """Adds one batch: a layer's output for each sample, further axes flattened, and the classes."""
        super().update(features, labels)

    def forward(self, features: Float[Tensor, "n *p"], labels: Int[Tensor, "n"]) -> None:
        """The same as `update`."""
        self.update(features, labels)

    @full_precision
    def compute(self) -> ClassMoments:
        """The moments of all samples seen so far, on all processes."""
        # Processes gather consistently only if each has exactly one entry per state, even if it saw no samples.
        none = torch.zeros(0, 0, dtype=torch.float64, device=self.device)
        self._keep(self._joined(none))
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn, should_sync=self._to_sync, should_unsync=self._should_unsync
        ):
            moments, single_counts = self._joined(none), self.single_counts
        return finished(moments, single_counts)

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        # torchmetrics would clone and squeeze the tensors in the result, which a frozen dataclass does not allow.
        return compute
