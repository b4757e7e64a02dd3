"""`gnomon measure` for several checkpoints: how each quantity moved; nothing is measured twice."""

import contextlib
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table

from gnomon import Verdict, __version__
from gnomon._words import counted
from gnomon.errors import CheckpointError, GnomonError
from gnomon_lab.cli.measure_inputs import place_of, samples_of, setting_of
from gnomon_lab.cli.measure_options import Options
from gnomon_lab.cli.outputs import refuse
from gnomon_lab.cli.progress import Progress
from gnomon_lab.cli.say import plain, say, say_below, warnings_said
from gnomon_lab.cli.tables import EDGES, GAP, folded
from gnomon_lab.cli.terminal import Terminal
from gnomon_lab.measuring import (
    LASTING,
    SOURCES,
    Checkpoint,
    Kept,
    Moved,
    Reader,
    Record,
    Refilled,
    Steps,
    also,
    as_columns,
    as_page,
    bars,
    by_step,
    chosen,
    contents,
    files_of,
    look,
    measure_each,
    shown,
    some,
)
from gnomon_lab.report import write
from gnomon_lab.report.worth import QUESTION, sentences
from gnomon_lab.runs import duration
from gnomon_lab.runs.data import digest
from gnomon_lab.runs.files import write_json

MOST_BARS = 16
"""The most characters of the bars."""
SHORT = 12
"""Characters for a name on a narrow terminal, where a second step is shown only if there are as many."""
LONG = 60
"""From this many seconds on, the expected time is printed."""
SHOWN = 3
"""How many checkpoints an error names."""


def several(options: Options, paths: Sequence[Path], beside: Terminal) -> int:
    """Measures checkpoints not known yet, and shows all; errors in single ones are reported when the others are done.

    Raises:
        GnomonError: if a checkpoint could not be read.
    """
    with contextlib.redirect_stdout(sys.stderr):
        steps, failed = ordered(options, paths, beside)
        kept, reader = opened(options, steps, beside)

    def moved() -> Moved:
        skipped = {str(path): str(error) for path, error in failed.items()}
        return Moved(kept.setting, rows(steps, kept), SOURCES[steps.source], skipped)

    try:
        with contextlib.redirect_stdout(sys.stderr):
            failed |= read(steps, kept, reader, beside)
    except BaseException:
        leave(options, moved(), beside)
        raise
    if rows(steps, kept):
        show(options, moved(), beside)
    if failed:
        raise together(failed, len(rows(steps, kept)))
    return 0


def rows(steps: Steps, kept: Kept) -> list[Record]:
    """The readings to show: all that are kept, or, where a step is a place among these checkpoints, those of them."""
    if steps.source in LASTING:
        return kept.rows
    named = {one.sha256 for one in steps.by_step.values()}
    return [row for row in kept.rows if row["checkpoint"]["sha256"] in named]


def ordered(
    options: Options, paths: Sequence[Path], beside: Terminal, *, judged: bool = False
) -> tuple[Steps, dict[Path, GnomonError]]:
    """The checkpoints by step, and those that cannot be read; `judged` as in `by_step`."""
    found: list[Checkpoint] = []
    failed: dict[Path, GnomonError] = {}
    with Progress(beside) as progress:
        for done, path in enumerate(paths, 1):
            try:
                found.append(look(path))
            except CheckpointError as error:
                failed[path] = error
            if beside.is_terminal:
                progress.show("looking", done, len(paths))
    if not found:
        raise together(failed, 0)
    try:
        steps = by_step(found, options.steps, judged=judged)
    except CheckpointError:
        if failed:
            without = together(failed, 0)
            say(f"left out: expected {without.expected}, got {without.got}", beside)
        raise
    for path, other in steps.twice.items():
        say(f"left out {path}: the weights of {other}, at the same step", beside)
    first, last = min(steps.by_step), max(steps.by_step)
    span = f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"
    say(f"{counted(len(steps.by_step), 'checkpoint')}, {span}: {SOURCES[steps.source]}", beside)
    return steps, failed | steps.damaged


def opened(options: Options, steps: Steps, beside: Terminal) -> tuple[Kept, Reader]:
    """The readings kept so far, and the reader for the checkpoints that are not among them."""
    quantities, place = chosen(options.quantities), place_of(options)
    checkpoints = [*steps.by_step.values()]
    refilled = Refilled(checkpoints[0], options.model, options.key, *place)
    data = samples_of(options, refilled, beside)
    asked = bool(options.quantities) or data.labels is None
    more = {} if asked else also(quantities)
    files: list[Path] = []
    for one in checkpoints:
        with contextlib.suppress(CheckpointError):  # if one is gone, no output takes its place
            files += contents(one.path)
    refuse(options.outputs(), [*files, *data.files, *files_of(options.model or "")])
    setting = setting_of(options, data, refilled.name) | {
        "samples_sha256": digest(data.x, data.labels),
        "network_sha256": refilled.code,
        "key": options.key and plain(options.key),
        "quantities": sorted({**quantities, **more}),
        "dtype": options.dtype,
        "rtol": options.rtol,
        "passes": options.passes,
        "split": data.split,
        "steps": steps.source,
        "gnomon": __version__,
    }
    reader = Reader(
        refilled,
        data,
        quantities,
        setting=setting,
        logits=options.logits,
        all_of_them=bool(options.quantities),
        say=partial(say, terminal=beside),
        also=more,
        **options.how(),
    )
    return Kept(options.history, setting), reader


def read(steps: Steps, kept: Kept, reader: Reader, beside: Terminal) -> dict[Path, GnomonError]:
    """Has all checkpoints read; prints the expected time if it is long, and the progress.

    Returns:
        Those that could not be read; what has no hash leaves the steps.
    """
    unknown, failed = [], {}
    for step, one in [*steps.by_step.items()]:
        try:
            unknown += [one] if kept.find(one.sha256) is None else []
        except CheckpointError as error:
            failed[one.path] = error
            del steps.by_step[step]
    if kept.path is not None and len(unknown) < len(steps.by_step):
        say(
            f"{kept.path}: {counted(len(steps.by_step) - len(unknown), 'checkpoint')} measured before, "
            f"{len(unknown):,} to do",
            beside,
        )
    with Progress(beside) as progress, warnings_said(beside):
        show = partial(progress.show, "checkpoints", unit="") if unknown else lambda done, total: None
        if beside.is_terminal:
            reader.show = partial(progress.show, "measuring")
        count = iter(range(len(unknown), 0, -1))

        def timed(one: Checkpoint, step: int) -> Record:
            start, left = time.monotonic(), next(count)
            record = reader.read(one, step)
            seconds = left * (time.monotonic() - start)
            if left == len(unknown) - 1 and seconds > LONG:  # the first takes longer
                also = "" if kept.path else "; with --history FILE a call that was stopped goes on where it was"
                say(f"{counted(left, 'checkpoint')} to measure, about {duration(seconds)}{also}", beside)
            return record

        return failed | measure_each(steps, kept, timed, show=show)


def leave(options: Options, moved: Moved, beside: Terminal) -> None:
    """When the work is stopped: names the file from which to go on or, without one, prints what was measured so far."""
    if options.history is not None:
        done = counted(len(moved.records), "checkpoint")
        say(f"{options.history}: {done} measured; the same command goes on from there", beside)
    elif moved.records:
        print_all(options, moved)


def show(options: Options, moved: Moved, beside: Terminal) -> None:
    """Prints the table or the JSON, and writes the requested files."""
    try:
        if options.out is not None:
            write_json(options.out, as_columns(moved))
        if options.report is not None:
            write(as_page(moved), options.report)
    finally:  # what was measured is printed where a disk is full, too
        print_all(options, moved)
    if not options.json and (isinstance(moved.worth, Verdict) or not options.quantities):
        first, *others = sentences(moved.worth)
        say_below(f"{QUESTION} {first}", *others)
    for name, path in options.outputs().items():
        say(f"{'kept' if name == 'history' else 'written'}: {path}", beside)


def print_all(options: Options, moved: Moved) -> None:
    """Prints the JSON, or a table with a row per quantity: some of the steps, and all of them as bars."""
    if options.json:
        print(json.dumps(as_columns(moved), indent=2, allow_nan=False))
    else:
        terminal = Terminal()
        terminal.print(table(moved, terminal))


def table(moved: Moved, terminal: Terminal) -> Table:
    """The table, with as many steps as there is room for, the first and the last among them."""
    series = {name: moved.series(name) for name in moved.names}
    cells = {name: [shown(None if math.isnan(value) else value) for value in values] for name, values in series.items()}
    number = GAP + max(len(cell) for row in [*cells.values(), [f"{step:,}" for step in moved.at]] for cell in row)
    whole = f"all {len(moved.at):,}"
    wide = 0 if terminal.options.ascii_only else max(len(whole), min(MOST_BARS, len(moved.at)))
    room = terminal.width - EDGES - max(map(len, series), default=0) - GAP - wide
    if room < 2 * number:
        room, wide = room + wide, 0
    places = some(len(moved.at), max(2, room // number))
    if terminal.width < EDGES + SHORT + 2 * number:
        places = places[-1:]
    beside = EDGES + len(places) * number + (GAP + wide if wide else 0)
    drawn = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    drawn.add_column("step")
    for place in places:
        drawn.add_column(f"{moved.at[place]:,}", justify="right", no_wrap=True)
    if wide:
        drawn.add_column(whole if len(places) < len(moved.at) else "", no_wrap=True)
    for name, values in series.items():
        words = folded(name, terminal.width - beside)
        drawn.add_row(words, *(cells[name][place] for place in places), *([bars(values, wide)] if wide else []))
    return drawn


def together(failed: Mapping[Path, GnomonError], done: int) -> GnomonError:
    """The error for the checkpoints that could not be read: the first one's, with the names of the others."""
    error, *others = failed.values()
    if others:
        names = ", ".join(str(path) for path in [*failed][1:SHOWN])
        more = f" and {len(others) + 1 - SHOWN} more" if len(others) >= SHOWN else ""
        alike = all(other.expected == error.expected for other in others)
        error.got = f"{error.got}; {'so also' if alike else 'also left out, each for its own reason:'} {names}{more}"
    if done:
        error.advice = f"{error.advice} Measured: {counted(done, 'checkpoint')}."
    return error
