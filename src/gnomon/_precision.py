"""The precision in which gnomon computes: that of its arguments, whatever training around it uses."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import ParamSpec, TypeVar, cast

import torch
from torch import Tensor

from gnomon._kinds import checker_of, is_packed, unpacked
from gnomon.errors import RangeError, public

HALF = frozenset({torch.float16, torch.bfloat16})
AUTOCAST = ("cpu", "cuda", "mps", "xpu")
"""The kinds of device that have it; queried one by one."""

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """The function with autocast off inside, which would compute its products in half precision.

    Its arguments are of the kinds that its signature names, or an error says which is not. Numbers are taken out of
    NumPy's arrays and, if gradients are on, tensors that were made in inference mode are copied: no graph accepts them
    as they are.
    """
    check = checker_of(function)

    @public
    @functools.wraps(function)
    def precise(*args: P.args, **kwargs: P.kwargs) -> R:
        check(args, kwargs)
        values = (*args, *kwargs.values())
        if any(map(is_packed, values)) or (torch.is_grad_enabled() and any(map(of_inference, values))):
            given = [outside_inference(unpacked(value)) for value in args]
            named = {name: outside_inference(unpacked(value)) for name, value in kwargs.items()}
            return cast(Callable[..., R], precise)(*given, **named)
        devices = autocasting()
        if not devices:
            return function(*args, **kwargs)
        with ExitStack() as stack:
            for device in devices:
                stack.enter_context(torch.autocast(device, enabled=False))
            return function(*args, **kwargs)

    return precise


def of_inference(value: object) -> bool:
    """Whether this is a tensor made in inference mode."""
    return isinstance(value, Tensor) and value.is_inference()


def outside_inference(value: T) -> T:
    """The same value; a tensor as one that may enter a graph."""
    if not (isinstance(value, Tensor) and value.is_inference()):
        return value
    with torch.inference_mode(False):
        return cast(T, value.clone())


def autocasting() -> list[str]:
    """The kinds of device for which autocast is on."""
    return [kind for kind in AUTOCAST if torch.is_autocast_enabled(kind)]


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype in which autocast has products on this device computed; None if it is off."""
    return torch.get_autocast_dtype(device.type) if device.type in autocasting() else None


def half_as_single(function: Callable[P, R]) -> Callable[P, R]:
    """As `full_precision`; also converts half precision to float32, and the result back to half precision.

    Half precision has no decompositions, and cannot hold sums. If arguments have several dtypes, the widest is that of
    the result, as in torch.
    """
    precise = full_precision(function)

    @public
    @functools.wraps(function)
    def wide(*args: P.args, **kwargs: P.kwargs) -> R:
        values = (*args, *kwargs.values())
        dtypes = {tensor.dtype for tensor in floating(values)}
        apart = {value.dtype for value in values if isinstance(value, Tensor) and value.is_floating_point()}
        if not dtypes & HALF and len(apart) < 2:
            return precise(*args, **kwargs)
        came = functools.reduce(torch.promote_types, dtypes)
        widest = functools.reduce(torch.promote_types, apart, torch.float32)

        def raised(value: object) -> object:
            return changed(value, apart, widest) if isinstance(value, Tensor) else changed(value, HALF, torch.float32)

        named = {name: raised(value) for name, value in kwargs.items()}
        result = cast(Callable[..., R], precise)(*map(raised, args), **named)
        if came not in HALF:
            return result
        return cast(R, narrowed(result, {torch.float32}, came))

    return wide


def single(dtype: torch.dtype) -> torch.dtype:
    """The dtype, or float32 for half precision, which has no decompositions, and cannot hold sums."""
    return torch.promote_types(dtype, torch.float32)


def in_single(tensor: Tensor) -> Tensor:
    """The tensor in float32 at least."""
    return tensor.to(single(tensor.dtype))


def narrowed(result: object, dtypes: Iterable[torch.dtype], to: torch.dtype) -> object:
    """The result, with its tensors of these dtypes converted to a narrower one.

    Raises:
        RangeError: if it does not hold them.
    """
    given = changed(result, dtypes, to)
    for before, after in zip(floating([result]), floating([given]), strict=True):
        if (before.isfinite() & ~after.isfinite()).any():
            most = float(before.detach().abs().amax())
            wider = "float32" if to in HALF else "float64"
            raise RangeError(None, f"a result that {to} can hold", f"one up to {most:.3g}", f"Pass {wider}.")
    return given


def floating(values: Iterable[object]) -> Iterator[Tensor]:
    """The floating-point tensors among values, their fields and entries."""
    for value in values:
        if isinstance(value, Tensor):
            if value.is_floating_point():
                yield value
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from floating(getattr(value, field.name) for field in dataclasses.fields(value))
        elif isinstance(value, tuple):
            yield from floating(value)


def changed(value: object, dtypes: Iterable[torch.dtype], to: torch.dtype) -> object:
    """The value, with its tensors of these dtypes converted to another."""
    if isinstance(value, Tensor):
        return value.to(to) if value.dtype in dtypes else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **{name: changed(part, dtypes, to) for name, part in fields.items()})
    if isinstance(value, tuple):
        return tuple(changed(part, dtypes, to) for part in value)
    return value
