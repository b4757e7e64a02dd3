"""Which quantities names refer to, with split and layer before them and a dataclass's field after them."""

from collections.abc import Iterable, Mapping, Sequence

from gnomon._parts import is_spread, wholes
from gnomon.errors import RangeError
from gnomon.probe._about import About, about


def quantities(names: Iterable[str]) -> list[str]:
    """The names without those of numbers that describe spread, and of wholes that had parts where they had a value."""
    there = dict.fromkeys(names)
    without = wholes(there)
    numbers = {name: None for name in there if name not in without}
    return [name for name in numbers if not is_spread(name, numbers)]


def chosen(names: Sequence[str], there: Sequence[str]) -> list[str]:
    """Those present that have one of these names, or have it between prefix and field; all if no names are given.

    Raises:
        RangeError: if there is none of a given name.
    """
    found: dict[str, None] = {}
    for name in names or there:
        own = [other for other in there if other == name or means(name, other)]
        if not own:
            raise RangeError("names", f"some of {', '.join(there) or 'none'}", repr(name), "Ask the probe for it.")
        found |= dict.fromkeys(own)
    return [*found]


def means(name: str, other: str) -> bool:
    """Whether the other is this quantity on a split or at a layer, or one of its parts."""
    end = other[-len(name) - 1 :] == f"/{name}"
    return end or other.startswith(f"{name}.") or f"/{name}." in other


def about_in(docstrings: Mapping[str, str], name: str) -> About:
    """What is known about a quantity, or a part of one, whose docstring may be among these."""
    owner = next((owner for owner in docstrings if name == owner or name.startswith(f"{owner}.")), None)
    return about(name, None if owner is None else docstrings[owner])


def logarithmic(names: Iterable[str], docstrings: Mapping[str, str]) -> list[str]:
    """Those whose docstrings say that their values range from 0 or above to infinity."""
    return [name for name in names if about_in(docstrings, name).logarithmic]
