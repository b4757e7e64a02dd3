"""All trainable parameters as one vector, and samples in chunks whose second derivatives fit into memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Generic, TypeVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon._budget import budget_of
from gnomon._precision import single
from gnomon.autodiff._memory import chunk_size
from gnomon.autodiff._parameter_jacobian import dense, differentiable, trainable
from gnomon.autodiff._second_derivatives import differentiating_again, require_second
from gnomon.autodiff._single_steps import in_single_steps

T = TypeVar("T")


@dataclass(frozen=True)
class ParameterVectors:
    """The position of each parameter in a vector.

    Attributes:
        parameters: the trainable parameters, by name.
        like: a tensor of the vectors' dtype, the parameters' widest and float32 at least, and on their device.
    """

    parameters: dict[str, Tensor]
    like: Tensor

    @classmethod
    def of(cls, model: nn.Module, x: Shaped[Tensor, "n *d"]) -> "ParameterVectors":
        """The vectors of a network's parameters.

        Raises:
            UnsupportedModuleError: if it has no trainable parameters, or its samples mix.
        """
        parameters = trainable(model, x)
        first = next(iter(parameters.values()))
        widest = reduce(torch.promote_types, (parameter.dtype for parameter in parameters.values()))
        return cls(parameters, first.new_empty(0, dtype=single(widest)))

    @property
    def size(self) -> int:
        """The length of the vectors."""
        return sum(parameter.numel() for parameter in self.parameters.values())

    @property
    def tolerance(self) -> float:
        """How far products that should be equal may differ, relative to their size: the root of the coarsest epsilon.

        Networks in half precision multiply in it, though the vectors are in single.
        """
        return max(torch.finfo(parameter.dtype).eps for parameter in self.parameters.values()) ** 0.5

    def zeros(self) -> Float[Tensor, "p"]:
        """A vector of zeros."""
        return self.like.new_zeros(self.size)

    def joined(self, parts: Sequence[Tensor]) -> Float[Tensor, "p"]:
        """One vector from a tensor for each parameter, without a graph."""
        return torch.cat([part.detach().to(self.like).flatten() for part in parts])

    def parts(self, u: Float[Tensor, "p"]) -> list[Tensor]:
        """The part of a vector that belongs to each parameter."""
        parameters = self.parameters.values()
        pieces = torch.split(u, [parameter.numel() for parameter in parameters])
        return [piece.view(p.shape).to(p) for piece, p in zip(pieces, parameters, strict=True)]

    def gradients(self, of: Tensor, v: Tensor | None = None) -> list[Tensor]:
        """The derivatives of ⟨v, of⟩ with respect to each parameter, which can be differentiated again.

        Raises:
            UnsupportedModuleError: if torch reports that they cannot.
        """
        found = torch.autograd.grad(of, [*self.parameters.values()], v, create_graph=True, materialize_grads=True)
        parts = [*map(dense, found)]
        require_second(torch.stack([part.sum().to(self.like) for part in parts]).sum())
        return parts


def second(along: Sequence[Tensor], at: Sequence[Tensor], v: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The derivatives of ⟨v, along⟩, where along are derivatives themselves; zero for those without a graph.

    Raises:
        UnsupportedModuleError: if torch reports that there are none.
    """
    pairs = [(derivative, part) for derivative, part in zip(along, v, strict=True) if derivative.requires_grad]
    if not pairs:
        return tuple(map(torch.zeros_like, at))
    along, v = zip(*pairs, strict=True)
    with differentiating_again():
        return tuple(map(dense, torch.autograd.grad(along, at, v, retain_graph=True, materialize_grads=True)))


class Chunks(Generic[T]):
    """What `make` computes from the samples, some at a time; kept if all are taken together.

    Args:
        make: maps the slice of some samples to what can be differentiated; called while autograd records.
        samples: their number.
        size: the number taken at a time.
    """

    def __init__(self, make: Callable[[slice], T], samples: int, size: int) -> None:
        self._make, self._samples, self.size = make, samples, size
        self._whole: list[T] = []

    def __iter__(self) -> Iterator[T]:
        if self._whole:
            yield from self._whole
            return
        for start in range(0, self._samples, self.size):
            made = self.of(slice(start, start + self.size))
            if self.size >= self._samples:
                self._whole.append(made)
            yield made

    def of(self, rows: slice) -> T:
        """What is computed from these samples."""
        with differentiable(recording=True), in_single_steps():
            return self._make(rows)


def chunks_of(make: Callable[[slice], T], model: nn.Module, x: Shaped[Tensor, "n *d"], memory: int | None) -> Chunks[T]:
    """Chunks of as many samples as fit into memory with a graph of a graph; default: 512 MiB."""
    # Three times the memory of one backward pass.
    return Chunks(make, len(x), chunk_size(model, x, memory=max(1, budget_of(memory) // 3)))
