"""The empirical neural tangent kernel with one point."""

from typing import overload

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.autodiff import gradient_kernel
from gnomon.errors import ShapeError
from gnomon.linalg import Estimate
from gnomon.measure._estimates import Accuracy, warn_if_inaccurate
from gnomon.measure._mixtures import kernel_to_point


@overload
def ntk_to_point(
    model: nn.Module, x: Shaped[Tensor, "n *d"], point: Shaped[Tensor, "*d"], *, memory: int | None = None
) -> Float[Tensor, "n"]: ...
@overload
def ntk_to_point(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    point: Shaped[Tensor, "*d"],
    *,
    rtol: float | int,
    passes: int | None = None,
    seed: int = 0,
    memory: int | None = None,
) -> Estimate: ...
@full_precision
def ntk_to_point(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    point: Shaped[Tensor, "*d"],
    *,
    rtol: float | int | None = None,
    passes: int | None = None,
    seed: int = 0,
    memory: int | None = None,
) -> Float[Tensor, "n"] | Estimate:
    r"""The traced neural tangent kernel between each sample and one point.

    Reading:
        Low, high: High: learning the sample also moves the point's outputs.
        Generalising: On digits the kernel of a digit with its own class is 2.51 times that with others in a network
            that generalises, 1.29 times in one that memorised, as at the start.
        Misleads: Its size: it grew until the last step, from 32 to 207 (ntk-regime), so that a rule based on its
            largest value sees no plateau.

    $\Theta(x_i, z) = \sum_k \langle\nabla_\theta f_k(x_i), \nabla_\theta f_k(z)\rangle$

    No sample's gradient is formed: linear layers use Gram products, other parameters one Jacobian-vector product per
    output, where that is cheaper than their Jacobians. The trace is a sum, and grad mode is followed, as in `ntk`.

    With an accuracy it is an estimate, which has no graph: for many outputs the kernel of random mixtures of the
    outputs replaces that of all outputs, and takes as many passes as there are mixtures. For 128 outputs or fewer it is
    exact.

    Source:
        Walker et al., arXiv:2506.12284, figure 3. The estimate of the trace: Hutchinson 1990.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples.
        point: one sample, without the axis of samples.
        rtol: the error over the largest value at which the estimation stops, such as 0.05; default: no estimate.
        passes: for an estimate, the largest number of mixtures; at least 16; default: 256. A warning says if they do
            not suffice.
        seed: for an estimate, the seed of the mixtures, which are drawn independently of training's random numbers.
        memory: bytes to use beyond the result; default: 512 MiB.
    Returns:
        The column of `ntk(model, x, point[None])`. Unit: outputs squared per parameter squared.
    Raises:
        ShapeError: if the point does not have a sample's axes.
        EmptyError, RangeError, UnsupportedModuleError: as for `ntk`.
    Cost: one forward pass over the samples, and c backward or forward passes; for an estimate about 16 to 80, since the
        block of the point with itself is far from a multiple of the identity.
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
    if rtol is None:
        kernel = gradient_kernel(model, x, point.unsqueeze(0), trace=True, memory=memory).squeeze(1)
        _checks.finite(ntk=kernel)
        return kernel
    accuracy = Accuracy.of(rtol, passes, seed)
    found = kernel_to_point(model, x, point.unsqueeze(0), accuracy, memory)
    _checks.finite(ntk=found.value)
    return warn_if_inaccurate("ntk_to_point", found, accuracy, found.value.abs().amax().expand_as(found.value))
