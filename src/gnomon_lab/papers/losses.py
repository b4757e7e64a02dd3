"""The papers' two losses, by the names that configurations use."""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional


def squared_error(logits: Tensor, labels: Tensor) -> Tensor:
    """Against one-hot labels, the mean over samples and outputs, as PyTorch's."""
    return functional.mse_loss(logits, functional.one_hot(labels, logits.shape[1]).to(logits.dtype))


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": functional.cross_entropy,
    "mse": squared_error,
}
