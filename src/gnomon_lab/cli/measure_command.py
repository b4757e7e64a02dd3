"""`gnomon measure CHECKPOINT …`: the geometry of a trained network from its weights, and how it moved over several."""

import contextlib
import json
import math
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from gnomon.errors import RangeError
from gnomon_lab.cli.outputs import refuse
from gnomon_lab.cli.parse import parse
from gnomon_lab.cli.say import plain, say

if TYPE_CHECKING:
    import torch
    from rich.table import Table

    from gnomon_lab.cli.terminal import Terminal
    from gnomon_lab.measuring import Data, How, Summary

GAP = EDGES = 2
"""Characters between two columns of a table, and at both of its edges together."""
# Long help texts: tyro breaks an attribute's docstring where its lines end.
CHECKPOINT = (
    "The weights: .safetensors, a file of torch.save, or a folder of Hugging Face; files with code are refused. "
    "Or several of these, a folder of them, or a pattern such as 'run/*.ckpt'."
)
MODEL = (
    "MODULE:FACTORY, importable from here, which builds the network; it is called with those of its arguments that "
    "the checkpoint keeps. Default: the network that a checkpoint of Hugging Face or timm names."
)
STEPS = (
    "Where the steps of several checkpoints are from: the files' own step or epoch, the number in the name, the order "
    "of the names, or of the files' times. Default: the first of step, epoch and name that tells all of them apart."
)


@dataclass(frozen=True)
class Options:
    """Measure the network of one checkpoint at samples, or of several checkpoints and how it moved.

    Without --out, --report and --history no file is written.
    """

    checkpoint: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(help=CHECKPOINT)]
    data: str
    """digits; an .npz (x, labels) or .parquet file; a folder of parquet; mnist or similar; or a hub id owner/name."""
    model: Annotated[str | None, tyro.conf.arg(help=MODEL)] = None
    key: str | None = None
    """Where in the checkpoint the weights are, such as state_dict_ema or snapshots.3. Default: the usual places."""
    logits: str | None = None
    """The layer whose outputs are the logits, such as the one before a softmax; default: what the network returns."""
    position: int | Literal["all"] | None = None
    """For outputs with several rows per sample, the row to measure at: 0 is the first, -1 the last; or all."""
    quantities: tuple[str, ...] = ()
    """Their names; a wrong one lists all. Default: twelve, plus two for the verdict on several checkpoints."""
    samples: int | None = None
    """How many, from the first on; default: 1,024, or all if there are fewer."""
    split: str | None = None
    """The split, for a data set with splits; default: train."""
    layer: str | None = None
    """The layer whose input is taken as the features; default: the final linear layer."""
    head: tuple[str, ...] = ()
    """The final linear layer, or several whose outputs are added up or averaged; default: found by a forward pass."""
    memory: int | None = None
    """MiB for the samples that are processed together; default: 512."""
    rtol: float = 0.05
    """For more than 128 outputs, the relative error at which an estimate stops; 0 computes the Jacobian itself."""
    passes: int | None = None
    """The most products with a Jacobian that an estimate may use; default: 256."""
    device: str = "cpu"
    """Where to compute, such as cuda."""
    dtype: Literal["float32", "float64"] = "float32"
    """The dtype to compute in."""
    seed: int = 0
    """The seed of the digits' split."""
    data_dir: Path | None = None
    """The folder of the data sets; default: the environment variable GNOMON_DATA."""
    steps: Annotated[Literal["step", "epoch", "name", "order", "time"] | None, tyro.conf.arg(help=STEPS)] = None
    history: Path | None = None
    """The file for the readings of several checkpoints, as a gnomon.History; what is there is not measured again."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print JSON instead of the table."""
    out: Path | None = None
    """The file for the JSON."""
    report: Path | None = None
    """The file for a page (HTML)."""

    def outputs(self) -> dict[str, Path]:
        """The files to be written, by option."""
        named = {"out": self.out, "report": self.report, "history": self.history}
        return {name: path for name, path in named.items() if path is not None}

    def how(self) -> "How":
        """The options that `measuring` takes."""
        return {
            "layer": self.layer,
            "head": self.head,
            "position": self.position,
            "memory": None if self.memory is None else self.memory * 2**20,
            "rtol": self.rtol,
            "passes": self.passes,
        }


def main(arguments: Sequence[str]) -> int:
    """Measures, and prints the table or the JSON; everything else goes to stderr."""
    options = parse(Options, arguments, "gnomon measure")
    refuse(options.outputs(), [*options.checkpoint, Path(options.data)])
    if options.memory is not None and options.memory < 1:
        raise RangeError("--memory", "at least 1 MiB", options.memory, "Allow more.")
    if not 0 <= options.rtol < math.inf:
        raise RangeError("--rtol", "0 or above", options.rtol, "Pass one such as 0.05.")
    if options.passes is not None and options.passes < 16:
        raise RangeError("--passes", "at least 16", options.passes, "Allow more.")
    from gnomon_lab.arithmetic import convolutions_in_float32
    from gnomon_lab.cli.measure_several import several
    from gnomon_lab.cli.terminal import Terminal
    from gnomon_lab.measuring import checkpoints_at

    beside = Terminal(stderr=True)
    paths = checkpoints_at(options.checkpoint)
    with convolutions_in_float32():
        if len(paths) > 1 or options.history is not None or options.steps is not None:
            return several(options, paths, beside)
        return one(options, paths[0], beside)


def one(options: Options, path: Path, beside: "Terminal") -> int:
    """Measures one checkpoint."""
    from gnomon_lab.cli.terminal import Terminal
    from gnomon_lab.measuring import as_json, as_report
    from gnomon_lab.report import write
    from gnomon_lab.runs.files import write_json

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


def summarise(options: Options, path: Path, console: "Terminal") -> "Summary":
    """Everything but showing the result: mistakes are found before the work starts."""
    from gnomon_lab.cli.progress import Progress
    from gnomon_lab.measuring import Refilled, Summary, chosen, contents, files_of, in_samples, look, measure, ready

    quantities, (device, dtype) = chosen(options.quantities), place_of(options)
    checkpoint = look(path)
    refilled = Refilled(checkpoint, options.model, options.key, device, dtype)
    network, loaded = refilled.fill(checkpoint)
    data = samples_of(options)
    refuse(options.outputs(), [*contents(path), *data.files, *files_of(options.model or "")])
    also = f"; also there: {', '.join(loaded.others)} (--key)" if loaded.others else ""
    say(f"{path}: {loaded.words}{also}; {in_samples(len(data.x))} of {data.source}", console)
    tell, how = partial(say, terminal=console), options.how()
    found = ready(
        network, data, quantities, logits=options.logits, all_of_them=bool(options.quantities), say=tell, **how
    )
    with Progress(console) as progress, warnings_said(console):
        show = partial(progress.show, "measuring", unit="part ")
        measured = measure(network, found.data, found.quantities, say=tell, show=show, **how)
    setting = {
        "checkpoint": plain(str(path)),
        "taken": plain(loaded.words),
        **setting_of(options, data, refilled.name),
        "outputs": found.outputs,
        "device": options.device,
        "dtype": options.dtype,
    }
    return Summary(setting, measured, found.left_out)


def setting_of(options: Options, data: "Data", model: str) -> dict[str, object]:
    """What was measured, and at what, as the user named it."""
    return {
        "model": plain(model),
        "data": plain(data.source),
        "samples": len(data.x),
        "layer": options.layer and plain(options.layer),
        "head": [plain(name) for name in options.head],
        "logits": options.logits and plain(options.logits),
        "position": options.position,
    }


def place_of(options: Options) -> "tuple[torch.device, torch.dtype]":
    """The device and the dtype to compute with."""
    import torch

    from gnomon_lab.measuring import device_of

    return device_of(options.device), getattr(torch, options.dtype)


def samples_of(options: Options) -> "Data":
    """The samples, on the device and in the dtype of the computation."""
    from gnomon_lab.measuring import load_data

    device, dtype = place_of(options)
    data = load_data(
        options.data, options.split, options.samples, seed=options.seed, data_dir=options.data_dir, dtype=dtype
    )
    return data.to(device)


@contextlib.contextmanager
def warnings_said(console: "Terminal") -> Iterator[None]:
    """Prints each of gnomon's warnings inside as one line, and only once."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", RuntimeWarning)
        warnings.filterwarnings("default", "Probe: ", UserWarning)
        warnings.showwarning = lambda message, *rest: say(str(message), console)
        yield


def show_table(summary: "Summary", console: "Terminal") -> None:
    """Prints the numbers, with what each quantity is below its name where there is room for that."""
    from gnomon_lab.cli.tables import laid_out, width
    from gnomon_lab.measuring import COLUMNS

    table = explained(summary)
    if width(table, console).minimum <= console.width:
        console.print(table)
        return
    rows = summary.rows()
    longest = max(len(cell) for cells in [COLUMNS, *(row[1:] for row in rows)] for cell in cells)
    room = console.width - EDGES - GAP - longest
    console.print(laid_out(("", *COLUMNS), [(folded(name, room), *cells) for name, *cells in rows], console))


def explained(summary: "Summary") -> "Table":
    """The numbers, and below each name what the quantity is."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from gnomon_lab.measuring import COLUMNS, explanations

    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False, leading=1)
    table.add_column("")
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    words = explanations(summary.measured.values)
    for name, *cells in summary.rows():
        table.add_row(Text.assemble(name, "\n" if words[name] else "", (words[name], "dim")), *cells)
    return table


def folded(name: str, room: int) -> str:
    """A name on as many lines as it takes, where possible broken behind an underscore."""
    room = max(room, 1)
    return "\n".join(re.findall(rf".{{1,{room}}}$|.{{0,{room - 1}}}_|.{{1,{room}}}", name))
