"""Parameters by name: checks of them, and their weights as matrices."""

import functools
from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon.errors import EmptyError, RangeError


def check_parameters(**arguments: Mapping[str, Float[Tensor, "*d"]]) -> None:
    """Raises unless each argument is a mapping from names to finite floating-point tensors."""
    for argument, parameters in arguments.items():
        by_name = isinstance(parameters, Mapping)
        _checks.settings((argument, parameters, "a mapping from names to tensors", by_name))
        if not parameters:
            raise EmptyError(argument, "at least one parameter", "none", "Pass dict(model.named_parameters()).")
        for name, parameter in parameters.items():
            if isinstance(parameter, Tensor) and not parameter.is_floating_point():
                advice = "Pass dict(model.named_parameters()), which has no buffers."
                raise RangeError(f"{argument}[{name!r}]", "a floating-point tensor", parameter.dtype, advice)
            _checks.floating(**{f"{argument}[{name!r}]": parameter})
            _checks.finite(**{f"{argument}[{name!r}]": parameter})


def alike(parts: Iterable[Float[Tensor, "*_"]]) -> list[Float[Tensor, "*_"]]:
    """These in their widest dtype, at least float32, on the device of the first: layers may differ in both.

    Those without entries are left out, unless none has any.
    """
    parts = list(parts)
    parts = [part for part in parts if part.numel() > 0] or [parts[0].new_zeros(1)]
    dtype = functools.reduce(torch.promote_types, (part.dtype for part in parts), torch.float32)
    return [part.to(parts[0].device, dtype) for part in parts]


def weights_of(parameters: Mapping[str, Float[Tensor, "*d"]]) -> dict[str, Float[Tensor, "q p"]]:
    """The parameters of two axes or more, as matrices with one row for each entry of the first axis."""
    check_parameters(parameters=parameters)
    names = [name for name, part in parameters.items() if part.ndim > 1 and part.numel() > 0]
    if not names:
        advice = "Pass dict(model.named_parameters()) of a network with linear layers or convolutions."
        raise EmptyError("parameters", "a weight of two axes or more", "none", advice)
    return dict(zip(names, alike(parameters[name].flatten(1) for name in names), strict=True))
