"""`gnomon verdict RUN`, or on readings or checkpoints: is more training worth it?"""

import contextlib
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from gnomon.errors import DataError, GnomonError
from gnomon_lab.cli import measure_options
from gnomon_lab.cli.outputs import kind, refuse
from gnomon_lab.cli.parse import parse
from gnomon_lab.cli.say import say, say_below

if TYPE_CHECKING:
    from gnomon import History, Verdict


PICTURES = (".png", ".svg")
"""The suffixes of pictures."""
CHECKPOINTS = "Of checkpoints say what they were trained on: --data DATA, as `gnomon measure` takes it."
MEASURED = (
    "For checkpoints: the training data, as for `gnomon measure`. That has more options: measure with it and "
    "--history FILE, then `gnomon verdict FILE`."
)


@dataclass(frozen=True)
class Options:
    """Say whether more training is worth it, from the readings so far, and what became of the most similar runs."""

    path: tyro.conf.Positional[tuple[Path, ...]]
    """A run's folder, a file of a gnomon.History, or checkpoints of one training run, which are measured first."""
    data: Annotated[str | None, tyro.conf.arg(help=MEASURED)] = None
    model: str | None = None
    """For checkpoints: MODULE:FACTORY, which builds the network."""
    arm: str | None = None
    """For readings of several arms, the one to use; default: all of them."""
    split: str = "train"
    """The split of training data."""
    validation: str = "validation"
    """The split of held-out samples, if there is one."""
    picture: Path | None = None
    """A file for a picture of the most similar runs, .png or .svg; for one arm."""


def main(arguments: Sequence[str]) -> int:
    """Prints the verdict on each arm; returns 1 if no arm has a probability."""
    options = parse(Options, arguments, "gnomon verdict")
    from gnomon_lab.report.worth import once, sentences

    require_used(options)
    if options.picture is not None:
        if options.picture.suffix not in PICTURES:
            got = repr(str(options.picture))
            raise DataError("--picture", f"a name that ends in {' or '.join(PICTURES)}", got, "Rename it.")
        refuse({"picture": options.picture}, options.path)
    error: GnomonError | None = None
    if options.data is None:
        verdicts = of_readings(options)
    else:
        found, error = of_checkpoints(options, options.data)
        verdicts = {"": found}
    for arm, verdict in once(verdicts).items():
        first, *others = sentences(verdict)
        say_below(f"{arm}: {first}" if arm else first, *others)
    if options.picture is not None:
        draw(verdicts, options.picture)
    if error is not None:
        raise error
    return int(all(isinstance(found, str) or found.probability is None for found in verdicts.values()))


def require_used(options: Options) -> None:
    """Raises DataError if an option would be ignored: some are for checkpoints, others for readings."""
    if options.data is None:
        unused = {"model": options.model}
    else:
        given = {"arm": options.arm, "split": options.split, "validation": options.validation}
        unused = {name: value for name, value in given.items() if value != getattr(Options, name)}
    for name, value in unused.items():
        if value is not None:
            which = "without" if options.data is None else "beside"
            raise DataError(f"--{name}", f"none {which} --data", repr(value), "Leave it out.")


def of_readings(options: Options) -> "dict[str, Verdict | str]":
    """The verdict on each arm, or why there is none."""
    from gnomon_lab.cli.terminal import Terminal
    from gnomon_lab.measuring import assuming, no_verdict, setting_in
    from gnomon_lab.report.worth import worth
    from gnomon_lab.runs import run_at

    path = readings_at(options.path)
    if (run := run_at(path)) is not None:
        run.records()  # which raises where they were altered
    setting = setting_in(path)
    if (why := no_verdict(setting)) is not None:
        return {"": why}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = dict(histories(path, options.arm))
    for sentence in dict.fromkeys(str(warning.message) for warning in said):
        say(sentence, Terminal(stderr=True))
    held_out = f"{options.validation}/accuracy"
    if options.validation != Options.validation and all(held_out not in history.names for history in found.values()):
        raise DataError(
            "--validation", "a split of the readings with accuracy", repr(options.validation), "Correct it."
        )
    return {
        arm: assuming(
            setting,
            worth(history, options.split, options.validation if held_out in history.names else Options.validation),
        )
        for arm, history in found.items()
    }


def readings_at(paths: Sequence[Path]) -> Path:
    """The file of readings at a path: the path itself or, if it is a folder, the file in it.

    Raises:
        DataError: if there is none, or more than one.
    """
    if not paths:
        raise DataError("PATH", "a run's folder, or a file of readings", "none", "Name it.")
    from gnomon_lab.measuring.found import ENDS

    if any(path.suffix in ENDS for path in paths):
        raise DataError("PATH", "a run's folder, or a file of readings", repr(str(paths[0])), CHECKPOINTS)
    if len(paths) > 1:
        raise DataError("PATH", "one run, or one file of readings", f"{len(paths)} paths", "Name one.")
    path = paths[0] / "records.jsonl" if paths[0].is_dir() else paths[0]
    if not path.exists():
        folder = paths[0].is_dir()
        there = "a folder without records.jsonl" if folder else "no file"
        advice = CHECKPOINTS if folder and any(each.suffix in ENDS for each in paths[0].iterdir()) else "Correct it."
        raise DataError("PATH", "a run's folder, or a file of readings", f"{str(paths[0])!r}, {there}", advice)
    if not path.is_file():  # a pipe or a device might never end
        got = f"{str(path)!r}, which is {kind(path)}"
        raise DataError("PATH", "a run's folder, or a file of readings", got, "Correct it.")
    return path


def of_checkpoints(options: Options, data: str) -> "tuple[Verdict | str, GnomonError | None]":
    """The verdict on a training run by its checkpoints, at what they were trained on; and what is wrong with some.

    Raises:
        GnomonError: if none can be read.
    """
    from gnomon.history import corpus
    from gnomon.probe import from_records
    from gnomon_lab.cli import measure_several
    from gnomon_lab.cli.terminal import Terminal
    from gnomon_lab.measuring import assuming, checkpoints_at
    from gnomon_lab.report.worth import worth

    names, beside = corpus().quantities, Terminal(stderr=True)
    asked = measure_options.Options(options.path, data, options.model, quantities=names)
    with contextlib.redirect_stdout(sys.stderr):  # for what the user's modules print
        steps, failed = measure_several.ordered(asked, checkpoints_at(options.path), beside, judged=True)
        kept, reader = measure_several.opened(asked, steps, beside)
        failed |= measure_several.read(steps, kept, reader, beside)
    error = measure_several.together(failed, len(kept.rows)) if failed else None
    if error is not None and not kept.rows:
        raise error
    return assuming(kept.setting, worth(from_records(kept.rows))), error


def histories(path: Path, arm: str | None) -> "Iterator[tuple[str, History]]":
    """The readings of each arm, with its name; for a file without arms, with an empty name.

    Raises:
        DataError: if the records of arms are damaged, or there is no such arm.
    """
    from gnomon import History
    from gnomon.probe import from_records
    from gnomon_lab.runs import by_arm
    from gnomon_lab.runs.records import read_records

    if not re.search(rb'"arm"\s*:', path.read_bytes()):
        if arm is not None:
            raise DataError("--arm", "none for readings without arms", repr(arm), "Leave it out.")
        yield "", History.load(path)
        return
    arms = by_arm(read_records(path))  # which raises where a history would warn
    if not arms:  # a first line that is not yet complete
        yield "", from_records([])
        return
    if arm is not None and arm not in arms:
        raise DataError("--arm", f"one of {', '.join(arms)}", repr(arm), "Correct it.")
    for each in arms if arm is None else [arm]:
        yield each, from_records(arms[each])


def draw(verdicts: "dict[str, Verdict | str]", picture: Path) -> None:
    """Writes the picture of the similar runs of the only arm."""
    from gnomon import plot
    from gnomon_lab.runs.files import replace_file

    if len(verdicts) > 1:
        raise DataError("--picture", "one arm", f"{len(verdicts)} of them", f"Add --arm {next(iter(verdicts))!r}.")
    (found,) = verdicts.values()
    if isinstance(found, str):
        raise DataError("--picture", "a verdict to draw", "none", "Leave it out.")
    figure, _ = plot.similar_runs(found)
    replace_file(picture, lambda beside: figure.savefig(beside, format=picture.suffix[1:]))
    say(f"written: {picture}")
