"""collapsed-flow's page: its table, figures and claims, from its records."""

import itertools
import math
from collections.abc import Callable, Sequence

from gnomon_lab.figures import Curves, Figure, Line, Panel
from gnomon_lab.papers._shared import arms_of
from gnomon_lab.runs import Arm, Cells, Claim, Record, Seeds, at_most

STARTS = {"biases": "B larger", "weight": "W larger", "even": "both alike"}
"""Which of W and B is larger at the start."""
DEFINITE = ("biases", "weight")
"""Where the integral of motion is definite: positive, negative."""
NETWORKS = {"stays": 3.0, "leaves": 1.5}
"""How far out the points of a class lie; the place to which they are cut moves out from 1 to the root of GOAL."""
HALVINGS = 4
"""Number of step sizes of gradient descent, each half the one before."""
TOLERANCE = 1e-8
"""What counts as the integrator's error: fixed at a hundred times a relative tolerance of 1e-10."""
RESOLVED = TOLERANCE**2
"""A loss below this is the integrator's error; so is its ratio to a bound below this."""
ROUNDING = 1e-12
"""What counts as zero among numbers of order 1: some thousand epsilons."""
EXTRAPOLATED = 1e-6
"""The error at step 0 of the cubic through four steps, from 0.01: their product times the rate, 6, to the fourth."""
FLOOR = 1e-17
"""Smaller values are drawn as this, on logarithmic axes."""
EARLY = 80
"""The last reading that is drawn."""
SOURCE = "Chen, arXiv:2501.07400, "
CORRECTED = "as corrected in docs/errata.md, equation "


def ratio(arm: Arm, name: str, bound: str, least: float) -> float:
    """The largest ratio of a value to its bound after time 0, while the bound is above what is resolved, or 0."""
    return max((record[name] / record[bound] for record in arm[1:] if record[bound] > least), default=0.0)


def promised(arm: Arm, name: str, bound: str, least: float) -> float:
    """The same where λ₀ is the least eigenvalue of the integral of motion, in absolute value; else infinite."""
    first = arm[0]
    sure = abs(first["gap"] - first["least"]) < ROUNDING * first["gap"]
    return ratio(arm, name, bound, least) if sure else math.inf


def powers(arm: Arm) -> list[float]:
    """The powers of the step size with which the largest distance from the flow falls."""
    distances = [max(column) for column in zip(*(record["off_steps"] for record in arm), strict=True)]
    return [math.log2(coarse / fine) for coarse, fine in itertools.pairwise(distances)]


def table(records: Sequence[Record]) -> Cells:
    """Every flow at its end, and the two networks."""
    columns = ("", "λ₀", "end loss", "of bound", "drift", "8.11", "by 8.9", "8.16", "by plus")
    rows: list[tuple[str, ...]] = []
    for arm in arms_of(records, *STARTS):
        first, definite = arm[0], arm[0]["start"] in DEFINITE
        gap, over = (f"{first['gap']:.2f}", f"{promised(arm, 'loss', 'bound', RESOLVED):.2f}") if definite else ("", "")
        worst = (max(record[name] for record in arm) for name in ("drift", "off_outer", "off_inner"))
        numbers = (f"{number:.0e}" for number in (*worst, first["off_minus"], first["off_plus"]))
        rows.append((f"{first['classes']}, {STARTS[first['start']]}", gap, f"{arm[-1]['loss']:.0e}", over, *numbers))
    for name in NETWORKS:
        (end,) = (arm[-1] for arm in arms_of(records, name))
        numbers = (f"{end[value]:.0e}" for value in ("loss", "drift"))
        rows.append((f"network {name}", "", next(numbers), "", next(numbers), "", "", "", ""))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    definite = arms_of(records, *DEFINITE)
    worst, end = (
        max(promised(arm, "loss", "bound", RESOLVED) for arm in definite),
        max(arm[-1]["loss"] for arm in definite),
    )
    (stays,), (leaves,) = arms_of(records, "stays"), arms_of(records, "leaves")
    return (
        f"Where the integral of motion is definite, the loss is {worst:.2f} of its bound at most, and ends at "
        f"{end:.0e} or below. "
        f"A network that stays collapsed comes to the flow, to {max(r['off_limit'] for r in stays):.0e} as the step "
        f"goes to 0; one that leaves the collapse ends {leaves[-1]['off_steps'][-1]:.2f} away from it."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """Losses with their bounds, the integral's drift, singular values, and the networks compared with the flow."""
    return [losses(records), drifts(records), values(records), networks(records)]


def line(label: str, arm: Arm, name: str, least: float, *, colour: int, dashed: bool = False) -> Line:
    """A value over time, with values below the least drawn there; for the flows only the early times."""
    shown = [record for record in arm if record["step"] <= EARLY]
    y = tuple(max(record[name], least) for record in shown)
    return Line(label, tuple(record["time"] for record in shown), y, dashed, colour)


def losses(records: Sequence[Record]) -> Curves:
    """The loss of each flow with its bound, a panel for each kind of start."""
    panels = []
    for start, title in STARTS.items():
        lines = []
        for colour, arm in enumerate(arms_of(records, start)):
            lines.append(line(f"Q = {arm[0]['classes']}", arm, "loss", RESOLVED, colour=colour))
            if start in DEFINITE:
                lines.append(line("bound", arm, "bound", RESOLVED, colour=colour, dashed=True))
        panels.append(Panel(f"Start: {title}", "loss", tuple(lines), (), (RESOLVED, 100.0), log_y=True))
    return Curves(
        "losses",
        "The loss and its bound, where there is one",
        "Dashed: the loss at the start times exp(-2 s λ₀), with the least eigenvalue of the integral of motion. "
        "Without a definite integral nothing is promised. Below 1e-16 the integrator is seen.",
        "time s",
        tuple(panels),
        log_x=False,
    )


def drifts(records: Sequence[Record]) -> Curves:
    """The integral of motion in each flow."""
    panels = [
        Panel(f"Start: {title}", "largest entry", tuple(
            line(f"Q = {arm[0]['classes']}", arm, "drift", FLOOR, colour=colour)
            for colour, arm in enumerate(arms_of(records, start))
        ), (), (FLOOR, 1e-6), log_y=True)
        for start, title in STARTS.items()
    ]  # fmt: skip
    return Curves(
        "drift",
        "How far the integral of motion moves",
        "How far BBᵀ - WᵀW is from where it started. The integrator's relative tolerance is 1e-12.",
        "time s",
        tuple(panels),
        log_x=False,
    )


def values(records: Sequence[Record]) -> Curves:
    """The singular values of W and B in the smallest flows."""
    panels = []
    for start, title in STARTS.items():
        arm = [record for record in arms_of(records, start)[0] if record["step"] <= EARLY]
        times, lines = tuple(record["time"] for record in arm), []
        for colour, (name, label) in enumerate((("weight", "W"), ("biases", "B"))):
            lines += [
                Line(label, times, series, colour == 1, colour) for series in zip(*(r[name] for r in arm), strict=True)
            ]
        panels.append(Panel(f"Start: {title}", "singular values", tuple(lines)))
    return Curves(
        "singular-values",
        f"The singular values of what starts larger and smaller: Q = {arms_of(records, *STARTS)[0][0]['classes']}",
        "All singular values of W and of B. By the theory those of what starts larger are never below the root of λ₀.",
        "time s",
        tuple(panels),
        log_x=False,
    )


def networks(records: Sequence[Record]) -> Curves:
    """Gradient descent compared with the flow, in the network that stays collapsed and in the one that leaves."""
    (stays,), (leaves,) = arms_of(records, "stays"), arms_of(records, "leaves")
    steps = [
        Panel(
            f"Network that {name}: distance from the flow", "largest entry",
            (*(line(f"step / {2**k}" if k else "longest step", [r | {"off": r["off_steps"][k]} for r in arm[1:]],
                    "off", FLOOR, colour=k) for k in range(HALVINGS)),
             line("extrapolated to step 0", arm[1:], "off_limit", FLOOR, colour=HALVINGS, dashed=True)),
            (), (1e-13, 10.0), log_y=True,
        )
        for name, arm in (("stays", stays), ("leaves", leaves))
    ]  # fmt: skip
    both = (("the network stays", stays, 0), ("the network leaves", leaves, 1))
    pairs = [line(label, arm, "loss", RESOLVED, colour=colour) for label, arm, colour in both]
    flow = line("the flow", stays, "flow_loss", RESOLVED, colour=2, dashed=True)
    moved = [line(label, arm, "moved_out", FLOOR, colour=colour) for label, arm, colour in both]
    return Curves(
        "networks",
        "Gradient descent beside the flow, with smaller and smaller steps",
        "Gradient descent in the cumulative parameters of a real ReLU network; classes that lie 3 and 1.5 times as far "
        "as where they are cut to. That place moves out, beyond 1.5.",
        "time s",
        (
            *steps,
            Panel("Loss", "loss", (*pairs, flow), log_y=True),
            Panel("How far the cumulative biases have moved out", "of the start", tuple(moved)),
        ),
        log_x=False,
    )


def claims(seeds: Seeds) -> list[Claim]:
    """The statements of section 8, each for the worst of all flows and over all finished seeds."""

    def most(message: str, where: str, limit: float, kinds: Sequence[str], measure: Callable[[Arm], float]) -> Claim:
        worst = [max(map(measure, arms_of(records, *kinds))) for records in seeds]
        return at_most(message, SOURCE + where, limit, worst)

    def over_times(name: str) -> Callable[[Arm], float]:
        return lambda arm: max(record[name] for record in arm)

    found = [power for records in seeds for arm in arms_of(records, "stays") for power in powers(arm)]
    return [
        most("BBᵀ - WᵀW does not change: largest entry", "proposition 8.3", TOLERANCE, [*STARTS], over_times("drift")),
        most("definite: the loss is at most exp(-2 s λ₀) times that at the start, λ₀ the least eigenvalue itself: "
             "ratio", "theorem 8.4, equation 8.27", 1, DEFINITE, lambda arm: promised(arm, "loss", "bound", RESOLVED)),
        most("definite: WB goes to -Y: loss in the end", "equation 8.28", RESOLVED, DEFINITE,
             lambda arm: arm[-1]["loss"]),
        most("definite: W and B have come to rest: what they move between the last two readings", "equation 8.29",
             TOLERANCE, DEFINITE, lambda arm: arm[-2]["way"]),
        most("definite: they converge exponentially: distance left over the integral of the bounds of their speeds",
             "equations 8.38, 8.39", 1, DEFINITE, lambda arm: promised(arm, "way", "way_bound", TOLERANCE)),
        most("definite: propagators decay at λ₀: norm over exp(-s λ₀)", "lemma 8.1", 1, DEFINITE,
             lambda arm: promised(arm, "propagator", "decay", TOLERANCE)),
        most("the residual is carried by the propagators of 8.9: distance", "equation 8.11", TOLERANCE, [*STARTS],
             over_times("off_inner")),
        most("the residual is carried by the propagators of WWᵀ and BᵀB: distance", CORRECTED + "8.11", TOLERANCE,
             [*STARTS], over_times("off_outer")),
        most("Duhamel's formula with plus signs: distance", "equations 8.16, 8.17", TOLERANCE, [*STARTS],
             over_times("off_plus")),
        most("Duhamel's formula with minus signs: distance", CORRECTED + "8.16, 8.17", TOLERANCE, [*STARTS],
             over_times("off_minus")),
        most("the flow is that of a real ReLU network on collapsed data: distance from automatic differentiation",
             "equations 8.5 to 8.7", ROUNDING, ["stays"], over_times("off_field")),
        most("gradient descent on it comes to the flow: distance, extrapolated to step 0", "equations 8.5 to 8.7",
             EXTRAPOLATED, ["stays"], over_times("off_limit")),
        Claim("and in proportion to the step: power", SOURCE + "equations 8.5 to 8.7", "1; from 0.9 to 1.1",
              f"{min(found):.3f} to {max(found):.3f}", min(found) >= 0.9 and max(found) <= 1.1),
        most("cumulative weights rest at all times: largest gradient, where points leave", "equation 8.4", ROUNDING,
             ["leaves"], over_times("layers")),
        most("cumulative weights rest while every class stays in its sectors: largest gradient", CORRECTED + "8.4",
             ROUNDING, ["stays"], over_times("layers")),
    ]  # fmt: skip
