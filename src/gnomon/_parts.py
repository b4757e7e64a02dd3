"""Names of quantities and of their parts, as a dataclass has them and as the spread of a quantity is named."""

from collections.abc import Collection, Iterable
from functools import lru_cache


@lru_cache(10_000)
def owners(name: str) -> tuple[str, ...]:
    """The names of what this may be a part of: a.b/x.y.z is one of a.b/x.y and of a.b/x."""
    place, slash, own = name.rpartition("/")
    parts = own.split(".")
    return tuple(place + slash + ".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))


def replaced(there: Iterable[str], names: Collection[str]) -> set[str]:
    """What a reading of these names replaces of what is there: the same names, their parts, and what they are parts of.

    What has no value has no parts, and may have had some before.
    """
    wholes = {owner for name in names for owner in owners(name)}
    same = {*names, *wholes}
    return {name for name in there if name in same or any(owner in names for owner in owners(name))}
