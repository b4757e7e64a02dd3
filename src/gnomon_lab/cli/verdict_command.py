"""`gnomon verdict RUN`, or of readings, or of checkpoints: is more training worth it?"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from gnomon.errors import DataError, RangeError
from gnomon_lab.cli.outputs import refuse
from gnomon_lab.cli.parse import parse
from gnomon_lab.cli.say import say

if TYPE_CHECKING:
    from gnomon import History, Verdict


WEIGHTS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".tar")
"""How the names of checkpoints end."""
CHECKPOINTS = "Of checkpoints say what they were trained on: --data DATA, as `gnomon measure` takes it."


@dataclass(frozen=True)
class Options:
    """Say whether more training is worth it, from the readings so far, and what became of the most similar runs."""

    path: tyro.conf.Positional[tuple[Path, ...]]
    """A run's folder; a file with a reading a line, as gnomon.History has them; or checkpoints of one training, which
    are measured first."""
    data: str | None = None
    """Of checkpoints: the training data, as `gnomon measure` takes them, which has more options: with its --history
    FILE, and then `gnomon verdict FILE`."""
    model: str | None = None
    """Of checkpoints: MODULE:FACTORY, which builds the network."""
    arm: str | None = None
    """Of readings of several arms, one; default: all of them."""
    split: str = "train"
    """The split of training data."""
    validation: str = "validation"
    """The split of samples that are held out, if there is one."""
    picture: Path | None = None
    """A file for a picture of the most similar runs, .png or .svg; of one arm."""


def main(arguments: Sequence[str]) -> int:
    """Prints the verdict on each arm; 1 if none can be told."""
    options = parse(Options, arguments, "gnomon verdict")
    refuse({"picture": options.picture} if options.picture is not None else {}, options.path)
    told = {"": of_checkpoints(options, options.data)} if options.data is not None else of_readings(options)
    for arm, found in told.items():
        say(f"{arm}: {found.message}" if arm else found.message)
        for sentence in (found.evidence, found.mind):
            if sentence and sentence not in found.message:
                say(f"    {sentence}")
    if options.picture is not None:
        draw(told, options.picture)
    return int(all(found.probability is None for found in told.values()))


def of_readings(options: Options) -> "dict[str, Verdict]":
    """The verdict on each arm that has what is looked at."""
    told: dict[str, Verdict] = {}
    refused: list[RangeError] = []
    if len(options.path) != 1:
        raise DataError("PATH", "one run or file of readings", f"{len(options.path)} paths", CHECKPOINTS)
    path = options.path[0] / "records.jsonl" if options.path[0].is_dir() else options.path[0]
    if path.suffix in WEIGHTS or not path.exists():
        raise DataError("PATH", "a run's folder, or a file of readings", repr(str(options.path[0])), CHECKPOINTS)
    for arm, history in histories(path, options.arm):
        try:
            told[arm] = history.verdict(options.split, options.validation)
        except RangeError as error:  # an arm that was read otherwise
            refused.append(error)
    if not told:
        raise refused[0]
    return told


def of_checkpoints(options: Options, data: str) -> "Verdict":
    """The verdict on a training by its checkpoints, from the first on, at what they were trained on."""
    from gnomon.history import corpus
    from gnomon_lab.cli import measure_command, measure_several
    from gnomon_lab.cli.terminal import Terminal
    from gnomon_lab.measuring import checkpoints_at, worth

    names, beside = corpus().quantities, Terminal(stderr=True)
    asked = measure_command.Options(options.path, data, options.model, quantities=names)
    with contextlib.redirect_stdout(sys.stderr):  # for what the user's modules print
        steps, failed = measure_several.ordered(asked, checkpoints_at(options.path), beside)
        kept, reader = measure_several.opened(asked, steps, beside)
        failed |= measure_several.read(steps, kept, reader, beside)
    if failed:
        raise measure_several.together(failed, len(kept.rows))
    if (found := worth(kept.rows)) is None:
        raise DataError(
            "PATH", "checkpoints with a value of each", f"none of some of {', '.join(names)}", "Name others."
        )
    return found


def histories(path: Path, arm: str | None) -> "Iterator[tuple[str, History]]":
    """The readings of each arm, by its name; of a file without arms by none."""
    from gnomon import History
    from gnomon_lab.runs.records import read_records

    if arm is not None:
        yield arm, History.load(path, arm=arm)
        return
    try:
        arms = list(dict.fromkeys(record["arm"] for record in read_records(path)))
    except DataError:
        arms = []  # a history, whose lines have none
    if not arms:
        yield "", History.load(path)
    for each in arms:
        yield each, History.load(path, arm=each)


def draw(told: "dict[str, Verdict]", picture: Path) -> None:
    """Writes the picture of the one arm's similar runs."""
    from gnomon import plot

    if len(told) > 1:
        raise DataError("--picture", "one arm", f"{len(told)} of them", f"Add --arm {next(iter(told))!r}.")
    figure, _ = plot.similar_runs(next(iter(told.values())))
    figure.savefig(picture)
    say(f"written: {picture}")
