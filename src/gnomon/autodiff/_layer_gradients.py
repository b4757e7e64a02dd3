"""Sums of outer products of gradients at the inputs of layers, all layers in one pass, without any Jacobian."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Never

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils.hooks import RemovableHandle

from gnomon.autodiff._entrance import linear_entrance, passage
from gnomon.autodiff._graph import Graph, Model
from gnomon.autodiff._layers import WEIGHTED, layer_named, modules_of, multiplies, weight_of
from gnomon.autodiff._memory import DEFAULT_BUDGET
from gnomon.autodiff._observation import map_graphs
from gnomon.errors import EmptyError, ShapeError, UnsupportedModuleError
from gnomon.linalg import Covariance, GramSum, psd_root


def weighted_layers(model: Model) -> dict[str, nn.Module]:
    """The linear layers and convolutions by name."""
    return {name: module for name, module in modules_of(model).items() if multiplies(module)}


def named_weights(where: str, model: Model, layers: Sequence[str] | None) -> dict[str, nn.Module]:
    """The layers of these names, all that have a weight if None.

    Raises:
        RangeError: if there is no layer of a name.
        UnsupportedModuleError: if one is no linear layer or convolution.
        EmptyError: if there are none.
    """
    named = weighted_layers(model) if layers is None else {name: layer_named(where, model, name) for name in layers}
    if not named:
        raise EmptyError("layers", "at least one linear layer or convolution", "none", "Name one.", where=where)
    for name, layer in named.items():
        if not multiplies(layer):
            own = " with a forward of its own" if type(layer) in WEIGHTED else ""
            raise UnsupportedModuleError(
                "layers",
                "linear layers and convolutions",
                f"{type(layer).__name__} {name!r}{own}",
                "Name layers with a weight.",
                where=where,
            )
    return named


@dataclass(frozen=True)
class Before:
    """The input of a layer, as a place in a graph where gradients are taken."""

    at: GradientEdge

    def rows(self, gradient: Tensor) -> Float[Tensor, "r p"]:
        """The gradients of one output at each sample."""
        return gradient.flatten(1)

    def width(self, gradient: Tensor) -> int:
        """The entries of the layer's input."""
        return gradient[0].numel()


@dataclass(frozen=True)
class Behind:
    """What a weight puts out, as a place in a graph where gradients are taken.

    Attributes:
        at: the place.
        weight: (q *p), which is multiplied with each row, or each patch, of the layer's input.
        groups: into how many parts of equal size the q outputs fall, each of which sees channels of its own.
    """

    at: GradientEdge
    weight: Float[Tensor, "q *p"]
    groups: int = 1

    def rows(self, gradient: Tensor) -> Float[Tensor, "r q"]:
        """The gradients of one output at each sample, and at each of its rows or patches."""
        # Channels stand before the axes along which patches lie, of which a linear layer has none. As columns they are
        # copied in long runs, if at all.
        return gradient.movedim(1 - self.weight.ndim, 0).flatten(1).mT

    def width(self, gradient: Tensor) -> int:
        """The entries of a row, or a patch, of the layer's input."""
        return self.weight[0].numel()

    def through(self, total: Float[Tensor, "q q"]) -> Float[Tensor, "q p"]:
        r"""Rows whose product is $W^\top A W$, for the sum A of outer products of gradients at this place."""
        part = torch.arange(len(total), device=total.device) // (len(total) // self.groups)
        apart = part.unsqueeze(1) != part
        return psd_root(total.masked_fill(apart, 0)) @ self.weight.flatten(1).to(total)


Place = Before | Behind


class Taps:
    """The places of the named layers in the latest forward pass; the name "" is that of the network's input."""

    def __init__(self, where: str, model: Model, sums: Mapping[str, GramSum]) -> None:
        self.where = where
        self.model = model
        self.sums = sums
        self.layers = {name: layer_named(where, model, name) for name in sums if name}
        self.seen: defaultdict[str, list[Place]] = defaultdict(list)
        self.entrance: str | None = None
        """The layer through which alone the network's input enters: both have the same sum, which is taken once."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks at every forward pass inside, and forgets the one before."""
        handles: list[RemovableHandle] = []
        if isinstance(self.model, nn.Module):
            handles.append(self.model.register_forward_pre_hook(lambda module, inputs: self.seen.clear(), prepend=True))
        for name, layer in self.layers.items():
            if multiplies(layer):
                # Before other hooks, which may replace the output.
                handles.append(layer.register_forward_hook(self.output_of(name), prepend=True))
            else:
                handles.append(layer.register_forward_pre_hook(self.input_of(name)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def output_of(self, name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        """What to do behind a layer with a weight: keep the place of its output."""

        def hook(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if inputs[0].requires_grad:
                groups = getattr(layer, "groups", 1)
                self.seen[name].append(Behind(get_gradient_edge(output), weight_of(layer), groups))

        return hook

    def input_of(self, name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor, ...] | None]:
        """What to do before any other layer: give it its input as a view, whose gradient is the layer's alone."""

        def hook(layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            if not inputs or not isinstance(inputs[0], Tensor) or not inputs[0].requires_grad:
                return None
            view = inputs[0].view_as(inputs[0])
            self.seen[name].append(Before(get_gradient_edge(view)))
            return view, *inputs[1:]

        return hook

    def places(self, graph: Graph) -> list[tuple[str, Place]]:
        """The places by the layers' names, a layer that was called more than once more than once.

        Raises:
            UnsupportedModuleError: if the pass did not come to a layer.
        """
        if "" in self.sums:
            place = input_place(graph)
            self.entrance = next((name for name, places in self.seen.items() if same(places, place)), None)
            if self.entrance is None:
                self.seen[""].append(place)
        found, self.seen = self.seen, defaultdict(list)
        for name in self.layers:
            if name not in found:
                self.missing(name)
        return [(name, place) for name, places in found.items() for place in places]

    def gradients(
        self, logits: Float[Tensor, "n c"], places: list[tuple[str, Place]], v: Float[Tensor, "n c"]
    ) -> list[Tensor]:
        """Each sample's gradient of the outputs times v, at all places.

        Raises:
            UnsupportedModuleError: if the outputs do not depend on a place.
            ShapeError: if the input of a layer is not as wide as what its sum holds.
        """
        if not logits.requires_grad:
            self.missing(places[0][0])
        edges = [place.at for _, place in places]
        found = []
        for (name, place), gradient in zip(
            places, torch.autograd.grad(logits, edges, v, retain_graph=True, allow_unused=True), strict=True
        ):
            if gradient is None:
                self.missing(name)
            wanted, width = self.sums[name].width(), place.width(gradient)
            if wanted not in (None, width):
                raise ShapeError(
                    "model",
                    f"{wanted} entries at the input of layer {name!r} as before",
                    width,
                    "Use one AGOP a network.",
                    where=self.where,
                )
            found.append(gradient)
        return found

    def missing(self, name: str) -> Never:
        """Raises UnsupportedModuleError about the layer of this name."""
        what = f"layer {name!r}" if name else "an input"
        raise UnsupportedModuleError(
            "layers",
            "layers between the input and the outputs",
            f"{what}, on which no path from the one to the other lies",
            "Leave it out.",
            where=self.where,
        )


def same(places: list[Place], place: Place) -> bool:
    """Whether a layer's only place is this one, behind a weight."""
    return isinstance(place, Behind) and len(places) == 1 and places[0].at.node is place.at.node


def input_place(graph: Graph) -> Place:
    """The network's input; behind the linear map through which it enters, where there is a narrower one."""
    entrance = linear_entrance(passage(graph.logits, graph.x))
    if entrance is None or len(entrance[1]) >= entrance[1].shape[1]:
        return Before(get_gradient_edge(graph.x))
    edge, weight = entrance
    return Behind(edge, weight.detach())


def gradient_products(
    where: str, model: Model, x: Float[Tensor, "n *d"], layers: Sequence[str], *, memory: int | None
) -> dict[str, Covariance]:
    """The mean outer products of the gradients at the inputs of layers, by their names, from one batch."""
    sums = {name: GramSum([], []) for name in layers}
    add_gradients(where, model, x, sums, memory=memory)
    totals = {name: part.total() for name, part in sums.items()}
    return {name: total / len(x) for name, total in totals.items() if total is not None}


def add_gradients(
    where: str, model: Model, x: Float[Tensor, "n *d"], sums: Mapping[str, GramSum], *, memory: int | None = None
) -> None:
    """Adds to each layer's sum the outer products of the gradients of all outputs at its input, for all samples.

    One backward pass an output, through all layers at once. At a weight W the gradient in the input is that in the
    output times W, so that only the sum of outer products of the latter is needed, and W's own products are made once.

    Raises:
        ShapeError, EmptyError, RangeError, UnsupportedModuleError: see `AGOP`.
    """
    taps = Taps(where, model, sums)
    behind: dict[str, tuple[Behind, GramSum]] = {}

    def read(graph: Graph, start: int) -> dict[str, Tensor]:
        places = taps.places(graph)
        n, c = graph.logits.shape
        for unit in torch.eye(c, dtype=graph.logits.dtype, device=graph.logits.device):
            gradients = taps.gradients(graph.logits, places, unit.expand(n, c))
            for (name, place), gradient in zip(places, gradients, strict=True):
                rows = place.rows(gradient)
                # Half precision cannot hold such sums.
                rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
                if isinstance(place, Before):
                    sums[name].add(rows)
                else:
                    behind.setdefault(name, (place, GramSum([], [])))[1].add(rows)
        return {}

    budget = DEFAULT_BUDGET if memory is None else memory
    if taps.layers:
        # The gradients at all places are there at once, and a copy of one: two thirds of what a graph counts for.
        budget = math.ceil(3 * budget / 5)
    with torch.inference_mode(False), torch.no_grad(), taps.watching():
        map_graphs(where, model, x, read, memory=budget)
    for name, (place, outer) in behind.items():
        total = outer.total()
        if total is not None:
            rows = place.through(total.dense())
            for each in (name, "") if name == taps.entrance else (name,):
                sums[each].add(rows)
