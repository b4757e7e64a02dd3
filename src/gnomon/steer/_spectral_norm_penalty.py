"""Spectral-norm regularisation: a penalty on the largest singular value of each weight matrix."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision, in_single, single
from gnomon.autodiff import Model
from gnomon.errors import EmptyError, RangeError, ShapeError, public
from gnomon.linalg import drawn, unit
from gnomon.steer._parameters import named, not_the_state, require_entries, require_real

PARTS = re.compile(r"parametrizations\.|weight\w*_(g|v|orig)$")
"""The names that torch gives to the parameters of which it makes a layer's weight."""


class SpectralNormPenalty:
    r"""Spectral-norm regularisation: half a coefficient times the sum of the weight matrices' squared spectral norms.

    $\frac\lambda2\sum_W\sigma(W)^2$, whose gradient is $\lambda\sigma uv^\top$, by one step of power iteration per call

    Add it to the loss, `loss = cross_entropy(logits, labels) + penalty()`, or use `logits_and_penalty`, which GrokAlign
    has too, so that one loop serves both. The iteration continues where the last call that recorded gradients ended, so
    σ is low at first and follows the weights while they change slowly. u and v are held constant, as in the gradient of
    σ.

    Convolutions are treated as matrices, one row per output channel: not the norm of the convolution, but what the
    paper uses. A transposed one, of which the paper says nothing, is treated as the convolution that it is the
    transpose of, since both have the same norm: one row per input channel, as torch stores it, where
    `torch.nn.utils.parametrizations.spectral_norm` takes one per output channel.

    Source:
        Yoshida and Miyato, arXiv:1705.10941, algorithm 1.
    Args:
        parameters: `model.named_parameters()`, or `model.parameters()`; those with one axis or none, such as biases,
            are left out, as there. Those from which torch makes a weight (`torch.nn.utils.parametrizations`, the older
            `weight_norm` and `spectral_norm`, pruning) are not the weights that the network uses: with names they are
            refused, without they are taken.
        coefficient: λ ≥ 0; the paper's is 0.01.
        iterations: steps of the power iteration per call, from 1 on.
        generator: where the first directions come from; default: torch's global one.
    Raises:
        RangeError: listing every setting that is out of range; if a tensor is not a parameter, or is given twice; if
            a matrix is complex, or a parametrised layer's.
        EmptyError: if no parameter has two axes.
    Cost: two products of each matrix with a vector per iteration; O(p) for the gradient.
    Example:
        >>> import torch, gnomon
        >>> w = torch.outer(torch.tensor([3.0, 4.0]), torch.tensor([0.6, 0.8])).requires_grad_()
        >>> penalty = gnomon.SpectralNormPenalty([w], coefficient=2.0)  # Of rank one, σ = 5: one step is exact.
        >>> torch.testing.assert_close(penalty(), torch.tensor(25.0))
    """

    @full_precision
    def __init__(
        self,
        parameters: Iterable[Tensor | tuple[str, Tensor]],
        coefficient: float = 0.01,
        iterations: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        _checks.settings(
            ("coefficient", coefficient, "finite and at least 0", 0 <= coefficient < math.inf),
            _checks.whole_number("iterations", iterations, 1),
        )
        self.coefficient = coefficient
        self.iterations = iterations
        matrices = [pair for pair in named(parameters) if pair[1].ndim > 1 and pair[1].numel()]
        require_real(matrices)
        for name, _ in matrices:
            if PARTS.search(name):
                raise RangeError("parameters", "the weights that the network uses", name, "Leave it out.")
        self._weights = [parameter for _, parameter in matrices]
        if not self._weights:
            raise EmptyError("parameters", "a matrix among them", "none", "Pass model.named_parameters().")
        self._starts = [
            drawn(torch.randn, len(weight), generator=generator, device=weight.device, dtype=single(weight.dtype))
            for weight in self._weights
        ]
        self._directions = [*self._starts]

    @full_precision
    def __call__(self) -> Float[Tensor, ""]:
        """The penalty: a scalar with a graph to the weights; the iteration advances where gradients are recorded."""
        squares = [self._square(i) for i in range(len(self._weights))]
        return self.coefficient / 2 * torch.stack([square.to(squares[0].device) for square in squares]).sum()

    def logits_and_penalty(
        self, model: Model, x: Float[Tensor, "n *d"]
    ) -> tuple[Float[Tensor, "n *c"], Float[Tensor, ""]]:
        """The outputs for the loss, and the penalty; the iteration advances where gradients are recorded.

        Args:
            model: the network in training.
            x: the batch, of which the penalty is independent.

        Returns:
            What the network gives; and a scalar with a graph to the weights.
        """
        return model(x), self()

    def state_dict(self) -> dict[str, Any]:
        """The state of the iteration: one direction per matrix, and that from which it starts again after a zero."""
        kept = {"directions": self._directions, "starts": self._starts}
        return {name: [direction.clone() for direction in directions] for name, directions in kept.items()}

    @public
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resumes from this state.

        Raises:
            CheckpointError: if it is a state of something else.
            ShapeError: if it is not one for these parameters.
        """
        require_entries(state_dict, "SpectralNormPenalty", directions=list | tuple)
        state_dict = {"starts": self._starts, **state_dict}  # older versions did not save them
        require_entries(state_dict, "SpectralNormPenalty", starts=list | tuple)
        self._directions = self._loaded(state_dict["directions"])
        self._starts = self._loaded(state_dict["starts"])

    def _loaded(self, directions: Sequence[object]) -> list[Tensor]:
        """Copies of directions, if there is one for each matrix."""
        tensors = [direction for direction in directions if isinstance(direction, Tensor)]
        if len(tensors) < len(directions):
            raise not_the_state("directions that are tensors", "others", "SpectralNormPenalty")
        found = [tuple(direction.shape) for direction in tensors]
        wanted = [tuple(direction.shape) for direction in self._directions]
        if found != wanted:
            raise ShapeError("state_dict", f"directions {wanted}", found, "Load a state of the same parameters.")
        return [direction.clone() for direction in tensors]

    def _square(self, i: int) -> Tensor:
        matrix = in_single(self._weights[i].flatten(1))
        with torch.no_grad():
            u = self._directions[i].to(matrix)
            for _ in range(self.iterations):
                v = unit(matrix.T @ u)
                onwards = unit(matrix @ v)
                # A matrix that is zero or NaN now may not stay so, and one may leave u's direction for good.
                u = torch.where(onwards.any() & onwards.isfinite().all(), onwards, self._starts[i].to(matrix))
        if torch.is_grad_enabled():  # to read a validation loss changes no training
            self._directions[i] = u
        return (u @ matrix @ v).square()
