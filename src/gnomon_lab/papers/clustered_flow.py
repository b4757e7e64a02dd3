"""clustered-flow: nothing is cut, so that the network is linear in its data and its flow is solved for all times."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_ivp
from torch import Tensor

from gnomon import ClusteredFlow, _checks
from gnomon.data import digits
from gnomon.errors import ConvergenceError
from gnomon.plot import Curves, Figure, Line, Panel
from gnomon_lab.papers.collapsed_network import near, normal, outputs
from gnomon_lab.runs import Claim, Record, Run, over_seeds

Arm = Sequence[Record]
Parameters = tuple[Float[Tensor, "c q"], Float[Tensor, "l q"], Float[Tensor, "l q q"]]
"""The product W of all weights, the cumulative biases, the cumulative weights."""
ARMS = {
    "digits": "digits, averaged over samples",
    "samples": "classes of 2 and 10, averaged over samples",
    "classes": "classes of 2 and 10, averaged over classes",
}
SIZES = (2, 10)
LAYERS, LIFT = 2, 10.0
"""Hidden layers, and the entries of their cumulative biases: so large that no point is near a face."""
RTOL = 1e-12
"""The integrator's relative tolerance, its absolute one a hundredth of it."""
STEADY = 2.0
"""Steps times the largest rate: beyond three times as much the method is unstable, and near it loses four digits."""
AGREES, FITS, ROUNDING = 1e-10, 1e-12, 1e-12
"""Entries of W that differ by no more agree, with the integration and with the fit; and what counts as nothing."""
READINGS, LATER = 10, 4
"""In each factor of ten of the time, as long as it is integrated, and later."""
SHOWN, SETTLED = 6, 40.0
"""Directions that are recorded, from the fastest to the slowest, which is solved up to 40 over its rate."""
FLOOR = 1e-14
"""What is less is drawn as this, on logarithmic axes."""
SOURCE = "Chen, arXiv:2501.07400, "
CORRECTED = SOURCE + "as corrected in docs/errata.md, "
INTRODUCTION = """
If every point lies where no layer cuts anything, a ReLU network is a linear map, and the gradient flow of the product W
of all its weights is least squares. It has a solution for all times: in each direction of the data W goes from where it
starts to the fit at a rate of its own, which is the data's second moment in that direction. Where there is no data, it
stays.

Here the gradient of the loss is taken through a real ReLU network by automatic differentiation and integrated, and the
solution is held against it: on handwritten digits, some of whose pixels are always blank, so that the second moments
are not invertible, as theorem 9.1 wants them; and on two classes of unlike size.
"""


@dataclass(frozen=True)
class Config:
    """The setting of section 9."""

    digits: int = 1500
    """Handwritten digits, of 1,797."""
    until: float = 30.0
    """The gradient flow is integrated up to this time."""
    threads: int = 1
    """Processor threads."""

    def __post_init__(self) -> None:
        _checks.settings(
            "clustered-flow",
            ("digits", self.digits, "from 1 to 1796", 1 <= self.digits <= 1796),
            ("until", self.until, "finite and above 0.01", 0.01 < self.until < math.inf),
            ("threads", self.threads, "at least 1", self.threads >= 1),
        )


SMALL = Config()
PAPER = Config()
SETTINGS = (SMALL, PAPER)


@dataclass(frozen=True)
class Problem:
    """Points and one-hot labels in rows, and what each sample counts in the loss, 1/N or one over its class's size."""

    points: Float[Tensor, "n q"]
    targets: Float[Tensor, "n c"]
    shares: Float[Tensor, "n 1"]

    def loss(
        self, weight: Float[Tensor, "c q"], biases: Float[Tensor, "l q"], layers: Float[Tensor, "l q q"]
    ) -> Float[Tensor, ""]:
        """The standard loss of a ReLU network in its cumulative parameters."""
        errors = outputs(self.points, weight, biases, layers) - self.targets
        return (self.shares * errors**2).sum() / 2

    def factors(self) -> Float[Tensor, "n 1"]:
        """By which points and targets are multiplied where samples count 1/N each: 1 if they do."""
        return (self.shares * len(self.points)).sqrt()

    def flow(self, weight: Float[Tensor, "c q"]) -> ClusteredFlow:
        """Solved."""
        factors = self.factors()
        return ClusteredFlow(factors * self.points, factors * self.targets, weight)


def problem(config: Config, arm: str, generator: torch.Generator) -> Problem:
    """The data of an arm."""
    if arm == "digits":
        drawn, _ = digits(config.digits, generator=generator, dtype=torch.float64)
        points, labels, sizes = drawn.x / 16, drawn.labels, torch.full((10,), config.digits)
    else:
        centres = torch.tensor([[2.0, 0.5], [0.5, 2.0]], dtype=torch.float64)
        labels = torch.arange(2).repeat_interleave(torch.tensor(SIZES))
        points = centres[labels] + 0.3 * normal(sum(SIZES), 2, generator)
        sizes = torch.tensor(SIZES if arm == "classes" else [sum(SIZES)] * 2)
    targets = torch.nn.functional.one_hot(labels, len(sizes)).double()
    return Problem(points, targets, 1 / sizes[labels, None].double())


def run(config: Config, run: Run) -> None:
    """Every arm: the solution, and the integrated flow of a network."""
    torch.set_num_threads(config.threads)
    for arm in ARMS:
        follow(config, run, arm)


def follow(config: Config, run: Run, arm: str) -> None:
    """One arm; where it is stopped, it begins again."""
    generator = torch.Generator().manual_seed(run.seed)
    given = problem(config, arm, generator)
    width, classes = given.points.shape[1], given.targets.shape[1]
    layers = torch.stack([near(torch.eye(width, dtype=torch.float64), generator) for _ in range(LAYERS)])
    weight = normal(classes, width, generator) / math.sqrt(width)
    start = (weight, torch.full((LAYERS, width), LIFT, dtype=torch.float64), layers)
    flow, plain = given.flow(weight), ClusteredFlow(given.points, given.targets, weight)
    early = powers_of_ten(0.01, config.until, READINGS)
    late = powers_of_ten(config.until, SETTLED / float(flow.rates[-1]), LATER)
    times = torch.cat([torch.zeros(1, dtype=torch.float64), early, late])
    chosen = sorted({round(place) for place in np.linspace(0, len(flow.rates) - 1, SHOWN)})
    directions = flow.directions[:, chosen]
    for _ in run.steps(arm, 0, generator=generator):
        states = integrated(given, start, times[: len(early) + 1], STEADY / float(flow.rates[0]))
        solved, printed, losses = flow.weight(times), plain.weight(times), flow.loss(times)
        run.require_finite(loss=losses)
        size = {"directions": len(flow.rates), "width": width, "rates": flow.rates[chosen].tolist()}
        once = size | limits(given, flow, weight) | {"own": own_gradient(given, start)}
        for at, time in enumerate(times.tolist()):
            values = {"time": time, "solved_loss": float(losses[at]), "solved": left(solved[at], flow, directions)}
            if at < len(states):
                found, biases, moved = states[at]
                values["loss"] = float(given.loss(found, biases, moved))
                values["integrated"] = left(found, flow, directions)
                values["off"], values["off_printed"] = off(found, solved[at]), off(found, printed[at])
                values["moved"] = max(off(biases, start[1]), off(moved, layers))
            run.record(at, **values, **once)


def powers_of_ten(first: float, final: float, each: int) -> Float[Tensor, "t"]:
    """Times up to the final one, so many in each factor of ten, without the first."""
    count = math.ceil(each * math.log10(final / first))
    return torch.logspace(math.log10(first), math.log10(final), count + 1, dtype=torch.float64)[1:]


def integrated(given: Problem, start: Parameters, times: Float[Tensor, "t"], longest: float) -> list[Parameters]:
    """All cumulative parameters along the gradient flow of the network's loss, by automatic differentiation."""
    shapes = [part.shape for part in start]
    lengths = [part.numel() for part in start]

    def split(flat: Float[Tensor, "z"]) -> Parameters:
        weight, biases, layers = (
            part.view(shape) for part, shape in zip(torch.split(flat, lengths), shapes, strict=True)
        )
        return weight, biases, layers

    def right_side(_: float, flat: Float[np.ndarray, "z"]) -> Float[np.ndarray, "z"]:
        state = torch.from_numpy(flat).requires_grad_()
        return -torch.autograd.grad(given.loss(*split(state)), state)[0].numpy()

    initial, moments = torch.cat([part.flatten() for part in start]).numpy(), times.tolist()
    options = {"t_eval": moments, "rtol": RTOL, "atol": RTOL / 100, "max_step": longest}
    solved = solve_ivp(right_side, (0.0, moments[-1]), initial, "DOP853", **options)
    if not solved.success:
        raise ConvergenceError(f"integrated(times): expected an end of integration, got: {solved.message}")
    return [split(torch.from_numpy(flat)) for flat in solved.y.T.copy()]


def left(weight: Float[Tensor, "c q"], flow: ClusteredFlow, directions: Float[Tensor, "q k"]) -> list[float]:
    """How far W is from the limit in each direction."""
    distances: list[float] = ((weight - flow.limit) @ directions).norm(dim=0).tolist()
    return distances


def limits(given: Problem, flow: ClusteredFlow, weight: Float[Tensor, "c q"]) -> dict[str, float]:
    """How far the limit is, over its norm, from the least-squares fit nearest to the start, and from equation 9.12."""
    factors = given.factors()
    points, targets = factors * given.points, factors * given.targets
    missing, *_ = np.linalg.lstsq(points.numpy(), (targets - points @ weight.mT).numpy())
    fit = weight + torch.from_numpy(missing).mT
    printed = targets.mT @ torch.linalg.pinv(points.mT)
    return {
        f"off_{name}": float((flow.limit - of).norm() / of.norm()) for name, of in (("fit", fit), ("pinv", printed))
    }


def own_gradient(given: Problem, start: Parameters) -> float:
    """The largest gradient in a cumulative weight when the last layer's own weight is held, not the product of all."""
    weight, biases, layers = start
    own, layers = torch.linalg.solve(layers[-1], weight, left=False), layers.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(given.loss(own @ layers[-1], biases, layers), layers)
    return float(gradient.abs().max())


def off(found: Tensor, expected: Tensor) -> float:
    """The largest difference of two entries."""
    return float((found - expected).abs().max())


def arms(records: Sequence[Record], *names: str) -> list[Arm]:
    """The records of each of these arms."""
    return [[record for record in records if record["arm"] == name] for name in names]


def worst(arm: Arm, name: str) -> float:
    """The largest value, of the times at which it was taken."""
    return max(float(record[name]) for record in arm if name in record)


def rise(arm: Arm) -> float:
    """By how much the loss grew from one reading to the next, integrated and solved; below 0 if it never did."""
    series = ([record[name] for record in arm if name in record] for name in ("loss", "solved_loss"))
    return max(after - before for values in series for before, after in itertools.pairwise(values))


def table(records: Sequence[Record]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Every arm: the solution beside the integration and beside the fit, as corrected and as printed."""
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
    """The loss and the way left in single directions, solved and integrated, of each arm."""
    return [curves(arm) for arm in arms(records, *ARMS)]


def curves(arm: Arm) -> Curves:
    """One arm: lines are the solution, points the integrated flow."""
    first, later = arm[0], [record for record in arm if record["time"] > 0]
    seen = [record for record in later if "loss" in record]
    times = tuple(record["time"] for record in later)
    loss = [Line("solved", times, tuple(record["solved_loss"] for record in later))]
    loss += [Line("integrated, points", (r["time"],), (r["loss"],), colour=SHOWN) for r in seen[::2]]
    ways = []
    for place, rate in enumerate(first["rates"]):
        shown = [record for record in later if record["solved"][place] > FLOOR]
        x, y = (record["time"] for record in shown), (record["solved"][place] for record in shown)
        ways.append(Line(f"rate {rate:.2g}", tuple(x), tuple(y), colour=place))
        ways += [
            Line("integrated, points", (r["time"],), (r["integrated"][place],), colour=SHOWN)
            for r in seen[::2]
            if r["integrated"][place] > AGREES
        ]
    agreement = tuple(max(record["off"], FLOOR) for record in seen)
    compared = Line("solved less integrated", tuple(record["time"] for record in seen), agreement)
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


def claims(seeds: Sequence[Sequence[Record]]) -> list[Claim]:
    """The statements of section 9, each for the worst of its arms and over all finished seeds."""

    def most(says: str, source: str, limit: float, names: Sequence[str], measure: Callable[[Arm], float]) -> Claim:
        found = [max(map(measure, arms(records, *names))) for records in seeds]
        return Claim(says, source, f"at most {limit:g}", over_seeds(found), max(found) <= limit)

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
