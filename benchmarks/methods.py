"""What a training step costs with each method of `gnomon.steer`, beside a plain step in the same process.

First the papers' network, for the list in docs/quantities/steer.md; then the loop of docs/getting-started.md, whose
network is so small that calls weigh more than products.
"""

from contextlib import nullcontext
from functools import partial

import torch
from torch.nn import functional

import gnomon
from gnomon.models import mlp
from timing import compare

RATE = 1e-9
"""So small that all stays as it is at the start."""


class Training:
    """A network, a batch and AdamW, with the places where methods come in."""

    def __init__(self, widths, batch, scale, loss=functional.cross_entropy, *, named=True):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(batch, widths[0], generator=generator)
        self.labels = torch.randint(widths[-1], (batch,), generator=generator)
        self.model = mlp(widths, scale=scale, generator=generator)
        self.parameters = list(self.model.parameters())
        self.optimizers = [torch.optim.AdamW(self.parameters, RATE, weight_decay=0.01)]
        self.loss = loss
        self.inputs = self.parameters if named else None
        """What the backward pass is told to find the gradients of."""
        self.run = lambda model, x: (model(x), 0.0)
        """The network's logits and what is added to the loss."""
        self.uphill = None

    def backward(self):
        """The gradients of the loss and of what is added to it."""
        logits, penalty = self.run(self.model, self.x)
        (self.loss(logits, self.labels) + penalty).backward(inputs=self.inputs)

    def step(self):
        """One training step; a method that looks uphill takes the gradients twice."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        self.backward()
        with self.uphill() if self.uphill else nullcontext():
            if self.uphill:
                self.backward()
        for optimizer in self.optimizers:
            optimizer.step()


def plain(training):
    """AdamW alone."""


def grokalign(training, **settings):
    """The penalty, from the loss's forward pass."""
    training.run = gnomon.GrokAlign(1e-3, **settings).logits_and_penalty


def spectral_norms(training):
    """A penalty on the weights alone."""
    training.run = gnomon.SpectralNormPenalty(training.parameters, 1e-3).logits_and_penalty


def input_noise(training):
    """New noise at each step."""
    training.run = lambda model, x: (model(gnomon.input_noise(x, 1.0)), 0.0)


def stablemax(training):
    """Another loss."""
    training.loss = gnomon.stablemax_cross_entropy


def sam(training):
    """Two passes."""
    training.uphill = gnomon.SAM(training.parameters).uphill


def attached(training, method):
    """A method that the optimizer calls."""
    method(training.parameters).attach(training.optimizers[0])


def muon(training):
    """In AdamW's place; the papers' network has matrices only."""
    training.optimizers = [torch.optim.Muon(training.parameters, RATE)]


METHODS = {
    "plain": plain,
    "OrthoGrad": partial(attached, method=gnomon.OrthoGrad),
    "stablemax_cross_entropy": stablemax,
    "WeightNormConstraint": partial(attached, method=gnomon.WeightNormConstraint),
    "SAM": sam,
    "EgalitarianGradients": partial(attached, method=gnomon.EgalitarianGradients),
    "torch.optim.Muon": muon,
    "SpectralNormPenalty": spectral_norms,
    "input_noise": input_noise,
    "GrokfastEMA": partial(attached, method=gnomon.GrokfastEMA),
    "GrokfastMA": partial(attached, method=gnomon.GrokfastMA),
    "GrokAlign": grokalign,
    "GrokAlign, every=16": partial(grokalign, every=16),
}


def step_with(method, training):
    """A training step with this method."""
    method(training)
    return training.step


def squared_error(logits, labels):
    """As in getting-started."""
    return functional.mse_loss(logits, functional.one_hot(labels, logits.shape[1]).to(logits))


if __name__ == "__main__":
    papers = partial(Training, (784, 196, 196, 196, 10), 256, 8.0)
    compare(
        "One training step with each method, 784-196-196-196-10, batch 256, float32",
        {name: step_with(method, papers()) for name, method in METHODS.items()},
        rounds=15,
        calls=16,
        clock="processor",
    )
    ours = partial(Training, (64, 128, 128, 10), 500, 4.0, squared_error, named=False)
    compare(
        "One training step as in getting-started, 64-128-128-10, batch 500, squared error, float32",
        {name: step_with(METHODS[name], ours()) for name in ("plain", "GrokAlign", "GrokAlign, every=16")},
        rounds=25,
        calls=16,
        clock="processor",
    )
