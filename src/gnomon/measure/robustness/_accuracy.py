"""Which samples the network classifies correctly."""

from jaxtyping import Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision


@full_precision
def accuracy(logits: Float[Tensor, "n c"], labels: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
    """1 for each sample whose largest output is its label's, else 0: the mean is the accuracy.

    Reading:
        Low, high: 1 on the training samples: they are fitted, by memory or by rule. Only unseen samples tell which.
        Generalising: Training digits reach 1 first. Unseen ones follow late, to 95.6 % with GrokAlign, or stay at
            34.4 % without.
        Misleads: Where class sizes are unequal the largest class weighs most, and it reflects neither confidence nor
            robustness.

    Args:
        logits: the outputs.
        labels: the classes, 0 to c - 1.
    Returns:
        0 or 1 each; of equal largest outputs the first counts. Invariant under increasing maps of a sample's outputs.
    Raises:
        ShapeError: if the logits are not (n, c), or labels not (n).
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity in the logits, or at labels that are not classes.
    Cost: O(n c).
    Example:
        >>> import torch, gnomon
        >>> gnomon.accuracy(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
        tensor([1., 0.])
    """
    _checks.outputs(logits, labels)
    return (logits.argmax(1) == labels).to(logits.dtype)
