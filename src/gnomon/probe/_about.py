"""What a quantity says about itself: its docstring is the one place for what it is, its range and its unit."""

import inspect
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache

from torch import Tensor

from gnomon import measure
from gnomon._kinds import members
from gnomon.linalg import Estimate
from gnomon.probe._derived import unbound

RANGE = re.compile(
    r"\bin \$?([\[(]-?\d(?:[^\[\]()]|\([^()]*\))*[\])])|\b(0 or 1)\b|\bat (least|most) (\d)\b", re.IGNORECASE
)
INTERVAL = re.compile(r"\bin \$?[\[(]-?\d[^\[\](),]*,(?:[^\[\]()]|\([^()]*\))*[\])]")
"""What in prose is a range: "at least 1" may be about something else there, and "in [1]" is a citation."""
HEADING = re.compile(r"^\w+:?\n(?: {4}|---)", re.MULTILINE)
UNIT = re.compile(r"\b(?:unit:|in the unit of) ([^.;]+)", re.IGNORECASE)
ATTRIBUTE = re.compile(r"^ {4}(\w[\w, ]*): ((?:.|\n {5,})*)", re.MULTILINE)

SYMBOLS = {"ell": "ℓ", "langle": "⟨", "leftarrow": "←", "perp": "⊥", "rangle": "⟩", "sum": "∑"}


@dataclass(frozen=True)
class About:
    """What a quantity says about itself.

    Attributes:
        sentence: the first sentence of its docstring; empty if there is none.
        range: where its values lie, such as "[0, 1]", "0 or 1" or "[0, ∞)"; empty if it does not say.
        unit: the unit of its values; empty if they have none.
        axes: the axes of its values, by the names in its annotation, such as ("n",) for one value per sample; None if
            unknown.
    """

    sentence: str = ""
    range: str = ""
    unit: str = ""
    axes: tuple[str, ...] | None = None

    @property
    def logarithmic(self) -> bool:
        """Whether an axis of its values is logarithmic: if their range goes from 0 or above to infinity."""
        return self.range.endswith("∞)") and self.range[1] != "-"


@cache
def about(name: str, docstring: str | None = None) -> About:
    """What is known about a quantity by its name: for gnomon's own what their docstrings say, otherwise nothing.

    Args:
        name: as in readings and histories, with split and layer before it and a dataclass's field after it, such as
            `test/mse_decomposition.total`.
        docstring: the docstring of a quantity that is not gnomon's own, or that has another name.
    """
    quantity, _, part = name.rpartition("/")[2].partition(".")
    function = getattr(measure, quantity, None) if quantity in measure.__all__ else None
    if docstring is not None or not inspect.isfunction(function):
        text = inspect.cleandoc(docstring or "")
        return About(first(text), *found([returns(text) or aside(text)]))
    text = inspect.getdoc(function) or ""
    told = returns(text)
    kinds = [kind for kind in members(inspect.signature(function).return_annotation) if kind is not Estimate]
    kind, *others = kinds or [Tensor]
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return About(first(text), *found([told]), None if others or part else axes_of(kind))
    whole = inspect.getdoc(kind) or ""
    own = next((line for names, line in ATTRIBUTE.findall(whole) if part in names.split(", ")), "")
    axes = next((axes_of(field.type) for field in fields(kind) if field.name == part), None)
    return About(first(own) or first(text), *found([own, whole.partition("\n\n")[0], told]), axes)


def docstring_of(name: str, quantity: object) -> str | None:
    """A quantity's docstring, perhaps a user's; None for gnomon's own under its name, by which it is found again."""
    function = unbound(quantity)
    own = getattr(measure, name.rpartition("/")[2], None) is function
    return None if own else inspect.getdoc(function) or ""


def first(text: str) -> str:
    """The first sentence, with formulas as plain text."""
    return plain(re.split(r"\n\n|(?<=\.)\s|;\s", text, maxsplit=1)[0])


def returns(text: str) -> str:
    """The lines below the heading Returns."""
    lines = re.search(r"^Returns:\n((?: {4}.*\n?|\n)*)", text, re.MULTILINE)
    return lines[1] if lines else ""


def aside(text: str) -> str:
    """The interval and the unit that the prose before all sections states, in a docstring that does not say more."""
    prose = " ".join(HEADING.split(text)[0].split())
    return ". ".join(match[0] for kind in (INTERVAL, UNIT) if (match := kind.search(prose)))


def found(texts: Sequence[str]) -> tuple[str, str]:
    """The first range that the texts state in turn, and the first unit."""
    texts = [" ".join(text.split()) for text in texts]
    ranges = [match for text in texts if (match := RANGE.search(text))]
    units = [match for text in texts if (match := UNIT.search(text))]
    interval, either, side, end = ranges[0].groups() if ranges else ("", "", "", "")
    if side:
        interval = f"[{end}, ∞)" if side.lower() == "least" else f"(-∞, {end}]"
    interval = re.sub(r"\\?\binf(?:ty|inity)?\b", "∞", interval or "")
    return plain(interval or either or ""), plain(units[0][1]) if units else ""


def axes_of(annotation: object) -> tuple[str, ...] | None:
    """The axes of a tensor; None for anything else."""
    axes = getattr(annotation, "dim_str", None)
    return None if axes is None else tuple(axes.split())


def plain(text: str) -> str:
    r"""Formulas as people write them without TeX: $\sqrt{k-1}$ is √(k-1)."""
    text = re.sub(r"\\sqrt\{([^}]*)\}", r"√(\1)", text)
    text = re.sub(r"\\(?:operatorname|mathcal|mathrm)\b ?", "", text)
    text = text.replace(r"^\top", "ᵀ").replace(r"\|", "∥").replace(r"\,", " ")
    text = re.sub(r"\\([A-Za-z]+) ?", lambda match: symbol(match[1]), text).replace("∥_2", "∥₂").replace("ℓ_2", "ℓ₂")
    return " ".join(re.sub(r"[$`{}]", "", text).split())


def symbol(word: str) -> str:
    """What a TeX command prints; the word itself, if that is not known."""
    case = "CAPITAL" if word[0].isupper() else "SMALL"
    try:
        return SYMBOLS.get(word) or unicodedata.lookup(f"GREEK {case} LETTER {word.upper()}")
    except KeyError:
        return f"{word} "
