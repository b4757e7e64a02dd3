"""central-path's page: its table, figures and claims, from its records."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import truediv

from gnomon import equiangularity, equinorm, maximal_equiangularity
from gnomon.dynamics import Projection
from gnomon_lab.figures import Curves, Figure, Line, Panel
from gnomon_lab.papers._shared import arms_of
from gnomon_lab.runs import Cells, Claim, Record, Seeds, at_most, over_seeds

NAMES: dict[Projection, str] = {"orthogonal": "orthogonal", "renormalised": "the paper's flow"}
"""The projections of the gradient, the one that proposition 2 holds for and the one that the paper defines, by name."""
FLOWS = tuple(NAMES)
SIMPLEX = (equinorm, equiangularity, maximal_equiangularity)
Measure = Callable[[Sequence[Record]], float]
FLOOR = 1e-17
"""Smaller values are drawn as this, on logarithmic axes."""
TOLERANCE = 1e-8
"""A hundred times the integrator's relative tolerance of 1e-10, since the errors of its steps shrink along the flow."""
RATIO, SPREAD = 1e-3, 1e-5
"""What the closed forms leave at t = 2.5e5 C²N, after which every setting ends (docs/experiments/central-path.md)."""
SOURCE = "Han, Papyan, Donoho, arXiv:2106.02073, "


def off(record: Record, law: str, name: str = "omega") -> float:
    """The largest relative distance of the singular values from a law."""
    return max(abs(value / expected - 1) for value, expected in zip(record[name], record[law], strict=True))


def spread(record: Record, name: str = "omega") -> float:
    """By how much the largest singular value exceeds the smallest."""
    return max(record[name]) / min(record[name]) - 1


def apart(record: Record) -> float:
    """How far the class means are from a simplex: the largest of its three measures and the distance from the limit."""
    return max(record["from_limit"], *(record[measure.__name__] for measure in SIMPLEX))


def variability_off(record: Record) -> float:
    """The relative distance of NC1 from the sum of 1/ω²."""
    return abs(record["nc1"] / sum(value**-2 for value in record["omega"]) - 1)


def table(records: Sequence[Record]) -> Cells:
    """Every flow at its end, and its distance from its closed form over all times."""
    columns = (
        "C, N, dimensions",
        "flow",
        "ω",
        "over prop. 2",
        "off its law",
        "off its power",
        "spread",
        "off a simplex",
    )
    rows: list[tuple[str, ...]] = []
    for arm in arms_of(records, *FLOWS):
        end, law = arm[-1], max(off(record, "closed_form") for record in arm)
        over, (size, flow) = max(map(truediv, end["omega"], end["proposition_2"])), end["arm"].split()
        numbers = (f"{number:.0e}" for number in (law, off(end, "power_law"), spread(end), apart(end)))
        rows.append((size.replace("x", ", "), NAMES[flow], f"{end['omega'][0]:,.1f}", f"{over:.1f} x", *numbers))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    (ours, *_), (paper, *_) = (arms_of(records, flow) for flow in FLOWS)
    worst = max(off(record, "closed_form") for arm in arms_of(records, *FLOWS) for record in arm)
    away = max(apart(arm[-1]) for arm in arms_of(records, *FLOWS))
    return (
        f"Each flow follows its own closed form to {worst:.0e}, and ends {away:.0e} off neural collapse's simplex at "
        f"most. "
        f"Proposition 2 is that of the orthogonal projection: at t = {ours[-1]['step']:.0e} it says ω = "
        f"{ours[-1]['omega'][0]:,.0f} for the first size, and the flow that the paper defines is at "
        f"{paper[-1]['omega'][0]:,.0f}."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """Growth and collapse against the logarithm of time, for each size."""
    pairs = zip(*(arms_of(records, flow) for flow in FLOWS), strict=True)
    return [draw(list(pair)) for pair in pairs for draw in (growth, collapse)]


def growth(flows: Seeds) -> Curves:
    """The singular values on their closed forms, divided by their power laws, and becoming equal."""
    size = flows[0][0]["arm"].split()[0]
    return Curves(
        f"growth-{size}",
        f"Two flows, two laws of growth: {described(size)}",
        "The largest and the smallest singular value of each flow: closed forms as lines, the integrated flow as "
        "points. The orthogonal line is proposition 2; the other is the law of the flow that the paper defines.",
        "log₁₀ t",
        (
            Panel("Singular values", "log₁₀ ω",
                  held(flows, lambda r, name: math.log10(r[name][0]))
                  + held(flows, lambda r, name: math.log10(r[name][-1]))),
            Panel("Singular values over (4t/N)^¼, and over (2t/CN)^½ for the paper's flow", "ratio",
                  held(flows, lambda r, name: r[name][0] / r["power_law"][0])
                  + held(flows, lambda r, name: r[name][-1] / r["power_law"][-1]), (), (0.0, 2.0)),
            Panel("Spread of the singular values", "log₁₀(max / min - 1)",
                  held(flows, lambda r, name: decimal(spread(r, name)))),
        ),
        log_x=False,
    )  # fmt: skip


def collapse(flows: Seeds) -> Curves:
    """NC1 to NC4, the singular vectors staying, and the loss."""
    size = flows[0][0]["arm"].split()[0]
    panels = (
        ("NC1: variability within classes", "log₁₀", lambda r: decimal(r["nc1"])),
        ("Equinorm of the class means", "log₁₀", lambda r: decimal(r["equinorm"])),
        ("Equiangularity", "log₁₀", lambda r: decimal(r["equiangularity"])),
        ("Maximal equiangularity", "log₁₀", lambda r: decimal(r["maximal_equiangularity"])),
        ("NC3: distance from self-duality", "log₁₀", lambda r: decimal(r["self_duality"])),
        ("NC4: disagreement with the nearest mean", "share of samples", lambda r: r["disagreement"]),
        ("How far the singular vectors have turned", "log₁₀ of the sine", lambda r: decimal(r["turned"])),
        ("Loss of the least-squares classifier", "log₁₀", lambda r: decimal(r["loss"])),
    )
    return Curves(
        f"collapse-{size}",
        f"Both flows and neural collapse: {described(size)}",
        "NC1; how far the class means are from a simplex, in three measures; NC3 and NC4 of the least-squares "
        "classifier; how far the singular vectors are from those of the start; and the loss, which by the theory falls "
        "with 1 / ω².",
        "log₁₀ t",
        tuple(Panel(title, unit, both(flows, "integrated", value)) for title, unit, value in panels),
        log_x=False,
    )


def both(flows: Seeds, what: str, value: Callable[[Record], float]) -> tuple[Line, ...]:
    """A curve for each flow, from time 1 on; a single record gives a point."""
    lines = []
    for colour, (name, records) in enumerate(zip(NAMES.values(), flows, strict=True)):
        later = [record for record in records if record["step"] > 0]
        x = tuple(math.log10(record["step"]) for record in later)
        lines.append(Line(f"{name}: {what}", x, tuple(map(value, later)), colour=colour))
    return tuple(lines)


def held(flows: Seeds, value: Callable[[Record, str], float]) -> tuple[Line, ...]:
    """A value of the closed forms as lines, and of the integrated flows as points at powers of ten."""
    decades = [[[r] for r in records if r["step"] > 0 and math.log10(r["step"]).is_integer()] for records in flows]
    lines = both(flows, "closed form", lambda r: value(r, "closed_form"))
    points = [both(moment, "integrated, points", lambda r: value(r, "omega")) for moment in zip(*decades, strict=True)]
    return tuple(itertools.chain(lines, *points))


def described(size: str) -> str:
    """A size in words."""
    classes, samples, width = size.split("x")
    return f"C = {classes}, N = {samples}, {width} dimensions"


def decimal(value: float) -> float:
    """The logarithm to base 10 of a number, or of FLOOR if that is larger."""
    return math.log10(max(value, FLOOR))


def claims(seeds: Seeds) -> list[Claim]:
    """The statements, each for the worst of all sizes and over all finished seeds."""

    def claim(message: str, where: str, flows: Sequence[str], limit: float, measure: Measure) -> Claim:
        worst = [max(map(measure, arms_of(records, *flows))) for records in seeds]
        return at_most(message, SOURCE + where, limit, worst)

    def law(message: str, where: str, flow: str, law: str) -> Claim:
        return claim(message, where, [flow], TOLERANCE, lambda arm: max(off(record, law) for record in arm))

    def power(message: str, where: str, flow: str) -> Claim:
        found = claim(message, where, [flow], RATIO, lambda arm: off(arm[-1], "power_law"))
        closed = [max(off(arm[-1], "power_law", "closed_form") for arm in arms_of(r, flow)) for r in seeds]
        falls = all(off(arm[-1], "power_law") < off(arm[-2], "power_law") for r in seeds for arm in arms_of(r, flow))
        expected = f"{found.expected} at the last time, and less than at the last but one"
        measured = f"{found.measured}, {'less' if falls else 'not less'}; the closed form itself {over_seeds(closed)}"
        return replace(found, expected=expected, measured=measured, holds=found.holds and falls)

    orthogonal, paper = FLOWS
    return [
        law("with the orthogonal projection every ω follows proposition 2: relative distance",
            "proposition 2", orthogonal, "proposition_2"),
        law("the flow as the paper defines it follows proposition 2: relative distance",
            "proposition 2, equation 5, proposition 4", paper, "proposition_2"),
        law("the flow as the paper defines it follows C²N log ω + CN/2 ω² = a + t: relative distance",
            "as corrected in docs/errata.md", paper, "closed_form"),
        power("orthogonal: ω / (4t/N)^¼ tends to 1: distance from 1", "corollary 1.1", orthogonal),
        power("the paper's flow: the counterpart ω / (2t/CN)^½ tends to 1: distance from 1",
              "corollary 1.1, as corrected in docs/errata.md", paper),
        claim("both flows: all ω become equal: max ω / min ω - 1", "corollary 1.2", FLOWS, SPREAD,
              lambda arm: spread(arm[-1])),
        claim("both flows: the singular vectors stay: sine of the angle", "lemma 6", FLOWS, TOLERANCE,
              lambda arm: max(record["turned"] for record in arm)),
        claim("both flows: the class means become the simplex of equation 10: its three measures, the distance from it",
              "corollary 2", FLOWS, 4 * SPREAD, lambda arm: apart(arm[-1])),
        claim("both flows: NC1 is the sum of 1 / ω²: relative distance",
              "appendix D.6, as corrected in docs/errata.md", FLOWS, TOLERANCE,
              lambda arm: max(map(variability_off, arm))),
        claim("both flows: variability within classes vanishes: NC1", "corollary 2", FLOWS, RATIO,
              lambda arm: arm[-1]["nc1"]),
        claim("both flows: the least-squares classifier becomes self-dual: squared distance, NC3", "corollary 2", FLOWS,
              SPREAD, lambda arm: arm[-1]["self_duality"]),
        claim("both flows: it chooses the nearest class mean: share of samples for which not, NC4", "corollary 2",
              FLOWS, 0, lambda arm: arm[-1]["disagreement"]),
    ]  # fmt: skip
