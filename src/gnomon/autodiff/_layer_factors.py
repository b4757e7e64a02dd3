"""The gradients of linear layers as outer products, of a layer's input and what is propagated back to its output."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge
from torch.utils.hooks import RemovableHandle

from gnomon.autodiff._entrance import PRODUCTS
from gnomon.autodiff._graph import run
from gnomon.autodiff._layers import multiplies
from gnomon.errors import UnsupportedModuleError

ELEMENTWISE = {
    *("ReluBackward0", "LeakyReluBackward0", "EluBackward0", "GeluBackward0", "SiluBackward0"),
    *("SoftplusBackward0", "SigmoidBackward0", "TanhBackward0", "HardtanhBackward0", "HardswishBackward0"),
}
"""The autograd nodes of functions of single entries, whose derivative is one number an entry."""
ROW_BY_ROW = ELEMENTWISE | {
    *("AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0", "NegBackward0", "CloneBackward0"),
    *("AbsBackward0", "ClampBackward0", "ExpBackward0", "PowBackward0", "SinBackward0", "CosBackward0"),
    *("NativeLayerNormBackward0", "FusedRmsNormBackward0", "NativeBatchNormBackward0", "CudnnBatchNormBackward0"),
    *("SoftmaxBackward0", "LogSoftmaxBackward0", "GluBackward0", "PreluKernelBackward0", "NativeDropoutBackward0"),
}
"""The autograd nodes of functions that leave each row of a matrix where it is."""


@dataclass(frozen=True)
class Factor:
    """A part of every sample's gradient: the outer product of `left` (n a) with `right` (c n h), or `right` alone.

    With `constant` the left factor has one more entry, 1: a bias. Outputs come first in `right`, as they are made.
    With `scale` (n h), `right` is (c 1 h), the same for all samples, and stands for their product.
    """

    left: Tensor | None
    right: Tensor
    constant: bool = False
    scale: Tensor | None = None

    def part(self, start: int, stop: int) -> "Factor":
        """The samples from `start` to `stop`."""
        left = None if self.left is None else self.left[start:stop]
        if self.scale is None:
            return Factor(left, self.right[:, start:stop], self.constant)
        return Factor(left, self.right, self.constant, self.scale[start:stop])

    def whole(self) -> Float[Tensor, "c n h"]:
        """The right factor of every sample."""
        return self.right if self.scale is None else self.right * self.scale


@dataclass(frozen=True)
class Call:
    """What one pass through a linear layer leaves: its input, the place of its output in the graph, and a version."""

    layer: nn.Linear
    x: Tensor
    version: int
    edge: GradientEdge


def watch(where: str, model: nn.Module, x: Tensor) -> tuple[Tensor, dict[str, list[Call]]]:
    """One forward pass, and the calls of every plain linear layer in it, by the layer's name."""
    calls: defaultdict[str, list[Call]] = defaultdict(list)
    handles: list[RemovableHandle] = []

    def watcher(name: str, layer: nn.Linear) -> RemovableHandle:
        def record(module: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
            if output.requires_grad and len(arguments) == 1:
                calls[name].append(Call(layer, arguments[0], arguments[0]._version, get_gradient_edge(output)))

        # Before other hooks, which may replace the output.
        return layer.register_forward_hook(record, prepend=True)

    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear) and multiplies(module):
                handles.append(watcher(name, module))
        logits = run(where, model, x)
    finally:
        for handle in handles:
            handle.remove()
    if not logits.requires_grad:
        raise UnsupportedModuleError(
            "model",
            "outputs that depend on the parameters",
            "outputs without a gradient",
            "Remove the torch.no_grad() or detach() in the model.",
            where=where,
        )
    return logits, dict(calls)


def nodes_of(logits: Tensor) -> tuple[set[Node], Counter[int]]:
    """All nodes of the graph, and how many of them use each node, by its id, or by that of the leaf it stands for."""
    uses: Counter[int] = Counter()
    waiting: list[Node] = [logits.grad_fn] if logits.grad_fn is not None else []
    seen = set(waiting)
    while waiting:
        for source, _ in waiting.pop().next_functions:
            if source is None:
                continue
            uses[id(getattr(source, "variable", source))] += 1
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return seen, uses


def eligible(seen: set[Node], uses: Counter[int], calls: Mapping[str, list[Call]], n: int) -> list[str]:
    """The layers called once, on one row a sample in the samples' order, whose parameters nothing else uses."""
    elsewhere = moved(seen)

    def right(called: list[Call]) -> bool:
        first = called[0]
        node, layer = first.edge.node, first.layer
        once = len(called) == 1 and all(uses[id(p)] == 1 for p in own_parameters(layer) if p.requires_grad)
        rows = first.x.ndim == 2 and len(first.x) == n and node in seen and node not in elsewhere
        return once and rows and is_product(node, layer) and first.x._version == first.version

    return [name for name, called in calls.items() if right(called)]


def own_parameters(layer: nn.Linear) -> list[nn.Parameter]:
    """Weight and bias, where they are parameters: not what else is registered on the layer, or made by a hook."""
    return [p for p in (layer._parameters.get(name) for name in ("weight", "bias")) if p is not None]


def is_product(node: Node, layer: nn.Linear) -> bool:
    """Whether the graph has the layer's output as its input times the weight that is trained, plus the bias if any."""
    weight, bias = (layer._parameters.get(name) for name in ("weight", "bias"))
    transposed = node.next_functions[-1][0] if node.name() in PRODUCTS else None
    if weight is None or transposed is None or transposed.name() != "TBackward0":
        return False
    used = getattr(transposed.next_functions[0][0], "variable", None) is weight
    if bias is None or not bias.requires_grad:
        return used
    return used and getattr(node.next_functions[0][0], "variable", None) is bias


def moved(seen: set[Node]) -> set[Node]:
    """The nodes whose rows may reach the outputs as other rows than they are: on some way not all is row by row."""
    waiting = [
        source
        for node in seen
        for place, (source, _) in enumerate(node.next_functions)
        if source is not None and node.name() not in ROW_BY_ROW and PRODUCTS.get(node.name(), place + 1) != place
    ]
    found = set(waiting)
    while waiting:
        for source, _ in waiting.pop().next_functions:
            if source is not None and source not in found:
                found.add(source)
                waiting.append(source)
    return found


@dataclass(frozen=True)
class End:
    """A place near the outputs, where their derivatives are `right` (c 1 h) times `scale` (n h)."""

    edge: GradientEdge
    right: Tensor
    scale: Tensor


def layer_factors(logits: Tensor, calls: list[Call], uses: Counter[int], *, keep: bool) -> list[Factor]:
    """The factors of the layers: their inputs, and what comes back to their outputs."""
    ends = at_the_end(logits, calls, uses, keep=keep)
    known = {end.edge.node: (end.right, end.scale) for end in ends}
    others = [call for call in calls if call.edge.node not in known]
    backs = iter(propagate_back(ends[-1], [call.edge for call in others], keep=keep) if others else [])
    made = []
    for call in calls:
        weight, bias = call.layer.weight, call.layer.bias
        left = (call.x if keep else call.x.detach()) if weight.requires_grad else None
        right, scale = known.get(call.edge.node) or (next(backs), None)
        made.append(Factor(left, right, bias is not None and bias.requires_grad, scale))
    return made


def at_the_end(logits: Tensor, calls: list[Call], uses: Counter[int], *, keep: bool) -> list[End]:
    """Where no pass back is needed: at the outputs, and at those of the layer before the one that makes them.

    The derivatives at the outputs are unit vectors. Where the layer before the last is followed by a function of single
    entries, those at its outputs are the rows of the last weight, scaled by that function's derivative: their Gram
    matrices need no sum over the outputs, and everything before it is behind it.
    """
    units = torch.eye(logits.shape[1], dtype=logits.dtype, device=logits.device)
    ends = [End(get_gradient_edge(logits), units[:, None], torch.ones_like(logits))]
    last = next((call for call in calls if call.edge.node is logits.grad_fn), None)
    between = None if last is None else last.x.grad_fn
    if last is None or between is None or between.name() not in ELEMENTWISE or uses[id(between)] != 1:
        return ends
    weight = last.layer.weight if keep else last.layer.weight.detach()
    for call in calls:
        if call.edge.node is between.next_functions[0][0] and uses[id(call.edge.node)] == 1:
            ones = torch.ones_like(last.x)
            (slope,) = torch.autograd.grad(last.x, [call.edge], ones, retain_graph=True, create_graph=keep)
            ends.append(End(call.edge, weight[:, None], slope))
    return ends


def propagate_back(end: End, edges: list[GradientEdge], *, keep: bool) -> list[Float[Tensor, "c n _"]]:
    """The derivatives of each output at each edge, one backward pass an output."""
    rows: list[tuple[Tensor, ...]] = []
    whole: list[Tensor] = []
    for k, right in enumerate(end.right):
        row = torch.autograd.grad(end.edge, edges, right * end.scale, retain_graph=True, create_graph=keep)
        if keep:
            rows.append(row)
            continue
        # Filled in place, so that the passes do not stand in memory twice.
        whole = whole or [part.new_empty(len(end.right), *part.shape) for part in row]
        for target, part in zip(whole, row, strict=True):
            target[k] = part
    return [torch.stack(parts) for parts in zip(*rows, strict=True)] if keep else whole
