"""A device that is none: its tensors are the processor's, and say otherwise, so that what mixes the two is seen.

With `DEVICE` active, `value.to(DEVICE)` and `torch.zeros(3, device=DEVICE)` make tensors that are "on" it. What an
accelerator refuses is refused: two tensors of different devices in one operation (numbers as tensors without
dimensions, and the processor's indices, are taken), a generator of the processor, NumPy. And where the processor has to
wait for one of its values is noted.
"""

import copy
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torchmetrics import Metric

import gnomon

DEVICE = torch.device(os.environ.get("GNOMON_TEST_DEVICE", "lazy"))
"""A kind of device that torch knows, whose gradients it takes without one, and which nothing here has; or a real one.

`GNOMON_TEST_DEVICE=cuda:0 pytest tests/unit/test_devices.py` compares a GPU with the processor.
"""
REAL = DEVICE.type != "lazy"
if REAL:
    torch.backends.cudnn.allow_tf32 = False
ATEN = torch.ops.aten
CROSSING = {ATEN.copy_.default, ATEN._to_copy.default}
"""Operations that take tensors of two devices."""
INDEXED = {ATEN.index.Tensor, ATEN.index_put.default, ATEN.index_put_.default, ATEN._index_put_impl_.default}
"""Operations that take the processor's indices as their second argument."""
READING = {
    *(ATEN._local_scalar_dense.default, ATEN.is_nonzero.default, ATEN.equal.default, ATEN.nonzero.default),
    *(ATEN.masked_select.default, ATEN._unique2.default, ATEN.unique_dim.default, ATEN.unique_consecutive.default),
    ATEN.repeat_interleave.Tensor,
}
"""Operations whose results, or their sizes, are known when the device is done only."""
HOME = str(Path(gnomon.__file__).parent) + "/"
WAITED: set[str] = set()
"""Where in gnomon the processor waited for a value, since the device was last made active: `file:function`."""


class There(Tensor):
    """A tensor that is on the device, and holds the processor's."""

    here: Tensor

    @staticmethod
    def __new__(cls, here: Tensor) -> "There":
        made = Tensor._make_wrapper_subclass(
            cls,
            here.size(),
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=DEVICE,
        )
        made.here = here
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    def tolist(self) -> list[Any]:
        """Numbers are the processor's."""
        return self.detach().cpu().tolist()

    def __format__(self, shown: str) -> str:
        """Numbers are written as the processor's."""
        return format(self.detach().cpu(), shown)

    def untyped_storage(self) -> torch.UntypedStorage:
        """To see what memory is shared."""
        return self.here.untyped_storage()

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return carried_out(operation, args, kwargs or {})

    def __repr__(self, **_: Any) -> str:
        return f"There({self.here})"


class Active(TorchDispatchMode):
    """Sees the operations without such a tensor among their arguments, that may make one."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        return carried_out(operation, args, kwargs or {})


@contextmanager
def standin() -> Iterator[None]:
    """Inside of it the device is there."""
    if REAL:
        yield
        return
    before = torch._C._only_lift_cpu_tensors()
    # So that torch.tensor([1.0], device=DEVICE) is made here and then moved.
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        WAITED.clear()
        with Active():
            yield
    finally:
        torch._C._set_only_lift_cpu_tensors(before)


def carried_out(operation: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operation on the processor's tensors, its results on the device that they belong to."""
    there = any(isinstance(part, There) for part in parts_of((*args, *kwargs.values())))
    wanted = kwargs.get("device")
    to = DEVICE if there and wanted is None else torch.device(wanted or "cpu")
    if there and waits(operation, args, to):
        WAITED.add(place())
    if to.type == DEVICE.type:
        refuse(operation, args, kwargs)
    if to.type != "cpu" or (there and wanted is not None):
        kwargs = kwargs | ({"device": torch.device("cpu")} if wanted is not None else {})
    result = operation(*replaced(held, args), **{name: replaced(held, part) for name, part in kwargs.items()})
    if to.type != DEVICE.type:
        return result
    result = replaced(lambda part: There(part) if isinstance(part, Tensor) else part, result)
    return return_and_correct_aliasing(operation, args, kwargs, result) if there else result


def parts_of(values: Iterable[Any]) -> Iterator[Any]:
    """Operations have lists of tensors among their arguments, and nothing deeper."""
    for value in values:
        if isinstance(value, tuple | list):
            yield from value
        else:
            yield value


def replaced(by: Callable[[Any], Any], value: Any) -> Any:
    """The same with all parts replaced, in the same order."""
    return type(value)(replaced(by, part) for part in value) if isinstance(value, tuple | list) else by(value)


def held(part: Any) -> Any:
    """The processor's tensor behind one that is on the device."""
    return part.here if isinstance(part, There) else part


def waits(operation: Callable[..., Any], args: tuple[Any, ...], to: torch.device) -> bool:
    """Whether the processor has to wait until the device is done."""
    if operation in CROSSING:
        return to.type == "cpu" or not isinstance(args[0], There)
    masks = args[1] if operation in INDEXED else []
    return operation in READING or any(isinstance(part, There) and part.dtype == torch.bool for part in masks)


def place() -> str:
    """The innermost function of gnomon; not the mode in which others stand for torch's."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(HOME) and not file.endswith(("_single_steps.py", "_replacing.py")):
            return f"{file.removeprefix(HOME)}:{frame.f_code.co_qualname.partition('.<locals>')[0]}"
        frame = frame.f_back
    return "outside of gnomon"


def refuse(operation: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises RuntimeError where an accelerator does."""
    if isinstance(generator := kwargs.get("generator"), torch.Generator):
        raise RuntimeError(f"{operation}: expected a generator on {DEVICE}, got one on {generator.device}")
    looked_at = (args[0], *args[2:]) if operation in INDEXED and isinstance(args[0], There) else args
    parts = [part for part in parts_of((*looked_at, *kwargs.values())) if isinstance(part, Tensor)]
    if operation not in CROSSING and any(not isinstance(part, There) and part.ndim for part in parts):
        raise RuntimeError(f"{operation}: expected all tensors to be on the same device, got {DEVICE} and cpu")


def moved(value: Any) -> Any:
    """The same on the device: tensors, networks, metrics, what of gnomon's own holds these; the rest as it is."""
    if isinstance(value, Tensor):
        return value.to(DEVICE)
    if isinstance(value, Metric):
        return copy.deepcopy(value).to(DEVICE)
    if isinstance(value, nn.Module):
        return module_moved(copy.deepcopy(value))
    if isinstance(value, Mapping):
        return {name: moved(part) for name, part in value.items()}
    if isinstance(value, list):
        return [moved(part) for part in value]
    if isinstance(value, tuple):
        parts = map(moved, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if type(value).__module__.startswith("gnomon"):
        copied = copy.copy(value)
        vars(copied).update({name: moved(part) for name, part in vars(value).items()})
        return copied
    return value


def module_moved(module: nn.Module) -> nn.Module:
    """The module with its parameters and buffers on the device."""
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                part._parameters[name] = nn.Parameter(moved(parameter.detach()), parameter.requires_grad)
        part._buffers.update(moved(part._buffers))
    return module
