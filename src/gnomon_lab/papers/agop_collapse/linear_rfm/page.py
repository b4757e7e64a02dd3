"""linear-rfm's page: its table, figures and claims, from its records."""

import itertools
import math
from collections.abc import Callable, Sequence
from statistics import linear_regression
from typing import Literal

import numpy as np

from gnomon_lab.figures import Curves, Figure, Line, Panel
from gnomon_lab.runs import Arm, Cells, Claim, Record, Seeds, at_most, by_arm, over_seeds

Scaling = Literal["exact", "printed"]
SCALINGS: tuple[Scaling, ...] = ("exact", "printed")
"""The factor κ of each layer: the one for which the labels' Gram matrix is a fixed point, and the printed one."""
ROUNDING = 1e-12
"""What counts as zero, in units of the labels' largest eigenvalue: some thousand epsilons."""
ORDER = 1.9
"""The smallest power of a ridge that counts as the square; the next power that is possible is the first."""
AGREES, LAYERS = 0.01, 8
"""How much the last layer's factor may differ from the rate, where at least this many layers are above rounding."""
EPSILON = 0.1
"""The theorem's ε, the same for all ridges: it covers those of at most 1 - ε times its bound, here with C = 1."""
DRAWN = 30
"""Layers in the figures: only the largest ridges need more."""
SOURCE = "Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728, "


def printed(kernel_ridge: float, feature_ridge: float) -> float:
    """The paper's κ, which its proof requires to be above one half."""
    return 1 - 2 * kernel_ridge * (1 + 1 / feature_ridge)


def arms(records: Sequence[Record], scaling: Scaling, chosen: Callable[[Record], bool]) -> list[Arm]:
    """The recursions with one κ, and with ridges that are chosen by any one of their records."""
    return [arm for arm in by_arm(records).values() if arm[0]["scaling"] == scaling and chosen(arm[0])]


def ridged(record: Record) -> bool:
    """Whether there is a ridge in the kernel."""
    return record["kernel_ridge"] > 0


def within(record: Record) -> bool:
    """Whether the condition of the theorem holds."""
    return 0 < record["share"] <= 1 - EPSILON


def steps(arm: Arm, name: str = "distance") -> list[tuple[float, float]]:
    """The distances of successive layers, in units of the labels' eigenvalue, as long as they are above rounding."""
    values = [record[name] / record["samples"] for record in arm]
    return [(before, after) for before, after in itertools.pairwise(values) if after > ROUNDING]


def observed(arm: Arm) -> float:
    """The factor by which the distance from the fixed point shrinks in the last layer in which it is above rounding.

    0 if there is no such layer after the first.
    """
    *_, (before, after) = [(1.0, 0.0), *steps(arm, "to_limit")]
    return after / before


def remainder(arm: Arm) -> float:
    """What theorem 4.3 needs in addition to (1 - ε) times the distance: the largest over layers."""
    return max(after - (1 - EPSILON) * before for before, after in steps(arm))


def hastened(arm: Arm) -> float:
    """The largest factor of a layer, over the smallest 1 - ε that the theorem allows with these ridges."""
    return max(after / before for before, after in steps(arm)) / float(arm[0]["share"])


def left(arm: Arm) -> float:
    """The distance from the labels' Gram matrix at the end, in units of its eigenvalue."""
    return float(arm[-1]["distance"] / arm[-1]["samples"])


def powers(records: Sequence[Record], value: Callable[[Arm], float]) -> list[float]:
    """The powers of λ_k with which a value goes to 0 under the condition of the theorem, by λ_Φ.

    Two ridges λ_k or more show a power; a λ_Φ with fewer under the condition has none.
    """
    found = []
    for _, group in itertools.groupby(arms(records, "printed", within), key=lambda arm: arm[0]["feature_ridge"]):
        points = [(math.log(arm[0]["kernel_ridge"]), math.log(max(value(arm), ROUNDING))) for arm in group]
        if len(points) > 1:
            found.append(linear_regression(*zip(*points, strict=True)).slope)
    return found


def closed_form(record: Record) -> float:
    r"""The multiple g of the labels' Gram matrix that is a fixed point with the printed κ: the largest root of a cubic.

    $\kappa\,g\,(gN + \lambda_\Phi + \lambda_k)^2 = (gN + \lambda_\Phi)^2$
    """
    kernel, features, n = record["kernel_ridge"], record["feature_ridge"], record["samples"]
    outer, inner = np.poly1d([n, features + kernel]), np.poly1d([n, features])
    roots = (np.poly1d([printed(kernel, features), 0]) * outer**2 - inner**2).roots
    return float(max(root.real for root in roots if abs(root.imag) < ROUNDING))


def off_closed_form(arm: Arm) -> float:
    """How far a recursion ends from g times the labels' Gram matrix, or its own factor from g, whichever is more."""
    end = arm[-1]
    return max(end["to_limit"] / end["samples"], abs(end["factor"] - closed_form(end)))


def off_rate(arm: Arm) -> float:
    """How far the rate at the end is from its closed form; 0 where there are too few layers to see it."""
    return abs(observed(arm) / arm[0]["rate"] - 1) if len(steps(arm, "to_limit")) >= LAYERS else 0.0


def disordered(records: Sequence[Record]) -> int:
    """How many pairs of neighbouring ridges contradict: larger λ_k, slower; larger λ_Φ, faster."""
    rates = {(arm[0]["feature_ridge"], arm[0]["kernel_ridge"]): observed(arm) for arm in arms(records, "exact", ridged)}
    features, kernels = (sorted({key[place] for key in rates}) for place in (0, 1))
    slower = [rates[f, a] < rates[f, b] for f in features for a, b in itertools.pairwise(kernels)]
    faster = [rates[a, k] > rates[b, k] for k in kernels for a, b in itertools.pairwise(features)]
    return [*slower, *faster].count(False)


def table(records: Sequence[Record]) -> Cells:
    """Both factors side by side, for all ridges."""
    columns = ("λ_Φ", "λ_k", "of the bound", "layers", "a layer", "left", "printed κ", "(λ_k/λ_Φ)²")
    rows: list[tuple[str, ...]] = []
    ends = {
        (r["feature_ridge"], r["kernel_ridge"]): left(arm) for arm in arms(records, "printed", ridged) for r in arm[:1]
    }
    for arm in arms(records, "exact", ridged):
        features, kernel = ridges = arm[0]["feature_ridge"], arm[0]["kernel_ridge"]
        rows.append(
            (f"{features:g}", f"{kernel:g}", f"{arm[0]['share']:,.4g}", f"{len(steps(arm)) + 3}",
             f"x {observed(arm):.2g}", f"{left(arm):.0e}", f"{ends[ridges]:.2g}" if ridges in ends else "",
             f"{(kernel / features) ** 2:.1e}")
        )  # fmt: skip
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences; the second where ridges are small enough to show a power, and leave something."""
    exact, shown = max(left(arm) for arm in arms(records, "exact", ridged)), powers(records, left)
    found = f"With the exact factor every recursion ends at the labels' Gram matrix, to {exact:.0e} of its eigenvalue."
    if not any(shown):
        return found
    return f"{found} With the printed one a distance is left, and it shrinks with the power {min(shown):.2f} of λ_k."


def figures(records: Sequence[Record]) -> list[Figure]:
    """Distances against layers with each factor, and what is left at the end; each as far as there is any to draw."""
    return [
        *curves(records, "exact", "The distances with the exact factor",
                "By the theory they fall in straight lines: more λ_k is slower, more λ_Φ faster. The first layers."),
        *curves(records, "printed", "The distances with the printed factor",
                "By the theory it collapses as fast, but to a multiple of the labels' Gram matrix. The first layers."),
        *remainders(records),
    ]  # fmt: skip


def curves(records: Sequence[Record], scaling: Scaling, title: str, message: str) -> list[Figure]:
    """The distance from the labels' Gram matrix by layer, a panel for each λ_Φ."""
    kernels = sorted({record["kernel_ridge"] for record in records if ridged(record)})
    panels = []
    for features, group in itertools.groupby(arms(records, scaling, ridged), key=lambda arm: arm[0]["feature_ridge"]):
        lines = []
        for arm in group:
            kernel = arm[0]["kernel_ridge"]
            seen = [record for record in arm[:DRAWN] if record["distance"] > ROUNDING * record["samples"]]
            x, y = (record["step"] for record in seen), (record["distance"] / record["samples"] for record in seen)
            if seen:
                lines.append(Line(f"λ_k = {kernel:g}", tuple(x), tuple(y), colour=kernels.index(kernel)))
        if lines:
            panels.append(Panel(f"λ_Φ = {features:g}", "‖G̃ - yyᵀ‖ / N", tuple(lines), (), (ROUNDING, 2.0), log_y=True))
    caption = (
        "The spectral distance of each layer's Gram matrix from that of the labels, over the latter's eigenvalue. "
    )
    named = f"distance-{scaling}"
    return [Curves(named, title, caption + message, "layer", tuple(panels), log_x=False)] if panels else []


def remainders(records: Sequence[Record]) -> list[Figure]:
    """What is left at the end with the printed factor, next to the square that the theorem prints."""
    lines = []
    by_ridge = itertools.groupby(arms(records, "printed", ridged), key=lambda arm: arm[0]["feature_ridge"])
    for colour, (features, group) in enumerate(by_ridge):
        found = {arm[0]["kernel_ridge"]: left(arm) for arm in group}
        squares = tuple((ridge / features) ** 2 for ridge in found)
        lines += [
            Line(f"left, λ_Φ = {features:g}", tuple(found), tuple(found.values()), colour=colour),
            Line(f"(λ_k / λ_Φ)², λ_Φ = {features:g}", tuple(found), squares, dashed=True, colour=colour),
        ]
    caption = (
        "With the printed factor, for all ridges for which it is above one half: the distance from the labels' Gram "
        "matrix in the last layer, and the square of λ_k / λ_Φ, of whose order the theorem says it is (dashed)."
    )
    panel = Panel("Distance in the last layer", "‖G̃ - yyᵀ‖ / N", tuple(lines), log_y=True) if lines else None
    return [Curves("left", "What is left in the end, against λ_k", caption, "λ_k", (panel,))] if panel else []


def claims(seeds: Seeds) -> list[Claim]:
    """The statements, each for the worst of all ridges and over all finished seeds."""

    def most(
        message: str, where: str, limit: float, scalings: Sequence[Scaling], chosen: Callable[[Record], bool],
        measure: Callable[[Arm], float],
    ) -> Claim:  # fmt: skip
        worst = [max(measure(arm) for scaling in scalings for arm in arms(r, scaling, chosen)) for r in seeds]
        return at_most(message, SOURCE + where, limit, worst)

    def square(message: str, value: Callable[[Arm], float]) -> Claim:
        least = [min(powers(records, value)) for records in seeds]
        return Claim(message, SOURCE + "theorem 4.3", "2; at least 1.9", over_seeds(least), min(least) >= ORDER)

    wrong = [disordered(records) for records in seeds]
    corrected = "theorem 4.3, as corrected in docs/errata.md"
    return [
        most("at λ_k = 0 one layer collapses any data: distance", "section 4.2", ROUNDING, SCALINGS,
             lambda r: r["kernel_ridge"] == 0, lambda arm: arm[0]["distance"] / arm[0]["samples"]),
        square("printed κ: a layer multiplies the distance by 1 - ε, up to O(λ_k²): power of λ_k in the rest",
               remainder),
        square("printed κ: the distance in the end is O(λ_k²): power of λ_k", left),
        Claim("exact κ: larger λ_k delays collapse, larger λ_Φ accelerates it: neighbours that contradict this",
              SOURCE + "section 4.2", "0", over_seeds(wrong, "d"), not any(wrong)),
        most("exact κ: nothing is left in the end: distance", corrected, ROUNDING, ["exact"], ridged, left),
        most("exact κ: a layer multiplies the distance by 1 - ε at most, with no rest: factor over 1 - ε",
             corrected, 1, ["exact"], within, hastened),
        most("printed κ: the recursion ends at g yyᵀ, collapsed too: distance, and that of g from its closed form",
             corrected, ROUNDING, ["printed"], ridged, off_closed_form),
        most(f"both: the rate in the end is the closed form, if {LAYERS} layers or more show it: relative difference",
             corrected, AGREES, SCALINGS, ridged, off_rate),
    ]  # fmt: skip
