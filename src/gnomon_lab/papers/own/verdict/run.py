"""verdict: the probability that more training is worth it, judged on networks, families and kinds left out."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from gnomon.errors import DataError
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.own._board import resamples, spread
from gnomon_lab.papers.own._judged import AHEAD
from gnomon_lab.papers.own._watched import Watched, corpus_at, corpus_by_name, families, read_corpus
from gnomon_lab.papers.own.verdict.models import BOOSTED, SIMPLE, Fit
from gnomon_lab.papers.own.verdict.moments import CHEAP, CORE, KINDS, VALIDATION, Moments, moments
from gnomon_lab.papers.own.verdict.nested import HeldOutPredictions, nested
from gnomon_lab.papers.own.verdict.page import ADDED_RIVALS, SHIPS, SHIPS_TOO, claims, figures, summary, table
from gnomon_lab.papers.own.verdict.scores import Scored, beyond, joined, of_networks, scores
from gnomon_lab.papers.own.verdict.shipped import shipped
from gnomon_lab.papers.own.verdict.stopping import (
    Places,
    ended,
    flat,
    improbable,
    patience,
    rested,
    threshold,
)
from gnomon_lab.papers.own.verdict.told import asked, late, wary, words
from gnomon_lab.runs import Run
from gnomon_lab.runs.files import replace_text
from gnomon_lab.settings import Count, Settings

LOSS = {"training_loss": "train/training_loss"}
SETS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Fit]]] = {
    "validation alone": (tuple(VALIDATION), SIMPLE),
    "validation alone, boosted": (tuple(VALIDATION), BOOSTED),
    "weight norm alone": (("parameter_norm",), SIMPLE),
    "weight norm alone, boosted": (("parameter_norm",), BOOSTED),
    "training loss alone": (("training_loss",), SIMPLE),
    "training loss alone, boosted": (("training_loss",), BOOSTED),
    "cheap": (tuple(CHEAP), SIMPLE),
    "cheap, boosted": (tuple(CHEAP), BOOSTED),
    "core": (tuple(CORE), SIMPLE),
    "core, boosted": (tuple(CORE), BOOSTED),
    "core and validation": ((*CORE, *VALIDATION), SIMPLE),
    "core and validation, boosted": ((*CORE, *VALIDATION), BOOSTED),
    "everything, boosted": ((), BOOSTED),
}
"""What is used, and by which models; those in `ADDED` are no part of the protocol."""
RIVALS = ("validation alone", "weight norm alone", "training loss alone", "core", *ADDED_RIVALS)
"""What each set is compared with; the fourth decides what ships."""
FOLDS = 5
WORDS = {"families": "families", "kinds": "kinds of data", "networks": f"remainders of their seeds by {FOLDS}"}
"""What is left out: a family, all families with the same data, or a fifth of the networks of each family."""
GROUPINGS = tuple(WORDS)
LEAST = 3
"""Groups that are needed in each grouping."""
INTRODUCTION = """
Is more training worth it? From what the training data show of a network, a model says how probable it is that unseen
accuracy rises by five points if training goes on to four times the steps. It is asked about networks of the corpus that
it has not seen, about families that it has not seen, and about data that it has not seen; for comparison a validation
split, the weight norm, and the training loss are asked in the same way.

An AUROC is a mean over the families, and has two intervals. The first resamples the networks of each family: what other
networks of the same families would give. The one "over families" is by Student's t from the AUROC of each family: what
other families would give.

"Below the base rate's" is by how much the Brier score is lower than that of always the share of rises in the other
groups; "off in a family" how far the mean probability in a family is from the share that came true there, as an
absolute value where it is averaged over families.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of the judgement."""

    resamples: Count = 1000
    """Resamples of the networks, for the intervals."""
    corpus: str = ""
    """A table that `gnomon report corpus --table` wrote; default: the one that comes with gnomon."""


SMALL = PAPER = Config()


@dataclass(frozen=True, eq=False)
class JudgedCorpus:
    """The corpus, ready to be judged.

    Attributes:
        names: of its numbers.
        networks: all of them.
        data: their moments, with the traits of `CORE`, `VALIDATION` and the training loss.
        everything: the same moments, with every number of the training data in both of its forms.
        family: of each network.
        draws: the resamples of the networks, by family.
    """

    names: Sequence[str]
    networks: Sequence[Watched]
    data: Moments
    everything: Moments
    family: NDArray[Any]
    draws: Mapping[str, NDArray[Any]]

    def group(self, grouping: str) -> Int[np.ndarray, "m"]:
        """What is left out together, by moment."""
        groups = [group_of(network, grouping) for network in self.networks]
        return np.unique(groups, return_inverse=True)[1][self.data.network]

    def predicted(self, name: str, grouping: str, outcomes: Bool[np.ndarray, "m"]) -> HeldOutPredictions:
        """The predictions from one set of quantities."""
        quantities, models = SETS[name]
        data = self.data.of(quantities) if quantities else self.everything
        return nested(data, outcomes, self.group(grouping), models)


def run(config: Config, run: Run) -> None:
    """Judges each set, leaving out each group; then the rules that say when to stop."""
    judged = ready(config, run.seed)
    data, family = judged.data, judged.family
    rivals: dict[str, dict[str, HeldOutPredictions]] = {}
    tried = list(product(GROUPINGS, SETS))
    for step in run.steps("probability", len(tried) - 1):
        grouping, name = tried[step]
        if grouping not in rivals:
            rivals[grouping] = {rival: judged.predicted(rival, grouping, data.rises) for rival in RIVALS}
        predicted = rivals[grouping].get(name) or judged.predicted(name, grouping, data.rises)
        every, fitted = (
            Scored(data, data.rises, family, judged.draws, which)
            for which in (np.full_like(data.fitted, True), data.fitted)
        )
        places, thresholds = stops(judged, predicted, grouping)
        run.record(
            step, grouping=grouping, set=name, models=sorted(set(predicted.chosen.values())), thresholds=thresholds,
            all=scores(every, predicted, judged.group(grouping)),
            fitted=scores(fitted, predicted, judged.group(grouping)),
            beyond=beyond(fitted, predicted, rivals[grouping]), stops=stopped(judged, places),
        )  # fmt: skip
    others = list(product(GROUPINGS, ("falls", "closed")))
    for step in run.steps("other questions", len(others) - 1):
        grouping, target = others[step]
        outcomes = getattr(data, target)
        predicted = judged.predicted("core", grouping, outcomes)
        fitted = Scored(data, outcomes, family, judged.draws, data.fitted)
        run.record(step, grouping=grouping, target=target, fitted=scores(fitted, predicted, judged.group(grouping)))
    kept = shipped(tuple(CORE), tuple(VALIDATION), judged.networks, data, judged.group("families"))
    stop = {SHIPS: kept["stop"], SHIPS_TOO: kept["with_validation"]["stop"]}
    apart = {name: judged.predicted(name, "families", data.rises) for name in stop}
    for step in run.steps("told", len(stop) - 1):
        name, below = list(stop.items())[step]
        run.record(step, set=name, below=below, **told(judged, apart[name], below))
    rules = rules_of(judged, apart, stop)
    for step in run.steps("rules", len(rules) - 1):
        name, places = list(rules.items())[step]
        run.record(step, rule=name, stops=stopped(judged, places))
    sha256 = hashlib.sha256(corpus_at(config.corpus).read_bytes()).hexdigest()
    replace_text(run.folder / "corpus.json", json.dumps({"corpus": sha256, **kept}, separators=(",", ":")) + "\n")


def ready(config: Config, seed: int) -> JudgedCorpus:
    """Reads the corpus."""
    names, networks = read_corpus(corpus_at(config.corpus), {*(CORE | VALIDATION | LOSS).values()}, "verdict")
    networks = [network for network in networks if len(network.steps)]  # some diverge before they are read
    require_groups(networks, config.corpus)
    family = np.array([network.family for network in networks])
    data = moments(names, networks, CORE | VALIDATION | LOSS)
    draws = resamples(families(networks), config.resamples, np.random.default_rng(seed))
    return JudgedCorpus(names, networks, data, of_everything(names, networks, data), family, draws)


def group_of(network: Watched, grouping: str) -> str:
    """What a network is left out together with."""
    groups = {
        "families": network.family,
        "kinds": KINDS.get(network.family, network.family),
        "networks": str(network.seed % FOLDS),
    }
    return groups[grouping]


def require_groups(networks: Sequence[Watched], path: str) -> None:
    """Refuses a corpus with too few groups: one is left out, one more to choose a model, and one is fitted."""
    judged = [network for network in networks if len(network.steps) > 2 * AHEAD]  # with a past and a future
    for grouping in GROUPINGS:
        found = sorted({group_of(network, grouping) for network in judged})
        if len(found) < LEAST:
            raise DataError(
                "--corpus",
                f"networks of at least {LEAST} {WORDS[grouping]}",
                f"{', '.join(found) or 'none'} in {path}",
                "Call `gnomon run corpus` with more families and seeds.",
                where="verdict",
            )


def of_everything(names: Sequence[str], networks: Sequence[Watched], data: Moments) -> Moments:
    """The same moments, with the level and the change of every number of the training data."""
    kept = [place for place, name in enumerate(names) if name.startswith(("train/", "some/", "few/"))]
    rows = [
        np.concatenate([networks[which].levels[place, kept], networks[which].changes[place, kept]])
        for which, place in zip(data.network, data.place, strict=True)
    ]
    both = [f"{names[place]}, {form}" for form in ("level", "change") for place in kept]
    return replace(data, names=tuple(both), traits=np.stack(rows))


def stops(judged: JudgedCorpus, predicted: HeldOutPredictions, grouping: str) -> tuple[Places, list[float]]:
    """Where each training run would be ended, with a threshold that was chosen without its group."""
    data, group = judged.data, judged.group(grouping)
    places: list[int | None] = [None] * len(judged.networks)
    thresholds = []
    for which, left_out in enumerate(np.unique(group)):
        own = np.unique(data.network[group == left_out])
        others = np.setdiff1d(np.unique(data.network), own)
        chosen = threshold(data, predicted.inner[which], judged.networks, others)
        thresholds.append(chosen)
        found = improbable(data, predicted.probability, len(places), chosen)
        for network in own:
            places[network] = found[network]
    return places, thresholds


def stopped(judged: JudgedCorpus, places: Places) -> dict[str, object]:
    """The results of a rule: false stops among all, wasted steps as a share of those of never stopping."""
    found, never = ended(judged.networks, places), ended(judged.networks, [None] * len(places))
    drawn = joined(judged.draws, judged.family)
    false, ends = (of_networks(each.astype(float), drawn) for each in (found.false, found.stopped))
    ours, theirs = (of_networks(each.wasted.astype(float), drawn) for each in (found, never))
    return {
        "false": spread(*false),
        "wasted": spread(ours[0] / theirs[0], ours[1] / theirs[1]),
        "stopped": spread(*ends),
        "families": {
            name: {
                "false": float(found.false[judged.family == name].mean()),
                "wasted": float(
                    found.wasted[judged.family == name].sum() / max(1, never.wasted[judged.family == name].sum())
                ),
            }
            for name in judged.draws
        },
    }


def told(judged: JudgedCorpus, predicted: HeldOutPredictions, below: float) -> dict[str, object]:
    """What is said in families left out: how often it is true, and how often a run is stopped by it."""
    data, family = judged.data, judged.family
    scored = Scored(data, data.rises, family, judged.draws, data.fitted & predicted.answered)
    return {
        "words": words(scored, predicted.probability, below),
        "late": late(data, predicted, judged.networks),
        "stops": asked(data, wary(predicted), judged.networks, below, joined(judged.draws, family)),
    }


def rules_of(
    judged: JudgedCorpus, apart: Mapping[str, HeldOutPredictions], stop: Mapping[str, float]
) -> dict[str, Places]:
    """The rules that are the same in all groups, by name; among them what ships, asked about families left out."""
    ships = {
        f"{name}, families, below {below:g}": improbable(judged.data, wary(apart[name]), len(judged.networks), below)
        for name, below in stop.items()
    }
    return {
        "never": [None] * len(judged.networks),
        **ships,
        "patience of one doubling": patience(judged.names, judged.networks, 1),
        "patience of two doublings": patience(judged.names, judged.networks, 2),
        "plateau": flat(judged.names, judged.networks),
        "feature_learning_interval": rested(judged.names, judged.networks),
    }


EXPERIMENT = Experiment(
    EXPERIMENTS["verdict"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims,
    tables=lambda config: corpus_by_name(config.corpus),
)  # fmt: skip
