"""Products with the Gauss-Newton matrix of a mean loss, which is never formed."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import outside_inference
from gnomon.autodiff._loss_gradients import require_slope, scale_of_sum
from gnomon.autodiff._loss_operator import Losses
from gnomon.autodiff._parameter_jacobian import mixture, require_gradient
from gnomon.autodiff._parameter_vectors import ParameterVectors, chunks_of, second
from gnomon.autodiff._run import run
from gnomon.autodiff._second_derivatives import asymmetric


@dataclass(frozen=True)
class _Chunk:
    """A chunk of samples.

    Attributes:
        logits: their outputs.
        v: zeros of the same shape.
        derivatives: the derivatives of ⟨v, logits⟩ with respect to each parameter, linear in v.
        outputs: the outputs again, without a graph.
        slopes: the derivatives of the loss with respect to these, which can be differentiated again.
    """

    logits: Float[Tensor, "n c"]
    v: Float[Tensor, "n c"]
    derivatives: Sequence[Tensor]
    outputs: Float[Tensor, "n c"]
    slopes: Float[Tensor, "n c"]


class GaussNewtonOperator:
    r"""$G = \frac1n\sum_iJ_i^\top H_iJ_i$: the Hessian of the loss as if the outputs were linear in the parameters.

    Here $J_i$ are the Jacobians of the outputs with respect to the trainable parameters, as one vector, and $H_i$ the
    second derivatives of the loss with respect to the outputs.

    The backward pass is linear in the vector v that it propagates, so the derivative of $v^\top J$ with respect to v,
    in the direction u, is $Ju$: a pass through the backward pass.

    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples.
        labels: their labels.
        losses: the loss of each sample.
        memory: bytes to use; default: 512 MiB. Samples are taken in chunks that fit; if there is only one chunk, its
            graph is kept.
    Attributes:
        vectors: the position of each parameter in a vector.
    Raises:
        UnsupportedModuleError: if samples mix, random numbers change the outputs, nothing is trainable, or a layer has
            no second derivative.
    """

    def __init__(
        self,
        model: nn.Module,
        x: Shaped[Tensor, "n *d"],
        labels: Shaped[Tensor, "n *y"],
        losses: Losses,
        *,
        memory: int | None,
    ) -> None:
        x, labels = outside_inference(x), outside_inference(labels)
        # Without `self`: an operator that its own chunks refer to would stay in memory until garbage collection.
        self.vectors = vectors = ParameterVectors.of(model, x)
        scale = scale_of_sum(len(x))
        self._share = scale / len(x)

        def made(rows: slice) -> _Chunk:
            logits = run(model, x[rows])
            require_gradient(logits)
            v = torch.zeros_like(logits, requires_grad=True)
            outputs = logits.detach().requires_grad_()
            loss = losses(outputs, labels[rows]).sum() / scale
            require_slope(loss)
            (slopes,) = torch.autograd.grad(loss, outputs, create_graph=True, materialize_grads=True)
            return _Chunk(logits, v, vectors.gradients(logits, v), outputs, slopes)

        self._chunks = chunks_of(made, model, x, memory)
        self._require_derivatives(self._chunks.of(slice(0, 2)))

    def multiply(self, u: Float[Tensor, "p"]) -> Float[Tensor, "p"]:
        """The product with u."""
        total = self.vectors.zeros()
        for chunk in self._chunks:
            if chunk.slopes.requires_grad:
                (bent,) = second([chunk.slopes], [chunk.outputs], [self._right(chunk, u)])
                total += self._left(chunk, bent)
        _checks.finite(gauss_newton=total)
        return self._share * total

    def _left(self, chunk: _Chunk, v: Float[Tensor, "n c"]) -> Float[Tensor, "p"]:
        """The sum of all products $v_i^T J_i$."""
        return self.vectors.joined(second([chunk.logits], [*self.vectors.parameters.values()], [v]))

    def _right(self, chunk: _Chunk, u: Float[Tensor, "p"]) -> Float[Tensor, "n c"]:
        """Each product of a Jacobian with u."""
        return second(chunk.derivatives, [chunk.v], self.vectors.parts(u))[0]

    def _require_derivatives(self, chunk: _Chunk) -> None:
        """Raises UnsupportedModuleError if the products disagree, which torch does not always report."""
        w = mixture(chunk.outputs.detach())
        g = self._left(chunk, w)
        size = g @ g
        if ((self._right(chunk, g) * w).sum() - size).abs() > self.vectors.tolerance * size:
            raise asymmetric()
