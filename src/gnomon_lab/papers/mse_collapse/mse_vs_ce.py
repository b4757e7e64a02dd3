"""mse-vs-ce: neural collapse under the squared error and under cross-entropy (figures 10 to 12)."""

import dataclasses
import statistics
from collections.abc import Sequence

from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import SEEN, UNSEEN
from gnomon_lab.papers.mse_collapse._page import (
    NC1,
    UNSEEN_NC1,
    checked,
    chosen_arms,
    left_unseen,
    others_unseen,
    panels,
    slower_unseen,
    starts,
    terminal,
    visible_unseen,
)
from gnomon_lab.papers.mse_collapse._paper import PAPER, SINGLE
from gnomon_lab.papers.mse_collapse._shared import GRID, HARDWARE, Config, train_all
from gnomon_lab.runs import Cells, Claim, Record, Run, Seeds, last

COMPARABLE = 1
"""Test accuracies that differ by at most this many points count as comparable; the paper gives no number."""
NAMES = {"mse": "squared error", "cross-entropy": "cross-entropy"}
INTRODUCTION = """
Two networks start from the same weights and see the same images in the same order; one learns to classify them with the
squared error, the other with cross-entropy. Both are to go on training long after their last mistake on the training
images. The paper says that under the squared error the features of each class contract faster, and the network
withstands larger perturbations of the images.
"""

SMALL = Config(learning_rates=(0.03, 0.1), epochs=60, early=20, attack_spacing=20)
SUBSET = Config(learning_rates=GRID)
"""The paper's learning rates and epochs, for a narrow network and a thousand images: 50 training runs of it."""
OTHERS = (
    SUBSET,
    *(
        dataclasses.replace(setting, device=device, precision=precision)
        for setting in (PAPER, *SINGLE)
        for device, precision in HARDWARE
    ),
)


def run(config: Config, run: Run) -> None:
    """Trains the network of every case with both losses."""
    train_all(config, run, tuple(NAMES))


def pairs(records: Sequence[Record]) -> dict[str, dict[str, str]]:
    """By case, the arm of each loss."""
    arms = {loss: chosen_arms(records, loss) for loss in NAMES}
    return {case: {loss: arms[loss][case] for loss in NAMES} for case in arms["mse"]}


def table(records: Sequence[Record]) -> Cells:
    """Both losses at the end."""
    columns = ("", "zero error at epoch", "NC1", "equal angles", "self-duality", "test", "robustness")
    rows: list[tuple[str, ...]] = []
    for arms in pairs(records).values():
        for arm in arms.values():
            end, start = last(records, arm), terminal(records, arm)[:1]
            numbers = (f"{end[name]:.3g}" for name in (NC1, "train/equiangularity.means", "train/self_duality"))
            at = f"{start[0]['epoch']}" if start else "never"
            rows.append((arm, at, *numbers, f"{end[UNSEEN]:.2%}", f"{end['robustness.mean']:.4f}"))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in a sentence for each network."""
    sentences = []
    for case, arms in pairs(records).items():
        mse, entropy = (last(records, arm) for arm in arms.values())
        sentences.append(
            f"At the end of {case}, NC1 is {mse[NC1]:.3g} under the squared error and {entropy[NC1]:.3g} under "
            f"cross-entropy; robustness is {mse['robustness.mean']:.4f} and {entropy['robustness.mean']:.4f}."
        )
    return " ".join(sentences)


def figures(records: Sequence[Record]) -> list[Figure]:
    """For each network every sign of collapse, under both losses."""
    return [collapse(records, case, arms) for case, arms in pairs(records).items()]


def collapse(records: Sequence[Record], case: str, arms: dict[str, str]) -> Curves:
    """A panel for each sign of collapse, a colour for each loss."""
    marks = (
        starts(records, arm, f"{NAMES[loss]}: zero training error", colour)
        for colour, (loss, arm) in enumerate(arms.items())
    )
    labelled = {NAMES[loss]: arm for loss, arm in arms.items()}
    return Curves(
        f"losses-{case}",
        f"Neural collapse under both losses, {case}",
        "NC1 to NC4, of the features, are 0 where collapse is complete. Training images (solid) and test images "
        "(dashed), each with their own class means. Robustness: how far DeepFool has to move test images, relative to "
        "their norm, but for the untrained network.",
        "epoch",
        tuple(panels(records, labelled, sum(marks, ())).values()),
        log_x=False,
    )


def claims(seeds: Seeds) -> list[Claim]:
    """What the paper says about figures 10 to 12 and about accuracy, over the networks of all finished seeds."""
    runs = [(records, arms) for records in seeds for arms in pairs(records).values()]
    lower: list[float | None] = []
    for records, arms in runs:
        mse, entropy = (
            {r["epoch"]: r[NC1] for r in records if r["arm"] == arm and r[SEEN] == 1} for arm in arms.values()
        )
        both = mse.keys() & entropy.keys()
        lower.append(sum(mse[epoch] < entropy[epoch] for epoch in both) / len(both) if both else None)

    def ends(name: str) -> list[float | None]:
        """The squared error's over cross-entropy's."""
        final = [[last(records, arm)[name] for arm in arms.values()] for records, arms in runs]
        return [mse / entropy for mse, entropy in final]

    gains: list[float | None] = []
    for records, arms in runs:
        mse, entropy = (last(records, arm)[UNSEEN] for arm in arms.values())
        gains.append(100 * (mse - entropy))
    trained = [(records, arm) for records, arms in runs for arm in arms.values()]
    finals = [last(records, arm) for records, arm in trained]
    unseen: list[float | None] = [final[UNSEEN_NC1] / final[NC1] for final in finals]
    return [
        checked("NC1 is lower under the squared error at most epochs read at which both have no training error",
                "figure 10", "median above 50%", lower, ".0%", lambda values: statistics.median(values) > 0.5),
        checked("NC1 ends lower under the squared error than under cross-entropy",
                "figure 10", "median below 1 times", ends(NC1), ".3g", lambda values: statistics.median(values) < 1),
        checked("the squared error's network ends more robust",
                "figure 11", "median above 1 times", ends("robustness.mean"), ".3g",
                lambda values: statistics.median(values) > 1),
        *slower_unseen([terminal(records, arm) for records, arm in trained]),
        checked("under both losses NC1 ends larger on test images than on training images",
                "figure 12", "above 1 times", unseen, ".3g", lambda values: min(values) > 1),
        others_unseen(finals),
        visible_unseen([left_unseen(records, arm) for records, arm in trained]),
        checked("the squared error's test accuracy is comparable to cross-entropy's: by how many points it is above",
                "section A.1.1", f"median at least -{COMPARABLE:g}", gains, "+.1f",
                lambda values: statistics.median(values) >= -COMPARABLE),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    EXPERIMENTS["mse-vs-ce"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, OTHERS
)
