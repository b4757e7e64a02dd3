"""Whether the outcomes of the networks of a family are spread, and whether one of their settings decides them."""

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.metrics import roc_auc_score

from gnomon_lab.papers.own._outcome import outcome
from gnomon_lab.runs import Seeds


def late(runs: Seeds) -> dict[int, bool]:
    """For the networks that fit their training data, by index, whether they generalise after that."""
    found = {place: outcome(records) for place, records in enumerate(runs)}
    return {place: came.in_words == "generalised late" for place, came in found.items() if came.fits is not None}


def decides(settings: Sequence[Mapping[str, Any]], came: Sequence[bool]) -> tuple[str, float]:
    """The setting that alone tells best what came, and its AUROC in its own direction; 0.5 if all came alike."""
    if len(set(came)) < 2:
        return "none", 0.5
    areas = {name: roc_auc_score(came, [rank(drawn[name]) for drawn in settings]) for name in settings[0]}
    # This decides between two and three relevant signs, and between networks with and without BatchNorm.
    second = [int(drawn["variant"] * 100) % 2 for drawn in settings if "variant" in drawn]
    areas |= {"the variant's second digit": roc_auc_score(came, second)} if second else {}
    name = max(areas, key=lambda name: abs(areas[name] - 0.5))
    return name, max(areas[name], 1 - areas[name])


def rank(value: object) -> float:
    """A number for a setting: words are 0 or 1."""
    return float(value) if isinstance(value, int | float) else float(value in ("mse", "SGD"))
