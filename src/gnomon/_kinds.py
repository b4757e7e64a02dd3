"""Whether arguments are of the kinds that a function's signature names: tensors with numbers, of its dtypes."""

import functools
import inspect
import numbers
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import torch
from jaxtyping import AbstractArray
from torch import Tensor, nn

from gnomon import _checks
from gnomon.errors import ArgumentTypeError, RangeError, public

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


MADE = {
    "agop": "Pass agop(input_jacobian(model, x)), or give the function to a Probe.",
    "batch_gradients": "Pass batch_gradients(model, x, labels), or give the function to a Probe.",
    "bias": "Pass the bias of the final linear layer, None if it has none, or give the function to a Probe.",
    "centred_means": "Pass class_moments(features, labels, classes).centred_means, or give the function to a Probe.",
    "centroid": "Pass centroid(model, x), or give the function to a Probe.",
    "class_means": "Pass class_moments(features, labels, classes).means, or give the function to a Probe.",
    "class_moments": "Pass class_moments(features, labels, classes), or give the function to a Probe.",
    "classifier": "Pass the weight of the final linear layer, or give the function to a Probe.",
    "cumulative_parameters": "Pass cumulative_parameters(model), or give the function to a Probe.",
    "features": "Pass features(model, x), or give the function to a Probe.",
    "jacobian": "Pass input_jacobian(model, x), or give the function to a Probe.",
    "layer_weight": "Pass the weight of the layer whose input the AGOP is of, or give the function to a Probe.",
    "logits": "Pass model(x), or give the function to a Probe.",
    "parameters": "Pass dict(model.named_parameters()), or give the function to a Probe.",
    "schedule": "Pass one, such as every(100); samples and labels are one argument, (x, labels).",
    "snr_singular_values": "Pass snr_singular_values(class_moments), or give the function to a Probe.",
    "start": "Pass a detached copy from the start, of features or of parameters by name.",
}
"""How to make what arguments of these names need, where something else is given that does not convert."""


@dataclass(frozen=True)
class Kind:
    """What an argument may be.

    Attributes:
        dtypes: the dtypes of a tensor; None if it may not be a tensor, empty if any dtype will do.
        others: classes of which it may be as well; None if it may be other things too, which are not checked.
        expected: all this in words, with articles.
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
                tokens = ", or, for tokens, pass their embeddings, as they are now if they are trained"
                others = "" if value.dtype == torch.bool else tokens
                raise RangeError(name, self.expected, value.dtype, f"Convert it{others}.")
        elif self.others is not None and not self._is_one(value):
            number = numbers.Real in self.others
            got = type(value).__name__
            if number and isinstance(value, Tensor | np.ndarray) and value.ndim:
                got += f" of shape {tuple(value.shape)}"
            converts = self.dtypes is not None and not (number or callable(value) or is_ours(type(value)))
            otherwise = "Convert it to a tensor." if converts else MADE.get(name, "Pass one.")
            advice = "Pass its name." if str in self.others else otherwise
            raise ArgumentTypeError(name, self.expected, got, self._of_a_path(value) or advice)

    def _is_one(self, value: object) -> bool:
        """Whether it is of one of the other classes; a name is no sequence of its letters, a number none of itself."""
        others = self.others or ()
        if isinstance(value, str) and str not in others:
            return False
        if isinstance(value, Tensor | np.ndarray) and value.ndim == 0:  # iterable by its class, but not in fact
            return numbers.Real in others and is_number(value)
        return isinstance(value, others) or (numbers.Real in others and is_number(value))

    def _of_a_path(self, value: object) -> str:
        """How one is made of a path, as a history is of its file's; empty if it is not."""
        made = [of for of in self.others or () if "path" in getattr(vars(of).get("__init__"), "__annotations__", ())]
        return f"Pass {made[0].__name__}({str(value)!r})." if made and isinstance(value, str | PathLike) else ""


def kinds_of(function: Callable[..., object]) -> dict[str, Kind]:
    """The kinds of a function's arguments, by name; without those that may be anything."""
    found: dict[str, Kind] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        parts = [*map(class_of, members(parameter.annotation))]
        arrays = [part for part in parts if isinstance(part, type) and issubclass(part, AbstractArray)]
        own = [part for part in parts if isinstance(part, type) and part not in arrays and is_checked(part)]
        none = [part for part in parts if part is types.NoneType]
        if arrays or own:
            whole = len(arrays) + len(own) + len(none) == len(parts)
            words = dict.fromkeys([*map(in_words, arrays), *map(name_of, own)])
            found[name] = Kind(
                frozenset().union(*map(dtypes_of, arrays)) if arrays else None,
                (*(numbers.Real if part in (float, int) else part for part in own), *none) if whole else None,
                " or ".join(words),
            )
    return found


def checker_of(function: Callable[..., object]) -> Callable[[tuple[Any, ...], dict[str, Any]], None]:
    """What raises unless a call's arguments are of the kinds that the function's signature names."""
    kinds = functools.cache(lambda: kinds_of(function))
    order = functools.cache(lambda: tuple(inspect.signature(function).parameters))

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for name, value in chain(zip(order(), args, strict=False), kwargs.items()):
            if name in kinds():
                kinds()[name].check(name, value)

    return check


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, public, which raises unless its arguments are of the kinds that its signature names."""
    check = checker_of(function)

    @public
    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        check(args, kwargs)
        return function(*args, **kwargs)

    return called


def check_fields(instance: object) -> None:
    """Raises unless the fields of a dataclass are of the kinds that it names; unpacks numbers."""
    for name, kind in kinds_of(type(instance)).items():
        value = getattr(instance, name)
        kind.check(name, value)
        if is_packed(value):
            object.__setattr__(instance, name, unpacked(value))  # it may be frozen


def members(annotation: object) -> Iterable[object]:
    """The parts of a union, or the annotation itself."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        for part in typing.get_args(annotation):
            yield from members(part)
    else:
        yield annotation


def class_of(part: object) -> object:
    """The class by which a part of a union is checked, if it is one of functions, sequences or mappings."""
    return ORIGINS.get(typing.get_origin(part), part)


def is_number(value: object) -> bool:
    """Whether it is a real number, or an array or tensor without axes that holds one."""
    if isinstance(value, Tensor):
        return value.ndim == 0 and not value.is_complex()
    return isinstance(unpacked(value), numbers.Real)


def is_packed(value: object) -> bool:
    """Whether this is one of NumPy's arrays without axes, which no product with a tensor that has a graph accepts."""
    return isinstance(value, np.ndarray) and value.ndim == 0


def unpacked(value: T) -> T:
    """What is in an array without axes; anything else as it is."""
    return cast(T, value[()]) if isinstance(value, np.ndarray) and value.ndim == 0 else value


ORIGINS: dict[object, object] = {
    Callable: Callable,
    dict: Mapping,
    Mapping: Mapping,
    PathLike: PathLike,
    # A tensor or an array is as good as a list.
    **dict.fromkeys((tuple, list), Iterable),
}
"""What a part of an annotation is by itself, as `Callable` of `Callable[[int], bool]`, and what is checked for it."""
KNOWN: dict[object, str] = {
    nn.Module: "Module",
    torch.Generator: "torch.Generator",
    str: "name",
    PathLike: "path",
    float: "number",
    int: "number",
    Callable: "function",
    Iterable: "sequence",
    Mapping: "mapping",
}
"""Classes that are not gnomon's, which are checked too, in words."""


def is_checked(part: type) -> bool:
    """Whether it is a class of gnomon's that has instances, or one that others are known by."""
    return part in KNOWN or (is_ours(part) and not getattr(part, "_is_protocol", False))


def is_ours(part: type) -> bool:
    """Whether it is a class of gnomon's."""
    return part.__module__.partition(".")[0] == "gnomon"


def name_of(part: type) -> str:
    """A checked class in words, with its article."""
    name = KNOWN.get(part, part.__name__)
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


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
    """The annotation in words, with its article."""
    dtypes = dtypes_of(array)
    if not dtypes:
        return "a tensor"
    return "a tensor of real numbers" if dtypes == REAL else "a floating-point tensor"
