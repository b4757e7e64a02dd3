"""The verdict on the training run whose readings these are."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from gnomon.errors import RangeError
from gnomon.history import Verdict, corpus, undecided, verdict
from gnomon.probe._names import quantities
from gnomon.probe._rows import Row, column, names_in

TRAIN, VALIDATION = "train", "validation"
"""The splits of the training data and of held-out samples, where there are splits and no others are named."""
RANKS = ("order", "time")
"""The sources of steps of `gnomon measure` that are places among the checkpoints, and no steps of training."""


def verdict_of(rows: Sequence[Row], split: str, validation: str | None) -> Verdict:
    """What `gnomon.verdict` says of these readings, as `History.verdict` describes it."""
    names, wanted = names_in(rows), corpus().quantities
    before = _before(names, wanted, split)
    if not before and (why := next(filter(None, (unfit(row.setting) for row in rows)), None)):
        return undecided(corpus(), f"A verdict {why}.")
    if missing := [before + name for name in wanted if before + name not in names]:
        there = ", ".join(quantities(names)) or "no readings"
        raise RangeError("split", ", ".join(missing), there, _advice(names, wanted))
    held_out = f"{validation}/accuracy"
    if validation not in (None, VALIDATION) and held_out not in names:
        raise RangeError("validation", "a split of the readings with accuracy", repr(validation), "Correct it.")
    needed = [before + name for name in wanted]
    last = _last_of(rows, needed)
    columns = {name: column(rows, before + name) for name in wanted}
    finite = torch.stack([*columns.values()]).isfinite().all(0)
    steps = torch.tensor([row.step for row in rows], dtype=torch.float64, device="cpu")
    judged = {name: values[finite] for name, values in columns.items()}
    if validation is not None and math.isfinite(last.numbers.get(held_out, math.nan)):
        # Where it was read, whether the training data were or not.
        also = column(rows, held_out)
        read = also.isfinite() & (steps <= last.step)
        judged |= {"validation_accuracy": also[read], "validation_steps": steps[read]}
        if (likely := f"{validation}/log_probability") in names:
            judged["validation_log_probability"] = column(rows, likely)[read]
    return _telling(verdict(steps[finite], **judged), _left_out(rows, needed))


def unfit(setting: Mapping[str, object]) -> str | None:
    """Why readings that `gnomon measure` took in a setting allow no verdict, whatever they are; None if they may."""
    if setting.get("split") not in (None, TRAIN):
        return "uses training samples, and these are of another split"
    if setting.get("steps") in RANKS:
        return "uses changes over doublings of the training steps, and these are not such steps"
    return None


def _before(names: Sequence[str], wanted: Sequence[str], split: str) -> str:
    """What stands before the names of the split's quantities: nothing if no split is named and there are none."""
    splits = split != TRAIN or any(name.startswith(f"{split}/") for name in names)
    return f"{split}/" if splits or not any(name in names for name in wanted) else ""


def _advice(names: Sequence[str], wanted: Sequence[str]) -> str:
    """Another split that has what is wanted, if there is one; and for which networks a verdict is."""
    others = [name.removesuffix(f"/{wanted[0]}") for name in names if name.endswith(f"/{wanted[0]}")]
    whole = [other for other in others if all(f"{other}/{name}" in names for name in wanted)]
    if whole:
        return f"The split {whole[0]!r} has them: name it."
    classifies = not names or any(name.rpartition("/")[2] == "accuracy" for name in names)
    return (
        "Measure them too."
        if classifies
        else "Measure them too, by these names; a verdict is of networks that classify."
    )


def _last_of(rows: Sequence[Row], names: Sequence[str]) -> Row:
    """The last reading that has all of these, if what was read of them there and since is finite."""
    place = next((at for at in reversed(range(len(rows))) if rows[at].numbers.keys() >= {*names}), None)
    if place is None:
        raise RangeError("split", "a step with a value of each", "none", "Read them at the same steps.")
    for row in rows[place:]:
        if lost := [name for name in names if not math.isfinite(row.numbers.get(name, 0.0))]:
            raise RangeError(
                "split",
                f"finite values at step {row.step}",
                f"NaN or infinity in {', '.join(lost)}",
                "Judge the training before it diverged, from a history that ends there.",
            )
    return rows[place]


def _left_out(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Which readings are left out because of NaN or infinity, and in what; nothing if none is."""
    spoiled = {
        row.step: lost
        for row in rows
        if (lost := [name for name in names if not math.isfinite(row.numbers.get(name, 0.0))])
    }
    if not spoiled:
        return ""
    steps = [f"{step:,}" for step in spoiled]
    which = (
        f"Step {steps[0]} is"
        if len(steps) == 1
        else f"{len(steps)} steps, {steps[0]} the first, {steps[-1]} the last, are"
    )
    lost = [name for name in names if any(name in those for those in spoiled.values())]
    return f" {which} left out: NaN or infinity in {', '.join(lost)}."


def _telling(found: Verdict, more: str) -> Verdict:
    """The verdict with a sentence more about what it rests on, or about why there is none."""
    message = found.message + more * (found.probability is None)
    return replace(found, evidence=found.evidence + more, message=message)
