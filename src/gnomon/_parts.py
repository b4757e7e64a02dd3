"""Names of quantities and of their parts, as a dataclass has them and as the spread of a quantity is named."""

from collections.abc import Collection, Iterable
from functools import lru_cache

SPREAD = (".min", ".max", ".q25", ".q75", ".error")
"""What follows a quantity's name in the name of a number that describes its spread."""


@lru_cache(10_000)
def owners(name: str) -> tuple[str, ...]:
    """The names of what this may be a part of: a.b/x.y.z is one of a.b/x.y and of a.b/x."""
    place, slash, own = name.rpartition("/")
    parts = own.split(".")
    return tuple(place + slash + ".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))


def is_spread(name: str, names: Collection[str]) -> bool:
    """Whether this describes the spread of one of these, as far as its name tells: a part may have such a name, too."""
    return name.endswith(SPREAD) and name.rpartition(".")[0] in names


def wholes(names: Collection[str]) -> set[str]:
    """What others among these are parts of: a dataclass that has no value is one NaN, under its own name."""
    return {owner for name in names if not is_spread(name, names) for owner in owners(name)}


def replaced(there: Iterable[str], names: Collection[str]) -> set[str]:
    """What a reading of these names replaces of what is there: the same names, their parts, and what they are parts of.

    What has no value has no parts, and may have had some before.
    """
    wholes = {owner for name in names for owner in owners(name)}
    same = {*names, *wholes}
    return {name for name in there if name in same or any(owner in names for owner in owners(name))}
