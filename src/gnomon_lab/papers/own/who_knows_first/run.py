"""who-knows-first: every quantity of the corpus asked who will generalise."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from gnomon.errors import DataError
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.own._board import Networks, Scored, beyond, counts, judged, resamples
from gnomon_lab.papers.own._watched import CORPUS, corpus_at, corpus_by_name, families, read_corpus
from gnomon_lab.papers.own.who_knows_first.page import claims, figures, summary, table
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, Settings

FORMS = ("level", "change")
"""How a quantity is used: its value, and its change over the last doubling of the steps."""
VALIDATION = "validation/accuracy"
INTRODUCTION = """
Some networks of the corpus come to recognise unseen samples long after they fit their training data, and some never do.
Who says so first? Each quantity that was read on training data is asked, in the same way and about the same networks,
next to what costs nothing: the number of steps, the training loss, the weight norm, and a validation split.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of the board."""

    resamples: Count = 1000
    """Resamples of the networks, for the intervals."""
    corpus: str = ""
    """A table that `gnomon report corpus --table` wrote; default: the one that comes with gnomon."""


SMALL = PAPER = Config()


def run(config: Config, run: Run) -> None:
    """Asks each quantity in both forms, one after the other."""
    names, networks = read_corpus(corpus_at(config.corpus))
    by_family = families(networks)
    require_outcomes(by_family, config.corpus)
    draws = resamples(by_family, config.resamples, np.random.default_rng(run.seed))
    rivals = {form: scores(by_family, form, names.index(VALIDATION)) for form in FORMS}
    asked = [(form, each) for form, each in product(FORMS, enumerate(names)) if (form, each[1]) != ("change", "step")]
    for step in run.steps("board", len(asked) - 1):
        form, (place, name) = asked[step]
        scored = scores(by_family, form, place)
        more = {rival: beyond(by_family, scored, theirs, draws) for rival, theirs in rivals.items()}
        run.record(step, predictor=name, form=form, beyond_validation=more, **judged(by_family, scored, draws))


def require_outcomes(networks: Networks, path: str) -> None:
    """Refuses a corpus on which nothing can be predicted."""
    asked = [counts(those, [np.zeros(len(each.steps)) for each in those]) for those in networks.values()]
    both = sum(0 < found["generalise"] < found["asked"] for found in asked)
    if both < 2:  # each is judged by what the others say
        raise DataError(
            "--corpus",
            "two families with networks that generalise after they fit their training data, and others that do not",
            f"{both} such families of {len(asked)} in {path or CORPUS.name}",
            "Call `gnomon run corpus` with more seeds or families.",
            where="who-knows-first",
        )


def scores(networks: Networks, form: str, place: int) -> Scored:
    """What one quantity said of each network, in one form."""
    return {
        name: [(each.levels if form == "level" else each.changes)[:, place] for each in those]
        for name, those in networks.items()
    }


EXPERIMENT = Experiment(
    EXPERIMENTS["who-knows-first"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims,
    tables=lambda config: corpus_by_name(config.corpus),
)  # fmt: skip
