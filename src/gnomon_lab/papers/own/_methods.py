"""The methods: what each changes in a training, and the four values of its own setting that it is tried with."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import gnomon

REFINED = "weight decay, refined"


class Training:
    """How a network is trained: full-batch AdamW on the cross-entropy; a method changes a part of it.

    Attributes:
        model: the network.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        generator: of all randomness.
        optimizers: that step, one after the other.
        loss: of logits and labels.
        run: the model and a batch to the logits, and to a penalty that is added to the loss.
        noise: adds it to the inputs.
        uphill: where the second of two gradients is taken, which the step then uses.
    """

    def __init__(self, model: nn.Module, learning_rate: float, weight_decay: float, generator: torch.Generator) -> None:
        self.model = model
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.generator = generator
        self.parameters = list(model.named_parameters())
        self.optimizers = [self.adamw(model.parameters())]
        self.loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy
        self.run: Callable[[nn.Module, Tensor], tuple[Tensor, Tensor | float]] = lambda model, x: (model(x), 0.0)
        self.noise: Callable[[Tensor], Tensor] | None = None
        self.uphill: Callable[[], AbstractContextManager[None]] | None = None

    def adamw(self, parameters: Iterable[Tensor], times: float = 1.0) -> torch.optim.Optimizer:
        """AdamW with a multiple of the learning rate."""
        rate = times * self.learning_rate
        return torch.optim.AdamW(parameters, rate, weight_decay=self.decay_at(rate))

    def decay_at(self, rate: float) -> float:
        """The weight decay that shrinks the weights as much per step at another learning rate."""
        return self.weight_decay * self.learning_rate / rate


def refined(training: Training, times: tuple[float, float]) -> None:
    """Another learning rate, and another weight decay."""
    training.learning_rate *= times[0]
    training.weight_decay *= times[1]
    training.optimizers = [training.adamw(training.model.parameters())]


def grokalign(training: Training, coefficient: float, *, every: int = 1, squared: bool = False) -> None:
    """The norm of the input Jacobian, or half its square."""
    of = coefficient / 2 if squared else coefficient
    penalty = gnomon.GrokAlign(of, every=every, squared=squared, generator=training.generator)
    training.run = penalty.logits_and_penalty


def grokfast(training: Training, alpha_and_lamb: tuple[float, float]) -> None:
    """Slow gradients, amplified."""
    gnomon.GrokfastEMA(training.parameters, *alpha_and_lamb).attach(training.optimizers[0])


def noise(training: Training, deviation: float) -> None:
    """Gaussian noise on the inputs, of one size throughout."""
    training.noise = partial(
        gnomon.input_noise, train_accuracy=1.0, largest=deviation, least=deviation, generator=training.generator
    )


def orthograd(training: Training, times: float) -> None:
    """Gradients without their part along the weights."""
    training.optimizers = [training.adamw(training.model.parameters(), times)]
    gnomon.OrthoGrad(training.parameters).attach(training.optimizers[0])


def stablemax(training: Training, times: float) -> None:
    """A loss that does not saturate."""
    training.optimizers = [training.adamw(training.model.parameters(), times)]
    training.loss = gnomon.stablemax_cross_entropy


def muon(training: Training, rate: float) -> None:
    """Muon for matrices except a transformer's embedding, positions and head; AdamW for everything else."""
    outer = ("embedding.weight", "positions", "head.weight")
    matrices = [of for name, of in training.parameters if of.ndim == 2 and name not in outer]
    others = [of for name, of in training.parameters if of.ndim != 2 or name in outer]
    training.optimizers = [torch.optim.Muon(matrices, rate, weight_decay=training.decay_at(rate))]
    if others:
        training.optimizers.append(training.adamw(others))


def egalitarian(training: Training, rate: float) -> None:
    """SGD in which every principal direction of a matrix's gradient has the same speed."""
    optimizer = torch.optim.SGD(training.model.parameters(), rate, weight_decay=training.decay_at(rate))
    gnomon.EgalitarianGradients(training.parameters).attach(optimizer)
    training.optimizers = [optimizer]


def constant_norm(training: Training, alpha: float) -> None:
    """The weights' norm, held at a share of the initial one."""
    constraint = gnomon.WeightNormConstraint(training.parameters, alpha)
    constraint()
    constraint.attach(training.optimizers[0])


def sharpness_aware(training: Training, rho: float) -> None:
    """The gradient, taken after an ascent step."""
    training.uphill = gnomon.SAM(training.parameters, rho).uphill


def spectral_norms(training: Training, coefficient: float) -> None:
    """Each matrix's largest singular value, squared."""
    penalty = gnomon.SpectralNormPenalty(training.parameters, coefficient, generator=training.generator)
    training.run = penalty.logits_and_penalty


def label_smoothing(training: Training, share: float) -> None:
    """Labels that leave a share to the other classes."""
    training.loss = partial(cross_entropy, label_smoothing=share)


@dataclass(frozen=True)
class Method:
    """A method and its settings.

    Attributes:
        change: what it does to a training, with one of the settings.
        settings: what it is tuned over, by the change's last parameter.
        not_for: tasks whose networks have nothing that it applies to.
    """

    change: Callable[..., None]
    settings: tuple[float, ...] | tuple[tuple[float, float], ...]
    not_for: tuple[str, ...] = ()


METHODS = {
    REFINED: Method(refined, ((1.0, 1.0), (0.6, 1.0), (1.6, 1.0), (1.0, 0.5), (1.0, 2.0))),
    "GrokAlign": Method(grokalign, (1e-3, 1e-2, 1e-1, 1.0)),
    "GrokAlign, k = 16": Method(partial(grokalign, every=16), (1e-3, 1e-2, 1e-1, 1.0)),
    "squared Jacobian": Method(partial(grokalign, squared=True), (1e-4, 1e-3, 1e-2, 1e-1)),
    "Grokfast": Method(grokfast, ((0.8, 0.1), (0.9, 1.0), (0.98, 2.0), (0.98, 5.0))),
    "input noise": Method(noise, (0.03, 0.1, 0.3, 1.0)),
    "⊥Grad": Method(orthograd, (0.1, 0.3, 1.0, 3.0)),
    "StableMax": Method(stablemax, (0.1, 0.3, 1.0, 3.0)),
    "Muon": Method(muon, (0.003, 0.01, 0.03, 0.1), not_for=("usual",)),
    "egalitarian": Method(egalitarian, (0.01, 0.03, 0.1, 0.3)),
    "constant norm": Method(constant_norm, (0.125, 0.25, 0.5, 1.0)),
    "SAM": Method(sharpness_aware, (0.05, 0.2, 0.8, 3.0)),
    "spectral norms": Method(spectral_norms, (1e-4, 1e-3, 1e-2, 1e-1)),
    "label smoothing": Method(label_smoothing, (0.05, 0.1, 0.2, 0.4)),
}
"""By name. The first is the control: the tuned weight decay and four settings around it, as many as others have.

Muon is for matrices, of which `usual` has none but the last layer's.
"""
