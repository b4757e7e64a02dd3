"""which-lambda: rules for GrokAlign's coefficient from what a network shows at its start, tested on tasks left out."""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from gnomon import GrokAlign
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, Line, Panel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.own._methods import Training, grokalign
from gnomon_lab.papers.own._trial import trial
from gnomon_lab.papers.own._trial_tasks import TASKS, Task
from gnomon_lab.runs import Cells, Claim, Record, Run, Seeds
from gnomon_lab.settings import Count, Settings, among

COEFFICIENTS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
EVERY = 16
"""GrokAlign acts at one step in this many."""
BASES = {
    "digits": (0.03, 0.3),
    "addition": (0.1, 1.0),
    "transformer": (0.01, 1.0),
    "parity": (0.1, 0.3),
    "usual": (0.003, 1.0),
}
"""Learning rate and weight decay of AdamW, tuned on seeds of 10^6 and above."""
UNTUNED = (0.001, 0.01)
"""PyTorch's defaults."""
WAYS = ("tuned", "untuned")
RULES = ("a constant", "a share of the loss's gradient", "a share of the loss")
NONE = "no penalty"
"""What every rule has to be better than."""
STEP = 10**0.125
"""The factor from one constant of a rule that is tried to the next."""
SHOWN = 0.1, 10.0
"""The multiples between which the figure is drawn."""
DEAR = 1.5
"""How many times the best coefficient's steps a rule may cost, as the median over tasks left out."""
INTRODUCTION = """
How large should GrokAlign's coefficient be? Networks are trained with many values, on several tasks, with a tuned AdamW
and with an untuned one. A rule takes the coefficient from what the network shows before its first step; the rule's one
constant is chosen on all tasks but one, and judged on that one by how many times the steps of the best coefficient it
takes.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting."""

    tasks: tuple[Annotated[str, among(*BASES)], ...] = tuple(BASES)
    """Tasks, those of the steering board."""
    networks: Count = 3
    """Networks for each coefficient; each run has its own."""
    patience: Count = 3
    """How many times the task's steps to wait for an untuned network."""


SMALL = PAPER = Config()


def run(config: Config, run: Run) -> None:
    """Trains with every coefficient, and without the penalty."""
    for name, way in itertools.product(config.tasks, WAYS):
        trials = list(itertools.product((0.0, *COEFFICIENTS), range(config.networks)))
        task, patience = TASKS[name], config.patience if way == "untuned" else 1
        rate, decay = BASES[name] if way == "tuned" else UNTUNED
        for step in run.steps(f"{name} {way}", len(trials) - 1):
            coefficient, seed = trials[step][0], 1000 * run.seed + trials[step][1]
            change = partial(with_grokalign, coefficient)
            found = trial(task, change, rate, decay, seed, run.data_dir, patience * task.steps)
            start = at_start(task, seed, run.data_dir) if coefficient == 0 else {}
            about = {"task": name, "way": way, "whole": task.whole, "coefficient": coefficient, "seed": seed}
            run.record(step, **about, **start, **asdict(found))


def with_grokalign(coefficient: float, training: Training) -> None:
    """Adds the penalty, unless its coefficient is 0."""
    if coefficient:
        grokalign(training, coefficient, every=EVERY)


def at_start(task: Task, seed: int, data_dir: Path | None) -> dict[str, float]:
    """The loss and the mean Jacobian norm before the first step, and the norms of their gradients."""
    generator = torch.Generator().manual_seed(seed)
    train, _ = task.data(data_dir, generator)
    model = task.network(generator)
    loss = torch.nn.functional.cross_entropy(model(train.x), train.labels)
    penalty = GrokAlign(1.0, generator=generator)(model, train.x)
    found: dict[str, float] = {}
    for name, value in (("loss", loss), ("jacobian_norm", penalty)):
        # The last layer's biases have no part in the Jacobian.
        gradients = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
        norms = [gradient.norm() for gradient in gradients if gradient is not None]
        found |= {name: float(value.detach()), f"{name}_gradient": float(torch.stack(norms).norm())}
    return found


@dataclass(frozen=True)
class Scan:
    """The results of one task, trained one way.

    Attributes:
        task: its name.
        way: tuned or untuned.
        cost: steps to the goal, at most those that were waited for; where networks train to the end, their error.
        arrives: whether a network reaches the goal, or trains to the end.
        plain: the cost without the penalty.
        plainly: how many networks arrive without it.
        units: what each rule's constant is multiplied by.
    """

    task: str
    way: str
    cost: Float[np.ndarray, "seeds coefficients"]
    arrives: Bool[np.ndarray, "seeds coefficients"]
    plain: Float[np.ndarray, " seeds"]
    plainly: int
    units: dict[str, Float[np.ndarray, " seeds"]]


def scans(seeds: Seeds) -> list[Scan]:
    """Each task and way, over the networks of all runs."""
    records = [record for run_of in seeds for record in run_of]
    found = []
    for task, way in dict.fromkeys((record["task"], record["way"]) for record in records):
        here = [record for record in records if (record["task"], record["way"]) == (task, way)]
        starts = [record for record in here if record["coefficient"] == 0]
        by = {(record["seed"], record["coefficient"]): record for record in here}
        networks = [record["seed"] for record in starts]
        units = {
            RULES[0]: np.ones(len(starts)),
            RULES[1]: np.array([r["loss_gradient"] / r["jacobian_norm_gradient"] for r in starts]),
            RULES[2]: np.array([r["loss"] / r["jacobian_norm"] for r in starts]),
        }
        each = [[by[seed, coefficient] for coefficient in COEFFICIENTS] for seed in networks]
        cost, arrives = (np.array([[of(one) for one in row] for row in each]) for of in (cost_of, arrived))
        plain = np.array([cost_of(record) for record in starts])
        found.append(Scan(task, way, cost, arrives, plain, sum(map(arrived, starts)), units))
    return found


def arrived(record: Record) -> bool:
    """Whether a network reached the goal, or trained to the end."""
    return bool(record["whole"] or record["steps"] is not None)


def cost_of(record: Record) -> float:
    """Steps to the goal, or the error at the end."""
    if record["whole"]:
        return float(1 - record["unseen"])
    return float(record["most"] if record["steps"] is None else record["steps"])


def best(scan: Scan) -> int:
    """The index of the coefficient that costs least, in the mean of logarithms over the networks."""
    return int(np.log(scan.cost).mean(0).argmin())


def dearer(scan: Scan, rule: str, constant: float) -> float:
    """The cost of a rule as a multiple of the best coefficient's, in the mean of logarithms."""
    taken = picked(scan, scan.cost, rule, constant)
    return float(np.exp(np.log(taken / scan.cost[:, best(scan)]).mean()))


def without(scan: Scan) -> float:
    """The cost of no penalty at all as a multiple of the best coefficient's, in the mean of logarithms."""
    return float(np.exp(np.log(scan.plain / scan.cost[:, best(scan)]).mean()))


def picked(scan: Scan, values: np.ndarray, rule: str, constant: float) -> np.ndarray:
    """What a rule gives each network, of values by network and coefficient."""
    columns = places(constant * scan.units[rule])
    return np.asarray(values[np.arange(len(columns)), columns])


def places(coefficients: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The indices of the nearest coefficients that were trained with."""
    away = np.abs(np.log(coefficients)[:, None] - np.log(COEFFICIENTS))
    return np.asarray(away.argmin(1))


def constant_of(known: Sequence[Scan], rule: str) -> float:
    """The rule's constant that costs least on these, in the mean of logarithms; the middle one of several."""
    units = np.concatenate([scan.units[rule] for scan in known])
    low, high = np.log(COEFFICIENTS[0] / units.max()), np.log(COEFFICIENTS[-1] / units.min())
    tried = np.exp(np.arange(low, high + np.log(STEP), np.log(STEP)))
    costs = np.array([np.mean([np.log(dearer(scan, rule, constant)) for scan in known]) for constant in tried])
    least = np.flatnonzero(costs <= costs.min() + 1e-9)
    return float(tried[least[len(least) // 2]])


def left_out(found: Sequence[Scan], rule: str) -> dict[tuple[str, str], tuple[float, float, int]]:
    """For each task and way: the constant that all other tasks choose, what the rule costs there, how many arrive."""
    costs = {}
    for scan in found:
        others = [other for other in found if other.task != scan.task]
        if others:
            constant = constant_of(others, rule)
            arriving = int(picked(scan, scan.arrives, rule, constant).sum())
            costs[scan.task, scan.way] = constant, dearer(scan, rule, constant), arriving
    return costs


def table(records: Sequence[Record]) -> Cells:
    """For this run alone."""
    return table_over_seeds([records])


def table_over_seeds(seeds: Seeds) -> Cells:
    """For each task the best coefficient, and what no penalty and each rule cost; then the medians of the costs."""
    found = scans(seeds)
    judged = {rule: left_out(found, rule) for rule in RULES}
    rows = []
    for scan in found:
        place, networks = best(scan), len(scan.plain)
        costs = (judged[rule].get((scan.task, scan.way)) for rule in RULES)
        cells = ("" if each is None else f"{each[1]:.2f} x{of_all(each[2], networks)}" for each in costs)
        chosen = f"{COEFFICIENTS[place]:g}{of_all(int(scan.arrives[:, place].sum()), networks)}"
        plain = f"{without(scan):.2f} x{of_all(scan.plainly, networks)}"
        rows.append((f"{scan.task}, {scan.way}", chosen, plain, *cells))
    for words, ways in (("median", WAYS), ("median, tuned", WAYS[:1])):
        medians = (median_cost(found, rule, ways) for rule in (NONE, *RULES))
        rows.append((words, "", *("" if each is None else f"{each:.2f} x" for each in medians)))
    return ("", "best λ", NONE, *RULES), rows


def of_all(arriving: int, networks: int) -> str:
    """How many networks arrive, if not all: the others count with the steps that were waited for."""
    return "" if arriving == networks else f", {arriving} of {networks} arrive"


def summary(records: Sequence[Record]) -> str:
    """What each rule costs."""
    found = scans([records])
    medians = {rule: median_cost(found, rule) for rule in (*RULES, NONE)}
    if None in medians.values():
        return "One task alone: there is none to leave out, and no rule to judge."
    costs = ", ".join(f"{rule} {cost:.2f} times" for rule, cost in medians.items())
    return f"On tasks left out, λ by a rule takes so many times the steps of the best λ, in the median: {costs}."


def median_cost(found: Sequence[Scan], rule: str, ways: Sequence[str] = WAYS) -> float | None:
    """The median cost on tasks left out, trained in these ways, of a rule or of no penalty; None if none is left."""
    if rule == NONE:
        costs = [without(scan) for scan in found if scan.way in ways]
    else:
        costs = [cost for (_, way), (_, cost, _) in left_out(found, rule).items() if way in ways]
    return float(np.median(costs)) if costs else None


def figures(records: Sequence[Record]) -> list[Figure]:
    """For this run alone."""
    return figures_over_seeds([records])


def figures_over_seeds(seeds: Seeds) -> list[Figure]:
    """The steps that each coefficient takes, as a multiple of those without the penalty; none if none arrives."""
    found = scans(seeds)
    panels = []
    caption = (
        "Steps to the goal as a multiple of those without the penalty, the geometric mean over networks; of `usual`, "
        "errors. Who does not arrive counts with the steps that were waited for; where no network arrives, there is no "
        "line."
    )
    for way in WAYS:
        here = [scan for scan in found if scan.way == way]
        if lines := [line for scan in here for line in multiples(scan)]:
            panels.append(Panel(f"AdamW, {way}", "times the steps", tuple(lines), y_range=SHOWN, log_y=True))
        if never := [scan.task for scan in here if not scan.plainly]:
            caption += f" AdamW, {way}: without the penalty no network arrives on {', '.join(never)}."
    return [Curves("coefficients", "What GrokAlign's coefficient does", caption, "λ", tuple(panels))] if panels else []


def multiples(scan: Scan) -> list[Line]:
    """The multiples of one task, a line for each row of coefficients with which some network arrives."""
    times = np.exp(np.log(scan.cost / scan.plain[:, None]).mean(0)).tolist()
    parts = itertools.groupby(range(len(times)), lambda place: bool(scan.arrives[:, place].any()))
    rows = [[*places] for arrive, places in parts if arrive]
    colour = list(BASES).index(scan.task)
    return [
        Line(scan.task, COEFFICIENTS[row[0] : row[-1] + 1], tuple(times[row[0] : row[-1] + 1]), colour=colour)
        for row in rows
    ]


def claims(seeds: Seeds) -> list[Claim]:
    """Whether a rule will do."""
    found = scans(seeds)
    most = {(scan.task, scan.way): int(scan.arrives[:, best(scan)].sum()) for scan in found}
    made = []
    for rule in RULES:
        judged = left_out(found, rule)
        if judged:
            costs = [cost for _, cost, _ in judged.values()]
            # Who never arrives costs what was waited for, which may be little more than the best λ takes.
            fewer = sum(arriving < most[where] for where, (_, _, arriving) in judged.items())
            measured = (
                f"{np.median(costs):.2f} x, at worst {max(costs):.2f} x; {NONE} {median_cost(found, NONE):.2f} x; "
                f"fewer networks arrive on {fewer} of {len(judged)} tasks"
            )
            message = f"λ by {rule}, its constant from other tasks, does nearly as well as the best λ"
            expected = f"a median of at most {DEAR:g} x its steps, of `usual` its error, and as many arrive everywhere"
            holds = bool(np.median(costs) <= DEAR and fewer == 0)
            made.append(Claim(message, "question of this project", expected, measured, holds))
    return made


EXPERIMENT = Experiment(
    EXPERIMENTS["which-lambda"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims,
    figures_over_seeds=figures_over_seeds, table_over_seeds=table_over_seeds,
)  # fmt: skip
