"""Neural collapse of networks that classify small images: what mse-collapse and mse-vs-ce share."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from gnomon import (
    ClassMoments,
    Probe,
    accuracy,
    classifier_equiangularity,
    classifier_equinorm,
    classifier_maximal_equiangularity,
    deepfool,
    equiangularity,
    equinorm,
    maximal_equiangularity,
    models,
    mse_decomposition,
    nc1,
    nearest_mean_disagreement,
    self_duality,
)
from gnomon.data import Samples, normalise
from gnomon.errors import ConvergenceError, RangeError
from gnomon_lab.papers._shared import LOSSES, SEEN, UNSEEN
from gnomon_lab.papers.mse_collapse._page import SEARCH, terminal
from gnomon_lab.runs import Run
from gnomon_lab.runs.data import load_images
from gnomon_lab.settings import Count, Device, Positive, Range, Settings, at_least
from gnomon_lab.training import Batch, fit

DATA = ("mnist", "fashion_mnist", "cifar10", "svhn", "stl10")
DEPTHS = {"vgg": (11, 13), "resnet": (18, 34, 50), "densenet": (40, 100, 201, 250)}
NETWORKS: dict[str, Callable[..., nn.Module]] = {
    f"{family}{depth}": getattr(models, f"{family}{depth}") for family, depths in DEPTHS.items() for depth in depths
}
BATCH, MOMENTUM, WEIGHT_DECAY = 128, 0.9, 5e-4
GRID = tuple(round(1e-4 * 2500 ** (k / 24), 6) for k in range(25))
"""Learning rates to search, 0.0001 to 0.25: the notebook's 0.0184 (MSE) and 0.0679 (cross-entropy) are among them."""
NC2 = {
    equinorm: classifier_equinorm,
    equiangularity: classifier_equiangularity,
    maximal_equiangularity: classifier_maximal_equiangularity,
}
"""For each quantity of the class means, that of the classifier."""
HARDWARE = (("cpu", "float32"), ("cuda", "float32"), ("cuda", "bfloat16"))

CASE = Range(
    f"DATA-NETWORK of {DATA} and {(*NETWORKS,)}",
    lambda case, _: case in {f"{data}-{network}" for data in DATA for network in NETWORKS},
)
ON_DEVICE = Range(f"with the device among {HARDWARE}", lambda precision, config: (config.device, precision) in HARDWARE)


@dataclass(frozen=True)
class Config(Settings):
    """The setting of appendix A."""

    cases: tuple[Annotated[str, CASE], ...] = ("fashion_mnist-resnet18",)
    """Data set and network, joined by a hyphen."""
    train: Annotated[int, at_least(2)] | None = 100
    """Training images per class; None: as many as the smallest class has."""
    test: Count | None = 2000
    """Test images; None: all."""
    side: Annotated[int, at_least(8)] = 28
    """Smaller images are padded with black to this many pixels per side."""
    width: Count | None = 8
    """Channels of the first stage, or the growth of a DenseNet; None: the network's own."""
    learning_rates: tuple[Positive, ...] = (0.1,)
    """Learning rates of SGD, divided by 10 after a third and two thirds; the one with the best test accuracy counts."""
    epochs: Count = 350
    """Passes over the training images, each in a new order."""
    early: Annotated[int, at_least(0)] = 50
    """Every epoch up to this one is read."""
    spacing: Count = 5
    """Epochs from one reading to the next after that."""
    attacked: Count = 100
    """Test images that DeepFool attacks."""
    attack_spacing: Count = 50
    """Epochs from one attack to the next; another is made at the first epoch without training error."""
    device: Device = "cpu"
    """Where networks are trained and read: cpu or cuda."""
    precision: Annotated[str, ON_DEVICE] = "float32"
    """Training precision; bfloat16: mixed precision, autocast. Readings are in float32."""


def train_all(config: Config, run: Run, losses: tuple[str, ...]) -> None:
    """Trains the network of every case with every loss, at the best of the learning rates, from the same weights.

    Raises:
        ConvergenceError: if a network diverges, and there is no other learning rate.
    """
    for case in config.cases:
        data, _ = case.split("-")
        train, test = images(config, run, data)
        for loss in losses:
            rate = best_rate(config, run, case, loss, train, test)
            train_arm(config, run, case, loss, rate, train, test)


def best_rate(config: Config, run: Run, case: str, loss: str, train: Samples, test: Samples) -> float:
    """The learning rate with the best test accuracy, of several after training runs read only at their end.

    What is read in between would change nothing in the training.

    Raises:
        ConvergenceError: if all diverge.
    """
    if len(config.learning_rates) == 1:
        return config.learning_rates[0]
    for rate in config.learning_rates:
        # The search goes on without one that diverges; with BatchNorm it may be that only eval mode shows it.
        with suppress(ConvergenceError, RangeError):
            search_arm(config, run, case, loss, rate, train, test)
    arms = {f"{SEARCH} {case} {loss} {rate:g}": rate for rate in config.learning_rates}
    ends = {record["arm"]: record[UNSEEN] for record in run.records() if record["arm"] in arms}
    if not ends:
        rates = ", ".join(f"{rate:g}" for rate in config.learning_rates)
        raise ConvergenceError(
            f"{case} {loss}", "a learning rate at which the loss stays finite", f"none among {rates}", "Add lower ones."
        )
    return arms[max(ends, key=ends.__getitem__)]


def images(config: Config, run: Run, data: str) -> tuple[Samples, Samples]:
    """Training images, equally many of each class, and test images; both normalised by the training images."""
    train = balanced(load_images(data, "train", data_dir=run.data_dir), config.train)
    test = load_images(data, "test", data_dir=run.data_dir, limit=config.test)
    deviation, mean = torch.std_mean(train.x, (0, 2, 3), correction=0)

    def prepared(samples: Samples) -> Samples:
        x, labels = normalise(samples._replace(x=framed(samples.x, config.side)), mean.tolist(), deviation.tolist())
        return Samples(x.to(config.device, memory_format=memory_format(config)), labels.to(config.device))

    return prepared(train), prepared(test)


def memory_format(config: Config) -> torch.memory_format:
    """Channels last, which is faster, where oneDNN is right with it.

    With fewer than 16 channels (8 without AVX-512) its weight gradient of a 1 × 1 convolution with a stride goes beyond
    its buffer: numbers are wrong, or the process crashes (oneDNN 3.12, its issue 6035; torch 2.13).
    """
    narrow = config.width is not None and config.width < 16
    return torch.contiguous_format if narrow else torch.channels_last


def balanced(samples: Samples, count: int | None) -> Samples:
    """The first `count` samples of each class, or as many as the smallest class has, in their order."""
    count = int(samples.labels.bincount().min()) if count is None else count
    classes = (samples.labels == label for label in range(int(samples.labels.max()) + 1))
    chosen = torch.cat([members.nonzero()[:count, 0] for members in classes]).sort().values
    return Samples(samples.x[chosen], samples.labels[chosen])


def framed(x: Tensor, side: int) -> Tensor:
    """Images (n c h w) with black pixels around them, at least `side` high and wide."""
    height, width = (max(0, side - length) for length in x.shape[2:])
    return functional.pad(x, (width // 2, width - width // 2, height // 2, height - height // 2))


def search_arm(config: Config, run: Run, case: str, loss: str, rate: float, train: Samples, test: Samples) -> None:
    """Trains one network, and reads its accuracies at the end.

    Raises:
        ConvergenceError: if the loss is no longer finite.
        RangeError: if it is, but the outputs in eval mode are not.
    """
    generator = torch.Generator().manual_seed(run.seed)
    model = network_of(config, case, train, generator)
    probe = Probe(model, {"train": train, "test": test}, [accuracy])
    arm = f"{SEARCH} {case} {loss} {rate:g}"
    for step in trained(
        config, run, arm, model, generator, loss, rate, train, due=lambda epoch: epoch == config.epochs
    ):
        run.record(step, probe.read(step), epoch=config.epochs)
    run.drop_state()  # 90 MB of a ResNet-18; the best rate is trained again


def train_arm(config: Config, run: Run, case: str, loss: str, rate: float, train: Samples, test: Samples) -> None:
    """Trains one network, one step per update, and reads it after complete epochs."""
    generator = torch.Generator().manual_seed(run.seed)
    model = network_of(config, case, train, generator)
    probe = Probe(model, {"train": train, "test": test}, quantities(loss))
    attack = Probe(model, test.x[: config.attacked], [robustness])
    arm = f"{case} {loss} {rate:g}"

    def due(epoch: int) -> bool:
        return epoch <= config.early or epoch % config.spacing == 0

    for step in trained(config, run, arm, model, generator, loss, rate, train, due=due):
        epoch, readings = step // batches_of(train), [probe.read(step)]
        vanished = readings[0].scalars()[SEEN] == 1 and not terminal(run.records(), arm)
        if vanished or epoch % config.attack_spacing == 0 or epoch == config.epochs:
            readings.append(attack.read(step))
        run.record(step, *readings, epoch=epoch)


def network_of(config: Config, case: str, train: Samples, generator: torch.Generator) -> nn.Module:
    """The untrained network of a case."""
    _, network = case.split("-")
    size = {} if config.width is None else {"growth" if "densenet" in network else "width": config.width}
    model = NETWORKS[network](train.x.shape[1], int(train.labels.max()) + 1, generator=generator, **size)
    return nn.utils.convert_conv2d_weight_memory_format(model.to(config.device), memory_format(config))


def batches_of(train: Samples) -> int:
    """How many batches an epoch has."""
    return math.ceil(len(train.x) / BATCH)


def trained(
    config: Config,
    run: Run,
    arm: str,
    model: nn.Module,
    generator: torch.Generator,
    loss: str,
    rate: float,
    train: Samples,
    *,
    due: Callable[[int], bool],
) -> Iterator[int]:
    """Trains a network; stops where an epoch is due, at 0 before any update, and says after how many steps."""
    batches = batches_of(train)
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
    # One seed per epoch, so that a run can be resumed within an epoch.
    shuffles = torch.randint(2**31, (config.epochs,), generator=generator).tolist()

    def batch(step: int) -> Iterator[Batch]:
        passed, place = divmod(step - 1, batches)
        for group in optimizer.param_groups:
            group["lr"] = rate / 10 ** (3 * passed // config.epochs)
        chosen = order(shuffles[passed], len(train.x))[BATCH * place : BATCH * (place + 1)].to(config.device)
        yield train.x[chosen], train.labels[chosen]

    mixed = torch.autocast(config.device, torch.bfloat16, enabled=config.precision == "bfloat16")
    yield from fit(
        run, arm, config.epochs * batches, model, optimizer, batch,
        lambda logits, labels: LOSSES[loss](logits.float(), labels),
        due=lambda step: step % batches == 0 and due(step // batches), forward=mixed(model.__call__),
    )  # fmt: skip


@functools.lru_cache(maxsize=1)
def order(seed: int, samples: int) -> Tensor:
    """The samples in the order of one epoch."""
    return torch.randperm(samples, generator=torch.Generator().manual_seed(seed))


def quantities(loss: str) -> Mapping[str, Callable[..., object] | Mapping[str, Callable[..., object]]]:
    """What figures 2 to 8 show, on the samples of each split; the class means, too, are those of these samples.

    So the disagreement on test images is not with the means of the training images, by which NC4 is defined.
    """
    read: dict[str, Callable[..., object]] = {
        "accuracy": accuracy,
        "nc1": nc1,
        "self_duality": self_duality,
        "disagreement": nearest_mean_disagreement,
    }
    if loss == "mse":
        read["loss"] = decomposition
    read |= {f"{of_means.__name__}.means": of_means for of_means in NC2}
    return read | {"train": {f"{of_means.__name__}.classifiers": of_rows for of_means, of_rows in NC2.items()}}


def decomposition(classifier: Tensor, bias: Tensor, class_moments: ClassMoments, classes: int) -> object:
    """The loss (2), squares summed over outputs, with the λ that fits training on their mean: C · weight decay / 2."""
    return mse_decomposition(classifier, bias, class_moments, weight_decay=classes * WEIGHT_DECAY / 2)


@dataclass(frozen=True)
class Robustness:
    """The mean over images of DeepFool's ‖r‖ / ‖x‖, and the share of images where it found another class."""

    mean: Tensor
    found: Tensor


def robustness(model: nn.Module, x: Tensor) -> Robustness:
    """Figure 9's measure, on normalised images."""
    attacked = deepfool(model, x)
    return Robustness(attacked.robustness.mean(), attacked.flipped.to(x.dtype).mean())
