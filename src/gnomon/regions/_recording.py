"""What a network does to its input: each call of a torch function, in the forward pass, on what depends on it."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import jaxtyping
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from gnomon.errors import UnsupportedModuleError
from gnomon.regions._rewritten import REWRITTEN

HERE = Path(__file__).parent
BETWEEN = (
    *(str(Path(inspect.getfile(package)).parent) for package in (torch, jaxtyping)),
    *("<@beartype(", __file__, str(HERE / "_rewritten.py")),
)
"""How the names of files begin whose lines come between a network's own and what is called."""
VALUES = {f"__{kind}__" for kind in ("bool", "int", "float", "index", "complex", "array", "contains")} | {
    *("item", "tolist", "numpy", "equal", "allclose", "is_nonzero"),
}
"""Functions that take numbers out of a tensor."""
LIKE = {f"{what}_like" for what in ("zeros", "ones", "full", "empty", "rand", "randn", "randint")} | {
    f"new_{what}" for what in ("zeros", "ones", "full", "empty", "tensor")
}
"""Functions that use no more of a tensor than its shape, dtype and device."""
AS = {"view_as", "reshape_as", "expand_as", "type_as", "to"}
"""Functions that use no more than these of their second argument."""
NUMPY = {"axis": "dim", "keepdims": "keepdim", "x1": "input", "x2": "other"}
"""NumPy's names of arguments, which torch takes too, and its own."""


@dataclass(frozen=True)
class Data:
    """A result that depends on the input.

    Attributes:
        name: its unique name.
        shape: the shape for one sample, including the axis of samples, of length one.
        dtype: float64, unless the network casts it.
    """

    name: str
    shape: torch.Size
    dtype: torch.dtype


Number = float | int
Operand = Data | Tensor | Number
"""Data, or a constant."""


@dataclass(frozen=True)
class Place:
    """Where in a network something is called.

    Attributes:
        module: the innermost one.
        path: its name.
        line: the line of the source, outside of torch, as `file.py, line 3`; empty if there is none.
    """

    module: nn.Module
    path: str
    line: str

    @property
    def in_torch(self) -> bool:
        """Whether the module is one of torch's own layers, whose forward pass nobody needs to be told about."""
        return type(self.module).__module__.startswith("torch.nn.")

    def named(self, function: str) -> str:
        """A name for what is called: the layer's, or the function's inside a module that someone wrote."""
        return self.path if self.in_torch and self.path else ".".join(filter(None, (self.path, function)))

    def described(self, function: str, state: str = "") -> str:
        """What is called and where, for people to read."""
        kind = type(self.module).__name__
        what = f"{kind}{state}" if self.in_torch else f"{function}{state} in {kind}"
        return what + (f" at '{self.path}'" if self.path else "") + (f" ({self.line})" if self.line else "")

    def unsupported(self, function: str, *, training: bool = False) -> UnsupportedModuleError:
        """The error for what is called here and is not piecewise affine."""
        state, advice = (" in training mode", "Call model.eval().") if training else ("", "Replace it by one that is.")
        return UnsupportedModuleError("model", "piecewise affine parts", self.described(function, state), advice)


@dataclass(frozen=True)
class Call:
    """A torch function that was called with data.

    Attributes:
        function: what was called.
        name: its name, without what marks methods, operators and in-place variants.
        arguments: what was passed, `by_place`; `Data` where it depends on the input, everything else as it was.
        named: what else was passed by name.
        results: what it returned; several, as for `x.chunk(2)`, with None for what is not a tensor.
        several: whether they came as a sequence.
        in_place: whether it returned its first argument.
        place: where it is called.
    """

    function: Callable[..., Any]
    name: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]
    results: tuple[Data | None, ...]
    several: bool
    in_place: bool
    place: Place


class Recorder(TorchFunctionMode):
    """Inside this context, what is done to the input is recorded.

    Args:
        model: the network, to know where in it a call is made.
        x: one sample.

    Attributes:
        calls: the calls, in their order.
        source: the data of x.
    """

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self._names = map(str, count())
        # From a tensor to its data, and its version: torch counts how often its memory was changed, under any name.
        self._known: MutableMapping[Tensor, tuple[Data, int]] = WeakIdKeyDictionary()
        self._modules: list[tuple[str, nn.Module]] = []
        self._hooks = ExitStack()
        for path, module in model.named_modules():
            if isinstance(module, torch.jit.ScriptModule):
                continue  # they accept no hooks, and nothing in them is seen
            entering = module.register_forward_pre_hook(self._entering(path), prepend=True)
            self._hooks.callback(entering.remove)
            self._hooks.callback(module.register_forward_hook(self._left).remove)
        self.source = self._noted(x)

    def data(self, value: object) -> Data | None:
        """The data of a tensor; None if it does not depend on the input."""
        return self._known[value][0] if isinstance(value, Tensor) and value in self._known else None

    def close(self) -> None:
        """Removes the hooks from the network."""
        self._hooks.close()

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function gives
        """Calls the function, and records what depends on the input.

        Raises:
            UnsupportedModuleError: if a number is taken out of data, if the network is being trained, or if data was
                changed under another name.
        """
        call, name = partial(function, *args, **(kwargs or {})), _name(function)
        args, named = by_place(args, call.keywords)
        tensors = [part for part in leaves((args, named)) if self.data(part)]
        if not tensors or name in LIKE or (name in AS and not self.data(args[0])):
            return call()
        if function.__name__ in VALUES:
            raise UnsupportedModuleError(
                "model",
                "a forward pass that takes no decisions on its data",
                self._place().described(f"{name}()"),
                "Write it without them.",
            )
        if named.get("training") or named.get("use_input_stats"):
            # Now, since torch refuses to train on a single sample.
            place = self._place()
            raise place.unsupported(name, training=place.module.training)
        if name in REWRITTEN:
            with self:
                return REWRITTEN[name](*args, **named)
        changed = any(self._known[tensor][1] != tensor._version for tensor in tensors)
        arguments, by_name = replaced((args, named), lambda part: self.data(part) or part)
        if args and isinstance(arguments[0], Tensor) and function.__name__.endswith("_"):
            # A constant, which is changed now.
            arguments = (arguments[0].clone(), *arguments[1:])
        result = call()
        # Assignments, as in x[:, 0] = 1, return nothing.
        made = args[0] if name == "setitem" else result
        several = isinstance(made, tuple | list)
        parts = made if several else (made,)
        if any(isinstance(part, Tensor) for part in parts):
            if changed:
                raise UnsupportedModuleError(
                    "model",
                    "results that stay as they are up to their last use",
                    f"one that is changed through another view of it before {self._place().described(name)}",
                    "Write it without in-place operations.",
                )
            results = tuple(self._noted(part) if isinstance(part, Tensor) else None for part in parts)
            in_place = bool(args) and made is args[0]
            self.calls.append(Call(function, name, arguments, by_name, results, several, in_place, self._place()))
        return result

    def _noted(self, tensor: Tensor) -> Data:
        """Records that a tensor, as it is now, depends on the input."""
        data = Data(next(self._names), tensor.shape, tensor.dtype)
        self._known[tensor] = data, tensor._version
        return data

    def _entering(self, path: str) -> Callable[[nn.Module, object], None]:
        """What is to be called before a module's forward pass."""
        return lambda module, inputs: self._modules.append((path, module))

    def _left(self, module: nn.Module, inputs: object, outputs: object) -> None:
        """To be called after a module's forward pass."""
        self._modules.pop()

    def _place(self) -> Place:
        """Where the forward pass is."""
        path, module = self._modules[-1]
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(BETWEEN):
            frame = frame.f_back
        file = Path(frame.f_code.co_filename)
        return Place(module, path, "" if file.parent == HERE else f"{file.name}, line {frame.f_lineno}")


def _name(function: Callable[..., Any]) -> str:
    """A function's name: add for `torch.add`, `Tensor.add_` and `Tensor.__add__`; of a getter its attribute."""
    name = str(getattr(function, "__name__", function))
    return str(getattr(function, "__self__").__name__) if name == "__get__" else name.strip("_")  # noqa: B009 - a getter's


def by_place(args: Sequence[Any], named: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, by torch's names, but `input` and `other` at the places where they usually come."""
    placed, rest = [*args], {NUMPY.get(name, name): value for name, value in named.items()}
    for place, name in enumerate(("input", "other")):
        if name in rest:
            placed.insert(place, rest.pop(name))
    return tuple(placed), rest


def leaves(given: Any) -> Iterator[Any]:  # noqa: ANN401 - arguments of any kind
    """What tuples, lists, mappings and slices contain, in its order."""
    if isinstance(given, slice):
        given = (given.start, given.stop, given.step)
    elif isinstance(given, Mapping):
        given = tuple(given.values())
    if isinstance(given, tuple | list):
        for part in given:
            yield from leaves(part)
    else:
        yield given


def replaced(given: Any, by: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - arguments of any kind
    """The same tuples, lists, mappings and slices with other leaves."""
    if isinstance(given, slice):
        return slice(*(by(part) for part in (given.start, given.stop, given.step)))
    if isinstance(given, Mapping):
        return {name: replaced(part, by) for name, part in given.items()}
    if isinstance(given, list):
        return [replaced(part, by) for part in given]
    return tuple(replaced(part, by) for part in given) if isinstance(given, tuple) else by(given)
