"""ntk-regime's page: its table, figures and claims, from its records."""

import itertools
import math
from collections.abc import Sequence

from gnomon import (
    FeatureLearningInterval,
    feature_learning_interval,
)
from gnomon_lab.figures import Curves, Figure, Line, Mark, Panel
from gnomon_lab.runs import Cells, Claim, Record, Seeds, over_seeds, series

NETWORK, CONSTANT = "network", "constant kernel"
SOURCE = "Walker et al., arXiv:2506.12284"
PREDICTED = 0.05
"""Theorem 9 is for a derivative and a step is finite; the paper prints no number, and sees no difference in a plot."""
REST = 0.1
"""What counts as rest: feature_learning_interval's own tolerance."""


def beyond(records: Sequence[Record]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """How far the network's inner product is from that under the constant kernel, at each reading."""
    steps, ours = series(records, NETWORK, "inner")
    return steps, tuple(a - b for a, b in zip(ours, series(records, CONSTANT, "inner")[1], strict=True))


def interval(records: Sequence[Record], name: str) -> FeatureLearningInterval:
    """Where the network's `name` moves."""
    return feature_learning_interval(*series(records, NETWORK, name), REST)


def moved(records: Sequence[Record]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The changes of the inner product over single steps, at each reading but the first."""
    steps, before = series(records, NETWORK, "inner_before")
    after = series(records, NETWORK, "inner")[1][1:]
    return steps, tuple(b - a for a, b in zip(before, after, strict=True))


def miss(records: Sequence[Record]) -> float:
    """How far theorem 9 is from the changes over single steps: the sum of the distances over that of the changes."""
    pairs = list(zip(moved(records)[1], series(records, NETWORK, "predicted")[1], strict=True))
    return sum(abs(m - p) for m, p in pairs) / sum(abs(m) for m, _ in pairs)


def share_inside(records: Sequence[Record]) -> float:
    """The share of the inner product's path, up and down, that it covers while the kernel moves."""
    kernel = interval(records, "kernel")
    if kernel.start is None or kernel.end is None:
        return 0.0
    readings = list(zip(*series(records, NETWORK, "inner"), strict=True))
    ways = [(a, b, abs(after - before)) for (a, before), (b, after) in itertools.pairwise(readings)]
    return sum(way for a, b, way in ways if kernel.start <= a and b <= kernel.end) / sum(way for *_, way in ways)


def least_inside(records: Sequence[Record]) -> float:
    """The share that a quantity which rises in accordance with the kernel covers there at least; 1 if the kernel rests.

    At each end `REST` of the kernel's largest value may lie outside, of a way as long as its excursion.
    """
    kernel = interval(records, "kernel")
    return 1 - 2 * REST / kernel.excursion if kernel.moves else 1.0


def beyond_interval(records: Sequence[Record]) -> FeatureLearningInterval:
    """Where the inner product leaves that under the constant kernel."""
    return feature_learning_interval(*beyond(records), REST)


def begins(found: FeatureLearningInterval) -> float:
    """The step from which it moves; infinity if it rests."""
    return math.inf if found.start is None else found.start


def ends(found: FeatureLearningInterval) -> float:
    """The step from which it rests after it has moved; NaN, which comes before and after nothing, if it never moves."""
    return math.nan if found.end is None else found.end


def words(found: FeatureLearningInterval) -> tuple[str, str]:
    """Start and end, for a table."""
    return ("rests", "rests") if found.start is None or found.end is None else (f"{found.start:,g}", f"{found.end:,g}")


def table(records: Sequence[Record]) -> Cells:
    """Each quantity at both ends, and where it moves."""
    columns = ("", "step 0", "last step", "largest", "moves from step", "to step")
    shown = {
        "mean kernel to the other digits": (series(records, NETWORK, "kernel")[1], interval(records, "kernel")),
        "inner product": (series(records, NETWORK, "inner")[1], interval(records, "inner")),
        "beyond a constant kernel": (beyond(records)[1], beyond_interval(records)),
        "alignment": (series(records, NETWORK, "alignment")[1], interval(records, "alignment")),
        "centroid norm": (series(records, NETWORK, "norm")[1], interval(records, "norm")),
    }
    return columns, [
        (name, *(f"{value:z.2f}" for value in (values[0], values[-1], max(values))), *words(found))
        for name, (values, found) in shown.items()
    ]


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    kernel, inside = interval(records, "kernel"), share_inside(records)
    start, end = words(kernel)
    moves = f"moves from step {start} to step {end}, and {inside:.0%} of the inner product's way lies there"
    return (
        f"Theorem 9 predicts the changes of the inner product over single steps to {miss(records):.2%}. "
        f"The kernel {moves if kernel.moves else 'rests'}."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """Figure 3, with the rate that theorem 9 predicts, and what a constant kernel would do."""
    kernel = interval(records, "kernel")
    ends = (("kernel begins to move", kernel.start), ("kernel near its last value", kernel.end))
    marks = tuple(Mark(f"{name}, step {step:,g}", step, 2) for name, step in ends if step is not None)

    def line(name: str, arm: str = NETWORK, *, dashed: bool = False) -> Line:
        return Line(arm, *series(records, arm, name), dashed, int(arm == CONSTANT))

    regime = (
        "The regime of feature learning lies between the two marks: before them the mean kernel to the other digits is "
        "within a tenth of its largest value of its first value, after them of its last."
        if marks
        else "There is no regime of feature learning: the mean kernel to the other digits rests throughout."
    )
    change = (Line(NETWORK, *moved(records)), Line("theorem 9", *series(records, NETWORK, "predicted"), True, 4))
    return [
        Curves(
            "regime",
            "How the inner product moves, and how the kernel",
            f"One training digit x, the first one. {regime} Dashed: the inner product if the kernel of the start were "
            f"held constant, and the change over each step that theorem 9 says.",
            "step of gradient descent",
            (
                Panel("Mean neural tangent kernel", "outputs² per parameter²", (line("kernel"),), marks),
                Panel(
                    "Inner product with the centroid",
                    "outputs",
                    (line("inner"), line("inner", CONSTANT, dashed=True)),
                    marks,
                ),
                Panel("Its change over one step", "outputs per step", change, marks),
                Panel("Centroid alignment", "cosine", (line("alignment"),), marks),
                Panel("Centroid norm", "outputs per input", (line("norm"),), marks),
            ),
        )
    ]


def claims(seeds: Seeds) -> list[Claim]:
    """What figure 3 and the text around it say, over all finished seeds."""
    theorem = [miss(records) for records in seeds]
    kernels = [interval(records, "kernel") for records in seeds]
    inside, least = ([share(records) for records in seeds] for share in (share_inside, least_inside))
    beyonds = [beyond_interval(records) for records in seeds]
    norms = [series(records, NETWORK, "norm")[1] for records in seeds]
    settled = [(interval(records, "alignment"), interval(records, "inner")) for records in seeds]
    return [
        Claim(
            "theorem 9's rate times the learning rate is the change of the inner product over a step: sum of the "
            "distances over that of the changes",
            f"{SOURCE}, theorem 9 and figure 3",
            f"at most {PREDICTED:.0%}",
            over_seeds(theorem, ".2%"),
            max(theorem) <= PREDICTED,
        ),
        Claim(
            "there is a feature learning regime: by how much the mean kernel moves, as a share of its largest value",
            f"{SOURCE}, figure 3",
            f"more than {REST:.0%}",
            over_seeds([kernel.excursion for kernel in kernels], ".0%"),
            all(kernel.moves for kernel in kernels),
        ),
        Claim(
            "a changing inner product corresponds to feature learning: the share of its change that falls there",
            f"{SOURCE}, figure 3 and section 4.1",
            f"at least {over_seeds(least, '.0%')}, what a rise in accordance with the kernel would have",
            over_seeds(inside, ".0%"),
            all(ours >= due for ours, due in zip(inside, least, strict=True)),
        ),
        Claim(
            "the inner product leaves what a constant kernel gives no sooner than the kernel moves: the two steps",
            "docs/errata.md, in place of “a changing inner product implies a dynamic kernel”",
            "the kernel's no later",
            "; ".join(
                f"kernel {words(k)[0]}, inner product {words(b)[0]}" for k, b in zip(kernels, beyonds, strict=True)
            ),
            all(k.moves and begins(k) <= begins(b) for k, b in zip(kernels, beyonds, strict=True)),
        ),
        Claim(
            "the norm of the centroid increases during training: the last over the first",
            f"{SOURCE}, section 4.1",
            "above 1",
            over_seeds([norm[-1] / norm[0] for norm in norms], ".2f"),
            all(norm[-1] > norm[0] for norm in norms),
        ),
        Claim(
            "eventually the inner product no longer turns into alignment: the steps from which each rests",
            f"{SOURCE}, section 4.1",
            "both move, and the alignment rests first",
            "; ".join(f"alignment {words(a)[1]}, inner product {words(b)[1]}" for a, b in settled),
            all(ends(a) < ends(b) for a, b in settled),
        ),
    ]
