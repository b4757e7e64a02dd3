"""The length of the vector of all parameters."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon._precision import full_precision
from gnomon.linalg import length
from gnomon.measure._parameters import alike, check_parameters


@full_precision
def parameter_norm(parameters: Mapping[str, Float[Tensor, "*d"]]) -> Float[Tensor, ""]:
    r"""The norm of all parameters together.

    Reading:
        Low, high: Low: the weights are small. High: a large initialisation, or training that let them grow.
        Generalising: Not measured here.
        Misleads: In networks with normalisation, and wherever layers can trade their scales, the same function can have
            any norm.

    $\|\theta\|_2$

    Source:
        As a measure of progress: Liu, Michaud, Tegmark, arXiv:2210.01117.
    Args:
        parameters: the network's parameters, by name.
    Returns:
        At least 0; unit: that of the parameters. For half precision, in float32.
    Raises:
        EmptyError: if there are none.
        RangeError: at NaN or infinity, or if they are not a mapping.
    Cost: O(p).
    Example:
        >>> import torch, gnomon
        >>> gnomon.parameter_norm({"weight": torch.tensor([[3.0]]), "bias": torch.tensor([4.0])})
        tensor(5.)
    """
    check_parameters(parameters=parameters)
    return length(torch.stack([length(part) for part in alike(part.flatten() for part in parameters.values())]))
