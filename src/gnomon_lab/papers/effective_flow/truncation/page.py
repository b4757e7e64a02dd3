"""truncation's page: its table, figures and claims, from its records."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, get_args

from gnomon_lab.figures import Curves, Figure, Line, Mark, Panel
from gnomon_lab.papers._shared import arms_of
from gnomon_lab.papers.effective_flow._film import film
from gnomon_lab.papers.effective_flow.truncation.measures import (
    balance,
    clearance,
    drifting,
    largest,
    largest_error,
    off_exponential,
    over_bound,
    over_decay,
    over_way,
    restless,
    rise,
    slope,
    unrest,
    where_separated,
)
from gnomon_lab.runs import Arm, Cells, Claim, Record, Seeds, over_seeds

Kind = Literal["collapse", "large", "inside", "rest", "near"]
Estimates = Literal["sharp", "printed"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ESTIMATES: tuple[Estimates, ...] = get_args(Estimates)
WORDS: dict[Kind, str] = {
    "collapse": "small unit, as proposition 4.2 wants it",
    "large": "the same in a large unit",
    "inside": "targets inside the clusters",
    "rest": "untruncated, and truncated, from the start",
    "near": "corners near the targets, as the limits of proposition 4.2 want it",
}
CLUSTERS = ("first", "second")
ROUNDING, SOLVED, ORTHOGONAL = 1e-10, 1e-9, 1e-12
"""Tolerances: for automatic differentiation; a thousand times the integrator's; for an orthogonal matrix."""
SOURCE = "Chen, arXiv:2501.07400, "


def table(records: Sequence[Record]) -> Cells:
    """What became of every cluster."""
    columns = ("Q", "kind", "cluster", "s₁", "sharp bound", "printed bound", "R turned", "|β + ỹ|", "loss", "to go")
    rows: list[tuple[str, ...]] = []
    for arm in arms_of(records, *KINDS):
        (width, kind), first, end = arm[0]["arm"].split(), arm[0], arm[-1]
        for k in (0, 1):
            bounds = [first[estimates][k]["bound"] for estimates in ESTIMATES]
            times = ["-" if time is None else f"{time:.3f}" for time in (first["collapse"][k], *bounds)]
            left = [f"{end[name][k] / first[name][k]:.3g}" for name in ("distance", "loss")]
            turned = f"{end['turned'][k]:.1e}"
            rows.append((width, kind, CLUSTERS[k], *times, turned, *left, f"{end['to_go'][k]} of {first['count']}"))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    firsts = [arm[0] for arm in arms_of(records, "collapse")]
    times = [first["collapse"][k] for first in firsts for k in (0, 1) if first["sharp"][k]["bound"]]
    reached = [f"{time:.2f}" for time in times if time is not None]
    large, inside = ([time for arm in arms_of(records, kind) for time in arm[0]["collapse"]] for kind in KINDS[1:3])
    return (
        f"Proposition 4.2's hypotheses hold in {len(times)} clusters; {len(reached)} of them are truncated entirely"
        f"{', at s = ' * bool(reached)}{', '.join(reached)}. By s = {records[-1]['s']:g} points are left in "
        f"{large.count(None)} of the {len(large)} clusters in a large unit, and in {inside.count(None)} of the "
        f"{len(inside)} with targets inside."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """Films in the plane and in space, and the curves of every dimension."""
    found: list[Figure] = [
        film(arm, WORDS[kind]) for kind in KINDS[:3] for arm in arms_of(records, kind) if "beta" in arm[0]
    ]
    widths = dict.fromkeys(record["arm"].split()[0] for record in records)
    return found + [curves(records, width) for width in widths]


def curves(records: Sequence[Record], width: str) -> Curves:
    """Distance, truncated points, loss and turning of the clusters that flow."""

    def lines(value: Callable[[Arm, Record, int], float]) -> tuple[Line, ...]:
        return tuple(
            Line(f"{WORDS[kind]}: {CLUSTERS[k]} cluster", tuple(r["s"] for r in arm),
                 tuple(value(arm, r, k) for r in arm), dashed=k == 1, colour=colour)
            for colour, kind in enumerate(KINDS[:3]) for arm in arms_of(records, kind)
            if arm[0]["arm"].split()[0] == width for k in (0, 1)
        )  # fmt: skip

    (arm,) = [arm for arm in arms_of(records, "collapse") if arm[0]["arm"].split()[0] == width]
    marks = tuple(
        Mark(f"{word} cluster truncated, s₁ = {time:.2f}", time)
        for word, time in zip(CLUSTERS, arm[0]["collapse"], strict=True)
        if time is not None
    )
    return Curves(
        f"flow-{width}",
        f"Distance, truncation, loss and turning: Q = {width}",
        "Two clusters with their maps, in three settings. The marks: when each collapses in the small unit. By the "
        "theory the distance falls from its collapse on with e^-s, the loss with its square, and R stands still.",
        "s",
        (
            Panel("Distance of -β from the target, of that at the start", "share",
                  lines(lambda a, r, k: r["distance"][k] / a[0]["distance"][k]), marks, log_y=True),
            Panel("Points truncated, the mean over coordinates", "share",
                  lines(lambda a, r, k: sum(r["truncated"][k]) / len(r["truncated"][k]) / a[0]["count"]), marks),
            Panel("Loss, of that at the start", "share",
                  lines(lambda a, r, k: r["loss"][k] / a[0]["loss"][k]), marks, log_y=True),
            Panel("How far R has turned", "spectral norm", lines(lambda _, r, k: r["turned"][k]), marks),
        ),
        log_x=False,
    )  # fmt: skip


def claims(seeds: Seeds) -> list[Claim]:
    """The statements, each for the worst of all dimensions and clusters and over all finished seeds."""

    def most(message: str, where: str, limit: float, kinds: Sequence[Kind], measure: Callable[[Arm], float]) -> Claim:
        worst = [max(map(measure, arms_of(records, *kinds))) for records in seeds]
        # -1 in all: a statement about nothing.
        holds = -1 < max(worst) <= limit
        return Claim(message, SOURCE + where, f"at most {limit:.10g}", over_seeds(worst), holds)

    def bounded(message: str, kind: Kind, which: str) -> Claim:
        found = most(message, "proposition 4.2, (4.30)", 1, [kind], over_bound(which))
        known = [bound["bound"] is not None for r in seeds for arm in arms_of(r, kind) for bound in arm[0][which]]
        return replace(found, measured=f"{found.measured}; they hold in {sum(known)} of {len(known)} clusters")

    flowing, collapse, rest = KINDS[:3], KINDS[:1], KINDS[3:4]
    still: tuple[Kind, ...] = ("collapse", "inside", "rest", "near")
    clear = [min(map(clearance, arms_of(records, *still))) for records in seeds]
    return [
        Claim("but for the large unit the truncations are separated: least height over the other's faces, in spreads",
              SOURCE + "definition 3.1", "above 0", over_seeds(clear), min(clear) > 0),
        most("where they are, each cluster flows alone: distance from the flow of both maps together, in β and R",
             "theorem 3.2", SOLVED, KINDS, where_separated(largest("aside"))),
        most("there the right sides are minus the loss's gradient, by automatic differentiation: relative distance",
             "theorem 3.2, as corrected in docs/errata.md", ROUNDING, KINDS,
             where_separated(largest_error("gradient_error"))),
        most("there the right side of R is as printed: the same", "theorem 3.2, (3.25)", ROUNDING, KINDS,
             where_separated(largest_error("printed_error"))),
        most("there the data enter by zeroth and first moments alone: what changes if each point moves to the mean of "
             "its sector, relative to the gradient", "section 3.3, corollary 3.5", ROUNDING, KINDS,
             where_separated(largest_error("moments_error"))),
        most("the loss falls along the flow: largest rise, of the first loss", "(3.27)", ORTHOGONAL, KINDS, rise),
        most("there both its parts fall: largest rate of one, of the first loss, by automatic differentiation",
             "(3.28), (3.29)", ORTHOGONAL, KINDS, where_separated(slope)),
        most("first loss less loss is the sum of both decreases: difference, of the first loss", "(3.27)", SOLVED,
             KINDS, balance),
        most("R stays orthogonal: largest rate of change of an entry of RRᵀ", "theorem 3.2", ORTHOGONAL, KINDS,
             largest("stretch")),
        most("a map that truncates nothing is recognised and rests: distance that β moves, in spreads, and R",
             "proposition 4.1, first case", ORTHOGONAL, rest, restless),
        most("a map that truncates all is recognised and rests, as printed: distance that β moves, of that to go",
             "proposition 4.1, second case", SOLVED, rest, drifting),
        most("its R rests and β + ỹ decays with e^-s: relative distance", "as corrected in docs/errata.md", SOLVED,
             rest, lambda arm: max(off_exponential(arm), unrest(arm))),
        bounded("where the hypotheses hold with the sharp estimates, s₁ is below the bound: s₁ over it", "collapse",
                "sharp"),
        bounded("the same with the printed estimates", "collapse", "printed"),
        bounded("the same with η₀, η₁ and γ at their printed limits of 1/10, from corners near the targets", "near",
                "limits"),
        most("R turns by less than η₂: by how much, over η₂", "proposition 4.2, (4.32)", 1, collapse, over_way),
        most("|β + ỹ| decays at the rate 1 - η₀ or faster: its length over that decay",
             "proposition 4.2, (4.28), sharp", 1 + SOLVED, collapse, over_decay),
        most("from s₁ on β + ỹ decays with e^-(s - s₁): relative distance", "proposition 4.2, (4.20), (4.37)", SOLVED,
             flowing, off_exponential),
        most("from s₁ on R rests: how far it turns from there", "proposition 4.2, (4.21)", SOLVED, flowing, unrest),
    ]  # fmt: skip
