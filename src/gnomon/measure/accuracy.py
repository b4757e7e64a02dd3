"""Which samples the network classifies correctly."""

from jaxtyping import Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon.errors import RangeError, ShapeError


def accuracy(logits: Float[Tensor, "n c"], labels: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
    """1 for each sample whose largest output is its label's, else 0: the mean is the accuracy.

    Args:
        logits: the outputs.
        labels: the classes, 0 to c - 1.
    Returns:
        0 or 1 each; of equal largest outputs the first counts. Unchanged by increasing maps of a sample's outputs.
    Raises:
        ShapeError: if the logits are not (n, c), or labels not (n).
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity in the logits, or at labels that are no classes.
    Cost: O(n c).
    Example:
        >>> import torch, gnomon
        >>> gnomon.accuracy(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
        tensor([1., 0.])
    """
    where = "accuracy"
    _checks.samples(where, logits=logits)
    if labels.ndim != 1 or logits.ndim != 2 or len(labels) != len(logits):
        raise ShapeError(
            f"{where}(labels): expected shape ({len(logits)},) beside logits (n, c), got {_checks.shape_of(labels)} "
            f"beside {_checks.shape_of(logits)}. Pass one class index a sample."
        )
    _checks.finite(where, logits=logits)
    if labels.is_floating_point() or labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise RangeError(
            f"{where}(labels): expected whole numbers from 0 to {logits.shape[1] - 1}, got {labels.dtype} from "
            f"{labels.min().item()} to {labels.max().item()}. Number the classes from 0."
        )
    return (logits.argmax(1) == labels).to(logits.dtype)
