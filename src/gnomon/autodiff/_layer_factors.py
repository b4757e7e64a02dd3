"""The gradients of linear layers as outer products of a layer's input and the gradient propagated to its output."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from gnomon._precision import in_single
from gnomon.autodiff._entrance import PRODUCTS
from gnomon.autodiff._layers import multiplies
from gnomon.autodiff._parameter_jacobian import require_gradient
from gnomon.autodiff._run import run
from gnomon.autodiff._tape import Call, Tape, Uses, reached, recording, sources

ELEMENTWISE = {
    *("ReluBackward0", "LeakyReluBackward0", "EluBackward0", "GeluBackward0", "SiluBackward0"),
    *("SoftplusBackward0", "SigmoidBackward0", "TanhBackward0", "HardtanhBackward0", "HardswishBackward0"),
}
"""The autograd nodes of elementwise functions, whose derivative is one number per entry."""
ROW_BY_ROW = ELEMENTWISE | {
    *("AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0", "NegBackward0", "CloneBackward0"),
    *("AbsBackward0", "ClampBackward0", "ExpBackward0", "PowBackward0", "SinBackward0", "CosBackward0"),
    *("NativeLayerNormBackward0", "FusedRmsNormBackward0", "NativeBatchNormBackward0", "CudnnBatchNormBackward0"),
    *("SoftmaxBackward0", "LogSoftmaxBackward0", "GluBackward0", "PreluKernelBackward0", "NativeDropoutBackward0"),
}
"""The autograd nodes of functions that leave each row of a matrix in its place."""


@dataclass(frozen=True)
class Factor:
    """A part of every sample's gradient: the outer product of `left` (n a) with `right` (c n h), or `right` alone.

    With `constant`, the left factor has one more entry, 1, for a bias. Outputs come first in `right`, as they are
    computed. With `scale` (n h), `right` is (c 1 h), the same for all samples, and the right factor is their product.
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

    def in_single(self) -> "Factor":
        """The same in float32 at least."""
        left, scale = (None if part is None else in_single(part) for part in (self.left, self.scale))
        return Factor(left, in_single(self.right), self.constant, scale)

    def whole(self) -> Float[Tensor, "c n h"]:
        """The right factor of every sample."""
        return self.right if self.scale is None else self.right * self.scale


def record(model: nn.Module, x: Tensor) -> Tape:
    """One forward pass in torch's grad mode, and the calls of every plain linear layer in it.

    Raises:
        UnsupportedModuleError: if the outputs do not depend on the parameters.
    """
    modules = dict(model.named_modules()).items()
    linear = {name: module for name, module in modules if isinstance(module, nn.Linear) and multiplies(module)}
    calls: list[Call] = []
    with recording(linear, lambda call, output: calls.append(call)):
        logits = run(model, x)
    require_gradient(logits)
    return Tape(x, logits, create_graph=False, calls=tuple(call for call in calls if call.exit is not None))


def eligible(tape: Tape) -> dict[str, Call]:
    """The calls of layers called once, on one row per sample in the samples' order, whose parameters nothing else uses.

    Nor may a hook change the gradients of these. Keyed by the layers' names.
    """
    times = Counter(call.name for call in tape.calls)
    users: Counter[int] = Counter()
    for node, used in tape.uses.items():
        users[id(getattr(node, "variable", node))] += len(used)
    elsewhere = _moved(tape.uses)

    def right(call: Call) -> bool:
        node, layer = _node(call), call.module
        learnt = [p for p in own_parameters(layer) if p.requires_grad]
        once = times[call.name] == 1 and all(users[id(p)] == 1 and not p._backward_hooks for p in learnt)
        rows = call.x.ndim == 2 and len(call.x) == len(tape.x) and node not in elsewhere
        return once and rows and node in tape.uses and _is_product(node, layer) and not call.changed

    return {call.name: call for call in tape.calls if right(call)}


def own_parameters(layer: nn.Module) -> list[nn.Parameter]:
    """Weight and bias, if they are parameters: not what else is registered on the layer, or computed by a hook."""
    return [p for p in _weight_and_bias(layer) if p is not None]


def _weight_and_bias(layer: nn.Module) -> tuple[nn.Parameter | None, nn.Parameter | None]:
    return layer._parameters.get("weight"), layer._parameters.get("bias")


def _is_product(node: Node | None, layer: nn.Module) -> bool:
    """Whether, in the graph, the layer's output is its input times the trained weight, plus the bias if any."""
    weight, bias = _weight_and_bias(layer)
    if node is None or weight is None or node.name() not in PRODUCTS:
        return False
    transposed = node.next_functions[-1][0]
    if transposed is None or transposed.name() != "TBackward0":
        return False
    used = getattr(transposed.next_functions[0][0], "variable", None) is weight
    if bias is None or not bias.requires_grad:
        return used
    return used and getattr(node.next_functions[0][0], "variable", None) is bias


def _moved(uses: Uses) -> set[Node]:
    """The nodes whose rows may reach the outputs as different rows: some path is not row by row throughout."""
    start = [
        source
        for source, users in uses.items()
        for node, place in users
        if node.name() not in ROW_BY_ROW and PRODUCTS.get(node.name()) != place
    ]
    return set(reached(start, sources))


@dataclass(frozen=True)
class End:
    """A place near the outputs, where their derivatives are `right` (c 1 h) times `scale` (n h)."""

    edge: GradientEdge
    right: Tensor
    scale: Tensor


def layer_factors(tape: Tape, calls: Sequence[Call], *, create_graph: bool) -> list[Factor]:
    """The factors of the layers: their inputs, and the gradients propagated back to their outputs."""
    ends = _at_the_end(tape, calls, create_graph=create_graph)
    known: dict[Node | None, tuple[Tensor, Tensor]] = {end.edge.node: (end.right, end.scale) for end in ends}
    others = [call for call in calls if _node(call) not in known]
    exits = [call.exit for call in others if call.exit]
    backs = iter(_propagate_back(ends[-1], exits, create_graph=create_graph) if others else [])
    made = []
    for call in calls:
        _, bias = _weight_and_bias(call.module)
        left = call.x if create_graph else call.x.detach()
        right, scale = known.get(_node(call)) or (next(backs), None)
        made.append(Factor(left, right, bias is not None and bias.requires_grad, scale))
    return made


def _node(call: Call) -> Node | None:
    """The node that computes the layer's output."""
    return None if call.exit is None else call.exit.node


def _at_the_end(tape: Tape, calls: Sequence[Call], *, create_graph: bool) -> list[End]:
    """The places that need no backward pass: the outputs, and the outputs of the layer before the last.

    The derivatives at the outputs are unit vectors. If the layer before the last is followed by an elementwise
    function, the derivatives at its outputs are the rows of the last weight, scaled by that function's derivative:
    their Gram matrices need no sum over the outputs, and backward passes to all earlier layers can start there.
    """
    logits, uses = tape.logits, tape.uses
    units = torch.eye(logits.shape[1], dtype=logits.dtype, device=logits.device)
    ends = [End(get_gradient_edge(logits), units[:, None], torch.ones_like(logits))]
    last = next((call for call in calls if _node(call) is logits.grad_fn), None)
    between = None if last is None else last.x.grad_fn
    if last is None or between is None or between.name() not in ELEMENTWISE or len(uses[between]) != 1:
        return ends
    weight = own_parameters(last.module)[0] if create_graph else own_parameters(last.module)[0].detach()
    for call in calls:
        if call.exit is not None and call.exit.node is between.next_functions[0][0] and len(uses[call.exit.node]) == 1:
            ones = torch.ones_like(last.x)
            (slope,) = torch.autograd.grad(last.x, [call.exit], ones, retain_graph=True, create_graph=create_graph)
            ends.append(End(call.exit, weight[:, None], slope))
    return ends


def _propagate_back(end: End, edges: list[GradientEdge], *, create_graph: bool) -> list[Float[Tensor, "c n _"]]:
    """The derivatives of each output at each edge, by one backward pass per output."""
    rows: list[tuple[Tensor, ...]] = []
    whole: list[Tensor] = []
    for k, right in enumerate(end.right):
        row = torch.autograd.grad(end.edge, edges, right * end.scale, retain_graph=True, create_graph=create_graph)
        if create_graph:
            rows.append(row)
            continue
        # Filled in place, so that the passes are not held in memory twice.
        whole = whole or [part.new_empty(len(end.right), *part.shape) for part in row]
        for target, part in zip(whole, row, strict=True):
            target[k] = part
    return [torch.stack(parts) for parts in zip(*rows, strict=True)] if create_graph else whole
