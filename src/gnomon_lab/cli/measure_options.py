"""What `gnomon measure` is asked for."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from gnomon_lab.measuring import How
    from gnomon_lab.measuring.samples import Position

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
    """digits; an .npz (x, labels) or .parquet file; a folder of parquet files or of classes; mnist or similar; or a hub
    id owner/name."""
    model: Annotated[str | None, tyro.conf.arg(help=MODEL)] = None
    key: str | None = None
    """Where in the checkpoint the weights are, such as state_dict_ema or snapshots.3. Default: the usual places."""
    logits: str | None = None
    """The layer whose outputs are the logits, such as the one before a softmax; default: what the network returns."""
    position: int | Literal["last", "all"] | None = None
    """For outputs with several rows per sample, the row to measure at: 0 is the first, -1 or last the last; or all."""
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
    """The folder of the data sets, the only one searched; default: that of GNOMON_DATA, then the Hugging Face hub."""
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

    def row(self) -> "Position":
        """The position as a number, unless it is all."""
        return -1 if self.position == "last" else self.position

    def how(self) -> "How":
        """The options that `measuring` takes."""
        return {
            "layer": self.layer,
            "head": self.head,
            "position": self.row(),
            "memory": None if self.memory is None else self.memory * 2**20,
            "rtol": self.rtol,
            "passes": self.passes,
        }
