"""modular-addition: where GrokAlign does not help a transformer to grok, and where it does (figures 8 and 9)."""

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from gnomon import (
    GrokAlign,
    Probe,
    Reading,
    accuracy,
    centroid_alignment,
    fourier_norms,
    gini,
    jacobian_norm,
    log_spaced,
)
from gnomon.data import Tokens, modular_addition
from gnomon.models import OneLayerTransformer
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, Panel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import ALIGNMENT, SEEN, SPREAD, UNSEEN, accuracy_panel, arms, firsts, lines, marked
from gnomon_lab.runs import Cells, Claim, Record, Run, Seeds, last, over_seeds, series, settled_at
from gnomon_lab.settings import Count, Device, NonNegative, Positive, Range, Settings, Share, among, at_least
from gnomon_lab.training import fit

EMBEDDINGS = ("learned", "fixed")
METHODS = ("weight decay", "GrokAlign")
PALER = (5, 4)
"""The palette's paler blue and orange: what is beside a method's mean."""
GOAL = 0.85
"""Test accuracy from which on a network counts as grokked. The figures name none; this is table 1's."""
GINI = {"train/gini_embedding": "the embedding", "train/gini_logits": "the neuron-logit map"}
SOURCE = "Walker et al., arXiv:2506.12284, figure "
INTRODUCTION = f"""
A one-layer transformer learns a + b modulo a prime from some of all pairs. Such a network is known to memorise them and
to grok later, and with learned embeddings to do so by an algorithm: waves of a few frequencies, seen as a high Gini
coefficient of the embedding's Fourier norms. The paper says that GrokAlign pushes it towards another solution, and so
does not speed it up; but where embedding and unembedding keep their initial values, that solution is the natural one,
and GrokAlign groks earlier. A network that knows only that a + b = b + a is right on a share of unseen pairs as large
as the share that it trains on. A network has grokked at the reading from which on {GOAL:.0%} of the unseen pairs stay
right.
"""

DIVISOR = Range("a divisor of the width", lambda heads, config: heads >= 1 and config.width % heads == 0)


@dataclass(frozen=True)
class Config(Settings):
    """The setting of figures 8 and 9."""

    embeddings: tuple[Annotated[str, among(*EMBEDDINGS)], ...] = EMBEDDINGS
    """Embeddings, among learned and fixed; fixed leaves embedding and unembedding as initialised."""
    prime: Annotated[int, at_least(2)] = 31
    """The modulus."""
    fraction: Share = 0.7
    """Share of all pairs that is used for training."""
    width: Count = 64
    """Width of the embeddings."""
    heads: Annotated[int, DIVISOR] = 4
    """Attention heads."""
    hidden: Count = 256
    """Neurons of the ReLU layer."""
    learning_rate: Positive = 1e-2
    """Learning rate of AdamW, with betas 0.9 and 0.98."""
    weight_decay: NonNegative = 1.0
    """Weight decay of AdamW, in all arms."""
    coefficient: NonNegative = 1e-3
    """Coefficient of the GrokAlign penalty, on the Jacobian from the embeddings to the logits."""
    steps: Count = 1500
    """Full-batch steps."""
    jacobians: Count = 128
    """Maximum number of training pairs whose full Jacobian is computed for its norm; alignments are over all."""
    readings: Count = 24
    """Readings in each factor of ten of the steps."""
    device: Device = "cpu"
    """Where the network is trained and read: cpu or cuda."""


SMALL = Config()
PAPER = Config(prime=113, fraction=0.3, width=128, hidden=512, learning_rate=1e-3, steps=48_000, jacobians=256)
OTHERS = tuple(
    replace(PAPER, embeddings=embeddings, device=device)
    for embeddings in (EMBEDDINGS, *((name,) for name in EMBEDDINGS))
    for device in ("cpu", "cuda")
)
"""PAPER's halves, which share nothing; and PAPER and both halves on a GPU."""


def run(config: Config, run: Run) -> None:
    """Trains every arm from the same weights on the same pairs."""
    for embeddings, method in itertools.product(config.embeddings, METHODS):
        train_arm(config, run, embeddings, method)


def train_arm(config: Config, run: Run, embeddings: str, method: str) -> None:
    """Trains one transformer on all training pairs at once."""
    drawn, generator = (torch.Generator().manual_seed(run.seed) for _ in range(2))
    splits = modular_addition(config.prime, config.fraction, generator=drawn)
    train, test = (Tokens(*(part.to(config.device) for part in split)) for split in splits)
    p, sizes = config.prime, {"width": config.width, "heads": config.heads, "hidden": config.hidden}
    model = OneLayerTransformer(p + 1, p, **sizes, generator=generator).to(config.device)
    for matrix in (model.W_E, model.W_U):
        matrix.requires_grad_(embeddings == "learned")
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, config.learning_rate, weight_decay=config.weight_decay, betas=(0.9, 0.98))
    penalty = GrokAlign(config.coefficient, generator=generator) if method == "GrokAlign" else None
    for step in fit(
        run, f"{embeddings} {method}", config.steps, model, optimizer,
        # The penalty differentiates with respect to the embeddings of each sample; without it they need not be made.
        lambda step: [(train.tokens if penalty is None else model.embed(train.tokens), train.labels)], loss,
        due=log_spaced(config.readings), forward=model.of_tokens if penalty is None else None, penalty=penalty,
        generator=generator,
    ):  # fmt: skip
        run.record(step, reading(config, model, train, test, step))


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """In float64, as in Nanda et al.: in float32 the loss on memorised pairs rounds to zero."""
    return functional.cross_entropy(logits.double(), labels)


def reading(config: Config, model: OneLayerTransformer, train: Tokens, test: Tokens, step: int) -> Reading:
    """Accuracies and alignment on all pairs, the Jacobian norm on some training pairs, and the Gini coefficients."""
    seen, unseen = (model.embed(side.tokens).detach() for side in (train, test))
    probe = Probe(
        model,
        {"train": (seen, train.labels), "test": (unseen, test.labels), "some": seen[: config.jacobians]},
        {
            "train": [accuracy, centroid_alignment, gini_embedding, gini_logits],
            "test": [accuracy],
            "some": [jacobian_norm],
        },
    )
    return probe.read(step)


def gini_embedding(parameters: Mapping[str, Tensor]) -> Tensor:
    """The Gini coefficient of the Fourier norms of the embedding, without its "="."""
    return gini(fourier_norms(parameters["W_E"][:-1]))


def gini_logits(parameters: Mapping[str, Tensor]) -> Tensor:
    """The Gini coefficient of the Fourier norms of the neuron-logit map."""
    return gini(fourier_norms(parameters["W_U"] @ parameters["W_out"]))


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
    ]


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


EXPERIMENT = Experiment(
    EXPERIMENTS["modular-addition"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, OTHERS
)
