"""Where in a checkpoint state dicts stand, and which of them are the network's."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from gnomon_lab.runs.checkpoint import State

WRAPPERS = ("state_dict", "model_state_dict", "state", "model")
"""Under which names checkpoints keep the state dict beside other things; `state` in gnomon's own runs."""
PREFIXES = ("model", "module", "_orig_mod")
"""What Lightning, DataParallel and torch.compile write before the network's own names."""
DEEPEST = 5
"""Containers within each other that are looked into."""
MOST = 100
"""Beginnings of names that are tried: a file can hold any number."""


class Weights(NamedTuple):
    """A state dict, and where it stood.

    Attributes:
        tensors: by name.
        under: the keys under which it stood, from outside in; none for a plain state dict.
    """

    tensors: dict[str, Tensor]
    under: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Place:
    """Tensors of a state dict whose names begin alike.

    Attributes:
        weights: the state dict.
        prefix: how they begin, with a point at its end; empty if all are meant.
        known: how many of the network's names there are behind it.
    """

    weights: Weights
    prefix: str
    known: int

    @property
    def name(self) -> str:
        """The keys and the prefix, as `--key` has them."""
        return ".".join([*self.weights.under, *filter(None, [self.prefix.rstrip(".")])])

    @property
    def tensors(self) -> dict[str, Tensor]:
        """By the names behind the prefix."""
        named = self.weights.tensors.items()
        return {name.removeprefix(self.prefix): tensor for name, tensor in named if name.startswith(self.prefix)}

    @property
    def said(self) -> str:
        """What is taken of the checkpoint, in words."""
        under = f" under {'.'.join(self.weights.under)}" if self.weights.under else ""
        begin = f", those that begin with {self.prefix!r}" if self.prefix else ""
        return f"{len(self.tensors)} of {len(self.weights.tensors)} tensors{under}{begin}"

    def usual(self, key: str | None) -> bool:
        """Whether it is this key's, or by default the checkpoint's, through nothing but what is usually around it."""
        parts = self.name.split(".") if self.name else []
        if key is None:
            return {*parts[: len(self.weights.under)]} <= {*WRAPPERS} and {*self.prefix.split(".")} <= {"", *PREFIXES}
        names, around = key.split("."), {*WRAPPERS, *PREFIXES}
        return any(
            parts[at : at + len(names)] == names and {*parts[:at]} <= around and {*parts[at + len(names) :]} <= around
            for at in range(len(parts))
        )


def state_dicts(content: State, under: tuple[str, ...] = (), seen: set[int] | None = None) -> Iterator[Weights]:
    """Whatever are tensors by name, alone or in containers, each of which is looked into once; the usual ones first."""
    seen = set() if seen is None else seen
    if len(under) >= DEEPEST or id(content) in seen:  # a file can hold what holds itself
        return
    seen.add(id(content))
    if isinstance(content, Mapping):
        if content and all(isinstance(key, str) and isinstance(part, Tensor) for key, part in content.items()):
            yield Weights(dict(content), under)
            return
        parts = {str(key): part for key, part in content.items() if type(key) in (str, int)}
        for name in sorted(parts, key=lambda name: WRAPPERS.index(name) if name in WRAPPERS else len(WRAPPERS)):
            yield from state_dicts(parts[name], (*under, name), seen)
    elif isinstance(content, list | tuple):
        for place, part in enumerate(content):
            yield from state_dicts(part, (*under, str(place)), seen)


def places(wanted: Mapping[str, Tensor], found: Sequence[Weights]) -> list[Place]:
    """The beginnings of names behind which there are some of the network's; the whole of each state dict is one too."""
    return [
        Place(weights, prefix, known)
        for weights in found
        for prefix, known in Counter({"": 0} | beginnings(wanted, weights.tensors)).most_common(MOST)
    ]


def beginnings(wanted: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """By what names begin with, before one of the network's, how many do."""
    found: Counter[str] = Counter()
    for name in tensors:
        parts = name.split(".")
        for cut in range(len(parts)):
            if ".".join(parts[cut:]) in wanted:
                found["".join(f"{part}." for part in parts[:cut])] += 1
    return found
