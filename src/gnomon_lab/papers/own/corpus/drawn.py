"""What is drawn at random for a network: how much data, what labels, which network, how it is trained."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gnomon_lab.papers._shared import Loss

SGD = 0.25
"""The share of networks that are trained by SGD; the others by AdamW."""
WITHOUT_DECAY, WITH_GROKALIGN = 0.2, 0.25
"""The shares of networks without weight decay, and of those with GrokAlign."""
PARTLY, WHOLLY = 0.15, 0.15
"""The shares of networks with some of their labels shuffled, and with all."""
Span = tuple[float, float]
"""Lower and upper bound."""


@dataclass(frozen=True)
class Spans:
    """The bounds between which a family's settings are drawn, each uniformly in its logarithm.

    Attributes:
        samples: number of training samples.
        widths: of the hidden layers.
        scales: by which PyTorch's initialisation is multiplied.
        rates: learning rates of AdamW.
        decays: weight decays of AdamW, where there is any.
    """

    samples: Span
    widths: Span
    scales: Span = (1.0, 8.0)
    rates: Span = (3e-4, 1e-2)
    decays: Span = (1e-3, 1.0)


@dataclass(frozen=True)
class Drawn:
    """The settings of one network.

    Attributes:
        samples: number of training samples; a tenth as many again are the validation split.
        shuffled: the share of training and validation labels that were shuffled among themselves.
        width: of the hidden layers.
        scale: by which PyTorch's initialisation is multiplied.
        loss: the training loss.
        optimizer: full-batch AdamW, or SGD with momentum 0.9.
        learning_rate: of the optimizer.
        weight_decay: of the optimizer.
        grokalign: the penalty's coefficient; 0 for none.
        variant: a number in [0, 1) from which a family decides its own particulars.
    """

    samples: int
    shuffled: float
    width: int
    scale: float
    loss: Loss
    optimizer: str
    learning_rate: float
    weight_decay: float
    grokalign: float
    variant: float


class Dice:
    """A generator's numbers, in the forms that settings need."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def share(self) -> float:
        """Uniform in [0, 1)."""
        return float(torch.rand((), generator=self.generator, dtype=torch.float64))

    def between(self, span: Span) -> float:
        """Uniform in the logarithm, to three digits."""
        low, high = map(math.log, span)
        return float(f"{math.exp(low + (high - low) * self.share()):.3g}")

    def one_of(self, options: Sequence[str]) -> str:
        """One of several, each with the same chance."""
        return options[int(self.share() * len(options))]


def draw(spans: Spans, generator: torch.Generator) -> Drawn:
    """The settings of one network; the number of draws is the same whatever they yield."""
    dice = Dice(generator)
    kind, within, decayed, steered = (dice.share() for _ in range(4))
    loss = dice.one_of(("cross-entropy", "mse"))
    sgd = dice.share() < SGD
    rates = ((0.03, 1.0) if loss == "mse" else (0.01, 0.3)) if sgd else spans.rates
    rate, decay, coefficient = dice.between(rates), dice.between(spans.decays), dice.between((1e-3, 1e-1))
    return Drawn(
        samples=round(dice.between(spans.samples)),
        shuffled=1.0 if kind < WHOLLY else round(0.1 + 0.4 * within, 2) if kind < WHOLLY + PARTLY else 0.0,
        width=round(dice.between(spans.widths)),
        scale=dice.between(spans.scales),
        loss=loss,
        optimizer="SGD" if sgd else "AdamW",
        learning_rate=rate,
        weight_decay=0.0 if decayed < WITHOUT_DECAY else float(f"{decay / (100 if sgd else 1):.3g}"),
        grokalign=coefficient if steered < WITH_GROKALIGN else 0.0,
        variant=dice.share(),
    )
