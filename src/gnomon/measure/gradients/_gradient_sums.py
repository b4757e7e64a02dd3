"""Gradients of a loss, batch by batch as samples arrive."""

from jaxtyping import Real, Shaped
from torch import Tensor, nn

from gnomon._precision import full_precision
from gnomon.errors import public
from gnomon.measure._batch_sums import BatchSums
from gnomon.measure._losses import Loss
from gnomon.measure.gradients._batch_gradients import BatchGradients


class GradientSums:
    """The gradients of a loss, batch by batch: the streaming twin of `batch_gradients`.

    Each sample is assigned to one of the batches at random, and these are equally large, up to one sample.

    Args:
        loss, batches, seed, memory: as for `batch_gradients`.
    Raises:
        RangeError: if a setting is out of range.
    Example:
        >>> import torch, gnomon
        >>> layer, sums = torch.nn.Linear(2, 3), gnomon.GradientSums()
        >>> for _ in range(4):
        ...     sums.update(layer, torch.randn(10, 2), torch.arange(10) % 3)
        >>> int(sums.compute().sizes.sum())
        40
    """

    @public
    def __init__(
        self, *, loss: Loss = "cross_entropy", batches: int = 16, seed: int = 0, memory: int | None = None
    ) -> None:
        self._settings = loss, batches, seed, memory
        self.reset()

    @full_precision
    def update(self, model: nn.Module, x: Shaped[Tensor, "n *d"], labels: Real[Tensor, "n *y"]) -> None:
        """Adds some samples.

        Raises:
            GnomonError: as for `batch_gradients`.
        """
        self._sums.add(model, x, labels)

    def reset(self) -> None:
        """Forgets all samples, and draws the batches from the seed again."""
        self._sums = BatchSums(*self._settings)

    @full_precision
    def compute(self) -> BatchGradients:
        """The result for all samples so far.

        Raises:
            EmptyError: if there are none.
            RangeError: at NaN or infinity in the gradients.
        """
        return BatchGradients(*self._sums.spread())
