"""Sums of outer products of gradients at the inputs of layers, all layers in one pass, without any Jacobian."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Never

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from gnomon._budget import budget_of
from gnomon.autodiff._entrance import linear_entrance
from gnomon.autodiff._layers import layer_named, multiplies, weight_of
from gnomon.autodiff._observation import map_tapes
from gnomon.autodiff._run import Model
from gnomon.autodiff._tape import Tape
from gnomon.errors import ShapeError, UnsupportedModuleError
from gnomon.linalg import Covariance, GramSum, psd_root


def gradient_products(
    model: Model, x: Float[Tensor, "n *d"], layers: Sequence[str], *, memory: int | None
) -> dict[str, Covariance]:
    """The mean outer products of the gradients at the inputs of layers, by their names, from one batch."""
    sums = {name: GramSum([], []) for name in layers}
    add_gradients(model, x, sums, memory=memory)
    totals = {name: part.total() for name, part in sums.items()}
    return {name: total / len(x) for name, total in totals.items() if total is not None}


def add_gradients(
    model: Model,
    x: Float[Tensor, "n *d"],
    sums: Mapping[str, GramSum],
    *,
    memory: int | None = None,
    independent: bool = False,
) -> None:
    """Adds to each layer's sum the outer products of the gradients of all outputs at its input, for all samples.

    One backward pass per output, through all layers at once. At a weight W, the gradient with respect to the input is
    the gradient with respect to the output times W, so only the sum of outer products of the latter is needed, and
    products with W are computed once. The name "" stands for the network's input. If samples are known to be
    `independent`, this is not checked.

    Raises:
        ShapeError, EmptyError, RangeError, UnsupportedModuleError: see `AGOP`.
    """
    layers = {name: layer_named(model, name, "layers") for name in sums if name}
    behind: dict[tuple[str, ...], tuple[Behind, GramSum]] = {}

    def read(tape: Tape, start: int) -> dict[str, Tensor]:
        places = _places(tape, layers, with_input="" in sums)
        n, c = tape.logits.shape
        for unit in torch.eye(c, dtype=tape.logits.dtype, device=tape.logits.device):
            gradients = _gradients(tape, places, unit.expand(n, c), sums)
            for (names, place), gradient in zip(places, gradients, strict=True):
                rows = place.rows(gradient)
                # Half precision cannot hold such sums.
                rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
                if isinstance(place, Before):
                    # A single sample was run together with a copy of itself.
                    if len(rows) not in (n, max(2, n)):
                        raise ShapeError(
                            "layers",
                            f"layers whose input has one row for each of {n} samples",
                            f"{names[0]!r}, with {len(rows)}",
                            "Leave it out.",
                        )
                    sums[names[0]].add(rows)
                else:
                    behind.setdefault(names, (place, GramSum([], [])))[1].add(rows)
        return {}

    budget = budget_of(memory)
    if layers:
        # The gradients at all places are held at once, and a copy of one: two thirds of what a graph counts for.
        budget = math.ceil(3 * budget / 5)
    apart = {name for name, layer in layers.items() if not multiplies(layer)}
    with torch.inference_mode(False), torch.no_grad():
        map_tapes(model, x, read, memory=budget, independent=independent, watch=layers, apart=apart)
    for names, (place, outer) in behind.items():
        total = outer.total()
        if total is not None:
            rows = place.through(total.dense())
            for name in names:
                sums[name].add(rows)


@dataclass(frozen=True)
class Before:
    """The input of a layer, as a place in a graph where gradients are taken."""

    at: GradientEdge

    def rows(self, gradient: Tensor) -> Float[Tensor, "r p"]:
        """The gradients of one output at each sample."""
        return gradient.flatten(1)

    def width(self, gradient: Tensor) -> int:
        """The number of entries of the layer's input."""
        return gradient[0].numel()


@dataclass(frozen=True)
class Behind:
    """The output of a weight, as a place in a graph where gradients are taken.

    Attributes:
        at: the place.
        weight: (q *p), which is multiplied with each row, or each patch, of the layer's input.
        groups: the number of equal parts into which the q outputs are divided, each of which sees its own channels.
    """

    at: GradientEdge
    weight: Float[Tensor, "q *p"]
    groups: int = 1

    def rows(self, gradient: Tensor) -> Float[Tensor, "r q"]:
        """The gradients of one output at each sample, and at each of its rows or patches."""
        # Channels come before the axes along which patches lie, of which a linear layer has none. As columns they are
        # copied in long runs, if at all.
        return gradient.movedim(1 - self.weight.ndim, 0).flatten(1).mT

    def width(self, gradient: Tensor) -> int:
        """The number of entries of a row, or a patch, of the layer's input."""
        return self.weight[0].numel()

    def through(self, total: Float[Tensor, "q q"]) -> Float[Tensor, "q p"]:
        r"""Rows whose product is $W^\top A W$, for the sum A of outer products of gradients at this place."""
        part = torch.arange(len(total), device=total.device) // (len(total) // self.groups)
        apart = part.unsqueeze(1) != part
        return psd_root(total.masked_fill(apart, 0)) @ self.weight.flatten(1).to(total)


Place = Before | Behind
Places = list[tuple[tuple[str, ...], Place]]
"""Each place with the names of those to whose sums it adds."""


def _places(tape: Tape, layers: Mapping[str, nn.Module], *, with_input: bool) -> Places:
    """The places of the layers, and of the network's input, each with the names of those to whose sums it adds.

    A layer that was called more than once has several places. If the input enters through one layer alone, both share
    one place and one sum, which is computed once.

    Raises:
        UnsupportedModuleError: if the pass did not reach a layer, or one changed its input in place.
    """
    found: dict[str, list[Place]] = {name: [] for name in dict.fromkeys(call.name for call in tape.calls)}
    for call in tape.calls:
        if call.entrance is not None:
            if call.changed and call.entrance.node not in tape.uses:
                raise UnsupportedModuleError(
                    "layers",
                    "layers that leave their input as it is",
                    f"{call.name!r}, which changes it in place",
                    "Set its inplace to False, or leave it out.",
                )
            found[call.name].append(Before(call.entrance))
        elif multiplies(call.module) and call.x.requires_grad and call.exit is not None:
            found[call.name].append(Behind(call.exit, weight_of(call.module), getattr(call.module, "groups", 1)))
    for name in layers:
        if not found.get(name):
            _missing(name)
    entrance = _input_place(tape) if with_input else None
    places: Places = []
    for name, own in found.items():
        shared = isinstance(entrance, Behind) and len(own) == 1 and own[0].at.node is entrance.at.node
        places += [((name, "") if shared else (name,), place) for place in own]
        entrance = None if shared else entrance
    return places if entrance is None else [*places, (("",), entrance)]


def _input_place(tape: Tape) -> Place:
    """The network's input; or, if it enters through a linear map with fewer outputs, the output of that map."""
    entrance = linear_entrance(tape)
    if entrance is None or len(entrance[1]) >= entrance[1].shape[1]:
        return Before(get_gradient_edge(tape.x))
    edge, weight = entrance
    return Behind(edge, weight.detach())


def _gradients(tape: Tape, places: Places, v: Float[Tensor, "n c"], sums: Mapping[str, GramSum]) -> list[Tensor]:
    """Each sample's gradient of the outputs times v, at all places.

    Raises:
        UnsupportedModuleError: if the outputs do not depend on a place.
        ShapeError: if the input of a layer is not as wide as what its sum holds.
    """
    if not tape.logits.requires_grad:
        _missing(places[0][0][0])
    edges = [place.at for _, place in places]
    found = []
    for ((name, *_), place), gradient in zip(
        places, torch.autograd.grad(tape.logits, edges, v, retain_graph=True, allow_unused=True), strict=True
    ):
        if gradient is None:
            _missing(name)
        wanted, width = sums[name].width(), place.width(gradient)
        if wanted not in (None, width):
            raise ShapeError(
                "model",
                f"{wanted} entries at the input of layer {name!r} as before",
                width,
                "Use one AGOP a network.",
            )
        found.append(gradient)
    return found


def _missing(name: str) -> Never:
    """Raises UnsupportedModuleError about the layer of this name."""
    what = f"layer {name!r}" if name else "an input"
    raise UnsupportedModuleError(
        "layers",
        "layers between the input and the outputs",
        f"{what}, on which no path from the one to the other lies",
        "Leave it out.",
    )
