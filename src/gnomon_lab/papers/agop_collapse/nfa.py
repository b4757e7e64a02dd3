"""nfa: how the weights of each layer come to resemble the average gradient outer product (figures 10 to 12)."""

import statistics
from collections.abc import Callable, Sequence

from torch import Tensor, nn

from gnomon import NFATable, nc1_trace_ratio, nfa_table
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, Line, Panel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.agop_collapse._shared import (
    LAYERS,
    OTHERS,
    PAPER,
    SMALL,
    SOURCE,
    Config,
    described,
    linear_layers,
    losses,
    over_epochs,
    over_layers,
    train,
)
from gnomon_lab.runs import Cells, Claim, Record, Run, Seeds, over_seeds

PRINTED = {"mlp mnist": (0.74, 0.13), "resnet cifar10": (0.74, 0.17)}
"""Section 5: mean and standard deviation of the correlation at the end, over layers and seeds."""
INTRODUCTION = """
The neural feature ansatz says that a layer's weight W learns the directions in which the outputs react to its input:
WᵀW is proportional to the average gradient outer product (AGOP) there, or to its root. The paper shows Pearson's
correlation of WᵀW with the root of the AGOP, and that it is high at the end of training. It can be high before training
too, since the gradient at a layer's input is itself a product with that layer's weight. So both are shown here, side by
side.
"""


def run(config: Config, run: Run) -> None:
    """Trains the network and correlates each layer's weight with the AGOP at its input."""
    train(config, run, {"nfa": ansatz, "nc1": nc1_trace_ratio})


def ansatz(model: nn.Module, x: Tensor, memory: int | None) -> NFATable:
    """The table for the hidden layers."""
    return nfa_table(model, x, layers=linear_layers(model)[:LAYERS], memory=memory)


def mean(record: Record) -> float:
    """The correlation, averaged over the hidden layers."""
    return statistics.mean(record["pearson_root"])


def table(records: Sequence[Record]) -> Cells:
    """Each layer, before training and at the end."""
    columns = ("", "Pearson, untrained", "Pearson, trained", "cosine, untrained", "cosine, trained")
    ends = [record[name] for name in ("pearson_root", "cosine_root") for record in (records[0], records[-1])]
    rows = [(f"layer {layer + 1}", *(f"{values[layer]:.3f}" for values in ends)) for layer in range(LAYERS)]
    return columns, [*rows, ("mean", *(f"{statistics.mean(values):.3f}" for values in ends))]


def summary(records: Sequence[Record]) -> str:
    """The result in a sentence."""
    least = min(records, key=mean)
    return (
        f"The correlation of WᵀW with the root of the AGOP, averaged over {LAYERS} hidden layers, is "
        f"{mean(records[0]):.2f} before training, {mean(least):.2f} at its lowest (epoch {least['step']}) and "
        f"{mean(records[-1]):.2f} at the end."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """The correlations over training, and before and after it."""
    return [development(records), ends(records)]


def development(records: Sequence[Record]) -> Curves:
    """Figure 10: the variances after the last hidden layer, the correlations, the loss."""
    epochs = tuple(float(record["step"]) for record in records)

    def line(label: str, share: Callable[[float], float], *, dashed: bool) -> Line:
        return Line(label, epochs, tuple(share(record["nc1"]) for record in records), dashed, LAYERS + 1)

    variances = (
        line("within classes", lambda ratio: ratio / (1 + ratio), dashed=True),
        line("between classes", lambda ratio: 1 / (1 + ratio), dashed=False),
    )
    return Curves(
        "nfa",
        f"The weights and the AGOP in training, {described(records)}",
        "Above, the shares of the variance behind the last hidden layer, tr Σ_W / tr Σ_T and tr Σ_B / tr Σ_T. Below, "
        "for each hidden layer, the correlation of WᵀW with the root of the AGOP at its input, from before training "
        "(epoch 0) on: Pearson's, which is the paper's, and the cosine.",
        "epoch",
        (
            Panel("Variance behind the last hidden layer", "share", variances, (), (0.0, 1.05)),
            Panel("Pearson's correlation", "correlation", over_epochs(records, lambda r: r["pearson_root"])),
            Panel("Cosine", "cosine", over_epochs(records, lambda r: r["cosine_root"])),
            losses(records),
        ),
        log_x=False,
    )


def ends(records: Sequence[Record]) -> Curves:
    """The correlations before training and at its end, from layer to layer."""
    panels = (
        Panel(title, "correlation", (
            over_layers("before training", records[0][name], 0, dashed=True),
            over_layers("at the end", records[-1][name], 0),
        ), (), (0.0, 1.05))
        for title, name in (("Pearson, with the root of the AGOP", "pearson_root"),
                            ("cosine, with the root of the AGOP", "cosine_root"),
                            ("cosine, with the AGOP itself", "cosine"))
    )  # fmt: skip
    return Curves(
        "ends",
        f"Before training and at the end, {described(records)}",
        "What is high without training is no sign of feature learning: what training does is the gap between the "
        "lines. The last panel is the ansatz as it is printed.",
        "hidden layer",
        tuple(panels),
        log_x=False,
    )


def claims(seeds: Seeds) -> list[Claim]:
    """What section 5 says about the correlation, over the hidden layers and all finished seeds."""
    falls = [records[-1]["nc1"] / records[0]["nc1"] for records in seeds]
    gains = [mean(records[-1]) - mean(records[0]) for records in seeds]
    starts = [mean(records[0]) for records in seeds]
    return [
        *printed(seeds),
        Claim("the correlation, averaged over layers, ends above its value before training",
              SOURCE + "section 5, which compares with 0.04", "gain above 0",
              f"{over_seeds(gains, '+.3f')}, from {over_seeds(starts, '.3f')}", min(gains) > 0),
        Claim("behind the last hidden layer the variance within classes falls against that between them",
              SOURCE + "figures 10 to 12", "below 1 times its start", over_seeds(falls), max(falls) < 1),
    ]  # fmt: skip


def printed(seeds: Seeds) -> list[Claim]:
    """The correlation at the end, for the two networks for which the paper prints it."""
    arm = seeds[0][0]["arm"]
    if arm not in PRINTED:
        return []
    expected, deviation = PRINTED[arm]
    values = [value for records in seeds for value in records[-1]["pearson_root"]]
    found = statistics.mean(values)
    return [
        Claim(
            "the correlation at the end, averaged over layers and seeds, is the paper's",
            SOURCE + "section 5",
            f"{expected} ± {deviation}",
            f"{found:.3f} ± {statistics.stdev(values):.3f}",
            abs(found - expected) <= deviation,
        )
    ]


EXPERIMENT = Experiment(EXPERIMENTS["nfa"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, OTHERS)
