"""StableMax: a cross-entropy whose probabilities grow with the logits, not with their exponentials."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from gnomon import _checks
from gnomon._precision import full_precision, single


@full_precision
def stablemax_cross_entropy(logits: Float[Tensor, "n c"], labels: Int[Tensor, "n"]) -> Float[Tensor, ""]:
    r"""The mean cross-entropy with StableMax in place of softmax.

    $-\frac1n\sum_i \log\frac{s(z_{iy_i})}{\sum_k s(z_{ik})}$, $s(z) = z + 1$ for $z \ge 0$ and $\frac{1}{1-z}$ below

    Softmax's loss, and its derivative with respect to the label's logit, are exactly zero where that logit is so far
    ahead that the exponentials of the others change no digit of the sum: in float32 from a lead of 17 on, after which
    training stalls. Here probabilities fall as one over the logits, and that point lies at logits of about 10⁸.

    Since $\log s(z) = \operatorname{sgn}(z)\log(1+|z|)$, it is `torch.nn.functional.cross_entropy` of these values. As
    in the authors' code, they are computed in float64 whatever the dtype of the logits, and so are the gradients until
    they are returned.

    Source:
        Prieto et al., arXiv:2501.04697, section 5.
    Args:
        logits: the outputs of the network.
        labels: class indices.

    Returns:
        At least 0; log c where all logits are equal. Unlike softmax's, not invariant to adding a number to all logits.
        In the logits' dtype, but in float32 for half precision, in which a GradScaler's scale of 65536 is infinite.

    Raises:
        ShapeError: if logits are not (n, c), or there is not one label per sample.
        EmptyError: if there are no samples.
        RangeError: if a logit is NaN or infinite, or a label is not a class.
    Cost: O(n c) time and memory.
    Example:
        >>> import torch, gnomon
        >>> logits = torch.tensor([[3.0, -3.0]])  # s is 4 and 1/4.
        >>> loss = gnomon.stablemax_cross_entropy(logits, torch.tensor([1]))
        >>> torch.testing.assert_close(loss, torch.tensor(17.0).log())
    """
    _checks.outputs(logits, labels)
    z = logits.double()
    # Each branch gets only its own inputs: an infinity in the other would make the gradient NaN. Not by `clamp`, whose
    # gradient at its bound depends on torch's version, and logits of exactly 0 are where a network may start.
    below = z < 0
    scores = torch.where(below, -torch.log1p(-torch.where(below, z, 0)), torch.log1p(torch.where(below, 0, z)))
    return cross_entropy(scores, labels.long()).to(single(logits.dtype))
