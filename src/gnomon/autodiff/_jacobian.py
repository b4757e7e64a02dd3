"""Jacobians of the outputs with respect to the input, and products with them."""

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.autodiff._observation import map_tapes, observe
from gnomon.autodiff._run import Model
from gnomon.autodiff._tape import Tape
from gnomon.errors import ShapeError


@full_precision
def input_jacobian(model: Model, x: Float[Tensor, "n *d"], *, memory: int | None = None) -> Float[Tensor, "n c *d"]:
    r"""The Jacobian of the outputs with respect to the input, sample by sample.

    $J_i = \partial f(x_i)/\partial x_i$: entry `[i, k, ...]` is the derivative of output k at sample i. For a piecewise
    affine network it is the slope $A$ of the affine piece around $x_i$.

    Follows torch's grad mode: inside `torch.no_grad()` the result has no graph and the memory budget holds; otherwise
    it can be differentiated further, in the parameters and in `x`, and the graph of all samples is kept. A function of
    your own that is marked `once_differentiable` has no part in that gradient: torch leaves it out without an error.

    Source:
        Walker et al., arXiv:2506.12284, section 2.
    Args:
        model: a network, or any function, from (n *d) to (n c), whose samples do not mix.
        x: the samples.
        memory: bytes to use beyond the result; default: 512 MiB. Samples are taken in chunks that fit.
    Returns:
        The Jacobians, in the dtype and on the device of x. Unit: outputs per input.
    Raises:
        ShapeError: if the outputs are not (n, c).
        EmptyError: if there are no samples.
        RangeError: if x is not of floating point, or holds NaN or infinity.
        UnsupportedModuleError: if BatchNorm in training mode mixes the samples, or nothing leads from the outputs back
            to x.
    Cost: c backward passes over the batch, O(n c d) memory for the result.
    Example:
        >>> import torch, gnomon
        >>> layer = torch.nn.Linear(3, 2)
        >>> bool((gnomon.input_jacobian(layer, torch.zeros(5, 3)) == layer.weight).all())
        True
    """
    return observe(model, x, {"jacobian"}, memory=memory).values["jacobian"]


@full_precision
def vector_jacobian(
    model: Model, x: Float[Tensor, "n *d"], v: Float[Tensor, "*n c"], *, memory: int | None = None
) -> Float[Tensor, "n *d"]:
    r"""The product $v_i^\top J_i$ of a vector with each sample's Jacobian, without forming the Jacobian.

    Follows torch's grad mode, as `input_jacobian` does.

    Args:
        model: a network, or any function, from (n *d) to (n c), whose samples do not mix.
        x: the samples.
        v: one vector for all samples (c), or one for each (n c).
        memory: bytes to use beyond the result; default: 512 MiB.
    Returns:
        Linear in v; with v the k-th unit vector, the gradient of output k.
    Raises:
        ShapeError: if the outputs are not (n, c), or v is neither (c) nor (n, c).
        RangeError: as `input_jacobian`, and if v is on another device than x.
        EmptyError, UnsupportedModuleError: as `input_jacobian`.
    Cost: one backward pass over the batch.
    Example:
        >>> import torch, gnomon
        >>> layer = torch.nn.Linear(3, 2)
        >>> first = gnomon.vector_jacobian(layer, torch.zeros(5, 3), torch.tensor([1.0, 0.0]))
        >>> bool((first == layer.weight[0]).all())
        True
    """
    _checks.one_device(x=x, v=v)
    _checks.finite(v=v)

    def product(tape: Tape, start: int) -> dict[str, Tensor]:
        outputs = tape.logits
        if tuple(v.shape) not in {(outputs.shape[1],), (len(x), outputs.shape[1])}:
            raise ShapeError(
                "v",
                f"shape ({outputs.shape[1]},) or ({len(x)}, {outputs.shape[1]})",
                _checks.shape_of(v),
                "Pass one vector over the outputs, or one per sample.",
            )
        part = v.expand_as(outputs) if v.ndim == 1 else v[start : start + len(outputs)]
        return {"product": tape.vector_jacobian(part)}

    return map_tapes(model, x, product, memory=memory)["product"]
