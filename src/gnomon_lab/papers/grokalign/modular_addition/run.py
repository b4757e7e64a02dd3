"""modular-addition: where GrokAlign does not help a transformer to grok, and where it does (figures 8 and 9)."""

import itertools
from collections.abc import Mapping
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
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.grokalign.modular_addition.page import GOAL, METHODS, claims, figures, summary, table
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, Device, NonNegative, Positive, Range, Settings, Share, among, at_least
from gnomon_lab.training import fit

EMBEDDINGS = ("learned", "fixed")
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


EXPERIMENT = Experiment(
    EXPERIMENTS["modular-addition"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, OTHERS
)
