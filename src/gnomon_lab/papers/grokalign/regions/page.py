"""regions' page: its table, figures and claims, from its records."""

from collections.abc import Callable, Sequence
from itertools import starmap

import numpy as np

from gnomon_lab.figures import (
    Curves,
    Figure,
    ImageFrame,
    ImageRow,
    ImageSlider,
    Line,
    Mark,
    Panel,
    RegionFrame,
    RegionMap,
)
from gnomon_lab.papers._shared import ALIGNMENT, NORM, SEEN, UNSEEN
from gnomon_lab.papers.grokalign.regions.slices import frame
from gnomon_lab.runs import Cells, Claim, Record, Seeds, last, series, settled_at

ARM = "GrokAlign"
BEND, OPERATOR = "‖A - c xᵀ‖ / ‖A‖", "‖A‖, outputs per input"
Say = Callable[[Record], str]
SOURCE = "Walker et al., arXiv:2506.12284, "
AXES = ("first direction, input units", "second direction, input units")
PLANE = (
    "The plane through three training digits, cut by the network into its linear regions. Centroids are taken at the "
    "length of their digits and drawn where the plane comes nearest to them."
)
NEAR = 256
"""Training digits whose distance from the boundary of their region is read; it costs 785 forward passes per digit."""


def memorised(records: Sequence[Record]) -> Record | None:
    """The first slice from which on the network knows all training digits; None if it never does."""
    step = settled_at(records, ARM, SEEN, 1.0)
    found = (record for record in records if step is not None and record["step"] >= step and "slices" in record)
    return next(found, None)


def moments(records: Sequence[Record]) -> list[tuple[str, Record]]:
    """The start, memorisation if there is one, and the end."""
    known, final = memorised(records), last(records, ARM)
    ends = "generalised" if final["reached"] else "end"
    return [("start", records[0]), *([("memorised", known)] if known else []), (ends, final)]


def table(records: Sequence[Record]) -> Cells:
    """The network at its start, when it has memorised and when it has generalised."""
    columns = ("", "step", "train", "test", BEND, "norm", "three cosines", "to boundary", "regions")  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for name, record in moments(records):
        turned = " ".join(f"{cosine:.2f}" for cosine in record["turned"][:3])
        numbers = (f"{record[SEEN]:.1%}", f"{record[UNSEEN]:.1%}", f"{record['bend.median']:.4f}",
                   f"{record[NORM]:.3g}", turned, f"{record['near/boundary_distance']:.3g}")  # fmt: skip
        rows.append((name, f"{record['step']:,}", *numbers, f"{len(record['slices'][0]['areas']):,}"))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    known, final = memorised(records), last(records, ARM)
    if known is None or not final["reached"]:
        return "The network did not both memorise and generalise."
    return (
        f"The network has memorised at step {known['step']:,} (test accuracy {known[UNSEEN]:.0%}) and generalised at "
        f"step {final['step']:,} ({final[UNSEEN]:.0%}). In between ‖A - c xᵀ‖/‖A‖ at its training digits went from "
        f"{known['bend.median']:.4f} to {final['bend.median']:.4f}, and the mean cosine of centroids and digits from "
        f"{known[ALIGNMENT]:.2f} to {final[ALIGNMENT]:.2f}."
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
        RegionMap("norms", "The linear regions, by the norm of their operator", f"{caption}.", *AXES, OPERATOR, norms,
                  log_values=True, value_range=bar(norms, 0), beside=beside),
        RegionMap("areas", "The linear regions, by their size", f"{caption}, without the smallest tenth.", *AXES,
                  "area in the plane", areas, log_values=True, value_range=bar(areas, 0.1), beside=beside),
        RegionMap("classes", "The linear regions, by the digit that the network sees there",
                  f"{PLANE} A region that the decision boundary crosses has the colour of its centre.", *AXES,
                  "digit seen at the centre", frames("classes"), tuple(map(str, range(10))), beside=beside),
    ]  # fmt: skip


def others(records: Sequence[Record]) -> RegionMap:
    """Figure 11: at the end, the planes through digits of every requested class."""
    frames = tuple(frame(f"digits {piece['label']}", piece, "norms") for piece in last(records, ARM)["slices"])
    title = "The regions around other digits, at the end"
    return RegionMap("others", title, PLANE, *AXES, OPERATOR, frames, log_values=True)


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

    def line(label: str, name: str, colour: int, *, dashed: bool = False) -> Line:
        return Line(label, *series(records, ARM, name), dashed, colour)

    digits = "training digits"
    known = (line(digits, SEEN, 0, dashed=True), line("unseen digits", UNSEEN, 1))
    panels = (
        Panel("Accuracy", "share correct", known, marks, (0.0, 1.05)),
        Panel(BEND + ", median", "0 is flat", (line(digits, "bend.median", 0),), marks),
        Panel("Centroid alignment, mean", "cosine", (line(digits, ALIGNMENT, 0),), marks),
        Panel("From a digit to the boundary of its region, mean", "distance between inputs",
              (line(f"the first {NEAR} of them", "near/boundary_distance", 2),), marks),
    )  # fmt: skip
    caption = "A is the Jacobian at a training digit x, that is the operator of its region, and c the best for it."
    return Curves("curves", "Accuracy, and how flat the regions are", caption, "step (a pass over all batches)", panels)


def claims(seeds: Seeds) -> list[Claim]:
    """What figures 1 and 11 and their text say, over all finished seeds; they print no numbers."""
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
              lambda r: f"{r[UNSEEN]:.1%} at step {r['step']:,}", lambda known, final: known["step"] < final["step"]),
        claim(f"the regions flatten: {BEND} at the training digits, median", "appendix D", "falls",
              lambda r: f"{r['bend.median']:.4f}", lambda known, final: final["bend.median"] < known["bend.median"]),
        claim("the centroids of the three digits turn towards them: cosines", "figure 1", "each rises",
              *turned(slice(3))),
        claim("regions migrate away from the digits: mean distance to the region's boundary", "section 3", "rises",
              lambda r: f"{r['near/boundary_distance']:.3g}",
              lambda known, final: final["near/boundary_distance"] > known["near/boundary_distance"]),
    ]  # fmt: skip
    if any(len(final["turned"]) > 3 for _, final in pairs):
        message = "the same at other digits: cosines"
        found.append(claim(message, "figure 11", "each rises", *turned(slice(3, None))))
    return found
