"""The parameters that a method steers, by name, and their gradients."""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.linalg import vector_norm

from gnomon import _checks
from gnomon._precision import in_single, single
from gnomon.errors import ArgumentTypeError, CheckpointError, EmptyError, RangeError


def named(parameters: Iterable[Tensor | tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
    """The parameters with their names, or `parameter 0` and so on where they come without."""
    if isinstance(parameters, Tensor):  # whose rows are no parameters
        raise ArgumentTypeError(
            "parameters", "an iterable of tensors", "one tensor", "Pass model.named_parameters(), or [it]."
        )
    given = parameters if isinstance(parameters, Iterable) else [parameters]
    named = [(f"parameter {i}", p) if isinstance(p, Tensor) else p for i, p in enumerate(given)]
    for pair in named:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], Tensor)):
            raise ArgumentTypeError(
                "parameters",
                "tensors, or pairs of a name and one",
                type(pair).__name__,
                "Pass model.named_parameters().",
            )
    if not named:
        raise EmptyError("parameters", "at least one", "none", "Pass model.named_parameters().")
    for name, parameter in named:
        if not parameter.is_leaf:
            raise RangeError(
                "parameters",
                "leaf tensors",
                f"the result of an operation as {name}",
                "Pass model.named_parameters().",
            )
    if len({id(parameter) for _, parameter in named}) < len(named):
        raise RangeError("parameters", "each once", "some twice", "Pass model.named_parameters().")
    return named


def require_real(parameters: Sequence[tuple[str, Tensor]]) -> None:
    """Raises RangeError if one is complex."""
    for name, parameter in parameters:
        if parameter.is_complex():
            raise RangeError("parameters", "real ones", f"{parameter.dtype} in {name}", "Leave it out.")


def require_entries(state_dict: object, where: str, **entries: Any) -> None:  # noqa: ANN401 - classes, also of a union
    """Raises CheckpointError unless the state has these entries, which are of these classes, or counts for `int`."""
    if not isinstance(state_dict, Mapping):
        raise not_the_state("a mapping", type(state_dict).__name__, where)
    for name, kind in entries.items():
        if name not in state_dict:
            raise not_the_state(f"one with {name}", ", ".join(map(str, state_dict)) or "an empty one", where)
        value = state_dict[name]
        if kind is int and not _checks.whole(value, 0):
            raise not_the_state(f"{name} that are a whole number of at least 0", repr(value), where)
        if kind is not int and not isinstance(value, kind):
            raise not_the_state(f"one with {name}", f"{name} of {type(value).__name__}", where)


def not_the_state(expected: str, got: object, where: str) -> CheckpointError:
    """What is raised where a state is one of something else."""
    return CheckpointError("state_dict", expected, got, "Load a state of the same method.", where=where)


def gradients_of(parameters: Sequence[tuple[str, Tensor]]) -> dict[int, Tensor]:
    """The gradients by parameter index, for the parameters that have one.

    Raises:
        EmptyError: if none has.
        RangeError: if one is sparse.
    """
    gradients = {i: p.grad for i, (_, p) in enumerate(parameters) if p.grad is not None}
    if not gradients:
        raise EmptyError(
            None,
            "gradients",
            f"none on all {len(parameters)} parameters",
            "Call it between backward() and the optimizer's step.",
        )
    for i, gradient in gradients.items():
        if gradient.layout is not torch.strided:
            raise RangeError(
                None,
                "dense gradients",
                f"{gradient.layout} in {parameters[i][0]}",
                "Make the layer with sparse=False.",
            )
    return gradients


def first_nonfinite(gradients: Mapping[int, Tensor]) -> int | None:
    """The index of the first gradient with a NaN or infinity."""
    sums = [gradient.sum(dtype=single(gradient.dtype)) for gradient in gradients.values()]
    # Infinities and NaNs survive a sum: it is 20 times faster than checking each entry, with one wait for the device.
    if torch.stack([total.to(sums[0].device) for total in sums]).isfinite().all():
        return None
    return next((i for i, gradient in gradients.items() if not gradient.isfinite().all()), None)


def joint_norm(tensors: Iterable[Tensor]) -> Tensor:
    """The norm of all entries together, in float32 at least.

    Where squares overflow, or are so small that they lose digits, the largest entry is divided out first.
    """
    tensors = [tensor for tensor in tensors if tensor.numel()]
    norm = _together([_norm(tensor) for tensor in tensors])
    limits = torch.finfo(norm.dtype)
    if (limits.tiny / limits.eps) ** 0.5 < norm < math.inf:
        return norm
    largest = _together([vector_norm(in_single(tensor), math.inf) for tensor in tensors], math.inf)
    if not 0 < largest < math.inf:
        return largest
    return _together([_norm(in_single(tensor) / largest.to(tensor.device)) for tensor in tensors]) * largest


def _together(norms: Sequence[Tensor], order: float = 2) -> Tensor:
    """The norm of norms, on the device of the first, in the widest of their dtypes; 0 of none."""
    if not norms:
        return torch.zeros(())
    dtype = functools.reduce(torch.promote_types, (norm.dtype for norm in norms))
    return vector_norm(torch.stack([norm.to(norms[0].device, dtype) for norm in norms]), order)


def _norm(tensor: Tensor) -> Tensor:
    """The norm from those of the rows: in one sum, 10⁷ squares are 2e-4 off on a CPU. It may be sharded by rows."""
    inner = tuple(range(1, tensor.ndim))
    rows = vector_norm(tensor, dim=inner, dtype=single(tensor.dtype)) if inner else in_single(tensor).abs()
    exact = rows.dtype if rows.device.type == "mps" else torch.float64  # which it does not have
    return vector_norm(rows, dtype=exact).to(rows.dtype)


def norm_of(tensor: Tensor) -> str:
    """The norm to three digits, for an error."""
    return f"{vector_norm(tensor.to(torch.promote_types(tensor.dtype, torch.float64))).item():.3g}"
