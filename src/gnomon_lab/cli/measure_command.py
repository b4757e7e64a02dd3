"""`gnomon measure CHECKPOINT`: the geometry of a trained network, from its weights."""

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from gnomon.errors import DataError, RangeError
from gnomon_lab.cli.outputs import refuse
from gnomon_lab.cli.parse import parse
from gnomon_lab.cli.say import plain, say

if TYPE_CHECKING:
    from gnomon_lab.cli.terminal import Terminal
    from gnomon_lab.measuring import Summary


@dataclass(frozen=True)
class Options:
    """Measure the network of a checkpoint at samples. Without --out and --report it writes no file."""

    checkpoint: tyro.conf.Positional[Path]
    """Its weights: .safetensors, or what torch.save wrote; a file that holds code is refused."""
    model: str
    """MODULE:FACTORY, importable from here: what builds the network, called without arguments."""
    data: str
    """digits; a file .npz (x, labels) or .parquet; a folder of parquet; mnist or the like; or a hub id owner/name."""
    quantities: tuple[str, ...] = ()
    """Their names; a wrong one shows them all. Default: twelve for classifiers."""
    samples: int | None = None
    """The first so many; default: 1,024, or all if they are fewer."""
    split: str | None = None
    """Of a data set with splits; default: train."""
    layer: str | None = None
    """The layer whose input the features are; default: the final linear one."""
    memory: int | None = None
    """MiB for the samples that are looked at together; default: 512."""
    device: str = "cpu"
    """Where to compute, such as cuda."""
    dtype: Literal["float32", "float64"] = "float32"
    """In which to compute."""
    seed: int = 0
    """Of the split of the digits."""
    data_dir: Path | None = None
    """The folder of the data sets; default: the variable GNOMON_DATA."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print JSON in the place of the table."""
    out: Path | None = None
    """The file for the JSON."""
    report: Path | None = None
    """The file for a page (HTML)."""

    def outputs(self) -> dict[str, Path]:
        """The files to be written, by option."""
        named = {"out": self.out, "report": self.report}
        return {name: path for name, path in named.items() if path is not None}


def main(arguments: Sequence[str]) -> int:
    """Measures, and prints the table or the JSON; everything else is said on stderr."""
    options = parse(Options, arguments, "gnomon measure")
    refuse("measure", options.outputs(), [options.checkpoint, Path(options.data)])
    if options.memory is not None and options.memory < 1:
        raise RangeError("--memory", "at least 1 MiB", options.memory, "Allow more.", where="measure")
    from gnomon_lab.cli.terminal import Terminal
    from gnomon_lab.measuring import as_json, as_report
    from gnomon_lab.report import write
    from gnomon_lab.runs.files import write_json

    beside = Terminal(stderr=True)
    # What the user's modules print must not get between the JSON.
    with contextlib.redirect_stdout(sys.stderr):
        summary = summarise(options, beside)
    try:
        if options.out is not None:
            write_json(options.out, as_json(summary))
        if options.report is not None:
            write(as_report(summary), options.report)
    finally:  # what was measured is printed where a disk is full, too
        if options.json:
            print(json.dumps(as_json(summary), indent=2, allow_nan=False))
        else:
            show_table(summary, Terminal())
    for path in options.outputs().values():
        say(f"written: {path}", beside)
    return 0


def summarise(options: Options, console: "Terminal") -> "Summary":
    """All but showing it: what can be wrong is found before the work."""
    import torch

    from gnomon_lab.cli.progress import Progress
    from gnomon_lab.measuring import (
        Summary,
        build,
        by_reason,
        chosen,
        device_of,
        files_of,
        foreign,
        left_out,
        load,
        load_data,
        measure,
        read_weights,
    )

    quantities, device, dtype = chosen(options.quantities), device_of(options.device), getattr(torch, options.dtype)
    weights = read_weights(options.checkpoint)
    network = build(options.model)
    with foreign("a network that takes its weights", "Measure it where it can be filled, moved and set to eval mode."):
        taken = load(network, weights)
        network.to(device, dtype).eval()
    data = load_data(
        options.data, options.split, options.samples, seed=options.seed, data_dir=options.data_dir, dtype=dtype
    ).to(device)
    refuse("measure", options.outputs(), [options.checkpoint, *data.files, *files_of(options.model)])
    say(f"{options.checkpoint}: {taken}; {len(data.x):,} samples of {data.source}", console)
    without = left_out(network, data, quantities, layer=options.layer)
    left = {name: quantity for name, quantity in quantities.items() if name not in without}
    if not left or (without and options.quantities):
        why = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason(without).items())
        raise DataError("--quantities", "what can be measured here", why, "Leave these out.", where="measure")
    for reason, names in by_reason(without).items():
        say(f"left out {', '.join(names)}: {reason}", console)
    memory = None if options.memory is None else options.memory * 2**20
    with Progress(console) as progress:
        measured = measure(
            network,
            data,
            left,
            layer=options.layer,
            memory=memory,
            show=partial(progress.show, "measuring"),
        )
    setting = {
        "checkpoint": plain(str(options.checkpoint)),
        "taken": plain(taken),
        "model": plain(options.model),
        "data": plain(data.source),
        "samples": len(data.x),
        "layer": options.layer and plain(options.layer),
        "device": options.device,
        "dtype": options.dtype,
    }
    return Summary(setting, measured, without)


def show_table(summary: "Summary", console: "Terminal") -> None:
    """Prints the numbers, below each quantity's name what it is."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from gnomon_lab.measuring import COLUMNS, explanations

    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False, leading=1)
    table.add_column("")
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    said = explanations(summary.measured.values)
    for name, *cells in summary.rows():
        table.add_row(Text.assemble(name, "\n" if said[name] else "", (said[name], "dim")), *cells)
    console.print(table)
