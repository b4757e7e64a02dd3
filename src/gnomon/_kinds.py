"""Whether arguments are of the kinds that a function's signature names: tensors with numbers, of its dtypes."""

import inspect
import numbers
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import AbstractArray
from torch import Tensor, nn

from gnomon import _checks
from gnomon.errors import ArgumentTypeError, RangeError


@dataclass(frozen=True)
class Kind:
    """What an argument may be.

    Attributes:
        dtypes: the dtypes of a tensor; None if it may not be a tensor, empty if any dtype will do.
        others: classes of which it may be as well; None if it may be other things too, which are not checked.
        expected: all this in words.
    """

    dtypes: frozenset[torch.dtype] | None
    others: tuple[type, ...] | None
    expected: str

    def check(self, name: str, value: object) -> None:
        """Raises unless the value is of the kind.

        Raises:
            TypeError: if it is neither a tensor nor anything else that it may be.
            RangeError: if it is a tensor without numbers, not dense, or of another dtype.
        """
        if isinstance(value, Tensor) and self.dtypes is not None:
            _checks.dense(**{name: value})
            if self.dtypes and value.dtype not in self.dtypes:
                raise RangeError(
                    name,
                    f"a {self.expected}",
                    value.dtype,
                    "Convert it, or, for tokens, pass their embeddings.",
                )
        elif self.others is not None and not isinstance(value, self.others):
            of_number = "Pass one." if numbers.Real in self.others else "Make one of it."
            advice = "Pass its name." if str in self.others else of_number
            raise ArgumentTypeError(name, f"a {self.expected}", type(value).__name__, advice)


def kinds_of(function: Callable[..., object]) -> dict[str, Kind]:
    """The kinds of a function's arguments, by name; without those that may be anything."""
    found: dict[str, Kind] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        parts = [*members(parameter.annotation)]
        arrays = [part for part in parts if isinstance(part, type) and issubclass(part, AbstractArray)]
        own = [part for part in parts if isinstance(part, type) and part not in arrays and is_checked(part)]
        none = [part for part in parts if part is types.NoneType]
        if arrays or own:
            whole = len(arrays) + len(own) + len(none) == len(parts)
            words = dict.fromkeys([*map(in_words, arrays), *map(name_of, own)])
            found[name] = Kind(
                frozenset().union(*map(dtypes_of, arrays)) if arrays else None,
                (*(other for part in own for other in ALIKE.get(part, (part,))), *none) if whole else None,
                " or ".join(words),
            )
    return found


def check_fields(instance: object) -> None:
    """Raises unless the fields of a dataclass are of the kinds that it names."""
    for name, kind in kinds_of(type(instance)).items():
        kind.check(name, getattr(instance, name))


def members(annotation: object) -> Iterable[object]:
    """The parts of a union, or the annotation itself."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        for part in typing.get_args(annotation):
            yield from members(part)
    else:
        yield annotation


ALIKE: dict[type, tuple[type, ...]] = dict.fromkeys((float, int), (numbers.Real, Tensor))
"""What is as good as a class: numbers of NumPy, and those in tensors."""


def is_checked(part: type) -> bool:
    """Whether it is a class of gnomon's that has instances, that of networks, of names, or of numbers."""
    ours = part.__module__.partition(".")[0] == "gnomon"
    return part in (nn.Module, str, float, int) or (ours and not getattr(part, "_is_protocol", False))


def name_of(part: type) -> str:
    """A checked class in words."""
    return {str: "name", float: "number", int: "number"}.get(part, part.__name__)


REAL = frozenset(
    {torch.float16, torch.bfloat16, torch.float32, torch.float64}
    | {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
)


def dtypes_of(array: type[AbstractArray]) -> frozenset[torch.dtype]:
    """The dtypes that an annotation accepts; for whole numbers all real ones, as functions check their values."""
    if not isinstance(array.dtypes, list | tuple) or "bool" in array.dtypes:
        return frozenset()
    floats = "float32" in array.dtypes and "int64" not in array.dtypes
    return frozenset(dtype for dtype in REAL if dtype.is_floating_point) if floats else REAL


def in_words(array: type[AbstractArray]) -> str:
    """The annotation in words."""
    dtypes = dtypes_of(array)
    if not dtypes:
        return "tensor"
    return "tensor of real numbers" if dtypes == REAL else "floating-point tensor"
