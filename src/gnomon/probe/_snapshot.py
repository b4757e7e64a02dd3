"""What a network holds, noted before a reading and restored after it, bit for bit."""

import math
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.nn.parameter import is_lazy

from gnomon.errors import UnsupportedModuleError
from gnomon.probe._containers import ATOMS, container_as_it_is, entries, flat, put_back_items, same_items
from gnomon.probe._functions import FUNCTIONS, foreign
from gnomon.probe._generators import generator_as_it_is
from gnomon.probe._held import generators_in, reached

INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By the bytes of a number, the type that compares it bit by bit: 0.0 is not -0.0, and NaN equals itself."""
KERNELS = "transformers.modeling_utils"
"""Where `train` and `eval` are defined that do more than switch modes only if `use_kernels` is set."""
MOST_BYTES = 2**26
"""How many bytes of tensors and arrays that functions hold are kept by value, which each reading copies."""
NOTHING = object()


class Snapshot:
    """A network's state: modes, attributes of its modules, including containers and generators, and tensors.

    Buffers, plain tensors and NumPy arrays of numbers are kept by value, and so is what functions hold, such as hooks:
    the variables that they enclose, their attributes, and the containers, generators, tensors and arrays among these
    and among the global variables that they name. Parameters are kept by value if their module acts on `train` or
    `eval`, as modules that merge weights do, or if requested, and so are their gradients; for the others their location
    in memory is kept, which costs nothing. Of what the methods of their classes name, generators are restored. What is
    kept in objects of other kinds is not seen.

    Args:
        model: the network.
        parameters: the names of further parameters to keep by value; all if None.
    Raises:
        UnsupportedModuleError: if torch.jit compiled a part, whose state it holds outside Python.
    """

    def __init__(self, model: nn.Module, parameters: Collection[str] | None = ()) -> None:
        self.model = model
        self.modes = {module: module.training for module in model.modules()}
        if any(isinstance(module, torch.jit.ScriptModule) for module in self.modes):
            raise UnsupportedModuleError(
                "model",
                "a network whose state can be restored",
                "a part that torch.jit compiled",
                "Pass the network that was compiled.",
            )
        self._registered = [(module._parameters, module._parameters.copy()) for module in self.modes]
        self.written: set[str] = set()
        """The names of parameters that were changed by anything other than `train` and `eval`, once restored."""
        self._done = False
        self._tensors: list[TensorSnapshot] = []
        self._others: list[Callable[[], object]] = []
        self._gradients: list[Callable[[], object]] = []
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._acting = {id(part) for module in self.modes if acts(module) for part in module.parameters()}
        self._by_value = self._acting | {
            place for place, name in self._names.items() if parameters is None or name in parameters
        }
        functions = self._note([*self.modes, *model.parameters(), *model.buffers()])
        for parameter in model.parameters():
            self._note_gradient(parameter)
            functions += hooks_of(parameter)
        self._note_held(functions)
        # The methods of networks are theirs, what these name beside generators need not be.
        kinds = {kind for module in self.modes for kind in type(module).__mro__ if foreign(kind)}
        self._others += generators_in(value for kind in kinds for value in vars(kind).values())

    def enter_eval(self) -> None:
        """Sets eval mode, as the network itself defines it."""
        if any(self.modes.values()):
            self.model.eval()

    def put_back(self) -> None:
        """Restores everything. An interrupt inside does no harm if this is called again."""
        if self._done:
            return
        # torch.func, if interrupted, leaves its own in the place of parameters.
        steps: list[Callable[[], object]] = [partial(put_back_items, *each) for each in self._registered]
        # Its own `train` may undo what cannot be seen, or do something else.
        steps += [
            self._switch_back,
            *(partial(setattr, module, "training", mode) for module, mode in self.modes.items()),
        ]
        steps += [*self._others, *(partial(self._put_back_tensor, tensor) for tensor in self._tensors)]
        steps += self._gradients  # which have to be of the parameters' type
        do_all(steps)
        self._done = True

    def _switch_back(self) -> None:
        for module, mode in self.modes.items():
            if module.training != mode:
                module.train(mode)

    def _put_back_tensor(self, tensor: "TensorSnapshot") -> None:
        if tensor.put_back() and id(tensor.tensor) in self._names.keys() - self._acting:
            self.written.add(self._names[id(tensor.tensor)])

    def _note(self, waiting: list[Any]) -> list[object]:
        """Notes what modules and containers hold; returns the functions among it."""
        seen: set[int] = set()
        functions: list[object] = []
        while waiting:
            value = waiting.pop()
            if type(value) in ATOMS or id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, Tensor):
                self._note_tensor(value)
            elif isinstance(value, FUNCTIONS):
                functions.append(value)
            else:
                self._note_other(value)
            inside = vars(value).values() if isinstance(value, nn.Module) else entries(value)
            if not flat(inside):
                waiting.extend(inside)
        return functions

    def _note_other(self, value: object) -> None:
        if isinstance(value, nn.Module):
            self._others.append(partial(put_back_attributes, vars(value), vars(value).copy()))
        elif isinstance(value, np.ndarray):
            if value.flags.writeable and not value.dtype.hasobject:
                self._others.append(partial(np.copyto, value, value.copy()))
        elif put_back := container_as_it_is(value) or generator_as_it_is(value):
            self._others.append(put_back)

    def _note_held(self, functions: list[object]) -> None:
        """Notes what functions hold, such as hooks: of modules nothing, and of tensors as much as is cheap to copy."""
        left = float(MOST_BYTES)
        for value in reached(functions):
            size = size_of(value)
            if size > left or isinstance(value, nn.Module):
                continue
            left -= size
            if isinstance(value, Tensor):
                self._note_tensor(value)
            else:
                self._note_other(value)

    def _note_tensor(self, tensor: Tensor) -> None:
        by_value = id(tensor) in self._by_value or not isinstance(tensor, nn.Parameter)
        if is_lazy(tensor):
            return
        if tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested:
            self._tensors.append(TensorSnapshot(tensor, by_value=by_value))
        elif by_value and not tensor.is_inference():
            self._others.append(as_it_is(tensor))

    def _note_gradient(self, parameter: nn.Parameter) -> None:
        hooks = parameter._backward_hooks
        self._gradients += [
            partial(put_back_gradient, parameter, parameter.requires_grad, parameter.grad),
            partial(put_back_hooks, parameter, hooks, None if hooks is None else hooks.copy()),
        ]
        if parameter.grad is not None and id(parameter) in self._by_value:
            self._note_tensor(parameter.grad)


class TensorSnapshot:
    """A tensor as it is: where it lies in memory, and if `by_value` its numbers and its version counter."""

    def __init__(self, tensor: Tensor, *, by_value: bool) -> None:
        self.tensor = tensor
        self._memory = tensor.detach()
        self._values = once(self._memory).clone() if by_value else None
        # A graph that holds the tensor refuses a backward pass if its version has changed, so this is restored too.
        counted = by_value and not tensor.is_inference()
        self._count = torch.autograd._unsafe_preserve_version_counter(tensor) if counted else None  # type: ignore[attr-defined]

    def put_back(self) -> bool:
        """Restores the tensor, and returns whether its numbers had to be written."""
        tensor, memory = self.tensor, self._memory
        if layout(tensor) != layout(memory):
            tensor.data = memory
        # Through `data`, which does not count as a change.
        changed = False
        if self._values is not None and not same_bits(once(memory), self._values):
            once(tensor.data).copy_(self._values)
            changed = True
        if self._count is not None:
            self._count.__exit__(None, None, None)
        return changed


def as_it_is(tensor: Tensor) -> Callable[[], object]:
    """What restores a sparse, quantised or nested tensor, of whose changes only its version counter tells."""
    before, version = tensor.detach().clone(), tensor._version
    # Torch's public function for this ends with a block, and what is kept outlives one; see TensorSnapshot for its use.
    count = torch.autograd._unsafe_preserve_version_counter(tensor)  # type: ignore[attr-defined]

    def put_back() -> None:
        if tensor._version != version:
            with torch.no_grad():
                tensor.copy_(before)
            count.__exit__(None, None, None)

    return put_back


def put_back_gradient(parameter: nn.Parameter, required: bool, gradient: Tensor | None) -> None:
    """Restores whether a parameter is trained, and which tensor is its gradient."""
    if parameter.requires_grad != required:
        parameter.requires_grad_(required)
    if parameter.grad is not gradient:
        parameter.grad = gradient


def put_back_hooks(parameter: nn.Parameter, hooks: dict[Any, Any] | None, before: dict[Any, Any] | None) -> None:
    """Restores what is called with a parameter's gradient."""
    if parameter._backward_hooks is not hooks:
        parameter._backward_hooks = hooks
    if hooks is not None and before is not None:
        put_back_items(hooks, before)


def size_of(value: object) -> float:
    """The bytes of a tensor or array; infinite if it is not a plain one that can be copied, zero if it is neither."""
    if isinstance(value, Tensor):
        plain = type(value) is Tensor and value.layout is torch.strided and not value.is_nested
        return value.nbytes if plain and not is_functorch_wrapped_tensor(value) else math.inf
    return value.nbytes if isinstance(value, np.ndarray) else 0


def do_all(steps: Iterable[Callable[[], object]]) -> None:
    """Does each, whatever another raises, and then raises the first of their errors."""
    errors: list[BaseException] = []
    for step in steps:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 (raised below)
            errors.append(error)
    if errors:
        raise errors[0]


def hooks_of(parameter: nn.Parameter) -> list[object]:
    """What is called with a parameter's gradient, or once it has been added."""
    called = (parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None))
    return [hook for hooks in called for hook in (hooks or {}).values()]


def acts(module: nn.Module) -> bool:
    """Whether a module has its own `train` or `eval`, which may change its parameters."""
    kind = type(module)
    defined = [getattr(each, "__module__", None) for each in (kind.train, kind.eval)]
    plain = {nn.Module.__module__} | (set() if getattr(module, "use_kernels", False) else {KERNELS})
    return not (plain.issuperset(defined) and {"train", "eval"}.isdisjoint(vars(module)))


def layout(tensor: Tensor) -> tuple[object, ...]:
    """Where a tensor lies in memory, and in which layout."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def once(tensor: Tensor) -> Tensor:
    """The view that has each number of an expanded tensor once, which alone can be written to."""
    for axis, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[axis] > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether all numbers are the same, bit by bit; of a view that conjugates or negates, those that it shows."""
    one, other = (tensor.resolve_conj().resolve_neg() for tensor in (one, other))
    if one.dtype is torch.complex128:
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    integer = INTEGERS[one.element_size()]
    return torch.equal(one.view(integer), other.view(integer))


def put_back_attributes(there: dict[str, Any], before: dict[str, Any]) -> None:
    """Restores the attributes that were there, one by one: a module is never without them."""
    if same_items(there, before):
        return
    for name in [name for name in there if name not in before]:
        del there[name]
    for name, value in before.items():
        if there.get(name, NOTHING) is not value:
            there[name] = value
