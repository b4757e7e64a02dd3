"""clustered-flow's page: its table, figures and claims, from its records."""

import itertools
import math
from collections.abc import Callable, Sequence

from gnomon_lab.figures import Curves, Figure, Line, Panel
from gnomon_lab.runs import Arm, Cells, Claim, Record, Seeds, at_most

ARMS = {
    "digits": "digits, averaged over samples",
    "samples": "classes of 2 and 10, averaged over samples",
    "classes": "classes of 2 and 10, averaged over classes",
}
AGREES, FITS, ROUNDING = 1e-10, 1e-12, 1e-12
"""The largest difference of entries of W that agree, with the integration and with the fit; what counts as zero."""
SHOWN, SETTLED = 6, 40.0
"""Number of recorded directions, from the fastest to the slowest, which is solved up to time 40 over its rate."""
FLOOR = 1e-14
"""Smaller values are drawn as this, on logarithmic axes."""
RATES, POINTS, LESS = (1, 2, 3, 4, 5, 7), 6, 8
"""Places in the palette: of a line for each direction shown, of the points, and of the difference."""
SOURCE = "Chen, arXiv:2501.07400, "
CORRECTED = SOURCE + "as corrected in docs/errata.md, "


def arms(records: Sequence[Record], *names: str) -> list[Arm]:
    """The records of each of these arms."""
    return [[record for record in records if record["arm"] == name] for name in names]


def worst(arm: Arm, name: str) -> float:
    """The largest value, over the times at which it was recorded."""
    return max(float(record[name]) for record in arm if name in record)


def rise(arm: Arm) -> float:
    """The most by which the loss grew from one reading to the next, integrated or solved; below 0 if it never did."""
    series = ([record[name] for record in arm if name in record] for name in ("loss", "solved_loss"))
    return max(after - before for values in series for before, after in itertools.pairwise(values))


def table(records: Sequence[Record]) -> Cells:
    """Every arm: the solution compared with the integration and with the fit, as corrected and as printed."""
    columns = ("", "directions", "rates", "off", "off, printed", "from the fit", "from YX⁺", "(9.6)", "own weight")
    rows: list[tuple[str, ...]] = []
    for arm in arms(records, *ARMS):
        first = arm[0]
        rates = f"{first['rates'][0]:.2g} to {first['rates'][-1]:.1g}"
        numbers = (worst(arm, "off"), worst(arm, "off_printed"), *(first[n] for n in ("off_fit", "off_pinv")))
        words = (f"{number:.0e}" for number in (*numbers, worst(arm, "moved"), first["own"]))
        rows.append((ARMS[first["arm"]], f"{first['directions']} of {first['width']}", rates, *words))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    both = arms(records, *ARMS)
    agrees, fits = max(worst(arm, "off") for arm in both), max(arm[0]["off_fit"] for arm in both)
    return (
        f"The solution agrees with the integrated flow of a network to {agrees:.0e}, and its limit with the "
        f"least-squares fit to {fits:.0e}. The digits have {both[0][0]['width'] - both[0][0]['directions']} directions "
        "without data, in which the weight stays."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """The loss and the remaining distance in single directions, solved and integrated, for each arm."""
    return [curves(arm) for arm in arms(records, *ARMS)]


def curves(arm: Arm) -> Curves:
    """One arm: lines are the solution, points the integrated flow."""
    first, later = arm[0], [record for record in arm if record["time"] > 0]
    seen = [record for record in later if "loss" in record]
    times = tuple(record["time"] for record in later)
    loss = [Line("solved", times, tuple(record["solved_loss"] for record in later))]
    loss += [Line("integrated, points", (r["time"],), (r["loss"],), colour=POINTS) for r in seen[::2]]
    ways = []
    for place, rate in enumerate(first["rates"]):
        shown = [record for record in later if record["solved"][place] > FLOOR]
        x, y = (record["time"] for record in shown), (record["solved"][place] for record in shown)
        ways.append(Line(f"rate {rate:.2g}", tuple(x), tuple(y), colour=RATES[place]))
        ways += [
            Line("integrated, points", (r["time"],), (r["integrated"][place],), colour=POINTS)
            for r in seen[::2]
            if r["integrated"][place] > AGREES
        ]
    agreement = tuple(max(record["off"], FLOOR) for record in seen)
    compared = Line("solved less integrated", tuple(record["time"] for record in seen), agreement, colour=LESS)
    return Curves(
        first["arm"],
        f"Each direction goes at its own rate: {ARMS[first['arm']]}",
        "Lines: equation 9.10 with the pseudo-inverse. Points: the gradient flow of a real ReLU network's loss, "
        "integrated, above its error. The distance from the limit is that in single eigenvectors of S.",
        "time s",
        (
            Panel("Loss", "loss", tuple(loss), log_y=True),
            Panel("Distance from the limit", "norm", tuple(ways), (), (FLOOR, 1000.0), log_y=True),
            Panel("Solved beside integrated", "largest entry", (compared,), (), (FLOOR, 1e-8), log_y=True),
        ),
    )


def claims(seeds: Seeds) -> list[Claim]:
    """The statements of section 9, each for the worst of its arms and over all finished seeds."""

    def most(message: str, source: str, limit: float, names: Sequence[str], measure: Callable[[Arm], float]) -> Claim:
        return at_most(message, source, limit, [max(map(measure, arms(records, *names))) for records in seeds])

    def over_times(name: str) -> Callable[[Arm], float]:
        return lambda arm: worst(arm, name)

    invertible = [name for name in ARMS if name != "digits"]
    return [
        most("the solution, with Y of all samples, X⁺ the pseudo-inverse and each sample by its share in the loss, is "
             "the network's gradient flow: distance", CORRECTED + "equation 9.10", AGREES, [*ARMS], over_times("off")),
        most("it needs no invertible second moments: distance, on digits with blank pixels",
             CORRECTED + "equation 9.9", AGREES, ["digits"],
             lambda arm: worst(arm, "off") if arm[0]["directions"] < arm[0]["width"] else math.inf),
        most("averaged over 1/N, it is the flow of the standard loss (2.22) of unlike classes: distance",
             SOURCE + "equations 9.3, 9.7, 9.10", AGREES, ["classes"], over_times("off_printed")),
        most("its limit is the least-squares fit that is nearest to the start: relative distance",
             CORRECTED + "equation 9.12", FITS, [*ARMS], lambda arm: arm[0]["off_fit"]),
        most("its limit is YX⁺, second moments invertible: relative distance", SOURCE + "equation 9.12", FITS,
             invertible, lambda arm: arm[0]["off_pinv"]),
        most("its limit is YX⁺ where they are not: relative distance", SOURCE + "equation 9.12", FITS, ["digits"],
             lambda arm: arm[0]["off_pinv"]),
        most("the loss falls all the way: its largest rise, integrated and solved", SOURCE + "section 9", ROUNDING,
             [*ARMS], rise),
        most("cumulative weights and biases rest, W the product of all weights: how far they move",
             CORRECTED + "equation 9.6", ROUNDING, [*ARMS], over_times("moved")),
        most("cumulative weights rest, W the last layer's own: largest gradient", SOURCE + "equations 9.3, 9.6",
             ROUNDING, [*ARMS], over_times("own")),
    ]  # fmt: skip
