"""grok-digits: the first run a newcomer sees. Two networks fit 500 digits: do they recognise others?"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch

from gnomon import (
    GrokAlign,
    Probe,
    Verdict,
    accuracy,
    centroid,
    centroid_alignment,
    explained_variance_ratio,
    jacobian_alignment,
    jacobian_norm,
    log_probability,
    log_spaced,
    parameter_norm,
)
from gnomon.data import Samples, digits
from gnomon.models import mlp
from gnomon.probe import from_records
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, ImageSlider, Mark
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import (
    ALIGNMENT,
    LOSSES,
    NORM,
    PC1,
    SEEN,
    UNSEEN,
    Loss,
    accuracy_panel,
    geometry,
    image_frames,
    significant,
)
from gnomon_lab.papers.own._samples import scaled
from gnomon_lab.runs import Cells, Claim, Record, Run, Seeds, by_arm, last, over_seeds, series, settled_at
from gnomon_lab.settings import Count, NonNegative, Positive, Settings, between
from gnomon_lab.training import fit

ARMS = ("baseline", "GrokAlign")
CLASSES = 10
LEAST = {SEEN: 0.99, UNSEEN: 0.9}
"""What counts as fitting the training digits, and as generalising."""
GREY = 6
"""The palette's place of what is neither arm's."""
FALL = 0.02
"""By how much PC1 has to fall from its peak for the page to mention it."""
INTRODUCTION = """
Two networks start from the same random weights and are trained on the same handwritten digits. That a network fits them
says little about what it makes of unseen digits: if it fails there, it has memorised, and if it comes to recognise them
long after it fits its own, it groks. The two networks differ only in one term in the loss of the second, the GrokAlign
penalty, which keeps the reaction of the outputs to the input pixels small.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of grok-digits."""

    loss: Loss = "mse"
    """The training loss; mse is against one-hot labels."""
    init_scale: Positive | None = None
    """Multiplies PyTorch's default initialisation; default: 4 for mse, 8 for cross-entropy."""
    coefficient: NonNegative = 0.1
    """Coefficient of the GrokAlign penalty in the second network."""
    steps: Count = 6000
    """Full-batch AdamW steps."""
    learning_rate: Positive = 3e-3
    """Learning rate of AdamW."""
    weight_decay: NonNegative = 0.003
    """Weight decay of AdamW."""
    train: Annotated[int, between(CLASSES, 1796)] = 500
    """Training digits; the rest of the 1,797 are for testing."""
    width: Count = 128
    """Width of the three hidden layers."""
    readings: Count = 12
    """Readings in each factor of ten of the steps."""


SMALL = Config()
PAPER = Config()


def run(config: Config, run: Run) -> None:
    """Trains both networks and records their geometry."""
    drawn = digits(config.train, generator=torch.Generator().manual_seed(run.seed))
    train, test = scaled(*drawn)
    looked_at = typical(train)
    shown = {"digits": drawn[0].x[looked_at].tolist(), "standardised": significant(train.x[looked_at])}
    for arm in ARMS:
        train_arm(config, run, arm, train, test, looked_at, shown)


def typical(train: Samples) -> list[int]:
    """For each class, the digit that is nearest to the class's mean."""
    found = []
    for label in sorted(set(train.labels.tolist())):
        (places,) = torch.where(train.labels == label)
        own = train.x[places]
        found.append(int(places[(own - own.mean(0)).norm(dim=1).argmin()]))
    return found


def train_arm(
    config: Config,
    run: Run,
    arm: str,
    train: Samples,
    test: Samples,
    looked_at: Sequence[int],
    shown: Mapping[str, object],
) -> None:
    """Trains one network, with the same start and data for both, and records the centroids at some digits."""
    generator = torch.Generator().manual_seed(run.seed)
    scale = config.init_scale or {"mse": 4.0, "cross-entropy": 8.0}[config.loss]
    model = mlp((64, config.width, config.width, config.width, 10), scale=scale, generator=generator)
    optimizer = torch.optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    penalty = GrokAlign(config.coefficient, generator=generator) if arm == "GrokAlign" else None
    jacobians = [centroid, centroid_alignment, jacobian_norm, explained_variance_ratio, jacobian_alignment]
    seen = [*jacobians, log_probability, parameter_norm]  # with the accuracy all that a verdict uses
    probe = Probe(model, {"train": train, "test": test}, {"accuracy": accuracy, "train": seen})
    for step in fit(
        run, arm, config.steps, model, optimizer, lambda step: [train], LOSSES[config.loss],
        due=log_spaced(config.readings), penalty=penalty, generator=generator,
    ):  # fmt: skip
        reading = probe.read(step)
        images = significant(reading.values["train/centroid"][looked_at])
        extra = shown if step == 0 else {}
        run.record(step, reading, centroids=images, **extra)


def table(records: Sequence[Record]) -> Cells:
    """Both networks at the end."""
    columns = ("", "train", "test", "centroid alignment", "Jacobian norm", "PC1", "seconds")
    formats = {SEEN: ".1%", UNSEEN: ".1%", ALIGNMENT: ".3f", NORM: ".2f"}
    formats[PC1] = ".3f"
    rows: list[tuple[str, ...]] = []
    for arm in ARMS:
        end = last(records, arm)
        numbers = (format(end[name], how) for name, how in formats.items())
        rows.append((arm, *numbers, f"{end['seconds']['trained']:.1f}"))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences, and what the verdict predicted."""
    known = {arm: (last(records, arm)[SEEN], last(records, arm)[UNSEEN]) for arm in ARMS}
    say = "The {} network recognises {:.0%} of the digits it was trained on and {:.0%} of those it never saw."
    return " ".join([*(say.format(arm, *known[arm]) for arm in ARMS), *predicted(records)])


def predicted(records: Sequence[Record]) -> list[str]:
    """The verdict when each network first fitted its digits: how probable it was that it would recognise more."""
    probabilities = {arm: found.probability for arm in ARMS if (found := when_fitted(records, arm))}
    if any(probability is None for probability in probabilities.values()) or len(probabilities) < len(ARMS):
        return []
    odds = " and ".join(f"{probability:.0%} for the {arm} network" for arm, probability in probabilities.items())
    return [
        "From the training digits alone, when these were first fitted, gnomon's verdict put the chance that unseen "
        f"accuracy would rise by five points more at {odds}."
    ]


def when_fitted(records: Sequence[Record], arm: str) -> Verdict | None:
    """The verdict on the readings up to the first at which the training digits are fitted; None if there is none."""
    readings = by_arm(records)[arm]
    fitted = next((each["step"] for each in readings if each[SEEN] >= LEAST[SEEN]), None)
    if fitted is None:
        return None
    return from_records(each for each in readings if each["step"] <= fitted).verdict()


def figures(records: Sequence[Record]) -> list[Figure]:
    """Accuracies, alignment, norm and PC1 against steps; and the centroids next to their digits."""
    return [curves(records), centroids(records)]


def curves(records: Sequence[Record]) -> Curves:
    """The four small multiples, with the steps of memorisation and generalisation marked."""
    marks = (
        *reached(records, SEEN, "fits its digits", "both fit their digits"),
        *reached(records, UNSEEN, "generalises", "both generalise"),
    )
    arms = {arm: arm for arm in ARMS}
    # First: records of another version have no accuracies, and say so here.
    accuracies = accuracy_panel(records, arms, "digits", marks)
    panels = (replace(accuracies, title="Accuracy (solid: unseen digits)"), *geometry(records, arms, marks))
    return Curves(
        "curves",
        "Accuracy and geometry of both networks",
        " ".join(
            (
                "Above, the accuracy on the training digits (dashed) and on the others (solid).",
                *(milestones(records, arm) for arm in ARMS),
                "Below, means over the training digits.",
                peaked(records, "GrokAlign"),
            )
        ).strip(),
        "step",
        panels,
    )


def reached(records: Sequence[Record], name: str, one: str, both: str) -> tuple[Mark, ...]:
    """The step from which on an accuracy is high enough, in each network; one grey mark where they agree."""
    steps = [settled_at(records, arm, name, LEAST[name]) for arm in ARMS]
    first, *others = steps
    if first is not None and all(step == first for step in others):
        return (Mark(f"{both}, step {first:,}", first, GREY),)
    found = enumerate(zip(ARMS, steps, strict=True))
    return tuple(Mark(f"{arm} {one}, step {step:,}", step, place) for place, (arm, step) in found if step is not None)


def milestones(records: Sequence[Record], arm: str) -> str:
    """From which step on one network fits its digits, and from which it recognises others."""
    fits, knows = (settled_at(records, arm, name, least) for name, least in LEAST.items())
    fitted = f"fits {LEAST[SEEN]:.0%} of its digits " + ("at no step" if fits is None else f"from step {fits:,} on")
    known = f"{LEAST[UNSEEN]:.0%} of the others " + ("at no step" if knows is None else f"from step {knows:,} on")
    return f"The {arm} network {fitted}, and recognises {known}."


def peaked(records: Sequence[Record], arm: str) -> str:
    """Where PC1 has fallen furthest from a peak; empty where it has not."""
    steps, shares = series(records, arm, PC1)
    peaks = list(itertools.accumulate(shares, max))
    peak, least = max(zip(peaks, shares, strict=True), key=lambda pair: pair[0] - pair[1])
    if peak - least < FALL:
        return ""
    return (
        f"PC1 of the {arm} network falls from {peak:.2f} at step {steps[shares.index(peak)]:,.0f} to {least:.2f}; why "
        "it does in seed 0 of the usual setting: docs/experiments/grok-digits.md."
    )


def centroids(records: Sequence[Record]) -> ImageSlider:
    """The centroid of each shown digit's linear region: what the network looks for there."""
    given = {"digits as written": records[0]["digits"], "less the average digit": records[0]["standardised"]}
    likeness = " and ".join(f"{last(records, arm)[ALIGNMENT]:.3f} ({arm})" for arm in ARMS)
    return ImageSlider(
        "centroids",
        "What each network looks for",
        "Above, a typical training digit of each class, as it was written and as the networks see it, less the "
        "average digit. Below, the centroid of the linear region around each digit, the sum of the Jacobian's rows. "
        "How alike they are to the second row is the alignment: at the end a cosine, as the mean over the training "
        f"digits, of {likeness}.",
        image_frames(records, given),
    )


def claims(seeds: Seeds) -> list[Claim]:
    """The claims, each over all finished seeds of one setting."""

    def claim(message: str, arm: str, name: str, least: float, most: float) -> Claim:
        values = [last(records, arm)[name] for records in seeds]
        expected = f"at most {most:.0%}" if most < 1 else f"at least {least:.0%}"
        holds = all(least <= value <= most for value in values)
        return Claim(message, "grok-digits", expected, over_seeds(values, ".1%"), holds)

    return [
        claim("the baseline memorises: train accuracy at the end", "baseline", SEEN, LEAST[SEEN], 1.0),
        claim("the baseline does not generalise: test accuracy at the end", "baseline", UNSEEN, 0.0, 0.6),
        claim("GrokAlign fits the training digits: train accuracy at the end", "GrokAlign", SEEN, LEAST[SEEN], 1.0),
        claim("GrokAlign groks: test accuracy at the end", "GrokAlign", UNSEEN, LEAST[UNSEEN], 1.0),
    ]


EXPERIMENT = Experiment(EXPERIMENTS["grok-digits"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
