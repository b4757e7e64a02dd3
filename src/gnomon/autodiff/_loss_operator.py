"""The gradient of a mean loss with respect to the parameters, and products with its Hessian, which is never formed."""

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial

from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import outside_inference
from gnomon.autodiff._loss_gradients import require_slope, scale_of_sum
from gnomon.autodiff._parameter_jacobian import mixture, require_gradient
from gnomon.autodiff._parameter_vectors import Chunks, ParameterVectors, chunks_of, second
from gnomon.autodiff._run import run
from gnomon.autodiff._second_derivatives import asymmetric
from gnomon.linalg import length

Losses = Callable[[Tensor, Tensor], Tensor]
"""From outputs (n c) and labels (n *y) to the loss of each sample (n)."""


class LossOperator:
    r"""The derivatives of $L = \frac1n\sum_i\ell(f(x_i), y_i)$ with respect to the trainable parameters, as one vector.

    A product with the Hessian is a backward pass through the backward pass. Forward mode followed by reverse mode is
    never used: it is silently wrong through torch's layer norm.

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
        self._x, self._labels = outside_inference(x), outside_inference(labels)
        self.vectors = ParameterVectors.of(model, self._x)
        self._make = partial(_gradients, model, losses, self.vectors)
        self._chunks = chunks_of(partial(self._make, self._x, self._labels), model, self._x, memory)
        # Outputs of 1 at most: the Hessian of a saturated loss consists of rounding errors and is not symmetric.
        two = self._x[:2], self._labels[:2]
        mild = partial(_gradients, model, partial(_unsaturated, losses), self.vectors, *two)
        self._require_symmetry(Chunks(mild, len(two[0]), self._chunks.size).of(slice(0, 2)))

    def of(self, rows: Int[Tensor, "m"]) -> "LossOperator":
        """The operator of the mean loss over some of the samples."""
        some = copy(self)
        # Samples that are selected in inference mode cannot enter a graph.
        some._x, some._labels = outside_inference(self._x[rows]), outside_inference(self._labels[rows])
        some._chunks = Chunks(partial(self._make, some._x, some._labels), len(rows), self._chunks.size)
        return some

    def gradient(self) -> Float[Tensor, "p"]:
        """The gradient of the loss."""
        total = self.vectors.zeros()
        for chunk in self._chunks:
            total += self._joined(chunk)
        return total

    def multiply(self, u: Float[Tensor, "p"]) -> Float[Tensor, "p"]:
        """The product of the Hessian with u."""
        total = self.vectors.zeros()
        for chunk in self._chunks:
            total += self._product(chunk, u)
        _checks.finite(hessian=total)
        return total

    def _product(self, chunk: list[Tensor], u: Float[Tensor, "p"]) -> Float[Tensor, "p"]:
        """The contribution of some samples to the product."""
        return self._joined(second(chunk, [*self.vectors.parameters.values()], self.vectors.parts(u)))

    def _joined(self, parts: Sequence[Tensor]) -> Float[Tensor, "p"]:
        """What belongs to the mean, of derivatives of the scaled sum."""
        return self.vectors.joined(parts) * (scale_of_sum(len(self._x)) / len(self._x))

    def _require_symmetry(self, chunk: list[Tensor]) -> None:
        """Raises UnsupportedModuleError if products are not those of a Hessian, which torch does not always report."""
        g = self._joined(chunk)
        w = mixture(g[None])[0]
        of_g, of_w = self._product(chunk, g), self._product(chunk, w)
        size = length(of_g) * length(w) + length(of_w) * length(g)
        if (of_g @ w - of_w @ g).abs() > self.vectors.tolerance * size:
            raise asymmetric()


def _gradients(
    model: nn.Module,
    losses: Losses,
    vectors: ParameterVectors,
    x: Shaped[Tensor, "n *d"],
    labels: Shaped[Tensor, "n *y"],
    rows: slice,
) -> list[Tensor]:
    """The contribution of some samples to the gradient of the scaled sum, parameter by parameter, with a graph.

    Not a method: an operator that its own chunks refer to would stay in memory until garbage collection.
    """
    logits = run(model, x[rows])
    require_gradient(logits)
    loss = losses(logits, labels[rows]).sum() / scale_of_sum(len(x))
    require_slope(loss)
    return vectors.gradients(loss)


def _unsaturated(losses: Losses, logits: Float[Tensor, "n c"], labels: Shaped[Tensor, "n *y"]) -> Float[Tensor, "n"]:
    """The losses of outputs scaled down to 1 at most."""
    return losses(logits / logits.detach().abs().amax().clamp(min=1), labels)
