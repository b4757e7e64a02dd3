"""`gnomon measure CHECKPOINT`: the geometry of a trained network, from its weights."""

import contextlib
import json
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
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
    from torch import nn

    from gnomon_lab.cli.terminal import Terminal
    from gnomon_lab.measuring import Summary, Taken


@dataclass(frozen=True)
class Options:
    """Measure the network of a checkpoint at samples. Without --out and --report it writes no file."""

    checkpoint: tyro.conf.Positional[Path]
    """Its weights: .safetensors, what torch.save wrote, or a folder of Hugging Face; what holds code is refused."""
    data: str
    """digits; a file .npz (x, labels) or .parquet; a folder of parquet; mnist or the like; or a hub id owner/name."""
    model: str | None = None
    """MODULE:FACTORY, importable from here: what builds the network, called without arguments. Default: of a folder of
    Hugging Face, the network that its config.json describes."""
    key: str | None = None
    """Where in the checkpoint the weights stand, such as state_dict_ema or snapshots.3. Default: where they usually do.
    """
    logits: str | None = None
    """The layer whose outputs are the logits, such as the one before a softmax; default: what the network returns."""
    position: int | Literal["all"] | None = None
    """Of outputs that have several rows a sample, the one to measure at: 0 is the first, -1 the last; or all."""
    quantities: tuple[str, ...] = ()
    """Their names; a wrong one shows them all. Default: twelve for classifiers."""
    samples: int | None = None
    """The first so many; default: 1,024, or all if they are fewer."""
    split: str | None = None
    """Of a data set with splits; default: train."""
    layer: str | None = None
    """The layer whose input the features are; default: the final linear one."""
    head: tuple[str, ...] = ()
    """The final linear layer, or several that are added up or averaged; default: found by what a pass does."""
    memory: int | None = None
    """MiB for the samples that are looked at together; default: 512."""
    rtol: float = 0.05
    """Of more than 128 outputs, the error over the value at which an estimate ends; 0 takes the Jacobian itself."""
    passes: int | None = None
    """The products with a Jacobian that an estimate may take; default: 256."""
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
    refuse(options.outputs(), [options.checkpoint, Path(options.data)])
    if options.memory is not None and options.memory < 1:
        raise RangeError("--memory", "at least 1 MiB", options.memory, "Allow more.")
    if not 0 <= options.rtol < math.inf:
        raise RangeError("--rtol", "0 or above", options.rtol, "Pass one such as 0.05.")
    if options.passes is not None and options.passes < 16:
        raise RangeError("--passes", "at least 16", options.passes, "Allow more.")
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
        CONFIG,
        Summary,
        by_reason,
        chosen,
        device_of,
        files_at,
        files_of,
        foreign,
        left_out,
        load_data,
        measure,
        take_outputs,
    )

    quantities, device, dtype = chosen(options.quantities), device_of(options.device), getattr(torch, options.dtype)
    network, taken = network_of(options)
    with foreign("a network that can be moved and set to eval mode", "Measure it where it can."):
        network.to(device, dtype).eval()
    data = load_data(
        options.data, options.split, options.samples, seed=options.seed, data_dir=options.data_dir, dtype=dtype
    ).to(device)
    files = [*files_at(options.checkpoint), options.checkpoint / CONFIG, *data.files, *files_of(options.model or "")]
    refuse(options.outputs(), files)
    also = f"; also there: {', '.join(taken.others)} (--key)" if taken.others else ""
    say(f"{options.checkpoint}: {taken.said}{also}; {len(data.x):,} samples of {data.source}", console)
    outputs = take_outputs(network, data.x, layer=options.logits, position=options.position)
    if outputs is not None:
        say(outputs, console)
    data = data.at(options.position)
    without = left_out(network, data, quantities, layer=options.layer, head=options.head, position=options.position)
    left = {name: quantity for name, quantity in quantities.items() if name not in without}
    if not left or (without and options.quantities):
        why = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason(without).items())
        raise DataError("--quantities", "what can be measured here", why, "Leave these out.")
    for reason, names in by_reason(without).items():
        say(f"left out {', '.join(names)}: {reason}", console)
    memory = None if options.memory is None else options.memory * 2**20
    with Progress(console) as progress, warnings_said(console):
        measured = measure(
            network,
            data,
            left,
            layer=options.layer,
            head=options.head,
            position=options.position,
            memory=memory,
            rtol=options.rtol,
            passes=options.passes,
            say=partial(say, terminal=console),
            show=partial(progress.show, "measuring"),
        )
    setting = {
        "checkpoint": plain(str(options.checkpoint)),
        "taken": plain(taken.said),
        "model": plain(options.model or CONFIG),
        "data": plain(data.source),
        "samples": len(data.x),
        "layer": options.layer and plain(options.layer),
        "head": [plain(name) for name in options.head],
        "logits": options.logits and plain(options.logits),
        "position": options.position,
        "outputs": outputs,
        "device": options.device,
        "dtype": options.dtype,
    }
    return Summary(setting, measured, without)


@contextlib.contextmanager
def warnings_said(console: "Terminal") -> Iterator[None]:
    """What gnomon warns of inside is one line each, and said once."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", RuntimeWarning)
        warnings.showwarning = lambda message, *rest: say(str(message), console)
        yield


def network_of(options: Options) -> "tuple[nn.Module, Taken]":
    """The network with its weights, and what was taken of the checkpoint."""
    from gnomon_lab.measuring import CONFIG, build, foreign, load, of_folder, read_weights

    weights = read_weights(options.checkpoint)
    if options.model is not None:
        network = build(options.model)
        with foreign("a network that takes its weights", "Measure it where it can be filled."):
            return network, load(network, weights, options.key)
    if not (options.checkpoint / CONFIG).is_file():
        raise DataError(
            "--model",
            "MODULE:FACTORY, what builds the network, such as nets:small for small() in nets.py",
            f"none, and no folder with a {CONFIG} which would say it",
            "Name it.",
        )
    if options.key is not None:
        raise DataError("--key", f"none where {CONFIG} says the network", options.key, "Name a --model too.")
    return of_folder(options.checkpoint, weights)


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
