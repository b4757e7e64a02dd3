"""A network as a list of piecewise affine steps."""

from dataclasses import dataclass

from torch import fx, nn

from gnomon.errors import UnsupportedModuleError
from gnomon.regions.operations import Operation, of_function, of_module


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


def steps_of(where: str, model: nn.Module) -> tuple[list[Step], str, str]:
    """The network's steps, and the names of its input and of its result.

    Raises:
        UnsupportedModuleError: naming the first part that is not piecewise affine, or that cannot be traced.
    """
    tracer = fx.Tracer()
    # A layer alone would be traced into its own weights.
    model = nn.Sequential(model) if tracer.is_leaf_module(model, "") else model
    try:
        graph = tracer.trace(model)
    except (fx.proxy.TraceError, TypeError) as error:
        raise UnsupportedModuleError(
            f"{where}(model): expected a forward pass that takes no decisions on its data, got one that cannot "
            f"be traced: {error}. Write it without them."
        ) from error
    steps: list[Step] = []
    source, result = "", ""
    for node in graph.nodes:
        if node.op == "placeholder":
            source = source or node.name
        elif node.op == "output":
            result = node.all_input_nodes[0].name
        else:
            place, operation = read(where, model, node)
            # A module that is used twice stands in two places.
            times = sum(step.place.partition(", time ")[0] == place for step in steps)
            place = f"{place}, time {times + 1}" if times else place
            steps.append(Step(node.name, place, operation, tuple(part.name for part in node.all_input_nodes)))
    return steps, source, result


def read(where: str, model: nn.Module, node: fx.Node) -> tuple[str, Operation]:
    """Where a node of the traced graph stands, and what it does."""
    operation: Operation | None = None
    if node.op == "call_module":
        module, place = model.get_submodule(str(node.target)), str(node.target)
        operation, what = of_module(module), type(module).__name__
    else:
        place, what = node.name, getattr(node.target, "__name__", str(node.target))
        if node.op in ("call_function", "call_method"):
            operation = of_function(what, len(node.all_input_nodes), node.args, node.kwargs)
    if operation is None:
        raise UnsupportedModuleError(
            f"{where}(model): expected piecewise affine parts in eval mode, got {what} at '{place}'. "
            f"Call model.eval(), or replace it."
        )
    return place, operation
