"""steering: on each task each method is tuned, alone and on top of a tuned weight decay, and then scored."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated

from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.own._methods import METHODS, REFINED, Method, Training
from gnomon_lab.papers.own._trial import trial
from gnomon_lab.papers.own._trial_tasks import TASKS
from gnomon_lab.papers.own.steering.chosen import (
    ALONE,
    BASELINE,
    NO_DECAY,
    ON_TOP,
    UNTUNED,
    best_place,
    worth_trying,
)
from gnomon_lab.papers.own.steering.page import (
    claims,
    figures,
    figures_over_seeds,
    summary,
    table,
    table_over_seeds,
)
from gnomon_lab.runs import Record, Run
from gnomon_lab.settings import Count, Settings, among, at_least

RATES, DECAYS = (0.01, 0.03, 0.1, 0.3), (0.3, 1.0)
"""Learning rates and weight decays of AdamW, of which the best pair is taken."""
DEFAULT = 0.001, 0.01
"""What PyTorch's AdamW has where it is not tuned."""
PATIENCE = 5
"""How many times the task's steps to wait for networks without tuned weight decay, where they may arrive."""
SCORED_FROM = 100
"""Seeds from here on are scored; those below tune."""
INTRODUCTION = """
Many methods are said to make networks generalise sooner. Here each is tuned with as many settings as weight decay is,
on seeds that are not scored, and then raced to a share of unseen samples: alone, and on top of the tuned weight decay.
Networks that never arrive count as such. The table says how many times fewer steps than tuned weight decay each takes,
with a 95 % interval, / how many times less time, and how many networks arrive, if not all; where nobody learns late,
how many points more it recognises.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of the board. A run has its own seeds for tuning and for scoring; other runs add to it."""

    tasks: tuple[Annotated[str, among(*TASKS)], ...] = tuple(TASKS)
    """Which tasks."""
    methods: tuple[Annotated[str, among(*METHODS)], ...] = tuple(METHODS)
    """Which methods, in addition to weight decay itself and refined."""
    tuned_on: Count = 2
    """Seeds that a setting is judged on."""
    scored_on: Count = 2
    """Seeds that the chosen setting is scored on."""
    steps: Annotated[int, at_least(0)] = 0
    """Maximum number of steps in a trial; 0 for the tasks' own."""


SMALL = PAPER = Config()


@dataclass(frozen=True)
class Setting:
    """What a network is trained with.

    Attributes:
        rate: the learning rate.
        decay: the weight decay.
        own: the method's own setting.
    """

    rate: float
    decay: float
    own: float | tuple[float, float] | None = None


def run(config: Config, run: Run) -> None:
    """Tunes and scores everything on each task, one after the other."""
    for name in config.tasks:
        grid = [Setting(rate, decay) for rate in RATES for decay in DECAYS]
        best = race(config, run, name, BASELINE, None, grid)
        race(config, run, name, UNTUNED, None, [Setting(*DEFAULT)], PATIENCE)
        race(config, run, name, NO_DECAY, None, [Setting(best.rate, 0.0)], PATIENCE)
        # The refined one first, and always: it is what all are compared with.
        methods = dict.fromkeys((REFINED, *config.methods))
        for method in (each for each in methods if name not in METHODS[each].not_for):
            ways = {ON_TOP: best.decay} if method == REFINED else {ALONE: 0.0, ON_TOP: best.decay}
            for way, decay in ways.items():
                settings = [Setting(best.rate, decay, own) for own in METHODS[method].settings]
                race(config, run, name, f"{method}, {way}", METHODS[method], settings)


def race(
    config: Config, run: Run, name: str, entrant: str, method: Method | None, settings: Sequence[Setting],
    patience: int = 1,
) -> Setting:  # fmt: skip
    """Tries each setting on the seeds for tuning, and the best on those for scoring; returns it.

    A step of the run is a trial. Where there is one setting, nothing is tuned.
    """
    task, arm = TASKS[name], f"{name}, {entrant}"
    tuning = len(settings) * config.tuned_on if len(settings) > 1 else 0
    whole = (1 if task.whole else patience) * (config.steps or task.steps)
    for step in run.steps(arm, tuning + config.scored_on - 1):
        before, most = tried(run, arm), whole
        if step >= tuning:
            place, seed = best_place(before), SCORED_FROM + step - tuning
        else:
            place, seed = divmod(step, config.tuned_on)
            if not task.whole:
                most = worth_trying(before, place, whole)
        setting, seed = settings[place], 1000 * run.seed + seed
        found = trial(task, partial(change, method, setting), setting.rate, setting.decay, seed, run.data_dir, most)
        about = {"task": name, "entrant": entrant, "place": place, "scored": step >= tuning, "whole": task.whole}
        run.record(step, **about, **asdict(setting), **asdict(found))
    return settings[best_place(tried(run, arm))]


def tried(run: Run, arm: str) -> list[Record]:
    """The records of one entrant on one task."""
    return [record for record in run.records() if record["arm"] == arm]


def change(method: Method | None, setting: Setting, training: Training) -> None:
    """What the method does to a training; weight decay alone does nothing more."""
    if method is not None:
        method.change(training, setting.own)


EXPERIMENT = Experiment(
    EXPERIMENTS["steering"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims,
    figures_over_seeds=figures_over_seeds, table_over_seeds=table_over_seeds,
)  # fmt: skip
