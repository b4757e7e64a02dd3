"""The page of the corpus: what became of each network, and whether the outcomes are spread."""

from collections.abc import Sequence

from gnomon_lab.figures import Figure
from gnomon_lab.papers._shared import accuracy_curves
from gnomon_lab.papers.own._outcome import Outcome, outcome
from gnomon_lab.papers.own.corpus.spread import decides, late
from gnomon_lab.runs import Cells, Claim, Record, Seeds, by_arm

SOURCE = "docs/experiments/corpus.md"
FEWEST, MOST = 0.1, 0.9
"""Bounds on the share of networks that generalise late, among those that fit their training data."""
LEAST = 10
"""How many networks of a family have to fit their training data for this to be judged."""
DECISIVE = 0.9
"""The largest AUROC that a single setting may have for that."""


def table(records: Sequence[Record]) -> Cells:
    """What was drawn for each network, and what became of it."""
    columns = ("", "samples", "shuffled", "trained with", "fits at", "unseen there", "unseen at the end", "")
    return columns, [(name, *row(part)) for name, part in by_arm(records).items()]


def row(records: Sequence[Record]) -> tuple[str, ...]:
    """The row of one network."""
    drawn, came = records[0]["settings"], outcome(records)
    penalty = ", GrokAlign" if drawn["grokalign"] else ""
    how = f"{drawn['optimizer']}, {drawn['loss']}{penalty}"
    fits = "no" if came.fits is None else f"{came.fits:,}"
    known = (f"{came.then:.1%}", f"{came.end:.1%}")
    return f"{drawn['samples']:,}", f"{drawn['shuffled']:.0%}", how, fits, *known, came.in_words


def outcomes(records: Sequence[Record]) -> dict[str, Outcome]:
    """The outcomes by family, for one seed."""
    return {name: outcome(part) for name, part in by_arm(records).items()}


def summary(records: Sequence[Record]) -> str:
    """How many of the networks came to what."""
    words = [came.in_words for came in outcomes(records).values()]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    return f"Of {len(words)} networks {counts}."


def figures(records: Sequence[Record]) -> list[Figure]:
    """The accuracies of all networks."""
    caption = "The accuracy of each network on its training data, whose labels may be shuffled, and on unseen data."
    return [accuracy_curves(records, caption)]


def claims(seeds: Seeds) -> list[Claim]:
    """That outcomes are spread, so that there is something to foresee: over all finished seeds."""
    found = []
    for family in dict.fromkeys(name for records in seeds for name in by_arm(records)):
        runs = [by_arm(records)[family] for records in seeds if family in by_arm(records)]
        generalised = late(runs)
        if len(generalised) < LEAST:
            continue
        share = sum(generalised.values()) / len(generalised)
        counted = f"{share:.0%} of {len(generalised)}"
        message = f"{family}: of the networks that fit their training data some generalise late, and some do not"
        found.append(Claim(message, SOURCE, f"{FEWEST:.0%} to {MOST:.0%}", counted, FEWEST <= share <= MOST))
        name, area = decides([runs[place][0]["settings"] for place in generalised], list(generalised.values()))
        message = f"{family}: no single setting decides which do"
        found.append(Claim(message, SOURCE, f"AUROC at most {DECISIVE}", f"{area:.2f} ({name})", area <= DECISIVE))
    return found
