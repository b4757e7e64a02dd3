"""regions: the linear regions around training digits when they are memorised and when they are grokked (figure 1)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from gnomon import (
    GrokAlign,
    Probe,
    _checks,
    accuracy,
    centroid_alignment,
    jacobian_alignment,
    jacobian_norm,
    log_spaced,
)
from gnomon.data import Samples
from gnomon.models import mlp
from gnomon.regions import boundary_distance
from gnomon_lab.figures import Curves, Figure, ImageFrame, ImageRow, ImageSlider, Mark, Panel, RegionFrame, RegionMap
from gnomon_lab.papers._shared import LOSSES, lines, mnist_rows
from gnomon_lab.papers.grokalign.regions.slices import cut, frame, reach, short
from gnomon_lab.runs import Claim, Record, Run, last, settled_at

ARM = "GrokAlign"
BEND, NORM = "‖A - c xᵀ‖ / ‖A‖", "‖A‖, outputs per input"
Say = Callable[[Record], str]
SOURCE = "Walker et al., arXiv:2506.12284, "
AXES = ("first direction, input units", "second direction, input units")
PLANE = (
    "The plane through three training digits, cut by the network into its linear regions. Centroids are taken at the "
    "length of their digits and drawn where the plane comes nearest to them."
)
NEAR = 256
"""Training digits whose distance from the boundary of their region is read; it costs 785 forward passes a digit."""
INTRODUCTION = """
A ReLU network is affine on each of the many pieces, the linear regions, into which it cuts its input space. Three
training digits of one class span a plane; here are the regions that the network makes of it, exactly, when it fits all
training digits, and later, when it recognises digits that it has not seen, if it comes to that. The paper predicts that
by then the regions around the digits have become flat, A ≈ c xᵀ, and that each region's centroid, the sum of the rows
of A, has turned towards its digit.
"""


@dataclass(frozen=True)
class Config:
    """The setting of figure 1."""

    loss: Literal["mse", "cross-entropy"] = "mse"
    """The training loss; cross-entropy does not determine the centroids."""
    coefficient: float = 1e-4
    """Of the GrokAlign penalty."""
    init_scale: float = 8.0
    """Multiplies PyTorch's default initialisation."""
    dtype: str = "float64"
    """Of training, float32 or float64; slices are always exact, in float64."""
    samples: int = 1024
    """Training digits, and as many for testing."""
    width: int = 196
    """Of the three hidden layers."""
    goal: float = 0.85
    """Training ends when the test accuracy is above it."""
    steps: int = 40_000
    """At most; a step is a pass over all batches of 256."""
    classes: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    """A plane through three training digits of each; the first is followed, the others are looked at in the end."""
    slices: int = 1
    """Slices in each factor of ten of the steps, beside those at memorisation and at the end."""
    threads: int = 1
    """Processor threads."""

    def __post_init__(self) -> None:
        _checks.settings(
            "regions",
            ("coefficient", self.coefficient, "finite and at least 0", 0 <= self.coefficient < math.inf),
            ("init_scale", self.init_scale, "finite and above 0", 0 < self.init_scale < math.inf),
            ("dtype", self.dtype, "float32 or float64", self.dtype in ("float32", "float64")),
            ("samples", self.samples, "from 100 to 10000", 100 <= self.samples <= 10_000),
            ("width", self.width, "at least 1", self.width >= 1),
            ("goal", self.goal, "in (0, 1)", 0 < self.goal < 1),
            ("steps", self.steps, "at least 1", self.steps >= 1),
            ("classes", self.classes, "at least one of 0 to 9", bool(self.classes) and {*self.classes} <= {*range(10)}),
            ("slices", self.slices, "at least 1", self.slices >= 1),
            ("threads", self.threads, "at least 1", self.threads >= 1),
        )  # fmt: skip


SMALL = Config(coefficient=0.03, init_scale=3.0, dtype="float32", samples=512, width=96, steps=4000,
               classes=(0, 1, 2, 3), slices=2)  # fmt: skip
PAPER = Config()
SETTINGS = (SMALL, PAPER)


def bend(jacobian_alignment: Tensor) -> Tensor:
    """How far each Jacobian A is from flat: ‖A - c xᵀ‖ / ‖A‖ with the best c, which is A x / ‖x‖²."""
    return (1 - jacobian_alignment**2).clamp_min(0).sqrt()


def run(config: Config, run: Run) -> None:
    """Trains the network and cuts the planes."""
    torch.set_num_threads(config.threads)
    train, test = (mnist_rows(run, split, config.samples, getattr(torch, config.dtype)) for split in ("train", "test"))
    generator = torch.Generator().manual_seed(run.seed)
    widths = (train.x.shape[1], config.width, config.width, config.width, 10)
    model = mlp(widths, scale=config.init_scale, generator=generator).to(train.x.dtype)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.01)
    penalty = GrokAlign(config.coefficient, generator=generator)
    triples = {label: train.x[train.labels == label][:3].double() for label in config.classes}
    farthest = max(map(reach, triples.values()))
    looks = Probe(model, train, [jacobian_alignment, bend, centroid_alignment, jacobian_norm])
    near = Probe(model, train.x[:NEAR], [boundary_distance])
    three = Probe(model, torch.cat([*triples.values()]).to(train.x), {"turned": centroid_alignment})
    seen, unseen = Probe(model, train, {"train": accuracy}), Probe(model, test, {"test": accuracy})
    due, sliced = log_spaced(12), log_spaced(config.slices)
    for step in run.steps(ARM, config.steps, model=model, optimizer=optimizer, generator=generator):
        if step > 0:
            train_pass(config, run, model, optimizer, penalty, train)
        reached = step % 10 == 0 and float(unseen.read(step).values["test"].mean()) > config.goal
        end = reached or step == config.steps
        if end or due(step) or sliced(step):
            known, bends, turned = seen.read(step), looks.read(step), three.read(step).values["turned"]
            first = known.scalars()["train"] == 1 and all(record["train"] < 1 for record in run.records())
            values: dict[str, Any] = {"bend.median": float(bends.values["bend"].median()), "reached": reached}
            values["turned"] = short(turned)
            readings = [known, unseen.read(step), bends]
            if end or first or sliced(step):
                readings.append(near.read(step))
                labels = config.classes if end else config.classes[:1]
                values["slices"] = [{"label": label, **cut(model, triples[label], farthest)} for label in labels]
            run.record(step, *readings, **values)
        if reached:
            run.stop()


def train_pass(
    config: Config, run: Run, model: nn.Module, optimizer: torch.optim.Optimizer, penalty: GrokAlign, train: Samples
) -> None:
    """One pass over all batches."""
    for x, labels in zip(torch.split(train.x, 256), torch.split(train.labels, 256), strict=True):
        batch = x.detach().requires_grad_()
        logits = model(batch)
        objective = LOSSES[config.loss](logits, labels) + penalty(model, batch, logits)
        run.require_finite(objective=objective)
        optimizer.zero_grad()
        torch.autograd.backward(objective, inputs=list(model.parameters()))
        optimizer.step()


def memorised(records: Sequence[Record]) -> Record | None:
    """The first slice from which on the network knows all training digits; None if it never does."""
    step = settled_at(records, ARM, "train", 1.0)
    found = (record for record in records if step is not None and record["step"] >= step and "slices" in record)
    return next(found, None)


def moments(records: Sequence[Record]) -> list[tuple[str, Record]]:
    """The start, memorisation if there is one, and the end."""
    known, final = memorised(records), last(records, ARM)
    ends = "generalised" if final["reached"] else "end"
    return [("start", records[0]), *([("memorised", known)] if known else []), (ends, final)]


def table(records: Sequence[Record]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The network at its start, when it has memorised and when it has generalised."""
    columns = ("", "step", "train", "test", BEND, "norm", "three cosines", "to boundary", "regions")  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for name, record in moments(records):
        turned = " ".join(f"{cosine:.2f}" for cosine in record["turned"][:3])
        numbers = (f"{record['train']:.1%}", f"{record['test']:.1%}", f"{record['bend.median']:.4f}",
                   f"{record['jacobian_norm']:.3g}", turned, f"{record['boundary_distance']:.3g}")  # fmt: skip
        rows.append((name, f"{record['step']:,}", *numbers, f"{len(record['slices'][0]['areas']):,}"))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    known, final = memorised(records), last(records, ARM)
    if known is None or not final["reached"]:
        return "The network did not both memorise and generalise."
    return (
        f"The network has memorised at step {known['step']:,} (test accuracy {known['test']:.0%}) and generalised at "
        f"step {final['step']:,} ({final['test']:.0%}). In between ‖A - c xᵀ‖/‖A‖ at its training digits went from "
        f"{known['bend.median']:.4f} to {final['bend.median']:.4f}, and the mean cosine of centroids and digits from "
        f"{known['centroid_alignment']:.2f} to {final['centroid_alignment']:.2f}."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """The regions by norm, area and class, the centroids as images, the curves, and the other planes at the end."""
    return [*maps(records), images(records), curves(records), others(records)]


def maps(records: Sequence[Record]) -> list[RegionMap]:
    """The regions on the first plane at every slice, by norm, area and class."""
    taken, known = [record for record in records if "slices" in record], memorised(records)
    before, final = taken.index(known) if known else 0, len(taken) - 1
    beside = (before, final) if known and before < final else None
    names = {record["step"]: f", {name}" for name, record in moments(records)}

    def frames(values: str) -> tuple[RegionFrame, ...]:
        return tuple(frame(f"step {at['step']:,}{names.get(at['step'], '')}", at["slices"][0], values) for at in taken)

    def bar(frames: Sequence[RegionFrame], smaller: float) -> tuple[float, float]:
        values = np.concatenate([frame.values for frame in frames[before:]])
        return float(np.quantile(values, smaller)), float(values.max())

    norms, areas, caption = (
        frames("norms"),
        frames("areas"),
        f"{PLANE} The colours' ends are those from memorisation on",
    )
    return [
        RegionMap("norms", "The linear regions, by the norm of their operator", f"{caption}.", *AXES, NORM, norms,
                  log_values=True, value_range=bar(norms, 0), beside=beside),
        RegionMap("areas", "The linear regions, by their size", f"{caption}, without the smallest tenth.", *AXES,
                  "area in the plane", areas, log_values=True, value_range=bar(areas, 0.1), beside=beside),
        RegionMap("classes", "The linear regions, by the digit that the network sees there",
                  f"{PLANE} A region that the decision boundary crosses has the colour of its centre.", *AXES,
                  "digit seen at the centre", frames("classes"), tuple(map(str, range(10))), beside=beside),
    ]  # fmt: skip


def others(records: Sequence[Record]) -> RegionMap:
    """Figure 11: at the end, the planes through digits of every class that was asked for."""
    frames = tuple(frame(f"digits {piece['label']}", piece, "norms") for piece in last(records, ARM)["slices"])
    title = "The regions around other digits, at the end"
    return RegionMap("others", title, PLANE, *AXES, NORM, frames, log_values=True)


def images(records: Sequence[Record]) -> ImageSlider:
    """The three digits, and below them what the network looks for there."""
    rows = {"three digits": "digits", "their centroids": "images"}
    frames = []
    for record in records:
        if "slices" in record:
            shown = {label: np.array(record["slices"][0][name]).reshape(-1, 28, 28) for label, name in rows.items()}
            frames.append(ImageFrame(f"step {record['step']:,}", tuple(starmap(ImageRow, shown.items()))))
    caption = "Above, the three digits; below, the centroids of their regions. Noise is not aligned, a likeness is."
    return ImageSlider("images", "What the network looks for at the three digits", caption, tuple(frames))


def curves(records: Sequence[Record]) -> Curves:
    """Accuracies and geometry against steps, with memorisation and generalisation marked."""
    marks = tuple(Mark(f"{name}, step {record['step']:,}", record["step"]) for name, record in moments(records)[1:])
    digits, some = {ARM: "training digits"}, {ARM: f"the first {NEAR} of them"}
    known = lines(records, digits, "train", dashed=True) + lines(records, {ARM: "unseen digits"}, "test")
    panels = (
        Panel("Accuracy", "share correct", known, marks, (0.0, 1.05)),
        Panel(BEND + ", median", "0 is flat", lines(records, digits, "bend.median"), marks),
        Panel("Centroid alignment, mean", "cosine", lines(records, digits, "centroid_alignment"), marks),
        Panel("From a digit to the boundary of its region, mean", "distance between inputs",
              lines(records, some, "boundary_distance"), marks),
    )  # fmt: skip
    caption = "A is the Jacobian at a training digit x, that is the operator of its region, and c the best for it."
    return Curves("curves", "Accuracy, and how flat the regions are", caption, "step (a pass over all batches)", panels)


def claims(seeds: Sequence[Sequence[Record]]) -> list[Claim]:
    """What figures 1 and 11 and the text to them say, over all finished seeds; they print no numbers."""
    ends = [(memorised(records), last(records, ARM)) for records in seeds]
    pairs = [(known, final) for known, final in ends if known and final["reached"]]

    def claim(message: str, where: str, expected: str, say: Say, holds: Callable[[Record, Record], bool]) -> Claim:
        measured = [f"{say(known)} → {say(final)}" for known, final in pairs]
        if missed := len(seeds) - len(pairs):
            measured.append(f"{missed} of {len(seeds)} seeds did not both memorise and generalise")
        return Claim(message, SOURCE + where, expected, "; ".join(measured), not missed and all(starmap(holds, pairs)))

    def turned(at: slice) -> tuple[Say, Callable[[Record, Record], bool]]:
        def rose(known: Record, final: Record) -> bool:
            return all(after > before for before, after in zip(known["turned"][at], final["turned"][at], strict=True))

        return lambda record: f"{min(record['turned'][at]):.2f}…{max(record['turned'][at]):.2f}", rose

    found = [
        claim("the network memorises first and generalises later", "figure 1", "test accuracy reaches the goal later",
              lambda r: f"{r['test']:.1%} at step {r['step']:,}", lambda known, final: known["step"] < final["step"]),
        claim(f"the regions flatten: {BEND} at the training digits, median", "appendix D", "falls",
              lambda r: f"{r['bend.median']:.4f}", lambda known, final: final["bend.median"] < known["bend.median"]),
        claim("the centroids of the three digits turn towards them: cosines", "figure 1", "each rises",
              *turned(slice(3))),
        claim("regions migrate away from the digits: mean distance to the region's boundary", "section 3", "rises",
              lambda r: f"{r['boundary_distance']:.3g}",
              lambda known, final: final["boundary_distance"] > known["boundary_distance"]),
    ]  # fmt: skip
    if any(len(final["turned"]) > 3 for _, final in pairs):
        message = "the same at other digits: cosines"
        found.append(claim(message, "figure 11", "each rises", *turned(slice(3, None))))
    return found
