"""Gradients of a loss, batch by batch as samples arrive."""

from dataclasses import dataclass

from jaxtyping import Float, Int, Real, Shaped
from torch import Tensor, nn

from gnomon._precision import full_precision
from gnomon.errors import public
from gnomon.measure._batch_sums import BatchSums
from gnomon.measure._losses import Loss


@dataclass(frozen=True)
class BatchGradients:
    r"""How the gradients $g_b$ of batches lie around that of all samples, $g = \frac1n\sum_b n_b g_b$.

    Attributes:
        sizes: the number of samples in each batch, $n_b$.
        norm: $\|g\|$; unit: loss per parameter; so for all but the sizes.
        deviations: $\|g_b - g\|$.
        along: $\langle g_b - g, g\rangle/\|g\|$, 0 where g vanishes.
    """

    sizes: Int[Tensor, "b"]
    norm: Float[Tensor, ""]
    deviations: Float[Tensor, "b"]
    along: Float[Tensor, "b"]


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
        self._sums = BatchSums(loss, batches, seed, memory)

    @full_precision
    def update(self, model: nn.Module, x: Shaped[Tensor, "n *d"], labels: Real[Tensor, "n *y"]) -> None:
        """Adds some samples.

        Raises:
            GnomonError: as for `batch_gradients`.
        """
        self._sums.add(model, x, labels)

    @full_precision
    def compute(self) -> BatchGradients:
        """The result for all samples so far.

        Raises:
            EmptyError: if there are none.
            RangeError: at NaN or infinity in the gradients.
        """
        return BatchGradients(*self._sums.spread())
