"""Replaces functions of torch by others while a network runs."""

from collections.abc import Callable, Mapping, Sequence

from torch.overrides import TorchFunctionMode

Functions = Mapping[Callable[..., object], Callable[..., object]]


class replacing(TorchFunctionMode):  # noqa: N801 used as a function, as torch's own
    """Inside, calls of torch's functions go to their replacements."""

    def __init__(self, functions: Functions) -> None:
        super().__init__()
        self._functions = functions

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Calls the function, or its replacement."""
        return self._functions.get(func, func)(*args, **(kwargs or {}))
