"""How probable the labels are according to the network."""

from jaxtyping import Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single


@half_as_single
def log_probability(logits: Float[Tensor, "n c"], labels: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
    r"""The logarithm of the label's probability: minus the cross-entropy of each sample.

    Reading:
        Low, high: 0 is certainty of the label; $-\log c$ is the value for equal outputs; below that it is surely wrong.
        Generalising: Not measured here.
        Misleads: It keeps rising with the outputs' scale when nothing is learnt any more, and on unseen samples it can
            fall while the accuracy rises.

    $\log\operatorname{softmax}(f(x))_y = f_y - \log\sum_c e^{f_c}$

    Args:
        logits: the outputs, before any softmax.
        labels: the classes, 0 to c - 1.
    Returns:
        At most 0; unit: nats. Invariant under adding a number to all outputs of a sample.
    Raises:
        ShapeError: if the logits are not (n, c), or labels not (n).
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity in the logits, or at labels that are not classes.
    Cost: O(n c).
    Example:
        >>> import torch, gnomon
        >>> gnomon.log_probability(torch.zeros(1, 4), torch.tensor([2]))
        tensor([-1.3863])
    """
    _checks.outputs(logits, labels)
    return logits.log_softmax(1).gather(1, labels.long().unsqueeze(1)).squeeze(1)
