"""Where in a checkpoint the state dicts are, and which of them are the network's."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from gnomon_lab.runs.checkpoint import State

WRAPPERS = ("state_dict", "model_state_dict", "state", "model")
"""The names under which checkpoints keep the state dict among other things; `state` in gnomon's own runs."""
PREFIXES = ("model", "module", "_orig_mod")
"""What Lightning, DataParallel and torch.compile write before the network's own names."""
INSIDE = frozenset({"_orig_mod", "_checkpoint_wrapped_module"})
"""What torch.compile and torch's checkpoints write into the names below a part of the network that they wrap."""
DEEPEST = 5
"""The most containers within each other that are searched."""
MOST = 100
"""The most prefixes of names that are tried: a file can hold any number."""


class Weights(NamedTuple):
    """A state dict, and where it was.

    Attributes:
        tensors: by name.
        under: the keys under which it was, from the outside in; none for a plain state dict.
    """

    tensors: dict[str, Tensor]
    under: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Place:
    """The tensors of a state dict whose names share a prefix.

    Attributes:
        weights: the state dict.
        prefix: the prefix, with a dot at its end; empty for all tensors.
        known: how many of the network's names occur after it.
    """

    weights: Weights
    prefix: str
    known: int

    @property
    def name(self) -> str:
        """The keys and the prefix, as `--key` takes them."""
        return ".".join([*self.weights.under, *filter(None, [self.prefix.rstrip(".")])])

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors, by their names after the prefix."""
        named = self.weights.tensors.items()
        return {name.removeprefix(self.prefix): tensor for name, tensor in named if name.startswith(self.prefix)}

    @property
    def words(self) -> str:
        """What is taken from the checkpoint, in words."""
        under = f" under {'.'.join(self.weights.under)}" if self.weights.under else ""
        begin = f", those that begin with {self.prefix!r}" if self.prefix else ""
        return f"{len(self.tensors)} of {len(self.weights.tensors)} tensors{under}{begin}"

    def usual(self, key: str | None) -> bool:
        """Whether this is the key's place or, by default, the checkpoint's, with only the usual wrappers around it."""
        parts = self.name.split(".") if self.name else []
        if key is None:
            return {*parts[: len(self.weights.under)]} <= {*WRAPPERS} and {*self.prefix.split(".")} <= {"", *PREFIXES}
        names, around = key.split("."), {*WRAPPERS, *PREFIXES}
        return any(
            parts[at : at + len(names)] == names and {*parts[:at]} <= around and {*parts[at + len(names) :]} <= around
            for at in range(len(parts))
        )


def state_dicts(content: State, under: tuple[str, ...] = (), seen: set[int] | None = None) -> Iterator[Weights]:
    """All mappings from names to tensors, alone or in containers, each of which is searched once; usual ones first."""
    seen = set() if seen is None else seen
    if len(under) >= DEEPEST or id(content) in seen:  # a file can hold an object that contains itself
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
    """The places: prefixes after which some of the network's names occur; each complete state dict is one too."""
    return [
        Place(weights, prefix, known)
        for weights in (without_wrappers(wanted, each) for each in found)
        for prefix, known in Counter({"": 0} | beginnings(wanted, weights.tensors)).most_common(MOST)
    ]


def without_wrappers(wanted: Mapping[str, Tensor], weights: Weights) -> Weights:
    """The weights without the names of wrappers inside, if more of the network's names then have one prefix."""

    def known(tensors: Mapping[str, Tensor]) -> int:
        return max(beginnings(wanted, tensors).values(), default=0)

    bare = {
        ".".join(part for part in name.split(".") if part not in INSIDE): tensor
        for name, tensor in weights.tensors.items()
    }
    better = len(bare) == len(weights.tensors) and known(bare) > known(weights.tensors)
    return weights._replace(tensors=bare) if better else weights


def at_key(there: Sequence[Place], key: str | None) -> list[Place]:
    """The usual places or, by a key, those with that name: exactly, else with wrappers after it, else around it.

    Without the order, a name within a wrapper would hide the same name outside of it.
    """
    usual = [place for place in there if place.usual(key)]
    if key is None:
        return usual
    begin = [place for place in usual if f"{place.name}.".startswith(f"{key}.")]
    return sorted(begin or usual, key=lambda place: place.name != key)


def beginnings(wanted: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """For each prefix that precedes one of the network's names, how many names have it."""
    found: Counter[str] = Counter()
    for name in tensors:
        parts = name.split(".")
        for cut in range(len(parts)):
            if ".".join(parts[cut:]) in wanted:
                found["".join(f"{part}." for part in parts[:cut])] += 1
    return found
