"""What can be observed of a model at given samples: one tape per chunk, every observation from that tape."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from gnomon.autodiff._head import Head, linear_head
from gnomon.autodiff._head_features import features_in
from gnomon.autodiff._independence import (
    require_independent_samples,
    require_samples,
    require_samples_in_order,
)
from gnomon.autodiff._jacobian_operator import JacobianOperator, prepare
from gnomon.autodiff._layers import layer_named
from gnomon.autodiff._memory import chunk_size, sample_bytes, staying
from gnomon.autodiff._positions import Positions
from gnomon.autodiff._run import Model
from gnomon.autodiff._tape import Tape, forward

OBSERVATIONS = ("logits", "jacobian", "jacobian_operator", "centroid", "features")
"""What can be observed of a model: (n c), (n c *d), products with that, (n *d), and the input of a layer, (n *p)."""

Layer = str | tuple[str, ...]
"""A layer by its name; or the layers of a head by their names, none if the head is to be found."""


@dataclass(frozen=True)
class Observed:
    """Observations by name, and the seconds that each took."""

    values: dict[str, Tensor]
    seconds: dict[str, float]


@dataclass(frozen=True)
class _Watched:
    """The layers whose inputs are observed.

    Attributes:
        layers: by the name of the observation, several for a head; each by the name under which a tape holds its calls.
        heads: the heads among them, by the name of the observation.
        positions: those that are read, if the network outputs the logits of several in a row.
    """

    layers: Mapping[str, Mapping[str, nn.Module]]
    heads: Mapping[str, Head]
    positions: Positions | None

    @classmethod
    def of(
        cls, model: Model, x: Shaped[Tensor, "n *d"], features: Mapping[str, Layer], positions: Positions | None
    ) -> "_Watched":
        """The layers that are named, and those of heads."""
        heads = {name: linear_head(model, x, of, positions) for name, of in features.items() if not isinstance(of, str)}
        layers = {}
        for name, of in features.items():
            own = (layer_named(model, of),) if isinstance(of, str) else heads[name].layers
            layers[name] = {f"{name} {place}": layer for place, layer in enumerate(own)}
        return cls(layers, heads, positions)

    def features(self, tape: Tape) -> dict[str, Any]:
        """The inputs of the layers in this pass."""
        seen: dict[str, Any] = {}
        for name, layers in self.layers.items():
            seen[name] = features_in(tape, list(layers), self.heads.get(name), self.positions)
            if self.positions is not None and not self.positions.one:
                seen[name] = seen[name].unflatten(0, (-1, self.positions.count))
        return seen


def observe(
    model: Model,
    x: Shaped[Tensor, "n *d"],
    names: Set[str],
    *,
    features: Mapping[str, Layer] = MappingProxyType({}),
    memory: int | None = None,
    independent: bool = False,
    copies: int = 1,
    first: int = 0,
    positions: Positions | None = None,
    keep: Callable[[dict[str, Any], slice], dict[str, Tensor]] | None = None,
) -> Observed:
    """The named observations of `model` at `x`, in chunks that fit the memory budget, from one forward pass.

    The centroid is the sum of the Jacobian's rows: free if the Jacobian is computed, one backward pass otherwise.
    `features` maps the name under which an observation is returned to the layer whose input is observed. Observations
    that need no derivative with respect to the input also accept integers, such as tokens. If samples are known to be
    `independent`, this is not checked again.

    With `keep`, the observations of a chunk, and its place in x, are passed to it, and only what it returns, one row
    per sample, is kept of them. If it computes Jacobians itself, `copies` is the number held in memory. The operator of
    a chunk is available to `keep` alone; `first` is the index of the first sample, for its random vectors. If the
    network outputs the logits of several `positions` in a row, features have an axis for these too.

    Raises:
        ShapeError, EmptyError, RangeError, UnsupportedModuleError: see `input_jacobian` and `features`.
    """
    seconds: defaultdict[str, float] = defaultdict(float)
    derivative = not names.isdisjoint({"jacobian", "jacobian_operator", "centroid"})
    require_samples(model, x, derivative=derivative)
    if not independent:
        require_independent_samples(model, x)
    watched = _Watched.of(model, x, features, positions)
    named = [layer for name, of in features.items() if of for layer in watched.layers[name].values()]
    if named and not independent:
        require_samples_in_order(model, x, named)

    def read(tape: Tape, start: int) -> dict[str, Tensor]:
        seen: dict[str, Any] = {}
        if "jacobian" in names:
            with timed(seconds, "jacobian", x):
                seen["jacobian"] = tape.jacobian()
        if "centroid" in names:
            with timed(seconds, "centroid", x):
                ones = torch.ones_like(tape.logits)
                seen["centroid"] = seen["jacobian"].sum(1) if "jacobian" in seen else tape.vector_jacobian(ones)
        seen |= watched.features(tape)
        if "jacobian_operator" in names:
            seen["jacobian_operator"] = JacobianOperator.of(tape, first + start)
        if "logits" in names:
            seen["logits"] = tape.logits if tape.create_graph else tape.logits.detach()
        if keep is None:
            return seen
        with timed(seconds, "", x):
            return keep(seen, slice(start, start + len(tape.logits)))

    with timed(seconds, "logits", x):
        values = map_tapes(
            model,
            x,
            read,
            jacobian=copies if "jacobian" in names else 0,
            products="jacobian_operator" in names,
            derivative=derivative,
            memory=memory,
            independent=True,
            watch={call: layer for layers in watched.layers.values() for call, layer in layers.items()},
        )
    seconds["logits"] -= sum(took for name, took in seconds.items() if name != "logits")
    seconds.pop("", None)
    return Observed(values, dict(seconds))


def observation_bytes(model: Model, x: Shaped[Tensor, "n *d"], names: Set[str], copies: int) -> int:
    """The memory that one sample needs for these observations, measured on the first two."""
    operator = prepare if "jacobian_operator" in names else None
    return sample_bytes(model, x, jacobian=copies if "jacobian" in names else 0, prepare=operator)


def map_tapes(
    model: Model,
    x: Shaped[Tensor, "n *d"],
    read: Callable[[Tape, int], dict[str, Tensor]],
    *,
    jacobian: int = 0,
    products: bool = False,
    derivative: bool = True,
    memory: int | None,
    independent: bool = False,
    watch: Mapping[str, nn.Module] = MappingProxyType({}),
    apart: Set[str] = frozenset(),
) -> dict[str, Tensor]:
    """Reads each chunk's tape (given with its first sample's index) and joins what was read along the samples.

    `jacobian` is the number of Jacobians of a chunk held in memory at once, and `products` whether its operator is
    held.
    """
    require_samples(model, x, derivative=derivative)
    if not independent:
        require_independent_samples(model, x)
    size = chunk_size(model, x, jacobian=jacobian, prepare=prepare if products else None, memory=memory)
    whole: dict[str, Tensor] = {}
    pieces: defaultdict[str, list[Tensor]] = defaultdict(list)
    for start in range(0, len(x), size):
        tape = forward(model, x[start : start + size], watch, apart=apart, products=products)
        with staying():
            found = read(tape, start)
        for name, piece in found.items():
            if len(piece) == len(x):
                whole[name] = piece
            elif tape.create_graph:
                pieces[name].append(piece)
            else:
                # Filled in place, so that the result is never held in memory twice.
                if name not in whole:
                    whole[name] = piece.new_empty((len(x), *piece.shape[1:]))
                whole[name][start : start + size] = piece
        del tape, found
    return whole | {name: torch.cat(parts) for name, parts in pieces.items()}


@contextmanager
def timed(seconds: defaultdict[str, float], name: str, x: Tensor) -> Iterator[None]:
    """Adds the wall time of the block to `seconds[name]`, waiting for the accelerator where there is one."""

    def now() -> float:
        if x.is_cuda:
            torch.cuda.synchronize(x.device)
        return time.perf_counter()

    start = now()
    yield
    seconds[name] += now() - start
