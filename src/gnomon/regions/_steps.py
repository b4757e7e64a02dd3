"""A network as a list of piecewise affine steps."""

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, cast

from jaxtyping import Float
from torch import Tensor, fx, nn

from gnomon.autodiff import outputs_of
from gnomon.errors import RangeError, ShapeError, UnsupportedModuleError
from gnomon.regions._functions import BATCH, of_function
from gnomon.regions._modules import MODULES, of_module
from gnomon.regions._operations import Operation

SHAPE = object()
"""Stands for the shape of some data among the arguments."""
AGREEMENT = 1e-6
"""Relative difference between a network and its steps beyond which they are not the same function."""


@dataclass(frozen=True)
class Step:
    """One operation in the order of the forward pass.

    Attributes:
        name: of its result.
        place: where it stands in the network, for people.
        operation: what it does.
        inputs: the names of the results that it takes.
    """

    name: str
    place: str
    operation: Operation
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Network:
    """A copy of a network in float64, and what it is made of.

    Attributes:
        model: the copy.
        steps: its operations in their order.
        source: the name of what goes in.
        result: the name of what comes out.
    """

    model: nn.Module
    steps: tuple[Step, ...]
    source: str
    result: str

    def needed_after(self, place: int) -> set[str]:
        """The results that are still looked at when the step at this place is done."""
        return {name for step in self.steps[place + 1 :] for name in step.inputs} | {self.result}

    def hold_against(self, x: Float[Tensor, "n *d"], outputs: Float[Tensor, "n c"]) -> None:
        """Holds what the steps gave against the network: in-place changes, which no trace can see, show here.

        Raises:
            UnsupportedModuleError: if the network answers otherwise.
        """
        wanted = self.model(x)
        if wanted.shape != outputs.shape or not (wanted - outputs).abs().max() <= AGREEMENT * wanted.abs().max():
            raise answers_otherwise()


def answers_otherwise() -> UnsupportedModuleError:
    """The error for a network that its steps do not make up."""
    return UnsupportedModuleError(
        "model",
        "a network that its traced parts make up",
        "one that answers otherwise",
        "Look for in-place operations and hooks, or for weights that are NaN, and write it without them.",
    )


def network_of(model: nn.Module, x: Float[Tensor, "1 *d"]) -> Network:
    """The network's steps.

    Args:
        where: who asks.
        model: the network.
        x: an input, to see that the network takes such ones.

    Raises:
        UnsupportedModuleError: naming the first part that is not piecewise affine, or that cannot be traced.
        RangeError: if it is on another device than `x`.
        ShapeError: if it does not take `x`, or gives no row of outputs.
    """
    # A compiled module keeps the one that it was made from.
    exact = copy.deepcopy(getattr(model, "_orig_mod", model)).double()
    for weight in (*exact.parameters(), *exact.buffers()):
        if weight.device != x.device:
            raise RangeError(
                "model",
                f"a network on {x.device}, where the inputs or the plane are",
                f"one on {weight.device}",
                "Move one of the two.",
            )
    network = Network(exact, *_read(_traced(exact)))
    try:
        outputs = exact(x.double())
    except RuntimeError as error:
        raise ShapeError(
            "model",
            f"a network that takes inputs of shape {tuple(x.shape[1:])}",
            f"one that does not: {error}",
            "Pass inputs of its own shape.",
        ) from error
    outputs_of(outputs, x)
    return network


def _traced(model: nn.Module) -> fx.GraphModule:
    """The network's forward pass as a graph of its parts."""
    tracer = fx.Tracer()
    # A layer alone would be traced into its own weights.
    root = nn.Sequential(model) if tracer.is_leaf_module(model, "") else model
    try:
        return fx.GraphModule(root, tracer.trace(root))
    except (fx.proxy.TraceError, TypeError, RuntimeError) as error:
        raise UnsupportedModuleError(
            "model",
            "a forward pass that takes no decisions on its data",
            f"one that cannot be traced: {error}",
            "Write it without them; for a sample's shape take x.flatten(1).",
        ) from error


def _read(graph: fx.GraphModule) -> tuple[tuple[Step, ...], str, str]:
    """The steps of a graph, and the names of its input and of its result."""
    steps: list[Step] = []
    source, result = "", ""
    # What a node stands for where it is no data: weights, and shapes.
    known: dict[fx.Node, Any] = {}
    for node in graph.graph.nodes:
        arguments, named = (fx.map_arg(given, lambda part: known.get(part, part)) for given in (node.args, node.kwargs))
        if node.op == "placeholder":
            source = source or node.name
        elif node.op == "output":
            result = node.args[0].name if isinstance(node.args[0], fx.Node) else ""
        elif (value := _constant(graph, node, arguments, named)) is not None:
            known[node] = value
        else:
            place, operation = _operation_of(graph, node, arguments, named)
            # A module that is used twice stands in two places.
            times = sum(step.place.partition(", time ")[0] == place for step in steps)
            place = f"{place}, time {times + 1}" if times else place
            steps.append(Step(node.name, place, operation, tuple(part.name for part in _nodes(arguments, named))))
    return tuple(steps), source, result


def _nodes(*given: Any) -> list[fx.Node]:  # noqa: ANN401 - fx's own type
    """The nodes among arguments, as often as they stand there."""
    found: list[fx.Node] = []
    fx.map_arg(given, found.append)
    return found


def _constant(graph: fx.GraphModule, node: fx.Node, arguments: Sequence[Any], named: Mapping[str, Any]) -> object:
    """What a node stands for if it is no data: a weight, something made of weights, a shape; None for data."""
    if node.op == "get_attr":
        return reduce(getattr, str(node.target).split("."), graph)
    if node.target == "size" or (node.target is getattr and arguments[1] == "shape"):
        return SHAPE if arguments[1:] in ((), ("shape",)) else BATCH if arguments[1:] == (0,) else None
    if node.target is operator.getitem and arguments[0] is SHAPE:
        return BATCH if arguments[1] == 0 else None
    if _nodes(arguments, named) or not all(isinstance(part, Tensor | float | int) for part in arguments):
        return None
    return _called(node)(*arguments, **named) if node.op in ("call_function", "call_method") else None


def _called(node: fx.Node) -> Callable[..., Tensor]:
    """The function that a node calls, or the method as a function."""
    found = getattr(Tensor, str(node.target)) if node.op == "call_method" else node.target
    return cast(Callable[..., Tensor], found)


def _operation_of(
    graph: fx.GraphModule, node: fx.Node, arguments: Sequence[Any], named: Mapping[str, Any]
) -> tuple[str, Operation]:
    """Where a node of the traced graph stands, and what it does."""
    operation: Operation | None = None
    advice = "Replace it by one that is"
    if node.op == "call_module":
        module, place = graph.get_submodule(str(node.target)), str(node.target)
        operation, what = of_module(module), type(module).__name__
        if module.training and type(module) in MODULES:
            what, advice = f"{what} in training mode", "Call model.eval()"
    else:
        place, what = node.name, getattr(node.target, "__name__", str(node.target))
        operation = of_function(_called(node), what, arguments, named)
    if operation is None:
        raise UnsupportedModuleError("model", "piecewise affine parts", f"{what} at '{place}'", f"{advice}.")
    return place, operation
