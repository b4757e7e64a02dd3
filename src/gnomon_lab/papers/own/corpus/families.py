"""The families of the corpus: the data and network of each, and the bounds between which its settings are drawn."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from gnomon.data import Samples, digits, standardise, xor_clusters
from gnomon.models import mlp
from gnomon_lab.papers.own._networks import Transformer, started
from gnomon_lab.papers.own._samples import UNSEEN, Splits, images, parities, rows, side_by_side, sums
from gnomon_lab.papers.own.corpus.drawn import Drawn, Spans
from gnomon_lab.runs import Run

PRIMES = (23, 29, 31, 37)


@dataclass(frozen=True)
class Family:
    """A kind of task and network.

    Attributes:
        spans: the bounds between which its settings are drawn.
        data: by the settings, in the order in which they are drawn: what is trained on, with its validation split; and
            what is not seen.
        network: by the settings, the shape of an input and the number of classes.
    """

    spans: Spans
    data: Callable[[Drawn, Run, torch.Generator], Splits]
    network: Callable[[Drawn, tuple[int, ...], int, torch.Generator], nn.Module]


def held(drawn: Drawn) -> int:
    """Training and validation samples together."""
    return drawn.samples + math.ceil(drawn.samples / 10)


def digits_8x8(drawn: Drawn, run: Run, generator: torch.Generator) -> Splits:
    """scikit-learn's 1,797 digits."""
    seen, unseen = standardise(*digits(held(drawn), generator=generator))
    return seen, unseen


def small_images(drawn: Drawn, run: Run, generator: torch.Generator) -> Splits:
    """MNIST or Fashion-MNIST at 14 x 14 pixels."""
    return images(
        "mnist" if drawn.variant < 0.5 else "fashion_mnist", held(drawn), run.data_dir, generator, halved=True
    )


def flat_images(drawn: Drawn, run: Run, generator: torch.Generator) -> Splits:
    """The same images as rows."""
    return rows(small_images(drawn, run, generator))


def addition(drawn: Drawn, run: Run, generator: torch.Generator) -> Splits:
    """Sums modulo a prime, of which `samples` in a thousand are trained on."""
    return sums(PRIMES[int(drawn.variant * len(PRIMES))], min(0.95, held(drawn) / 1000), generator)


def flat_addition(drawn: Drawn, run: Run, generator: torch.Generator) -> Splits:
    """The two summands side by side."""
    return side_by_side(addition(drawn, run, generator))


def parity(drawn: Drawn, run: Run, generator: torch.Generator) -> Splits:
    """Whether two or three of some 20 to 40 signs have an even number of minuses."""
    return parities(held(drawn), 20 + int(20 * drawn.variant), 2 + int(drawn.variant * 100) % 2, generator)


def xor(drawn: Drawn, run: Run, generator: torch.Generator) -> Splits:
    """XOR clusters, whose other coordinates have as much in common with a class as chance gives them."""
    make = partial(xor_clusters, d=300, noise=round(0.05 + 0.25 * drawn.variant, 2), generator=generator)
    return make(held(drawn)), make(UNSEEN)


def teacher(drawn: Drawn, run: Run, generator: torch.Generator) -> Splits:
    """Normal inputs with 30 coordinates, in four classes by the outputs of a small random network."""
    taught = mlp((30, 3 + int(5 * drawn.variant), 4), generator=generator)

    def normal(count: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(count, 30, generator=generator)
        with torch.no_grad():
            return x, taught(x)

    _, known = normal(UNSEEN)
    mean, deviation = known.mean(0), known.std(0)

    def draw(count: int) -> Samples:
        x, outputs = normal(count)
        return Samples(x, ((outputs - mean) / deviation).argmax(1))  # so that each class has its share

    return draw(held(drawn)), draw(UNSEEN)


def deep(drawn: Drawn, inputs: tuple[int, ...], classes: int, generator: torch.Generator) -> nn.Module:
    """Two hidden layers without biases."""
    return mlp((math.prod(inputs), drawn.width, drawn.width, classes), scale=drawn.scale, generator=generator)


def shallow(drawn: Drawn, inputs: tuple[int, ...], classes: int, generator: torch.Generator) -> nn.Module:
    """One hidden layer with biases."""
    return mlp((math.prod(inputs), drawn.width, classes), bias=True, scale=drawn.scale, generator=generator)


def convolutional(drawn: Drawn, inputs: tuple[int, ...], classes: int, generator: torch.Generator) -> nn.Module:
    """Two convolutions and a linear layer; every second network has BatchNorm."""
    width, normed = drawn.width, int(drawn.variant * 100) % 2
    layers: list[nn.Module] = []
    for channels, following in ((inputs[0], width), (width, 2 * width)):
        layers.append(nn.Conv2d(channels, following, 3, stride=2, padding=1, bias=not normed))
        layers += [nn.BatchNorm2d(following), nn.ReLU()] if normed else [nn.ReLU()]
    side = math.ceil(math.ceil(inputs[1] / 2) / 2)
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(2 * width * side**2, classes))
    return started(model, drawn.scale, generator)


def attentive(drawn: Drawn, inputs: tuple[int, ...], classes: int, generator: torch.Generator) -> nn.Module:
    """A transformer of one layer."""
    model = Transformer(inputs[0], inputs[1], classes, 4 * drawn.width)
    nn.init.normal_(model.positions, std=drawn.scale / math.sqrt(inputs[1]), generator=generator)
    return started(model, drawn.scale, generator)


FAMILIES = {
    "digits": Family(Spans((50, 500), (32, 128)), digits_8x8, deep),
    "images": Family(Spans((50, 500), (32, 128)), flat_images, deep),
    "images-cnn": Family(Spans((50, 500), (4, 12)), small_images, convolutional),
    "addition": Family(Spans((400, 850), (64, 192), (0.5, 2.0), (2e-3, 2e-2), (0.03, 3.0)), flat_addition, shallow),
    "addition-transformer": Family(
        Spans((400, 850), (6, 12), (0.5, 2.0), (2e-3, 2e-2), (0.03, 3.0)), addition, attentive
    ),
    "parity": Family(Spans((100, 1000), (64, 192), (0.5, 4.0), decays=(1e-2, 3.0)), parity, shallow),
    "xor": Family(Spans((40, 500), (64, 192), (0.5, 8.0), decays=(1e-2, 3.0)), xor, shallow),
    "teacher": Family(Spans((50, 800), (32, 128)), teacher, deep),
}
