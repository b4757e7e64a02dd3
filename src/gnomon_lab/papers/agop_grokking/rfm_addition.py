"""rfm-addition: a kernel machine groks modular addition, by the AGOP alone, with the AGOP centred and as it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from gnomon import accuracy, circulant_deviation, effective_rank, psd_root
from gnomon.data import Tokens, modular_addition
from gnomon.kernels import GaussianKernel, kernel_agop, kernel_gram
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, ImageFrame, ImageRow, ImageSlider, Panel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import lines, significant
from gnomon_lab.runs import Cells, Claim, Record, Run, Seeds, by_arm, last, over_seeds
from gnomon_lab.settings import Count, Positive, Settings, Share, at_least

ARMS = {"centred": True, "plain": False}
"""Whether the mean gradient is subtracted, as in the authors' code, or not, as in their formula."""
SOURCE = "Mallinar et al., arXiv:2407.20199"
INTRODUCTION = """
Grokking does not need a network. A kernel machine is fitted exactly to half of all sums a + b modulo p; it knows none
of the others. Its average gradient outer product says which directions of the input it is sensitive to; the root of
this matrix becomes the kernel's metric, and a machine is fitted again. After some rounds it knows all sums.

There is no optimiser, no weight decay and no training loss that could fall: it is zero from the first round on. What
changes is the metric. Its block between both summands becomes circulant: it comes to depend only on their difference.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of the authors' code on addition: its defaults, except for its 50 rounds."""

    prime: Annotated[int, at_least(3)] = 61
    """The modulus of the sums."""
    fraction: Share = 0.5
    """Share of the pairs that is used for training."""
    bandwidth: Positive = 2.5
    """Bandwidth of the Gaussian kernel."""
    rounds: Count = 30
    """Kernel machines after the first."""


SMALL = PAPER = Config()


def run(config: Config, run: Run) -> None:
    """Fits both machines to the same pairs."""
    train, test = modular_addition(config.prime, config.fraction, generator=torch.Generator().manual_seed(run.seed))
    for arm in ARMS:
        recur(config, run, arm, train, test)


def recur(config: Config, run: Run, arm: str, train: Tokens, test: Tokens) -> None:
    """One recursive feature machine."""
    p, kernel = config.prime, GaussianKernel(config.bandwidth)
    x, unseen = one_hot(train, p), one_hot(test, p)
    targets = functional.one_hot(train.labels, p).to(x)
    metric = nn.Parameter(torch.eye(2 * p, dtype=torch.float64), requires_grad=False)
    for step in run.steps(arm, config.rounds, metric=nn.ParameterDict({"value": metric})):
        gram = kernel_gram(kernel, x, x, metric)
        coefficients = torch.linalg.solve(gram, targets)
        outputs = kernel_gram(kernel, unseen, x, metric) @ coefficients
        agop = kernel_agop(kernel, x, coefficients, metric, centred=ARMS[arm])
        metric.copy_(psd_root(agop))
        block = agop[:p, p:]
        run.record(
            step,
            train=float(accuracy(gram @ coefficients, train.labels).mean()),
            test=float(accuracy(outputs, test.labels).mean()),
            loss=float((outputs - functional.one_hot(test.labels, p)).square().mean()),
            deviation=float(circulant_deviation(block)),
            effective_rank=float(effective_rank(agop)),
            **(
                {"block": significant(block / block.abs().max())}
                if step in (0, config.rounds // 3, config.rounds)
                else {}
            ),
        )


def one_hot(tokens: Tokens, p: int) -> Float[Tensor, "n 2*p"]:
    """Both summands side by side."""
    return torch.cat([functional.one_hot(tokens.tokens[:, place], p) for place in (0, 1)], dim=1).double()


def table(records: Sequence[Record]) -> Cells:
    """Both machines at the end, and when they knew half of the unseen sums."""
    columns = ("AGOP", "train", "test", "half of it in round", "circulant deviation", "effective rank")
    rows: list[tuple[str, ...]] = []
    for arm, own in by_arm(records).items():
        end, half = own[-1], next((str(record["step"]) for record in own if record["test"] >= 0.5), "never")
        numbers = f"{end['deviation']:.3f}", f"{end['effective_rank']:.1f}"
        rows.append((arm, f"{end['train']:.1%}", f"{end['test']:.1%}", half, *numbers))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in a sentence."""
    centred, plain = (last(records, arm)["test"] for arm in ARMS)
    return f"Of the sums that it never saw, the machine with centred AGOP knows {centred:.1%}, the other {plain:.1%}."


def figures(records: Sequence[Record]) -> list[Figure]:
    """Accuracy, loss and structure against rounds; and the AGOP's block at three of them."""
    arms = {arm: f"{arm} AGOP" for arm in ARMS}
    panels = (
        Panel("Unseen sums", "share correct", lines(records, arms, "test"), (), (0.0, 1.05)),
        Panel("Their loss", "squared error, mean", lines(records, arms, "loss")),
        Panel(
            "Circulant deviation of the AGOP's block between the summands", "share", lines(records, arms, "deviation")
        ),
        Panel("Effective rank of the AGOP", "directions", lines(records, arms, "effective_rank")),
    )
    least = min(record["train"] for record in records)
    caption = f"In every round at least {least:.2%} of the training sums are right."
    shown = Curves("curves", "Kernel machines on unseen sums", caption, "round", panels, log_x=False)
    return [shown, blocks(records)]


def blocks(records: Sequence[Record]) -> ImageSlider:
    """The block between the summands."""
    steps = [record["step"] for record in records if "block" in record and record["arm"] == next(iter(ARMS))]
    frames = []
    for step in steps:
        found = {record["arm"]: record["block"] for record in records if record["step"] == step and "block" in record}
        row = ImageRow(" AGOP, and ".join(found), np.array([*found.values()]))
        frames.append(ImageFrame(f"round {step}", (row,)))
    return ImageSlider(
        "blocks",
        "The AGOP between both summands",
        "Rows: the first summand, columns: the second. Circulant: constant along the diagonals.",
        tuple(frames),
    )


def hidden(records: Sequence[Record]) -> float:
    """The share to which the deviation has fallen while at most one in twenty unseen sums is right."""
    own = by_arm(records)["centred"]
    before = [record["deviation"] for record in own if record["test"] <= 0.05]
    return before[-1] / before[0] if before else float("inf")


def claims(seeds: Seeds) -> list[Claim]:
    """What the paper says about addition."""
    known = [last(records, "centred")["test"] for records in seeds]
    first = [by_arm(records)["centred"][0] for records in seeds]
    trained, untrained = ([record[name] for record in first] for name in ("train", "test"))
    fallen = [hidden(records) for records in seeds]
    return [
        Claim(
            "a kernel machine, its AGOP centred, groks modular addition: unseen sums that are right in the end",
            f"{SOURCE}, abstract",
            "at least 99 %",
            over_seeds(known, ".2%"),
            min(known) >= 0.99,
        ),
        Claim(
            "at first it only memorises: training sums that are right, and unseen ones",
            f"{SOURCE}, abstract",
            "100 %, and at most 5 %",
            f"{over_seeds(trained, '.2%')}, and {over_seeds(untrained, '.2%')}",
            min(trained) == 1 and max(untrained) <= 0.05,
        ),
        Claim(
            "the AGOP becomes circulant before that shows: its deviation, over that of the first round, in the last "
            "round with at most 5 % of the unseen sums right",
            f"{SOURCE}, abstract",
            "at most 0.5",
            over_seeds(fallen, ".2f"),
            max(fallen) <= 0.5,
        ),
    ]


EXPERIMENT = Experiment(EXPERIMENTS["rfm-addition"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
