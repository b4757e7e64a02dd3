"""`gnomon measure` for one checkpoint."""

import contextlib
import json
import sys
from functools import partial
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from gnomon._words import counted
from gnomon_lab.cli.measure_inputs import place_of, samples_of, setting_of
from gnomon_lab.cli.measure_options import Options
from gnomon_lab.cli.outputs import refuse
from gnomon_lab.cli.progress import Progress
from gnomon_lab.cli.say import plain, say, warnings_said
from gnomon_lab.cli.tables import EDGES, GAP, folded, laid_out, width
from gnomon_lab.cli.terminal import Terminal
from gnomon_lab.measuring import (
    COLUMNS,
    Refilled,
    Summary,
    as_json,
    as_report,
    chosen,
    contents,
    explanations,
    files_of,
    look,
    measure,
    ready,
)
from gnomon_lab.report import write
from gnomon_lab.runs.files import write_json


def one(options: Options, path: Path, beside: Terminal) -> int:
    """Measures one checkpoint."""
    # What the user's modules print must not get into the JSON.
    with contextlib.redirect_stdout(sys.stderr):
        summary = summarise(options, path, beside)
    try:
        if options.out is not None:
            write_json(options.out, as_json(summary))
        if options.report is not None:
            write(as_report(summary), options.report)
    finally:  # what was measured is printed even if the disk is full
        if options.json:
            print(json.dumps(as_json(summary), indent=2, allow_nan=False))
        else:
            show_table(summary, Terminal())
    for written in options.outputs().values():
        say(f"written: {written}", beside)
    return 0


def summarise(options: Options, path: Path, console: Terminal) -> Summary:
    """Everything but showing the result: mistakes are found before the work starts."""
    quantities, (device, dtype) = chosen(options.quantities), place_of(options)
    checkpoint = look(path)
    refilled = Refilled(checkpoint, options.model, options.key, device, dtype)
    network, loaded = refilled.fill(checkpoint)
    data = samples_of(options, refilled, console)
    refuse(options.outputs(), [*contents(path), *data.files, *files_of(options.model or "")])
    say(f"{path}: {loaded.in_full}; {counted(len(data.x), 'sample')} of {data.source}", console)
    tell, how = partial(say, terminal=console), options.how()
    found = ready(
        network,
        data,
        quantities,
        described=refilled.described,
        logits=options.logits,
        all_of_them=bool(options.quantities),
        say=tell,
        **how,
    )
    with Progress(console) as progress, warnings_said(console):
        show = partial(progress.show, "measuring", unit="part ")
        measured = measure(network, data, found.quantities, say=tell, show=show, **how)
    setting = {
        "checkpoint": plain(str(path)),
        "taken": plain(loaded.words),
        **setting_of(options, data, refilled.name),
        "outputs": found.outputs,
        "mask": found.mask,
        "device": options.device,
        "dtype": options.dtype,
    }
    return Summary(setting, measured, found.left_out)


def show_table(summary: Summary, console: Terminal) -> None:
    """Prints the numbers, with what each quantity is below its name where there is room for that."""
    table = explained(summary)
    if width(table, console).minimum <= console.width:
        console.print(table)
        return
    rows = summary.rows()
    longest = max(len(cell) for cells in [COLUMNS, *(row[1:] for row in rows)] for cell in cells)
    room = console.width - EDGES - GAP - longest
    console.print(laid_out(("", *COLUMNS), [(folded(name, room), *cells) for name, *cells in rows], console))


def explained(summary: Summary) -> Table:
    """The numbers, and below each name what the quantity is."""
    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False, leading=1)
    table.add_column("")
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    words = explanations(summary.measured.values)
    for name, *cells in summary.rows():
        table.add_row(Text.assemble(name, "\n" if words[name] else "", (words[name], "dim")), *cells)
    return table
