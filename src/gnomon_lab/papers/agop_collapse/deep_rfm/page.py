"""deep-rfm's page: its table, figures and claims, from its records."""

import itertools
import math
from collections.abc import Callable, Sequence
from statistics import correlation, mean

import numpy as np

from gnomon_lab.figures import Curves, Figure, ImageFrame, ImageRow, ImageSlider, Line, Panel
from gnomon_lab.papers.agop_collapse._deep_rfm import NEAR, SOURCE, described
from gnomon_lab.papers.agop_collapse._shared import EXPONENTIAL
from gnomon_lab.runs import Cells, Claim, Record, Seeds, by_arm, last, over_seeds, series

STAGES = {"inputs": "X", "mapped": "M^½ X", "features": "Φ(M^½ X)"}
"""The stages that a layer's inputs pass through, by the names of the readings."""
MARGINAL = 2.0
"""The largest factor by which Φ may raise NC1 on average where the paper says that it does so only marginally."""


def logs(records: Sequence[Record], arm: str, stage: str, name: str = "nc1") -> list[float]:
    """Base-10 logarithms of a measure of collapse by layer."""
    return [math.log10(value) for value in series(records, arm, f"{stage}.{name}")[1]]


def across(records: Sequence[Record], arm: str, before: str, after: str) -> list[float]:
    """By how many decades NC1 changes between two stages of each layer."""
    return [b - a for a, b in zip(logs(records, arm, before), logs(records, arm, after), strict=True)]


def straight(records: Sequence[Record], arm: str, name: str) -> float:
    """The correlation of the logarithm of a measure after M^½ with the layer: -1 for an exponential fall."""
    values = logs(records, arm, "mapped", name)
    return correlation(range(len(values)), values)


def slowest(records: Sequence[Record], arm: str) -> float:
    """The largest factor from one layer's NC1 after M^½ to the next one's."""
    return 10 ** max(b - a for a, b in itertools.pairwise(logs(records, arm, "mapped")))


def others(records: Sequence[Record], arm: str) -> float:
    """By how many decades everything but M^½ changes NC1, from the first layer's inputs to the last one's features."""
    whole = logs(records, arm, "features")[-1] - logs(records, arm, "inputs")[0]
    return whole - sum(across(records, arm, "inputs", "mapped"))


def raised(records: Sequence[Record], arm: str) -> float:
    """The factor by which Φ changes NC1, as the geometric mean over layers."""
    return 10 ** mean(across(records, arm, "mapped", "features"))


def from_collapsed(records: Sequence[Record], arm: str) -> float:
    """The root mean square distance of the last Gram matrix from the collapsed one: 1 within, -1/(K - 1) across."""
    products = np.array(last(records, arm)["gram"])
    classes = np.arange(len(products)) // (len(products) // 10)
    collapsed = np.where(classes[:, None] == classes, 1.0, -1 / 9)
    return float(np.sqrt(np.mean((products - collapsed) ** 2)))


def table(records: Sequence[Record]) -> Cells:
    """Every arm from its first to its last layer."""
    columns = ("", "NC1 of X", "of M^½X", "by M^½", "by Φ", "NC2", "jitter", "test", "seconds")
    rows: list[tuple[str, ...]] = []
    for arm in by_arm(records):
        end = last(records, arm)
        decades = (sum(across(records, arm, *stages)) for stages in itertools.pairwise(STAGES))
        jitter = max(series(records, arm, "jitter")[1])
        rows.append(
            (arm, f"{series(records, arm, 'inputs.nc1')[1][0]:.3g}", f"{end['mapped.nc1']:.1e}",
             *(f"10^{value:+.1f}" for value in decades), f"{end['mapped.nc2_etf']:.3f}", f"{jitter:.0e}",
             f"{end['test']:.1%}", f"{end['seconds']['trained']:.0f}")
        )  # fmt: skip
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in a sentence for each arm."""
    say = "{}: NC1 falls from {:.2g} to {:.1e} after M^½ of layer {}; each Φ multiplies it by {:.2g} on average."
    ends = {arm: last(records, arm) for arm in by_arm(records)}
    return " ".join(
        say.format(described(arm), first, end["mapped.nc1"], end["step"], raised(records, arm))
        for arm, end in ends.items() for first in series(records, arm, "inputs.nc1")[1][:1]
    )  # fmt: skip


def figures(records: Sequence[Record]) -> list[Figure]:
    """Collapse against depth for each arm, and the Gram matrices of all."""
    return [*(curves(records, arm) for arm in by_arm(records)), matrices(records)]


def curves(records: Sequence[Record], arm: str) -> Curves:
    """Figures 3 and 4."""

    def stages(name: str) -> tuple[Line, ...]:
        return tuple(
            Line(label, *series(records, arm, f"{stage}.{name}"), colour=colour)
            for colour, (stage, label) in enumerate(STAGES.items())
        )

    known = tuple(
        Line(f"{name} accuracy", *series(records, arm, name), dashed=name == "train", colour=3)
        for name in ("train", "test")
    )
    return Curves(
        arm.replace(" ", "-"),
        f"What the root of the AGOP and the features do: {described(arm)}",
        "Variability within classes over that between them (NC1), and how far the class means are from a simplex "
        "(NC2), of each layer's inputs, after the root of its AGOP, and after its random features. Accuracy: of a "
        "kernel machine on top of so many layers.",
        "layer",
        (
            Panel("NC1: the root lowers it, the random features raise it", "tr Σ_W / tr Σ_B", stages("nc1"),
                  log_y=True),
            Panel("NC2: distance of the class means from a simplex", "Frobenius norm", stages("nc2_etf"), log_y=True),
            Panel("Accuracy", "share correct", known, (), (0.0, 1.05)),
        ),
        log_x=False,
    )  # fmt: skip


def matrices(records: Sequence[Record]) -> ImageSlider:
    """Figures 1, 5 and 6."""
    label = "from left to right: " + "; ".join(by_arm(records))
    frames = []
    for depth in sorted({record["step"] for record in records}):
        images = [record["gram"] for own in by_arm(records).values() for record in own if record["step"] == depth]
        moment = f"layer {depth}" if depth else "the data"
        frames.append(ImageFrame(moment, (ImageRow(label, np.array(images)),)))
    return ImageSlider(
        "gram",
        "How alike images are, layer by layer",
        "Inner products of images after the root of each layer's AGOP, centred and of unit length, in the order of "
        "their classes. Collapsed: red blocks of ones on the diagonal, and -1/9 everywhere else.",
        tuple(frames),
    )


def claims(seeds: Seeds) -> list[Claim]:
    """The statements, for every arm and all finished seeds."""

    def claim(
        message: str, where: str, measure: Callable[[Sequence[Record], str], float], least: float, most: float,
        features: str = "",
    ) -> Claim:  # fmt: skip
        found = {arm: [measure(records, arm) for records in seeds] for arm in by_arm(seeds[0]) if features in arm}
        expected = f"at most {most:.3g}" if most < math.inf else f"at least {least:g}"
        words = "; ".join(f"{arm} {over_seeds(values)}" for arm, values in found.items())
        holds = all(least <= value <= most for values in found.values() for value in values)
        return Claim(message, SOURCE + where, expected, words, holds)

    found = [
        claim("NC1 after M^½ falls exponentially with depth: correlation of its logarithm with the layer",
              "section 4.2, figures 3, 4", lambda r, arm: straight(r, arm, "nc1"), -math.inf, EXPONENTIAL),
        claim("and in all layers: the largest factor from one layer to the next", "section 4.2, figures 3, 4",
              slowest, 0, 1),
        claim("NC2 after M^½ falls exponentially with depth: correlation of its logarithm with the layer",
              "section 4.2, figures 3, 4", lambda r, arm: straight(r, arm, "nc2_etf"), -math.inf, EXPONENTIAL),
        claim("the fall of NC1 is entirely due to M^½: decades by which all else changes it",
              "section 4.1", others, 0, math.inf),
        claim("the last Gram matrix is approximately that of collapsed data: root mean square distance",
              "section 4.1, figures 1, 5, 6", from_collapsed, 0, NEAR),
    ]  # fmt: skip
    if any("relu" in arm for arm in by_arm(seeds[0])):
        found.append(claim("random ReLU features change NC1 only marginally: geometric mean of the factor",
                           "appendix A, proposition A.1", raised, 0, MARGINAL, "relu"))  # fmt: skip
    return found
