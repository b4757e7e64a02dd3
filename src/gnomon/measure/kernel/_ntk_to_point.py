"""The empirical neural tangent kernel with one point."""

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.autodiff import gradient_kernel
from gnomon.errors import ShapeError


@full_precision
def ntk_to_point(
    model: nn.Module, x: Shaped[Tensor, "n *d"], point: Shaped[Tensor, "*d"], *, memory: int | None = None
) -> Float[Tensor, "n"]:
    r"""The traced neural tangent kernel between each sample and one point.

    $\Theta(x_i, z) = \sum_k \langle\nabla_\theta f_k(x_i), \nabla_\theta f_k(z)\rangle$

    No sample's gradient is formed: linear layers take Gram products, other parameters one Jacobian-vector product an
    output, where that is cheaper than their Jacobians. The trace is a sum, and grad mode is followed, as in `ntk`.

    Source:
        Walker et al., arXiv:2506.12284, figure 3.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples.
        point: one sample, without the axis of samples.
        memory: bytes to use beyond the result; default: 512 MiB.
    Returns:
        The column of `ntk(model, x, point[None])`. Unit: outputs squared per parameter squared.
    Raises:
        ShapeError: if the point does not have a sample's axes.
        EmptyError, RangeError, UnsupportedModuleError: as `ntk`.
    Cost: one forward pass over the samples, and c passes back or forth.
    Example:
        >>> import torch, gnomon
        >>> layer = torch.nn.Linear(2, 3, bias=False)
        >>> with torch.no_grad():
        ...     gnomon.ntk_to_point(layer, torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([1.0, 1.0]))
        tensor([9., 3.])
    """
    _checks.samples(1, x=x)
    _checks.finite(x=x, point=point)
    if point.shape != x.shape[1:]:
        raise ShapeError(
            "point",
            f"shape {tuple(x.shape[1:])} as a sample of x",
            _checks.shape_of(point),
            "Pass one sample, without the axis of samples.",
        )
    return gradient_kernel(model, x, point.unsqueeze(0), trace=True, memory=memory).squeeze(1)
