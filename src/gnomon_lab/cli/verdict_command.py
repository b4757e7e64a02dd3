"""`gnomon verdict RUN`: is more training worth it?"""

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


@dataclass(frozen=True)
class Options:
    """Say whether more training is worth it, from the readings so far, and what became of the most similar runs.

    Of checkpoints read them first: `gnomon measure 'ckpt-*.pt' --data … --history readings.jsonl`.
    """

    path: tyro.conf.Positional[Path]
    """A run's folder, or a file with a reading a line, as gnomon.History has them."""
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
    path = options.path / "records.jsonl" if options.path.is_dir() else options.path
    refuse({"picture": options.picture} if options.picture is not None else {}, [path])
    told: dict[str, Verdict] = {}
    refused: list[RangeError] = []
    for arm, history in histories(path, options.arm):
        try:
            told[arm] = history.verdict(options.split, options.validation)
        except RangeError as error:  # an arm that was read otherwise
            refused.append(error)
    if not told:
        raise refused[0]
    for arm, found in told.items():
        say(f"{arm}: {found.message}" if arm else found.message)
        for sentence in (found.evidence, found.mind):
            if sentence and sentence not in found.message:
                say(f"    {sentence}")
    if options.picture is not None:
        draw(told, options.picture)
    return int(all(found.probability is None for found in told.values()))


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
