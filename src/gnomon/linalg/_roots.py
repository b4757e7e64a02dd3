"""The square root of a positive semi-definite matrix."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx

from gnomon import _checks
from gnomon._precision import full_precision, in_single
from gnomon.errors import RangeError
from gnomon.linalg._directions import largest
from gnomon.linalg._once import marker, once
from gnomon.linalg._spectra import gram_eigenvectors


@full_precision
def psd_root(matrix: Float[Tensor, "p p"]) -> Float[Tensor, "p p"]:
    r"""The one positive semi-definite matrix whose square is the given matrix.

    $G^{1/2} = V\Lambda^{1/2}V^\top$ for $G = V\Lambda V^\top$

    Its differential solves $dR\,R + R\,dR = dG$: gradients divide by sums of eigenvalues of R, never by gaps between
    them, so equal eigenvalues cause no problem. In the null space of G up to rounding, where the root is not
    differentiable, they are 0.

    Args:
        matrix: G, symmetric, with no eigenvalue below 0 beyond rounding; its lower triangle is read.
    Returns:
        Symmetric, with the eigenvectors of G; unit: the root of G's. Rotates with G, and $(cG)^{1/2} = c^{1/2}G^{1/2}$.
    Raises:
        ShapeError: if the matrix is not square, or has no entries.
        RangeError: at NaN or infinity, or at an eigenvalue below minus p epsilons of the largest, those of the dtype,
            but at least of single precision.
    Cost: O(p³). Precision: half the digits in directions whose eigenvalue is at the level of rounding compared with the
        largest. The gradient can be taken once; a second is an error.
    Example:
        >>> import torch, gnomon
        >>> gnomon.psd_root(torch.tensor([[4.0, 0.0], [0.0, 9.0]]))
        tensor([[2., 0.],
                [0., 3.]])
    """
    _checks.square("Pass a sum of outer products.", matrix=matrix)
    _checks.finite(matrix=matrix)
    # Of single precision even in float64, whose sums may be of products that were computed in float32.
    eps = max(torch.finfo(dtype).eps for dtype in (matrix.dtype, torch.float32))
    single = in_single(matrix)
    return root_by_eigenvectors(single, eps, marker(single)).to(matrix.dtype)


@runtime_checkable
class SavedTensors(Protocol):
    """What a backward pass is given."""

    saved_tensors: tuple[Tensor, ...]


class Root(torch.autograd.Function):
    """The root by eigenvectors, with the gradient of the Sylvester equation."""

    @staticmethod
    def forward(ctx: FunctionCtx, matrix: Float[Tensor, "p p"], eps: float, mark: Tensor) -> Float[Tensor, "p p"]:
        """The root; keeps its eigenvalues and eigenvectors. Eigenvalues are known to p epsilons of the largest."""
        size = largest(matrix)
        values, vectors = gram_eigenvectors(matrix / size)
        if (values < -len(values) * eps * values.abs().amax()).any():
            raise RangeError(
                "matrix",
                "no negative eigenvalues",
                float(values[0] * size),
                "Pass a sum of outer products, such as an AGOP.",
            )
        roots = values.clamp(min=0).sqrt() * size.sqrt()
        # Eigenvalues of 0 come out as rounding, and a gradient divided by its root would be noise.
        rounding = len(values) * torch.finfo(values.dtype).eps * values[-1]
        ctx.save_for_backward(torch.where(values > rounding, roots, 0), vectors, mark)
        return (vectors * roots) @ vectors.mT

    @staticmethod
    @once("the square root of a matrix (psd_root)")
    def backward(
        ctx: FunctionCtx, saved: tuple[Tensor, ...], gradient: Float[Tensor, "p p"]
    ) -> tuple[Float[Tensor, "p p"], None, None]:
        """The gradient with respect to the matrix."""
        roots, vectors, _ = saved
        sums = roots.unsqueeze(1) + roots
        turned = vectors.mT @ gradient @ vectors
        return vectors @ torch.where(sums > 0, turned / torch.where(sums > 0, sums, 1), 0) @ vectors.mT, None, None


root_by_eigenvectors: Callable[[Tensor, float, Tensor], Tensor] = Root.apply
