"""The tape of a forward pass: its outputs, the calls of modules in it, and the graph behind it.

All derivatives are computed from such a tape.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from gnomon._precision import autocast_dtype
from gnomon.autodiff._convolutions import towards_inputs
from gnomon.autodiff._run import Model, outputs_of, recorded, run
from gnomon.errors import UnsupportedModuleError

T = TypeVar("T")
Uses = Mapping[Node, list[tuple[Any, int]]]  # Any: torch gives no types for what a node saves.
"""All nodes of a graph, each with the nodes that use its output, and the position among their inputs where they do."""
Inputs = tuple[tuple[Any, ...], dict[str, Any]]
"""What a module is given, by position and by name."""


@dataclass(frozen=True)
class Call:
    """The record of a call of a module.

    Attributes:
        name: the name of the module.
        module: the module.
        x: the first tensor passed to it, under any name.
        version: how often x had been changed in place when the call began.
        entrances: the places in the graph of views, which only the module uses, of the tensors passed to it; none if it
            was not given views.
        in_place: whether the call itself changed what was passed to it.
        exit: the place of the module's own output, before other hooks, which may replace it; None if it has none.
        alone: whether the module was passed x and nothing else, not by name.
        autocast: the dtype in which autocast has products computed; None if it is off.
    """

    name: str
    module: nn.Module
    x: Tensor
    version: int
    entrances: tuple[GradientEdge, ...]
    in_place: bool
    exit: GradientEdge | None
    alone: bool
    autocast: torch.dtype | None

    @property
    def changed(self) -> bool:
        """Whether x has been changed in place since."""
        return version_of(self.x) != self.version


@dataclass(frozen=True)
class Tape:
    """A forward pass.

    Attributes:
        x: the inputs (n *d), as the tensor that gradients reach.
        logits: the outputs (n c).
        create_graph: whether results keep a graph.
        calls: the calls of the watched modules, in the order in which they ended.
    """

    x: Tensor
    logits: Tensor
    create_graph: bool
    calls: tuple[Call, ...] = ()

    def vector_jacobian(self, v: Float[Tensor, "n c"]) -> Float[Tensor, "n *d"]:
        """Each sample's vᵀJ, by one backward pass over the whole batch: correct if samples do not mix.

        Raises:
            UnsupportedModuleError: if nothing leads from the outputs back to x.
        """
        product = None
        if self.logits.requires_grad:
            (product,) = torch.autograd.grad(
                self.logits, self.x, v, retain_graph=True, create_graph=self.create_graph, allow_unused=True
            )
        if product is None:
            raise UnsupportedModuleError(
                "model",
                "outputs with a graph to x",
                "none",
                "Leave out torch.no_grad, inference_mode, detach and integers on the way.",
            )
        return product

    def jacobian(self) -> Float[Tensor, "n c *d"]:
        """The Jacobian, by one backward pass per output."""
        n, c = self.logits.shape
        basis = torch.eye(c, dtype=self.logits.dtype, device=self.logits.device)
        rows = (self.vector_jacobian(e.expand(n, c)) for e in basis)
        if self.create_graph:
            return torch.stack(list(rows), dim=1)
        # Allocated before the passes: rows kept one by one would fragment the memory that the next pass needs.
        jacobian = self.x.new_empty(n, c, *self.x.shape[1:])
        for k, row in enumerate(rows):
            jacobian[:, k] = row
        return jacobian

    def gradients(self, of: Tensor, at: Sequence[Tensor], v: Tensor) -> tuple[Tensor, ...]:
        """The gradients of ⟨v, of⟩ at tensors of this pass; 0 where it does not depend on one."""
        return torch.autograd.grad(of, at, v, retain_graph=True, create_graph=self.create_graph, materialize_grads=True)

    def only_by(self, between: Tensor, to: Tensor) -> bool:
        """Whether x reaches a tensor of this pass only by way of another."""

        def beside(nodes: Iterable[Node | None]) -> list[Node]:
            return [node for node in nodes if node is not None and node is not between.grad_fn]

        return self.entrance not in set(reached(beside([to.grad_fn]), lambda node: beside(sources(node))))

    @cached_property
    def uses(self) -> Uses:
        """The graph behind the outputs."""
        return uses_of(self.logits)

    @cached_property
    def entrance(self) -> Node | None:
        """The node at which x enters; None if it does not."""
        if self.x.grad_fn is not None:
            return self.x.grad_fn if self.uses.get(self.x.grad_fn) else None
        return next((node for node in self.uses if getattr(node, "variable", None) is self.x), None)

    @cached_property
    def dependent(self) -> Set[Node]:
        """The nodes of the graph that depend on x."""
        start = [] if self.entrance is None else [self.entrance]
        return set(reached(start, lambda node: [user for user, _ in self.uses[node]]))

    @cached_property
    def epsilon(self) -> float:
        """The coarsest epsilon between x and the outputs: a network in half precision may end in float32."""
        between = {made.dtype for node in self.dependent for made in node._input_metadata}
        return max(torch.finfo(dtype).eps for dtype in {self.logits.dtype, *between} if dtype.is_floating_point)


def forward(
    model: Model,
    x: Shaped[Tensor, "n *d"],
    watch: Mapping[str, nn.Module] = MappingProxyType({}),
    *,
    apart: Set[str] = frozenset(),
    mixed: bool = False,
    products: bool = False,
) -> Tape:
    """Runs the model on `x` so that its outputs can be differentiated with respect to the input.

    Follows torch's grad mode: where gradients are on, results keep their graph to the parameters (and to `x`, if it
    requires gradients); under `torch.no_grad()` or `inference_mode()` they keep none. A single sample is run together
    with a copy of itself, as in `run`, unless samples may be `mixed`: then the batch is run as it is. Modules to
    `watch`, and those of them that are taken `apart`, are as for `recording`. For `products` with the Jacobian from
    both sides, which keep no graph, convolutions run inside `towards_inputs`.

    Raises:
        ShapeError: if the model's output is not (n, c).
    """
    create_graph = torch.is_grad_enabled() and (x.requires_grad or _depends_on_parameters(model))
    calls: list[Call] = []
    cheap = towards_inputs() if products and not create_graph else nullcontext()
    with recorded(), cheap, recording(watch, lambda call, output: calls.append(call), apart=apart):
        leaf = x if create_graph and x.requires_grad else x.clone() if x.is_inference() else x.detach()
        leaf.requires_grad_(leaf.is_floating_point())  # not tokens
        logits = outputs_of(model(leaf.clone()), x) if mixed else run(model, leaf)
    return Tape(leaf, logits, create_graph, tuple(calls))


@contextmanager
def recording(
    modules: Mapping[str, nn.Module], note: Callable[[Call, Any], None], *, apart: Set[str] = frozenset()
) -> Iterator[None]:
    """Inside, notes each call of these modules as it ends, and the module's output.

    The modules in `apart` are given views of their inputs, at which the gradient is that through the module alone, even
    if the same tensor also bypasses the module.
    """
    with ExitStack() as stack:
        for name, module in modules.items():
            begun: list[_Begun] = []
            before = _before(begun, apart=name in apart)
            stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
            hook = _noted(name, note, begun)
            stack.callback(module.register_forward_hook(hook, prepend=True, with_kwargs=True).remove)
        yield


def uses_of(tensor: Tensor) -> Uses:
    """The graph behind a tensor."""
    uses: dict[Node, list[tuple[Any, int]]] = {}
    for node in reached([tensor.grad_fn] if tensor.grad_fn is not None else [], sources):
        uses.setdefault(node, [])
        for place, (source, _) in enumerate(node.next_functions):
            if source is not None:
                uses.setdefault(source, []).append((node, place))
    return uses


def sources(node: Node) -> list[Node]:
    """The nodes whose outputs a node uses."""
    return [source for source, _ in node.next_functions if source is not None]


def reached(start: Iterable[T], following: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Everything that can be reached from these, including themselves, each once."""
    waiting = list(start)
    seen = set(waiting)
    while waiting:
        at = waiting.pop()
        yield at
        further = [each for each in dict.fromkeys(following(at)) if each not in seen]
        seen.update(further)
        waiting += further


def first_tensor(inputs: tuple[object, ...], named: Mapping[str, object]) -> Tensor | None:
    """The first tensor passed to a module, under any name; None if there is none."""
    return next((given for given in (*inputs, *named.values()) if isinstance(given, Tensor)), None)


def version_of(tensor: Tensor) -> int:
    """How often a tensor was changed in place; 0 for one of inference mode, which does not count."""
    return 0 if tensor.is_inference() else tensor._version


def _depends_on_parameters(model: Model) -> bool:
    """Whether results can have gradients in parameters; for a plain callable this is unknown, so yes."""
    return not isinstance(model, nn.Module) or any(p.requires_grad for p in model.parameters())


@dataclass(frozen=True)
class _Begun:
    """What is known when a call begins: the version of its first tensor, and its views with their places."""

    version: int
    views: tuple[tuple[Tensor, GradientEdge, int], ...]

    def in_place(self, x: Tensor) -> bool:
        """Whether, since then, the first tensor or another was changed in place."""
        return version_of(x) != self.version or any(version_of(view) != version for view, _, version in self.views)


def _before(begun: list[_Begun], *, apart: bool) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], Inputs]:
    """What to do before a call: note how often its inputs were changed and, if `apart`, pass views of them."""

    def hook(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Inputs:
        views: dict[int, Tensor] = {}

        def viewed(given: Any) -> Any:  # noqa: ANN401 whatever modules are given
            if type(given) is tuple:  # the state of a recurrent layer
                return tuple(map(viewed, given))
            if not (apart and isinstance(given, Tensor) and given.requires_grad):
                return given
            return views.setdefault(id(given), given.view_as(given))

        given = viewed(inputs), {name: viewed(each) for name, each in named.items()}
        x = first_tensor(*given)
        noted = tuple((view, get_gradient_edge(view), version_of(view)) for view in views.values())
        begun.append(_Begun(0 if x is None else version_of(x), noted))
        return given

    return hook


def _noted(
    name: str, note: Callable[[Call, Any], None], begun: list[_Begun]
) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Any], None]:
    """What to do after a call."""

    def hook(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: object) -> None:
        start, x = begun.pop(), first_tensor(inputs, named)
        if x is not None:
            entrances = tuple(edge for _, edge, _ in start.views)
            leaves = get_gradient_edge(output) if isinstance(output, Tensor) and output.requires_grad else None
            alone = len(inputs) == 1 and not named
            in_place, autocast = start.in_place(x), autocast_dtype(x.device)
            note(Call(name, module, x, start.version, entrances, in_place, leaves, alone, autocast), output)

    return hook
