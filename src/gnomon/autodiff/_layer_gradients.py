"""Sums of outer products of gradients at the inputs of layers, all layers in one pass, without any Jacobian."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from gnomon._budget import budget_of
from gnomon._precision import in_single
from gnomon.autodiff._entrance import SAME_ENTRIES, linear_entrance
from gnomon.autodiff._independence import require_samples, require_samples_in_order
from gnomon.autodiff._layers import layer_named, multiplies, weight_of
from gnomon.autodiff._observation import map_tapes
from gnomon.autodiff._run import Model
from gnomon.autodiff._tape import Call, Tape
from gnomon.errors import RangeError, ShapeError, UnsupportedModuleError
from gnomon.linalg import Covariance, GramSum, psd_root


def gradient_products(
    model: Model, x: Float[Tensor, "n *d"], layers: Sequence[str], *, memory: int | None, required: bool = True
) -> dict[str, Covariance]:
    """The mean outer products of the gradients at the inputs of layers, by their names, from one batch.

    Layers through which no path leads are refused, or left out if they are not `required`.
    """
    sums = {name: GramSum([], []) for name in layers}
    add_gradients(model, x, sums, memory=memory, required=required)
    totals = {name: part.total() for name, part in sums.items()}
    return {name: total / len(x) for name, total in totals.items() if total is not None}


def add_gradients(
    model: Model,
    x: Float[Tensor, "n *d"],
    sums: Mapping[str, GramSum],
    *,
    memory: int | None,
    independent: bool = False,
    required: bool = True,
) -> None:
    """Adds to each layer's sum the outer products of the gradients of all outputs at its input, for all samples.

    One backward pass per output, through all layers at once. At a weight W, the gradient with respect to the input is
    the gradient with respect to the output times W, so only the sum of outer products of the latter is needed, and
    products with W are computed once. The name "" stands for the network's input. If samples are known to be
    `independent`, this is not checked. Nothing is added to the sum of a layer through which no path from the input to
    the outputs leads; if it is `required`, it is refused.

    Raises:
        ShapeError, EmptyError, RangeError, UnsupportedModuleError: see `AGOP`.
    """
    layers = {name: layer_named(model, name, "layers") for name in sums if name}
    behind: dict[tuple[str, ...], tuple[Behind, GramSum]] = {}
    found: set[str] = set()

    def read(tape: Tape, start: int) -> dict[str, Tensor]:
        places = _places(tape, with_input="" in sums)
        found.update(name for place in places for name in place.names)
        n, c = tape.logits.shape
        for unit in torch.eye(c, dtype=tape.logits.dtype, device=tape.logits.device):
            for place, gradient in _gradients(tape, places, unit.expand(n, c), sums):
                rows = in_single(place.rows(gradient))
                if isinstance(place, Before):
                    _require_row_of_each(rows, n, place.names[0])
                    sums[place.names[0]].add(rows)
                else:
                    behind.setdefault(place.names, (place, GramSum([], [])))[1].add(rows)
        return {}

    budget = budget_of(memory)
    if layers:
        # The gradients at all places are held at once, and a copy of one: two thirds of what a graph counts for.
        budget = math.ceil(3 * budget / 5)
    apart = {name: layer for name, layer in layers.items() if not multiplies(layer)}
    if apart and not independent:
        require_samples(model, x, derivative=True)
        require_samples_in_order(model, x, apart.values(), "layers")
    with torch.inference_mode(False), torch.no_grad():
        map_tapes(model, x, read, memory=budget, independent=independent, watch=layers, apart=apart.keys())
    for name in sums:
        if required and name not in found:
            what = f"layer {name!r}" if name else "an input"
            raise UnsupportedModuleError(
                "layers",
                "layers between the input and the outputs",
                f"{what}, on which no path from the one to the other lies",
                "Leave it out.",
            )
    for place, outer in behind.values():
        total = outer.total()
        if total is not None:
            matrix = total.dense()
            _require_finite(matrix, place.names[0])
            rows = place.through(matrix)
            for name in place.names:
                sums[name].add(rows)


@dataclass(frozen=True)
class Before:
    """The input of a layer, as a place in a graph where gradients are taken.

    Attributes:
        names: the names of those to whose sums it adds.
        at: the place.
    """

    names: tuple[str, ...]
    at: GradientEdge

    def rows(self, gradient: Tensor) -> Float[Tensor, "r p"]:
        """The gradients of one output at each sample."""
        return gradient.reshape(len(gradient), -1)


@dataclass(frozen=True)
class Behind:
    """The output of a weight, as a place in a graph where gradients are taken.

    Attributes:
        names: the names of those to whose sums it adds.
        at: the place.
        weight: (q *p), which is multiplied with each row, or each patch, of the layer's input.
        groups: the number of equal parts into which the q outputs are divided, each of which sees its own channels.
    """

    names: tuple[str, ...]
    at: GradientEdge
    weight: Float[Tensor, "q *p"]
    groups: int = 1

    def rows(self, gradient: Tensor) -> Float[Tensor, "r q"]:
        """The gradients of one output at each sample, and at each of its rows or patches."""
        gradient = gradient.unsqueeze(0) if gradient.ndim == 1 else gradient  # a layer that is given single rows
        # Channels come before the axes along which patches lie, of which a linear layer has none. As columns they are
        # copied in long runs, if at all.
        return gradient.movedim(1 - self.weight.ndim, 0).flatten(1).mT

    def through(self, total: Float[Tensor, "q q"]) -> Float[Tensor, "q p"]:
        r"""Rows whose product is $W^\top A W$, for the sum A of outer products of gradients at this place."""
        part = torch.arange(len(total), device=total.device) // (len(total) // self.groups)
        apart = part.unsqueeze(1) != part
        return psd_root(total.masked_fill(apart, 0)) @ self.weight.flatten(1).to(total)


Place = Before | Behind


def _places(tape: Tape, *, with_input: bool) -> list[Place]:
    """The places of the layers, and of the network's input.

    A layer that was called more than once has several places; a call that does not depend on the input, or that the
    outputs do not depend on, has none. If the input enters through one layer alone, both share one place and one sum,
    which is computed once.
    """
    found: dict[str, list[Place]] = {name: [] for name in dict.fromkeys(call.name for call in tape.calls)}
    for call in tape.calls:
        place = _behind(tape, call) if multiplies(call.module) else _before(tape, call)
        found[call.name] += [] if place is None else [place]
    entrance = _input_place(tape) if with_input and tape.entrance is not None else None
    for own in found.values():
        if isinstance(entrance, Behind) and len(own) == 1 and own[0].at.node is entrance.at.node:
            own[0] = replace(own[0], names=(*own[0].names, ""))
            entrance = None
    places = [place for own in found.values() for place in own]
    return places if entrance is None else [*places, entrance]


def _before(tape: Tape, call: Call) -> Before | None:
    """The place of what depends on the network's input among a layer's inputs.

    Raises:
        UnsupportedModuleError: if the call changed its input in place, or several of its inputs depend on x.
    """
    if call.in_place and call.entrances:
        raise UnsupportedModuleError(
            "layers",
            "layers that leave their input as it is",
            f"{call.name!r}, which changes it in place",
            "Set its inplace to False, or leave it out.",
        )
    edges = [edge for edge in call.entrances if edge.node in tape.dependent]
    if len(edges) > 1:
        raise UnsupportedModuleError(
            "layers",
            "layers that are given one tensor that depends on the samples",
            f"{call.name!r}, which is given {len(edges)}",
            "Leave it out, or pass it one tensor that has them all.",
        )
    return Before((call.name,), edges[0]) if edges else None


def _behind(tape: Tape, call: Call) -> Behind | None:
    """The place of a weight's output."""
    node, output = (None, 0) if call.exit is None else (call.exit.node, call.exit.output_nr)
    # Below its shape: a view that is changed in place later has another place from then on, what it views has not.
    while node is not None and node.name() in SAME_ENTRIES:
        node, output = node.next_functions[0]
    if node is None or node not in tape.dependent:
        return None
    return Behind((call.name,), GradientEdge(node, output), weight_of(call.module), getattr(call.module, "groups", 1))


def _input_place(tape: Tape) -> Place:
    """The network's input; or, if it enters through a linear map with fewer outputs, the output of that map."""
    entrance = linear_entrance(tape)
    if entrance is None or len(entrance[1]) >= entrance[1].shape[1]:
        return Before(("",), get_gradient_edge(tape.x))
    edge, weight = entrance
    return Behind(("",), edge, weight.detach())


def _gradients(
    tape: Tape, places: Sequence[Place], v: Float[Tensor, "n c"], sums: Mapping[str, GramSum]
) -> list[tuple[Place, Tensor]]:
    """The places that have one, each with each sample's gradient of the outputs times v.

    Raises:
        ShapeError: if the input of a layer is not as wide as what its sum holds.
        UnsupportedModuleError: if the input of a layer is complex.
    """
    if not places:
        return []
    edges = [place.at for place in places]
    gradients = torch.autograd.grad(tape.logits, edges, v, retain_graph=True, allow_unused=True)
    found = []
    for place, gradient in zip(places, gradients, strict=True):
        if gradient is None:
            continue
        name = place.names[0]
        wanted, width = sums[name].width(), (place.weight if isinstance(place, Behind) else gradient)[0].numel()
        if wanted not in (None, width):
            raise ShapeError(
                "model",
                f"{wanted} entries at the input of layer {name!r} as before",
                width,
                "Use one AGOP per network.",
            )
        if gradient.is_complex():
            got = f"{name!r} with {gradient.dtype}"
            raise UnsupportedModuleError("layers", "layers of real numbers", got, "Leave it out.")
        found.append((place, gradient))
    return found


def _require_row_of_each(rows: Float[Tensor, "r p"], samples: int, name: str) -> None:
    """Raises ShapeError unless the input of the layer of this name has a row for each sample."""
    # A single sample was run together with a copy of itself.
    if len(rows) not in (samples, max(2, samples)):
        raise ShapeError(
            "layers",
            "layers whose inputs have one row for each sample",
            f"{name!r}, whose input has {len(rows)} rows",
            "Leave it out.",
        )


def _require_finite(matrix: Tensor, name: str) -> None:
    """Raises RangeError about the layer of this name if its gradients or their products are not finite."""
    if not matrix.isfinite().all():
        raise RangeError(
            "model",
            "finite numbers as the gradients' outer products",
            f"NaN or infinity at layer {name!r}",
            "A diverged network is the usual cause; if it is finite, rescale its outputs.",
        )
