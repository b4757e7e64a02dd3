"""Which quantities are meant by names, with split and layer before them and a dataclass's field behind."""

from collections.abc import Iterable, Mapping, Sequence

from gnomon.errors import RangeError
from gnomon.probe._about import About, about

SPREAD = (".min", ".max", ".q25", ".q75", ".error")
"""What stands behind a quantity's name in that of a number which says how it is spread."""


def quantities(names: Iterable[str]) -> list[str]:
    """The names without those of spread."""
    there = dict.fromkeys(names)
    return [name for name in there if not (name.endswith(SPREAD) and name.rpartition(".")[0] in there)]


def chosen(names: Sequence[str], there: Sequence[str]) -> list[str]:
    """Those among what is there that have one of these names, or have it between prefix and field; all for none.

    Raises:
        RangeError: if there is none of a name.
    """
    found: dict[str, None] = {}
    for name in names or there:
        own = [name] if name in there else [other for other in there if means(name, other)]
        if not own:
            raise RangeError("names", f"some of {', '.join(there) or 'none'}", repr(name), "Ask the probe for it.")
        found |= dict.fromkeys(own)
    return [*found]


def means(name: str, other: str) -> bool:
    """Whether the other is this quantity on a split or of a layer, or one of its parts."""
    end = other[-len(name) - 1 :] == f"/{name}"
    return end or other.startswith(f"{name}.") or f"/{name}." in other


def about_in(docstrings: Mapping[str, str], name: str) -> About:
    """What is known of a quantity, or of a part of one, whose docstring may be among these."""
    owner = next((owner for owner in docstrings if name == owner or name.startswith(f"{owner}.")), None)
    return about(name, None if owner is None else docstrings[owner])


def logarithmic(names: Iterable[str], docstrings: Mapping[str, str]) -> list[str]:
    """Those whose docstrings say that their values go from 0 or above to infinity."""
    return [name for name in names if about_in(docstrings, name).logarithmic]
