"""What a quantity promises."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import gnomon
from gnomon._kinds import members
from tests.contract.source import Source

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Contract:
    """One quantity.

    Attributes:
        quantity: the function.
        oracle: the same, as the plainest loop over the definition; of a dataclass, its fields by name.
        sample: right arguments by name, in float64.
        range: lowest and highest value.
        invariances: by name, maps of the arguments that change nothing.
        differentiable: whether gradcheck must pass in all floating arguments.
        zero: whether at arguments of 0 the value is 0 and so is the gradient.
        unit_free: whether the value can be held in float32 whatever the size of the arguments.
        halves: whether half precision comes back as half precision.
        single: how close float32 comes.
        dtype: that of the result, where it is not the arguments'.
        settings: arguments that a probe does not have, and is given by `functools.partial`.
    """

    quantity: Callable[..., Any]
    oracle: Callable[..., Any]
    sample: Callable[[Source], Arguments]
    range: tuple[float, float] = (-torch.inf, torch.inf)
    invariances: dict[str, Callable[[Arguments], Arguments]] = field(default_factory=dict)
    differentiable: bool = True
    zero: bool = True
    unit_free: bool = True
    halves: bool = True
    single: float = 1e-5
    dtype: torch.dtype | None = None
    settings: tuple[str, ...] = ()

    @property
    def of_samples(self) -> bool:
        """Whether it is one value a sample or more, as its annotation says."""
        return axes_of(inspect.signature(self.quantity).return_annotation)[:1] == ["n"]

    @property
    def keeps_halves(self) -> bool:
        """Whether half precision comes back as half precision; networks compute as they do."""
        return self.halves and self.dtype is None and "model" not in inspect.signature(self.quantity).parameters

    def by_sample(self, arguments: Arguments) -> list[str]:
        """The arguments that have an axis of samples."""
        parameters = inspect.signature(self.quantity).parameters
        return [name for name in arguments if axes_of(parameters[name].annotation)[:1] == ["n"]]


def axes_of(annotation: Any) -> list[str]:
    """The axes of an annotated tensor, whatever may stand for it; none of anything else."""
    exact = [part for part in members(annotation) if part not in (gnomon.Estimate, gnomon.JacobianOperator)]
    return getattr(exact[0], "dim_str", "").split() if len(exact) == 1 else []


def of_tensors(arguments: Arguments) -> bool:
    """Whether all arguments are tensors."""
    return all(isinstance(value, Tensor) for value in arguments.values())


# What rows are written with.


def scaled(**factors: float) -> Callable[[Arguments], Arguments]:
    return lambda a: a | {name: factor * a[name] for name, factor in factors.items()}


def orthogonal(d: int) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))[0]


def rotated(*names: str) -> Callable[[Arguments], Arguments]:
    """These, turned alike as rows of their last axis."""
    return lambda a: a | {name: a[name] @ orthogonal(a[name].shape[-1]) for name in names}


def loop(function: Callable[..., float]) -> Callable[..., Tensor]:
    """An oracle for all samples from one for a sample."""

    def over_samples(**arguments: Tensor) -> Tensor:
        rows = zip(*arguments.values(), strict=True)
        return torch.tensor([function(*row) for row in rows], dtype=torch.float64)

    return over_samples


def cosine(a: Tensor, b: Tensor) -> float:
    """Number by number."""
    a, b = a.flatten().tolist(), b.flatten().tolist()
    product = sum(p * q for p, q in zip(a, b, strict=True))
    return product / (sum(p * p for p in a) ** 0.5 * sum(q * q for q in b) ** 0.5)


def jacobian_of(model: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Sample by sample, by torch."""
    return torch.stack([torch.autograd.functional.jacobian(lambda s: model(s[None])[0], sample) for sample in x])
