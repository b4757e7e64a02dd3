"""mse-collapse: neural collapse of networks trained on the squared error (figures 2 to 9 and 12, table 1)."""

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence

from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, Line, Panel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import UNSEEN
from gnomon_lab.papers.mse_collapse._page import (
    NC1,
    checked,
    chosen_arms,
    curve,
    first_epoch,
    left_unseen,
    others_unseen,
    panels,
    share,
    slower_unseen,
    starts,
    terminal,
    visible_unseen,
)
from gnomon_lab.papers.mse_collapse._paper import PAPER, SINGLE, TABLE_1
from gnomon_lab.papers.mse_collapse._shared import GRID, HARDWARE, Config, train_all
from gnomon_lab.runs import Cells, Claim, Record, Run, Seeds, last

MUCH = 0.1
"""What is at most this many times another value counts as much smaller; the paper gives no number."""
INTRODUCTION = """
A network learns to classify images with the squared error, and goes on training long after its last mistake on the
training images. The paper says what happens then: the features of each class contract to a point, the points become the
corners of a simplex, the classifiers become the same corners, and the network chooses the nearest corner. Throughout,
the last layer stays close to the least-squares classifier of its features.
"""

SMALL = Config()
NOTEBOOK = dataclasses.replace(PAPER, cases=("mnist-resnet18",), learning_rates=(GRID[16],))
"""The authors' public notebook: one network, and the learning rate that their search found for it."""
OTHERS = tuple(
    dataclasses.replace(setting, device=device, precision=precision)
    for setting in (PAPER, NOTEBOOK, *SINGLE)
    for device, precision in HARDWARE
)
NC2 = ("train/equinorm.means", "train/equiangularity.means", "train/maximal_equiangularity.means")
"""The signs of NC2 in the features; each is linear in how far the class means are from a simplex."""
NC3 = "train/self_duality"
TERMS = ("train/loss.nc23", "train/loss.nc1", "train/loss.deviation")
FALLING = {
    "equinorm.means": ("3", "equinorm of the class means"),
    "equinorm.classifiers": ("3", "equinorm of the classifiers"),
    "equiangularity.means": ("4", "equiangularity of the class means"),
    "equiangularity.classifiers": ("4", "equiangularity of the classifiers"),
    "maximal_equiangularity.means": ("5", "maximal equiangularity of the class means"),
    "maximal_equiangularity.classifiers": ("5", "maximal equiangularity of the classifiers"),
    "self_duality": ("6", "distance from self-duality"),
    "nc1": ("7", "NC1"),
    "disagreement": ("8", "disagreement with the nearest class mean"),
    "loss.total": ("2", "loss"),
}
"""What falls on the training images after zero training error, and the figure that shows it."""


def run(config: Config, run: Run) -> None:
    """Trains the network of every case on the mean squared error."""
    train_all(config, run, ("mse",))


def table(records: Sequence[Record]) -> Cells:
    """Table 1, and the collapse in between."""
    columns = (
        "",
        "zero error at epoch",
        "test then",
        "test at the end",
        "NC1 then",
        "NC1 at the end",
        "paper's test accuracy",
    )
    rows: list[tuple[str, ...]] = []
    for case, arm in chosen_arms(records, "mse").items():
        readings, end = terminal(records, arm), last(records, arm)
        start = readings[0] if readings else None
        at = ("never", "", "") if start is None else (
            f"{start['epoch']}", f"{start[UNSEEN]:.2%}", f"{start[NC1]:.3g}"
        )  # fmt: skip
        printed = "{:.2f} % to {:.2f} %".format(*TABLE_1[case]) if case in TABLE_1 else ""
        rows.append((arm, at[0], at[1], f"{end[UNSEEN]:.2%}", at[2], f"{end[NC1]:.3g}", printed))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in a sentence or two for each network."""
    sentences = []
    for case, arm in chosen_arms(records, "mse").items():
        readings = terminal(records, arm)
        if not readings:
            sentences.append(f"{case} never gets all training images right.")
            continue
        start, end = readings[0], readings[-1]
        sentences.append(
            f"{case} gets all training images right at epoch {start['epoch']}. From there to epoch {end['epoch']} NC1 "
            f"falls {start[NC1] / end[NC1]:.1f} times, and test accuracy goes from {start[UNSEEN]:.1%} to "
            f"{end[UNSEEN]:.1%}."
        )
    return " ".join(sentences)


def figures(records: Sequence[Record]) -> list[Figure]:
    """For each network its collapse, figures 3 to 9 and 12, and its loss, figure 2."""
    arms = chosen_arms(records, "mse")
    return [part for case, arm in arms.items() for part in (collapse(records, case, arm), losses(records, case, arm))]


def collapse(records: Sequence[Record], case: str, arm: str) -> Curves:
    """A panel for each sign of collapse."""
    drawn = panels(records, {"features": arm}, starts(records, arm, "zero training error"))
    for name in [name for name in drawn if name.endswith(".means")]:
        classifiers = curve("classifiers", records, arm, f"train/{name}".replace("means", "classifiers"), 1)
        drawn[name] = dataclasses.replace(drawn[name], lines=(*drawn[name].lines, classifiers))
    return Curves(
        f"collapse-{case}",
        f"Neural collapse under the squared error, {case}",
        "NC1 to NC4 are 0 where collapse is complete. Features of training images (solid) and of test images (dashed), "
        "each with their own class means, and the classifiers, the rows of the last weight. Robustness: how far "
        "DeepFool has to move test images, relative to their norm, but for the untrained network. The mark: the first "
        "epoch without training error.",
        "epoch",
        tuple(drawn.values()),
        log_x=False,
    )


def losses(records: Sequence[Record], case: str, arm: str) -> Curves:
    """The terms of the loss on both kinds of images."""
    terms = {"loss.nc1": "L_NC1", "loss.nc23": "L_NC2/3", "loss.deviation": "L_LS⊥", "loss.total": "L, their sum"}

    def lines(split: str) -> tuple[Line, ...]:
        return tuple(
            curve(label, records, arm, f"{split}/{term}", colour, log=True, dashed=term == "loss.total")
            for colour, (term, label) in enumerate(terms.items())
        )

    marks = starts(records, arm, "zero training error")
    return Curves(
        f"loss-{case}",
        f"The loss taken apart, {case}",
        "Half the squares, summed over outputs and averaged over images, and weight decay. L_NC1 + L_NC2/3 is the "
        "least loss for these features; L_LS⊥ is what the network's own classifier loses beyond that: it is 0 on the "
        "central path.",
        "epoch",
        tuple(
            Panel(f"{images} images", "loss", lines(split), marks, log_y=True)
            for images, split in (("Training", "train"), ("Test", "test"))
        ),
        log_x=False,
    )


def claims(seeds: Seeds) -> list[Claim]:
    """What the paper says about its figures, over the networks of all finished seeds.

    The terminal phase is from the first reading without training error to the end.
    """
    arms = [(records, arm) for records in seeds for arm in chosen_arms(records, "mse").values()]
    phases = [terminal(records, arm) for records, arm in arms]

    def each(measure: Callable[[Sequence[Record]], float]) -> list[float | None]:
        return [measure(phase) if phase else None for phase in phases]

    def falls(name: str) -> Claim:
        figure, what = FALLING[name]
        shares = each(lambda phase: share(phase[0][f"train/{name}"], phase[-1][f"train/{name}"]))
        message, expected = f"{what} falls after zero training error", "below 1 times its start"
        return checked(message, f"figure {figure}", expected, shares, ".3g", lambda values: max(values) < 1)

    def rises(what: str, place: str, name: str, printed: str, unit: float, how: str) -> Claim:
        gains = each(lambda phase: unit * (phase[-1][name] - phase[0][name]))
        message, expected = f"{what} rises after zero training error", f"median above 0 (paper: {printed})"
        return checked(message, place, expected, gains, how, lambda values: statistics.median(values) > 0)

    def fastest(place: int, when: str) -> Claim:
        message = f"of the loss's terms L_NC2/3 falls fastest, from the first epoch {when}"
        leads = [lead(records, arm, place) for records, arm in arms]
        expected = "below 1 times what is left of the next"
        return checked(message, "figure 2", expected, leads, ".3g", lambda values: max(values) < 1)

    away = each(lambda phase: max(r["train/loss.deviation"] / r["train/loss.least_squares"] for r in phase))
    unseen = each(lambda phase: phase[-1]["test/nc1"] / phase[-1][NC1])
    return [
        *(falls(name) for name in FALLING),
        checked("L_LS⊥ is much smaller than L_LS throughout the terminal phase", "figure 2",
                f"at most {MUCH:g} times", away, ".3g", lambda values: max(values) <= MUCH),
        fastest(0, "to zero training error"),
        fastest(-1, "to the end"),
        checked("NC2 is not slower than both NC1 and NC3: the least share left of its signs, over the slower one's",
                "appendix E.1", "median at most 1 times", [behind(records, arm) for records, arm in arms],
                ".3g", lambda values: statistics.median(values) <= 1),
        *slower_unseen(phases),
        checked("NC1 ends larger on test images than on training images", "figure 12",
                "above 1 times", unseen, ".3g", lambda values: min(values) > 1),
        others_unseen([phase[-1] if phase else None for phase in phases]),
        visible_unseen([left_unseen(records, arm) for records, arm in arms]),
        rises("test accuracy", "table 1", UNSEEN, "0.962 points", 100, "+.2f"),
        rises("robustness", "figure 9", "robustness.mean", "0.1762", 1, "+.4f"),
    ]  # fmt: skip


def lead(records: Sequence[Record], arm: str, place: int) -> float | None:
    """The share of L_NC2/3 that is left since the first epoch, divided by the smaller share of the other two terms.

    At the first reading without training error (place 0) or at the last (-1); None if there is no such reading.
    """
    first = first_epoch(records, arm)
    for reading in terminal(records, arm)[place:][:1]:
        ours, *others = (reading[term] / first[term] for term in TERMS)
        return float(ours / min(others))
    return None


def behind(records: Sequence[Record], arm: str) -> float:
    """What is left of NC2 since the first epoch, by the sign of which least is, over that of the slower of NC1 and NC3.

    As these are squares, their roots count.
    """
    first, end = first_epoch(records, arm), last(records, arm)
    left = {name: end[name] / first[name] for name in (*NC2, NC1, NC3)}
    return float(min(left[name] for name in NC2) / math.sqrt(max(left[NC1], left[NC3])))


EXPERIMENT = Experiment(
    EXPERIMENTS["mse-collapse"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, OTHERS
)
