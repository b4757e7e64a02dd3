"""central-path: free features flow into neural collapse, each of two flows along its closed form (proposition 2)."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import truediv
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import CentralPath, CentralPathFlow, equiangularity, equinorm, maximal_equiangularity, snr_growth
from gnomon.dynamics import Projection
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, Line, Panel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import arms_of
from gnomon_lab.runs import Cells, Claim, Record, Run, Seeds, at_most, over_seeds
from gnomon_lab.settings import Count, Range, Settings, between

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
INTRODUCTION = """
On the central path features move freely, under a classifier that is the least-squares one at every moment. The paper
renormalises them continuously, so that the within-class covariance stays the identity, and solves the flow: the
singular values ω of the class means, which are the signal-to-noise ratio, grow without bound and become equal, and the
class means become a simplex. This is neural collapse.

Two flows start here from the same random features. They differ in how the gradient is projected onto features with
identity within-class covariance. Proposition 2 is the law of the orthogonal projection. The projection that the paper
defines, a gradient step followed by renormalisation, is a different one, with a law of its own: its ω grow much faster.
By their closed forms both flows end in neural collapse.
"""

SIZE = Range(
    "C and N of at least 2 and C - 1 dimensions or more",
    lambda size, _: min(size[:2]) >= 2 and size[2] >= size[0] - 1,
)


@dataclass(frozen=True)
class Config(Settings):
    """The setting of the central path."""

    sizes: tuple[Annotated[tuple[int, int, int], SIZE], ...] = ((3, 10, 4), (5, 20, 16), (10, 100, 64))
    """Classes C, samples N per class, and dimensions of the features, C - 1 or more."""
    decades: Annotated[int, between(1, 12)] = 10
    """The flows end at time 10 to this power."""
    readings: Count = 4
    """Readings in each factor of ten of the time."""


SMALL = Config()
PAPER = Config(sizes=((3, 10, 4), (5, 20, 16), (10, 100, 64), (10, 500, 64), (100, 20, 128)), decades=12)


def run(config: Config, run: Run) -> None:
    """Integrates both flows of every size, from the same features."""
    powers = range(config.decades * config.readings + 1)
    times = sorted({0, *(round(10 ** (power / config.readings)) for power in powers)})
    for size, projection in itertools.product(config.sizes, FLOWS):
        integrate(run, size, projection, torch.tensor(times, dtype=torch.float64))


def integrate(run: Run, size: tuple[int, int, int], projection: Projection, times: Float[Tensor, "t"]) -> None:
    """One flow, with its closed form and proposition 2 next to it; if it is stopped, it starts over."""
    generator = torch.Generator().manual_seed(run.seed)
    path = CentralPath(torch.randn(*size, dtype=torch.float64, generator=generator), projection=projection)
    for _ in run.steps(f"{'x'.join(map(str, size))} {projection}", 0, generator=generator):
        flow = path.flow(times)
        run.require_finite(loss=flow.loss)
        series = {
            "omega": flow.singular_values,
            "closed_form": path.closed_form(times),
            "proposition_2": snr_growth(flow.singular_values[0], times, *size[:2]),
            "power_law": path.asymptote(times)[:, None].expand_as(flow.singular_values),
            "turned": turned(flow.snr),
            "from_limit": from_limit(flow, path.limit()),
            "loss": flow.loss,
            "drift": flow.drift,
        }
        for at, time in enumerate(times.tolist()):
            simplex = {measure.__name__: float(measure(flow.snr[at].mT)) for measure in SIMPLEX}
            run.record(int(time), **{name: values[at].tolist() for name, values in series.items()}, **simplex)


def turned(snr: Float[Tensor, "t p k"]) -> Float[Tensor, "t"]:
    """The largest sine between the image of a right singular vector of the first ratio and its left counterpart.

    Zero exactly where both are still singular vectors, since the columns sum to zero. The singular vectors of later
    ratios cannot be compared with the first ones, since all singular values become equal.
    """
    left, _, right = torch.linalg.svd(snr[0], full_matrices=False)
    rank = snr.shape[2] - 1
    partners, images = left[:, :rank], snr @ right[:rank].mT
    across = images - partners * (partners * images).sum(1, keepdim=True)
    return (across.norm(dim=1) / images.norm(dim=1)).amax(1)


def from_limit(flow: CentralPathFlow, limit: Float[Tensor, "p k"]) -> Float[Tensor, "t"]:
    """Equation 10: the spectral distance of the ratios, over their largest singular values, from the limit."""
    return torch.linalg.matrix_norm(flow.snr / flow.singular_values[:, :1, None] - limit, 2)


def off(record: Record, law: str, name: str = "omega") -> float:
    """The largest relative distance of the singular values from a law."""
    return max(abs(value / expected - 1) for value, expected in zip(record[name], record[law], strict=True))


def spread(record: Record, name: str = "omega") -> float:
    """By how much the largest singular value exceeds the smallest."""
    return max(record[name]) / min(record[name]) - 1


def apart(record: Record) -> float:
    """How far the class means are from a simplex: the largest of its three measures and the distance from the limit."""
    return max(record["from_limit"], *(record[measure.__name__] for measure in SIMPLEX))


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
    """The class means becoming a simplex, the singular vectors staying, and the loss."""
    size = flows[0][0]["arm"].split()[0]
    panels = (
        ("Equinorm of the class means", "log₁₀", lambda r: decimal(r["equinorm"])),
        ("Equiangularity", "log₁₀", lambda r: decimal(r["equiangularity"])),
        ("Maximal equiangularity", "log₁₀", lambda r: decimal(r["maximal_equiangularity"])),
        ("How far the singular vectors have turned", "log₁₀ of the sine", lambda r: decimal(r["turned"])),
        ("Loss of the least-squares classifier", "log₁₀", lambda r: decimal(r["loss"])),
    )
    return Curves(
        f"collapse-{size}",
        f"Both flows and neural collapse: {described(size)}",
        "How far the class means are from a simplex, in three measures; how far the singular vectors are from those of "
        "the start; and the loss, which by the theory falls with 1 / ω².",
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
    ]  # fmt: skip


EXPERIMENT = Experiment(EXPERIMENTS["central-path"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
