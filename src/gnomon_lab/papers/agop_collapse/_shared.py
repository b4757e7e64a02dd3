"""Networks that end in five bias-free hidden layers, read layer by layer: what layer-denoising and nfa share."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from gnomon import Probe, Reading, accuracy
from gnomon.data import Samples, standardise
from gnomon.models import mlp, resnet18, vgg11
from gnomon_lab.figures import Line, Panel
from gnomon_lab.runs import Record, Run
from gnomon_lab.runs.data import load_images
from gnomon_lab.settings import Count, Device, Positive, Settings, among, at_least
from gnomon_lab.training import fit, shuffled

SOURCE = "Beaglehole et al., arXiv:2402.13728, "
DATA = ("mnist", "cifar10", "svhn")
DEVICES = ("cpu", "cuda")
LAYERS = 5
BATCH, CLASSES = 128, 10


class Training(NamedTuple):
    """How appendix C trains a network."""

    epochs: int
    learning_rate: float
    momentum: float
    gain: float


TRAININGS = {
    "mlp": Training(500, 0.05, 0.0, 0.3),
    "resnet": Training(300, 0.05, 0.0, 0.2),
    "vgg": Training(600, 0.01, 0.9, 0.3),
}
MNIST_GAIN = 0.2
"""The gain of every network on MNIST."""
EXPONENTIAL = -(0.9**0.5)
"""The correlation of a logarithm with the layer number at which a line explains nine tenths of its variance."""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of appendix C."""

    model: Annotated[str, among(*TRAININGS)] = "mlp"
    """What precedes the hidden layers: mlp, nothing; resnet, ResNet-18; vgg, VGG-11 without its last two poolings."""
    dataset: Annotated[str, among(*DATA)] = "mnist"
    """The images: mnist, cifar10 or svhn."""
    samples: Annotated[int, at_least(10)] = 2000
    """Number of training images; the first ones are used."""
    width: Count = 256
    """Width of the five hidden layers."""
    gain: Positive | None = None
    """Gain of their Xavier-uniform initialisation; None: the paper's scale for this network and these images."""
    learning_rate: Positive | None = 0.2
    """Learning rate of SGD; None: the paper's for this network."""
    epochs: Count | None = 500
    """Passes over the training images, each in a new order; None: the paper's number for this network."""
    spacing: Count = 10
    """Epochs from one reading to the next."""
    device: Device = "cpu"
    """Where the network is trained and read: cpu or cuda."""

    def training(self) -> Training:
        """The paper's training of this network, except for what is set here."""
        paper = TRAININGS[self.model]
        return Training(
            self.epochs or paper.epochs,
            self.learning_rate or paper.learning_rate,
            paper.momentum,
            self.gain or (MNIST_GAIN if self.dataset == "mnist" else paper.gain),
        )


SMALL = Config()
PAPER = Config(samples=50_000, width=512, learning_rate=None, epochs=None)
OTHERS = tuple(
    dataclasses.replace(PAPER, model=model, dataset=dataset, device=device)
    for model in TRAININGS
    for dataset in DATA
    for device in DEVICES
)


def train(config: Config, run: Run, quantities: Mapping[str, Callable[..., object]]) -> None:
    """Trains the network, one step per epoch, and records the quantities, those with a value per layer as lists."""
    generator = torch.Generator().manual_seed(run.seed)
    epochs, rate, momentum, gain = config.training()
    samples = images(config, run)
    model = network(config.model, samples.x, config.width, gain, generator).to(config.device)
    samples = Samples(*(part.to(config.device) for part in samples))
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=momentum)
    probe = Probe(model, samples, {"loss": loss, "accuracy": accuracy, **quantities})
    arm = f"{config.model} {config.dataset}"
    for epoch in fit(
        run, arm, epochs, model, optimizer, shuffled(samples, BATCH, generator), loss,
        due=lambda epoch: epoch % config.spacing == 0, generator=generator,
    ):  # fmt: skip
        reading = probe.read(epoch)
        run.record(epoch, reading, **by_layer(reading))


def images(config: Config, run: Run) -> Samples:
    """The first training images, each pixel standardised; as rows for the MLP."""
    loaded = load_images(config.dataset, "train", data_dir=run.data_dir, limit=config.samples)
    samples = standardise(loaded)[0]
    return samples._replace(x=samples.x.flatten(1)) if config.model == "mlp" else samples


def loss(logits: Float[Tensor, "n c"], labels: Int[Tensor, "n"]) -> Float[Tensor, ""]:
    """The mean squared error over samples and outputs, to 1 for the class of a sample and -1 for the others."""
    return functional.mse_loss(logits, 2.0 * functional.one_hot(labels, CLASSES) - 1.0)


def network(model: str, x: Tensor, width: int, gain: float, generator: torch.Generator) -> nn.Sequential:
    """The body, five hidden layers of this width, Xavier-uniform, and the readout with PyTorch's default."""
    body = BODIES[model](x.shape[1], generator)
    with torch.no_grad():
        features = body.eval()(x[:1]).shape[1]
    head = mlp((features, *[width] * LAYERS, CLASSES), generator=generator)
    for layer in [layer for layer in head if isinstance(layer, nn.Linear)][:LAYERS]:
        nn.init.xavier_uniform_(layer.weight, gain, generator=generator)
    return nn.Sequential(*body, *head).train()


def resnet_body(channels: int, generator: torch.Generator) -> nn.Sequential:
    """ResNet-18 with the first layers that it has for large images, which reduce 32 x 32 pixels to 8 x 8."""
    net = resnet18(channels, generator=generator)
    first = nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False)
    nn.init.kaiming_normal_(first.weight, mode="fan_out", nonlinearity="relu", generator=generator)
    stem = (first, nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1))
    return nn.Sequential(*stem, *net.blocks, net.pool, nn.Flatten())


def vgg_body(channels: int, generator: torch.Generator) -> nn.Sequential:
    """VGG-11 without BatchNorm, as in torchvision, up to the ReLU before its last two poolings."""
    layers = [layer for layer in vgg11(channels, generator=generator).body if not isinstance(layer, nn.BatchNorm2d)]
    poolings = [place for place, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]
    return nn.Sequential(*layers[: poolings[-2]], nn.Flatten())


BODIES: dict[str, Callable[[int, torch.Generator], nn.Sequential]] = {
    "mlp": lambda channels, generator: nn.Sequential(),
    "resnet": resnet_body,
    "vgg": vgg_body,
}


def linear_layers(model: nn.Module) -> list[str]:
    """The names of the five hidden layers and of the readout."""
    return [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]


def by_layer(reading: Reading) -> dict[str, list[float]]:
    """The quantities that are dataclasses with one tensor entry per layer, as lists by the names of their fields."""
    tables = [value for value in reading.values.values() if dataclasses.is_dataclass(value)]
    fields = {field.name: getattr(table, field.name) for table in tables for field in dataclasses.fields(table)}
    return {name: value.tolist() for name, value in fields.items() if isinstance(value, Tensor)}


def over_epochs(records: Sequence[Record], values: Callable[[Record], Sequence[float]]) -> tuple[Line, ...]:
    """A line for each hidden layer: its value in each record."""
    epochs = tuple(float(record["step"]) for record in records)
    columns = zip(*(values(record)[:LAYERS] for record in records), strict=True)
    return tuple(
        Line(f"layer {place + 1}", epochs, tuple(column), colour=place) for place, column in enumerate(columns)
    )


def over_layers(label: str, values: Sequence[float], colour: int, *, dashed: bool = False) -> Line:
    """A line from hidden layer to hidden layer."""
    return Line(label, tuple(map(float, range(1, LAYERS + 1))), tuple(values[:LAYERS]), dashed, colour)


def losses(records: Sequence[Record]) -> Panel:
    """The training loss against epochs, logarithmic."""
    epochs = tuple(float(record["step"]) for record in records)
    values = tuple(float(record["loss"]) for record in records)
    return Panel("Training loss", "squared error", (Line("loss", epochs, values, colour=LAYERS),), log_y=True)


def described(records: Sequence[Record]) -> str:
    """Network and data in words."""
    return records[0]["arm"].replace(" ", " on ")
