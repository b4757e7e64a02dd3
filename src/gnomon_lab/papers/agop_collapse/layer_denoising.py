"""layer-denoising: what of each layer collapses the classes, its weight or the ReLU behind it (figures 2, 7 to 9)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import correlation

from torch import Tensor, nn

from gnomon import LayerCollapse, layer_collapse
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, Line, Panel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.agop_collapse._root import root_collapse
from gnomon_lab.papers.agop_collapse._shared import (
    EXPONENTIAL,
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

PLACES = {"nc1_input": "Φ, the layer's input", "nc1_right": "SVᵀΦ", "nc1_after": "ReLU(USVᵀΦ), the layer's output"}
"""Where NC1 is measured, in the order in which a layer W = USVᵀ reaches these places."""
ROOT = "nc1_root"
"""NC1 behind the root of the AGOP at the layer's input, in place of SVᵀ; records from before 2026-11-29 lack it."""
FRAMES = {"nc2_etf_after": "a simplex", "nc2_orthogonal_after": "an orthogonal frame"}
"""NC2 of the class means behind each layer, by the frame from which it is the distance; definition 3.1 has both."""
STRONG = 0.1
"""What is left of NC2 where its progress is strong, at most; the paper gives no number."""
INTRODUCTION = """
A network with five hidden layers learns to classify images. NC1, the variance within classes over the variance between
them, falls from layer to layer. Each layer can lower it in two ways: its weight W = USVᵀ can shrink the differences
within a class, by small singular values, and the ReLU can cut them off. U only rotates. The paper says that most of the
fall is due to the weight. From this and the likeness of W and the average gradient outer product (AGOP) at its input it
concludes that projection onto the AGOP can collapse classes. What the root of the AGOP does to NC1 is measured, too.
"""


def run(config: Config, run: Run) -> None:
    """Trains the network and measures NC1 between the parts of its layers."""
    train(config, run, {"collapse": collapse, "root": root_collapse})


def collapse(model: nn.Module, x: Tensor, labels: Tensor, memory: int | None) -> LayerCollapse:
    """The collapse of the hidden layers and of the readout, whose input is the last hidden layer's output."""
    return layer_collapse(model, x, labels, layers=linear_layers(model), memory=memory)


def fall(record: Record, start: str, end: str) -> list[float]:
    """By how much log NC1 falls from one place to another, for each hidden layer."""
    return [math.log(a / b) for a, b in zip(record[start], record[end], strict=True)][:LAYERS]


def collapsing(record: Record, place: str = "nc1_right") -> list[tuple[float, float]]:
    """The fall of log NC1 to this place and by the whole layer, for each hidden layer that lowers NC1."""
    parts, wholes = fall(record, "nc1_input", place), fall(record, "nc1_input", "nc1_after")
    return [(part, whole) for part, whole in zip(parts, wholes, strict=True) if whole > 0]


def shares(record: Record) -> list[float]:
    """The weight's share of the fall of log NC1, for each hidden layer that lowers NC1."""
    return [part / whole for part, whole in collapsing(record)]


def share(record: Record, place: str = "nc1_right") -> float:
    """The share of the fall to this place in that of log NC1 over all hidden layers that lower it; 0 if none does."""
    falls = collapsing(record, place)
    return sum(part for part, _ in falls) / sum(whole for _, whole in falls) if falls else 0.0


def by_relu(record: Record) -> list[float]:
    """The factor by which U and the ReLU multiply NC1, for each hidden layer."""
    return [math.exp(-value) for value in fall(record, "nc1_right", "nc1_after")]


def by_root(record: Record) -> list[float]:
    """The factor by which the root of the AGOP multiplies NC1, for each hidden layer that lowers NC1."""
    return [math.exp(-root) for root, _ in collapsing(record, ROOT)]


def left(records: Sequence[Record]) -> list[float]:
    """What training leaves of NC2 behind each layer, the readout included: of the frame that it approaches the more."""
    start, end = records[0], records[-1]
    return [min(end[frame][layer] / start[frame][layer] for frame in FRAMES) for layer in range(LAYERS + 1)]


def straight(record: Record) -> float:
    """The correlation of log NC1 with the layer, from the images on: -1 for an exponential fall, 0 for none."""
    values = [math.log(value) for value in (record["nc1_input"][0], *record["nc1_after"][:LAYERS])]
    return correlation(range(len(values)), values) if max(values) > min(values) else 0.0


def table(records: Sequence[Record]) -> Cells:
    """NC1 through each layer at the end, and at the layer's output before training."""
    columns = ("", "NC1 of the input", "of SVᵀΦ", "of the output", "by SVᵀ", "by the ReLU", "output before training")
    start, end = records[0], records[-1]
    rows: list[tuple[str, ...]] = []
    more = {"by the AGOP's root": end, "by it before training": start} if ROOT in start else {}
    extra = [[math.exp(-value) for value in fall(record, "nc1_input", ROOT)] for record in more.values()]
    for layer, relu in enumerate(by_relu(end)):
        numbers = [end[place][layer] for place in PLACES]
        factors = numbers[1] / numbers[0], relu
        others = (start["nc1_after"][layer], *(column[layer] for column in extra))
        rows.append((f"layer {layer + 1}", *(f"{value:.3g}" for value in (*numbers, *factors, *others))))
    return (*columns, *more), rows


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    start, end = records[0]["nc1_after"][LAYERS - 1], records[-1]["nc1_after"][LAYERS - 1]
    return (
        f"Behind the last hidden layer NC1 goes from {start:.3g} before training to {end:.3g}. At the end the "
        f"hidden layers lower it {records[-1]['nc1_input'][0] / end:,.0f} times, and the weights' share of that, in "
        f"logarithms, is {share(records[-1]):.0%}."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """NC1 within each layer over training, at the end layer by layer, what weight and ReLU do to it, and NC2."""
    return [layers(records), end(records), parts(records), means(records)]


def layers(records: Sequence[Record]) -> Curves:
    """Figure 2: a panel for each layer, a curve for each place in it."""
    places = [over_epochs(records, partial(decimals, place=place)) for place in PLACES]
    panels = {
        f"Layer {layer + 1}": tuple(
            replace(lines[layer], label=label, colour=colour)
            for colour, (lines, label) in enumerate(zip(places, PLACES.values(), strict=True))
        )
        for layer in range(LAYERS)
    }
    return Curves(
        "layers",
        f"Where in each layer classes collapse, {described(records)}",
        "NC1 = tr Σ_W / tr Σ_B of the training images, of what each hidden layer is given, behind SVᵀ, and behind the "
        "ReLU. The input of a layer is the output of the one before.",
        "epoch",
        (*one_scale("log10 of NC1", panels), losses(records)),
        log_x=False,
    )


def end(records: Sequence[Record]) -> Curves:
    """The three places of each layer, at the end of training and before it."""
    places = PLACES | ({ROOT: "the root of the AGOP times Φ"} if ROOT in records[0] else {})
    panels = {
        title: tuple(
            over_layers(label, decimals(record, place), colour, dashed=place == ROOT)
            for colour, (place, label) in enumerate(places.items())
        )
        for title, record in (("At the end of training", records[-1]), ("Before training", records[0]))
    }
    return Curves(
        "end",
        f"NC1 from layer to layer, {described(records)}",
        "Each hidden layer from its input over SVᵀΦ to its output: the gap from the first to the second is the "
        "weight's, that from the second to the third the ReLU's. What the root of the AGOP would make of the input is "
        "dashed, if it was measured.",
        "hidden layer",
        one_scale("log10 of NC1", panels),
        log_x=False,
    )


def parts(records: Sequence[Record]) -> Curves:
    """What the two parts of each layer do to NC1, over training."""
    panels = {
        "What SVᵀ does to NC1": over_epochs(records, partial(factors, start="nc1_input", end="nc1_right")),
        "What the ReLU does to NC1": over_epochs(records, partial(factors, start="nc1_right", end="nc1_after")),
    }
    if ROOT in records[0]:
        panels["What the root of the AGOP does"] = over_epochs(records, partial(factors, start="nc1_input", end=ROOT))
    return Curves(
        "parts",
        f"Weight and ReLU, layer by layer, {described(records)}",
        "The factor by which each part of a layer multiplies NC1: below 0 it collapses classes, above 0 it spreads "
        "them.",
        "epoch",
        one_scale("log10 of the factor", panels),
        log_x=False,
    )


def means(records: Sequence[Record]) -> Curves:
    """NC2 behind each layer over training, from both frames."""
    epochs = tuple(float(record["step"]) for record in records)

    def panel(frame: str, name: str) -> Panel:
        readout = Line("outputs", epochs, tuple(record[frame][LAYERS] for record in records), colour=LAYERS)
        lines = (*over_epochs(records, lambda record: record[frame]), readout)
        return Panel(f"Distance of the class means from {name}", "Frobenius norm", lines)

    return Curves(
        "means",
        f"NC2 from layer to layer, {described(records)}",
        "Directions of the class means behind the ReLU of each hidden layer and at the network's outputs, centred for "
        "the simplex: the distance of their inner products from those of the frame.",
        "epoch",
        tuple(panel(frame, name) for frame, name in FRAMES.items()),
        log_x=False,
    )


def one_scale(unit: str, panels: Mapping[str, tuple[Line, ...]]) -> tuple[Panel, ...]:
    """The lines by title, as panels on one scale, so that they can be compared."""
    values = [value for lines in panels.values() for line in lines for value in line.y]
    scale = (min(values) - 0.05, max(values) + 0.05)
    return tuple(Panel(title, unit, lines, (), scale) for title, lines in panels.items())


def factors(record: Record, start: str, end: str) -> list[float]:
    """The logarithm to base 10 of the factor by which NC1 grows from one place to another, for each hidden layer."""
    return [-value / math.log(10) for value in fall(record, start, end)]


def decimals(record: Record, place: str) -> list[float]:
    """The logarithm to base 10 of NC1 at one place of each layer."""
    return [math.log10(value) for value in record[place]]


def claims(seeds: Seeds) -> list[Claim]:
    """What section 5 says about figure 2, and section 4.2 about depth, at the end of training, over all seeds."""
    ends = [records[-1] for records in seeds]
    whole = [share(record) for record in ends]
    single = [min(shares(record), default=0.0) for record in ends]
    relu = [min(by_relu(record)) for record in ends]
    last = [records[-1]["nc1_after"][LAYERS - 1] / records[0]["nc1_after"][LAYERS - 1] for records in seeds]
    rates = [straight(record) for record in ends]
    where = SOURCE + "section 5, figure 2"
    return [
        Claim("NC1 behind the last hidden layer falls in training", where, "below 1 times its start",
              over_seeds(last), max(last) < 1),
        Claim("over the hidden layers that lower NC1, SVᵀ is responsible for the majority of the fall of log NC1",
              where, "share above 50%", over_seeds(whole, ".0%"), min(whole) > 0.5),
        Claim("in each hidden layer that lowers NC1, the fall is mostly that by SVᵀ",
              where, "share above 50%, the smallest", over_seeds(single, ".0%"), min(single) > 0.5),
        Claim("the ReLU does not directly reduce NC1, in any hidden layer",
              SOURCE + "section 5", "at least 1 times, the smallest", over_seeds(relu), min(relu) >= 1),
        last_alone(seeds, LAYERS + 1, "the outputs"),
        last_alone(seeds, LAYERS, "the last hidden layer"),
        Claim("NC1 falls exponentially with depth, as in Deep RFM: correlation of its logarithm with the layer",
              SOURCE + "section 4.2", f"at most {EXPONENTIAL:.3f}", over_seeds(rates, ".3f"),
              max(rates) <= EXPONENTIAL),
        *(of_the_root(ends) if all(ROOT in records[0] for records in seeds) else ()),
    ]  # fmt: skip


def last_alone(seeds: Seeds, layers: int, what: str) -> Claim:
    """What section 5 says about NC2, of the last of so many layers; which layer is the last the paper leaves open."""
    *before, end = zip(*(left(records)[:layers] for records in seeds), strict=True)
    others = [min(values) for values in zip(*before, strict=True)]
    return Claim(
        f"NC2 progresses strongly only in the very last layer, taken as {what}: what is left of it there, and the "
        "least before it",
        SOURCE + "section 5", f"at most {STRONG:g} times there alone", f"{over_seeds(end)}; {over_seeds(others)}",
        max(end) <= STRONG < min(others),
    )  # fmt: skip


def of_the_root(ends: Sequence[Record]) -> list[Claim]:
    """What the paper infers through the neural feature ansatz: of the root of the AGOP what it measures of SVᵀ."""
    most = [max(by_root(record), default=1.0) for record in ends]
    whole = [share(record, ROOT) for record in ends]
    return [
        Claim("the AGOP structure decreases within-class variability: its root lowers NC1 where a hidden layer does",
              SOURCE + "section 5", "below 1 times, the largest", over_seeds(most), max(most) < 1),
        Claim("over the hidden layers that lower NC1, the root of the AGOP makes the majority of the fall of log NC1",
              SOURCE + "section 1", "share above 50%", over_seeds(whole, ".0%"), min(whole) > 0.5),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    EXPERIMENTS["layer-denoising"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, OTHERS
)
