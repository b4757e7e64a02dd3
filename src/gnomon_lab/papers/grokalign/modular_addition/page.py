"""modular-addition's page: its table, figures and claims, from its records."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from scipy.stats import spearmanr

from gnomon_lab.figures import Curves, Figure, Panel
from gnomon_lab.papers._shared import ALIGNMENT, SEEN, SPREAD, UNSEEN, accuracy_panel, arms, firsts, lines, marked
from gnomon_lab.runs import Cells, Claim, Record, Seeds, last, over_seeds, series, settled_at

METHODS = ("weight decay", "GrokAlign")
PALER = (5, 4)
"""The palette's paler blue and orange: what is beside a method's mean."""
GOAL = 0.85
"""Test accuracy from which on a network counts as grokked. The figures name none; this is table 1's."""
STRONG = 0.5
"""The least Spearman correlation that counts as one, as in init-scaling; the paper says "in accordance"."""
GINI = {"train/gini_embedding": "the embedding", "train/gini_logits": "the neuron-logit map"}
SOURCE = "Walker et al., arXiv:2506.12284, figure "


def grokked_at(records: Sequence[Record], embeddings: str, method: str) -> int | None:
    """The first reading from which on the test accuracy stays at the goal; None if it does not end there."""
    return settled_at(records, f"{embeddings} {method}", UNSEEN, GOAL)


def acceleration(records: Sequence[Record], embeddings: str) -> float:
    """How many times fewer steps GrokAlign takes to grok than weight decay; 0 if it never does."""
    base, ours = (grokked_at(records, embeddings, method) for method in METHODS)
    if ours is None:
        return 0.0
    return math.inf if base is None else base / ours


def table(records: Sequence[Record]) -> Cells:
    """The steps at which every arm memorised and grokked, and its end."""
    columns = ("", "memorised", "grokked", "test", "alignment", "Gini W_E", "Gini W_L", "norm")
    rows: list[tuple[str, ...]] = []
    for embeddings, method in arms(records):
        end = last(records, f"{embeddings} {method}")
        steps = (settled_at(records, end["arm"], SEEN, 0.99), grokked_at(records, embeddings, method))
        moments = ("no" if step is None else f"{step:,}" for step in steps)
        numbers = (f"{end[name]:z.2f}" for name in (ALIGNMENT, *GINI))
        norm = f"{end['some/jacobian_norm']:.0f}"
        rows.append((f"{embeddings}, {method}", *moments, f"{end[UNSEEN]:.1%}", *numbers, norm))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """When each pair of arms grokked, in a sentence."""
    sentences = []
    for embeddings in firsts(records):
        steps = (grokked_at(records, embeddings, method) for method in METHODS)
        base, ours = ("never" if step is None else f"at step {step:,}" for step in steps)
        sentences.append(f"With {embeddings} embeddings weight decay alone groks {base}, GrokAlign {ours}.")
    return " ".join(sentences)


def figures(records: Sequence[Record]) -> list[Figure]:
    """Figure 8 (learned) and figure 9 (fixed)."""
    return [curves(records, embeddings) for embeddings in firsts(records)]


def curves(records: Sequence[Record], embeddings: str) -> Curves:
    """Accuracy, centroid alignment and Gini coefficients of weight decay and GrokAlign."""
    named = {f"{embeddings} {method}": method for method in METHODS}
    marks = marked({f"{method} grokked": grokked_at(records, embeddings, method) for method in METHODS})
    spread = {arm: f"{method}, least and greatest" for arm, method in named.items()}
    extremes = tuple(
        replace(line, colour=PALER[line.colour])
        for end in ("min", "max")
        for line in lines(records, spread, f"{ALIGNMENT}.{end}", dashed=True)
    )
    panels = (
        accuracy_panel(records, named, "pairs", marks),
        Panel("Centroid alignment", "cosine", extremes + lines(records, named, ALIGNMENT), marks),
        *(Panel(f"Gini coefficient of {what}", "of Fourier norms", lines(records, named, name), marks, (0.0, 1.0))
          for name, what in GINI.items()),
        Panel("Jacobian norm", "logits per embedding", lines(records, named, "some/jacobian_norm"), marks),
    )  # fmt: skip
    return Curves(
        embeddings,
        f"Modular addition with {embeddings} embeddings",
        "Solid: unseen pairs above, means below.",
        "step",
        panels,
    )


def claims(seeds: Seeds) -> list[Claim]:
    """What section 4.3 says about figures 8 and 9, over all finished seeds."""
    ran = firsts(seeds[0])
    return (learned_claims(seeds) if "learned" in ran else []) + (fixed_claims(seeds) if "fixed" in ran else [])


def learned_claims(seeds: Seeds) -> list[Claim]:
    """Figure 8: weight decay groks, GrokAlign not sooner, and with low Gini coefficients."""
    grokked = sum(grokked_at(records, "learned", "weight decay") is not None for records in seeds)
    ratio, measured = acceleration_over_seeds(seeds, "learned", statistics.median_high)
    least, most = f"at least {GOAL:.0%} of unseen pairs, to the end", f"at most {1 + SPREAD:.2f} times fewer steps"
    groks, no_sooner = (
        f"learned embeddings: {what}" for what in ("weight decay groks", "GrokAlign does not accelerate")
    )
    return [
        Claim(groks, SOURCE + "8", least, f"{grokked} of {len(seeds)} seeds", grokked == len(seeds)),
        Claim(no_sooner, SOURCE + "8", most, measured, ratio <= 1 + SPREAD),
        *(gini_claim(seeds, name, what) for name, what in GINI.items()),
        accordance_claim(seeds),
    ]


def accordance_claim(seeds: Seeds) -> Claim:
    """The mean centroid alignment changes in accordance with the test accuracy, over the readings of both networks."""
    of_methods = [[accordance(records, f"learned {method}") for records in seeds] for method in METHODS]
    return Claim(
        "learned embeddings: the centroid alignment follows the test accuracy: Spearman's correlation, with weight "
        "decay and with GrokAlign",
        f"{SOURCE}8 and section 4.3",
        f"at least {STRONG:g}",
        "; ".join(over_seeds(values, ".2f") for values in of_methods),
        min(map(min, of_methods)) >= STRONG,
    )


def accordance(records: Sequence[Record], arm: str) -> float:
    """Spearman's correlation of mean alignment and test accuracy over the readings; 0 where one of them stays."""
    _, alignment = series(records, arm, ALIGNMENT)
    _, known = series(records, arm, UNSEEN)
    if len({*alignment}) == 1 or len({*known}) == 1:
        return 0.0
    return float(spearmanr(alignment, known).statistic)


def gini_claim(seeds: Seeds, name: str, what: str) -> Claim:
    """The paper says that GrokAlign's "remain low": here, they rise less than half as far as weight decay's."""
    rises = [[rise(records, f"learned {method}", name) for records in seeds] for method in METHODS]
    base, ours = (over_seeds(values, "+.2f") for values in rises)
    return Claim(
        f"learned embeddings: with GrokAlign the Gini coefficient of {what} stays low",
        SOURCE + "8",
        "rises by less than half of its rise with weight decay",
        f"{ours}; with weight decay {base}",
        all(2 * mine < theirs for theirs, mine in zip(*rises, strict=True)),
    )


def rise(records: Sequence[Record], arm: str, name: str) -> float:
    """How far a recorded quantity rises from the first reading to the last."""
    _, values = series(records, arm, name)
    return values[-1] - values[0]


def fixed_claims(seeds: Seeds) -> list[Claim]:
    """Figure 9: GrokAlign groks earlier."""
    ratio, measured = acceleration_over_seeds(seeds, "fixed", statistics.median_low)
    expected = f"more than {1 + SPREAD:.2f} times fewer steps"
    message = "fixed embeddings: GrokAlign groks earlier than weight decay"
    return [Claim(message, SOURCE + "9", expected, measured, ratio > 1 + SPREAD)]


def acceleration_over_seeds(seeds: Seeds, embeddings: str, median: Callable[[list[float]], float]) -> tuple[float, str]:
    """The median acceleration, by which a claim is judged, and in words what each seed says of it.

    The median, since one that is infinite would be the mean; of an even number of seeds the one of the two in the
    middle that speaks against the claim.
    """
    ratios = [acceleration(records, embeddings) for records in seeds]
    both = [ratio for ratio in ratios if 0 < ratio < math.inf]
    sentences = [over_seeds(both, ".2f")] if both else []
    for method in METHODS:
        never = sum(grokked_at(records, embeddings, method) is None for records in seeds)
        sentences += [f"{method} never groks in {never} of {len(seeds)}"] if never else []
    if len(seeds) > 1:
        sentences.append(f"median {median(ratios):.2f}")
    return median(ratios), "; ".join(sentences)
