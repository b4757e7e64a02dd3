"""How far training has moved the parameters."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import RangeError, ShapeError
from gnomon.linalg import length
from gnomon.measure._parameters import alike, check_parameters


@full_precision
def distance_from_start(
    parameters: Mapping[str, Float[Tensor, "*d"]], start: Mapping[str, Float[Tensor, "*d"]]
) -> Float[Tensor, ""]:
    r"""The distance of all parameters together from their values at the start.

    Reading:
        Low, high: Low compared with the norm at the start: training is lazy. High: the weights are mostly what was
            learnt.
        Generalising: Not measured here.
        Misleads: Weight decay alone moves the parameters, by as much as their norm at the start, and so does noise,
            although nothing is learnt.

    $\|\theta - \theta_0\|_2$

    Source:
        As a measure of generalisation: Neyshabur et al., arXiv:1805.12076; Jiang et al., arXiv:1912.02178.
    Args:
        parameters: the network's parameters, by name.
        start: a copy of them at the start: `{name: p.detach().clone() for name, p in model.named_parameters()}`. In a
            probe, use `functools.partial(distance_from_start, start=...)`.
    Returns:
        At least 0; unit: that of the parameters. For half precision, in float32.
    Raises:
        EmptyError: if there are none.
        ShapeError: if one has another shape than at the start.
        RangeError: at NaN or infinity, if they are not mappings or do not have the same names, or if the start is not a
            copy but the parameters themselves.
    Cost: O(p), and the memory of the copy.
    Example:
        >>> import torch, gnomon
        >>> start = {"weight": torch.tensor([[3.0]]), "bias": torch.tensor([4.0])}
        >>> gnomon.distance_from_start({"weight": torch.tensor([[0.0]]), "bias": torch.tensor([0.0])}, start)
        tensor(5.)
    """
    check_parameters(parameters=parameters, start=start)
    if apart := sorted(parameters.keys() ^ start.keys()):
        raise RangeError("start", "the names of parameters", f"{apart[0]!r} in one alone", "Copy all at the start.")
    for name, parameter in parameters.items():
        if parameter.shape != start[name].shape:
            expected, got = _checks.shape_of(parameter), _checks.shape_of(start[name])
            raise ShapeError(f"start[{name!r}]", f"shape {expected}", got, "Copy them from the same network.")
    if all(0 != parameter.data_ptr() == start[name].data_ptr() for name, parameter in parameters.items()):
        raise RangeError("start", "a copy", "the parameters themselves, which move", "Copy each by detach().clone().")
    now, then = (alike(those[name].flatten() for name in parameters) for those in (parameters, start))
    moved = [one - other.to(one.device) for one, other in zip(now, then, strict=True)]
    return length(torch.stack([length(part) for part in moved]))
