"""delayed-robustness: CIFAR-10 under attack, with GrokAlign and with weight decay alone (figures 5 and 6)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor, nn

from gnomon import (
    GrokAlign,
    Probe,
    accuracy,
    centroid,
    centroid_alignment,
    explained_variance_ratio,
    jacobian_norm,
    log_spaced,
    plateau,
)
from gnomon.data import Samples, normalise
from gnomon.models import cnn
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, ImageSlider, Mark, Panel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import ALIGNMENT, SEEN, UNSEEN, geometry, image_frames, lines, significant, squared_error
from gnomon_lab.papers.grokalign._attacks import ATTACKS, robust_accuracy
from gnomon_lab.runs import Cells, Claim, Record, Run, Seeds, last, over_seeds, series
from gnomon_lab.runs.data import load_images
from gnomon_lab.settings import Count, Device, NonNegative, Positive, Range, Settings, among, between
from gnomon_lab.training import fit, in_order

ARMS = ("weight decay", "GrokAlign")
RESTS = {"flat": 0.02, "high": 0.5, "rank_one": 0.9}
"""What `plateau` treats as rest, as a high alignment and as rank one: chosen before the first run."""
SOURCE = "Walker et al., arXiv:2506.12284, figure 5"
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Mean and standard deviation of each channel over all training pixels of CIFAR-10."""
ROBUST, PC1 = "test/robust", "some/explained_variance_ratio"
EPS = 4 / 255
SHOWN = 8
INTRODUCTION = """
Two convolutional networks start from the same weights and learn the same CIFAR-10 images. Then an attacker changes
every pixel of unseen images by at most 4/255, which nobody would see. The paper says that the first network, trained
with weight decay alone, withstands this less and less the longer it trains; and that GrokAlign turns the centroids of
the second towards the images, its Jacobians tend to rank one, and it withstands the attack more and more often.
"""

THREE = Range("three of at least 1", lambda widths, _: len(widths) == 3 and min(widths) >= 1)
IN_FOURS = Range("a multiple of 4", lambda readings, _: readings >= 4 and readings % 4 == 0)


@dataclass(frozen=True)
class Config(Settings):
    """The setting of figure 5."""

    train: Annotated[int, between(SHOWN, 50_000)] = 512
    """Number of training images."""
    test: Annotated[int, between(1, 10_000)] = 512
    """Number of test images, all of them attacked."""
    widths: Annotated[tuple[int, ...], THREE] = (8, 16, 32)
    """Channels of the three blocks."""
    coefficient: NonNegative = 0.3
    """Coefficient of the GrokAlign penalty; weight decay acts on both networks."""
    learning_rate: Positive = 3e-3
    """Learning rate of AdamW."""
    weight_decay: NonNegative = 1e-3
    """Weight decay of AdamW."""
    steps: Count = 300
    """Passes over the training images, in batches of 256."""
    attacks: tuple[Annotated[str, among(*ATTACKS)], ...] = ATTACKS[:1]
    """Attacks, among AutoAttack's apgd-ce, apgd-t, fab-t and square; the fewer, the higher the robust accuracy."""
    readings: Annotated[int, IN_FOURS] = 16
    """Readings in each factor of ten of the passes; a quarter of them with an attack."""
    stop_at_plateau: bool = False
    """End GrokAlign's training when alignment and PC1 say that more is unlikely to help."""
    device: Device = "cpu"
    """Where the networks are trained, read and attacked: cpu or cuda."""


SMALL = Config()
PAPER = Config(1024, 1024, (32, 64, 128), 1e-3, 1e-3, steps=36_000, attacks=ATTACKS)
OTHERS = tuple(
    replace(PAPER, attacks=attacks, device=device) for attacks in (ATTACKS, ATTACKS[:1]) for device in ("cpu", "cuda")
)
"""With one attack robust accuracies are upper bounds, and a GPU attacks for half a minute, not an hour or more."""


class Normalise(nn.Module):
    """Maps pixels from 0 to 1 to what the networks are trained on."""

    def forward(self, images: Tensor) -> Tensor:
        """Each channel shifted and scaled."""
        mean, deviation = (images.new_tensor(channels)[:, None, None] for channels in (MEAN, DEVIATION))
        return (images - mean) / deviation


def run(config: Config, run: Run) -> None:
    """Trains both networks, from the same start on the same images."""
    train = normalise(load_images("cifar10", "train", data_dir=run.data_dir, limit=config.train), MEAN, DEVIATION)
    test = load_images("cifar10", "test", data_dir=run.data_dir, limit=config.test)
    train, test = (Samples(*(part.to(config.device) for part in split)) for split in (train, test))
    for arm in ARMS:
        train_arm(config, run, arm, train, test)


def train_arm(config: Config, run: Run, arm: str, train: Samples, test: Samples) -> None:
    """Trains one network and attacks it during training. The test images are pixels, from 0 to 1."""
    generator = torch.Generator().manual_seed(run.seed)
    model = cnn((3, *config.widths, 10), generator=generator).to(config.device)
    pixels_model = nn.Sequential(Normalise(), model)
    optimizer = torch.optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    grokalign = GrokAlign(config.coefficient, generator=generator) if arm == "GrokAlign" else None
    due, attacked = log_spaced(config.readings), log_spaced(config.readings // 4)
    seen = Probe(
        model,
        {"train": train, "some": train.x[:64]},
        {"train": [accuracy, centroid, centroid_alignment], "some": [explained_variance_ratio, jacobian_norm]},
    )
    unseen = Probe(pixels_model, {"test": test}, [accuracy])
    under_attack = Probe(pixels_model, {"test": test}, {"robust": robustness(config.attacks, run.seed)})
    for step in fit(
        run, arm, config.steps, model, optimizer, in_order(train, 256), squared_error,
        due=due, penalty=grokalign, generator=generator,
        filter_gradients=lambda: nn.utils.clip_grad_value_(model.parameters(), 1.0),
    ):  # fmt: skip
        readings = [seen.read(step), unseen.read(step)]
        now = {name: value for reading in readings for name, value in reading.scalars().items()}
        earlier = run.records()
        resting = rests([*earlier, {"arm": arm, "step": step} | now])
        ends = step == config.steps or (config.stop_at_plateau and resting)
        if ends or attacked(step) or (resting and stops_at(earlier) is None):
            shown = {"tested": config.test, "centroids": grey(readings[0].values["train/centroid"])}
            shown |= {"images": grey(train.x)} if step == 0 else {}
            run.record(step, *readings, under_attack.read(step), **shown)
        else:
            run.record(step, *readings)
        if ends:
            run.stop()


def robustness(attacks: tuple[str, ...], seed: int) -> Callable[[nn.Module, Tensor, Tensor], Tensor]:
    """The robust accuracy as a quantity for a probe."""

    def robust(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        return torch.tensor(robust_accuracy(model, x, labels, eps=EPS, seed=seed, attacks=attacks))

    return robust


def grey(images: Tensor) -> list[list[list[float]]]:
    """The first images, the mean over their channels."""
    return significant(images[:SHOWN].mean(1))


def rests(records: Sequence[Record]) -> bool:
    """Whether GrokAlign's alignment and PC1, up to the last record, say that more training is unlikely to help."""
    steps, alignment = series(records, "GrokAlign", ALIGNMENT)
    return bool(steps) and plateau(steps, alignment, series(records, "GrokAlign", PC1)[1], **RESTS).reached


def stops_at(records: Sequence[Record]) -> int | None:
    """The first reading at which `plateau` with `RESTS` would have ended GrokAlign's training; None if none."""
    ours = [record for record in records if record["arm"] == "GrokAlign"]
    return next((ours[end - 1]["step"] for end in range(1, len(ours) + 1) if rests(ours[:end])), None)


def gained(records: Sequence[Record]) -> float | None:
    """How much robust accuracy GrokAlign gained after that; None if the rule does not end its training."""
    steps, robust = series(records, "GrokAlign", ROBUST)
    at = stops_at(records)
    return None if at is None else robust[-1] - robust[steps.index(at)]


def table(records: Sequence[Record]) -> Cells:
    """Both networks at the end, and where the stopping rule would have ended the second."""
    columns = ("", "train", "test", "robust", "alignment", "PC1", "plateau at", "seconds")
    formats = {SEEN: ".1%", UNSEEN: ".1%", ROBUST: ".1%"}
    rows: list[tuple[str, ...]] = []
    at = stops_at(records)
    for arm in ARMS:
        end = last(records, arm)
        numbers = [format(end[name], how) for name, how in formats.items()]
        numbers += [f"{end[name]:.3f}" for name in (ALIGNMENT, PC1)]
        rule = "" if arm != "GrokAlign" else "never" if at is None else f"{at:,}"
        rows.append((arm, *numbers, rule, f"{end['seconds']['trained']:.0f}"))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in two or three sentences."""
    before, after = ({arm: series(records, arm, ROBUST)[1][at] for arm in ARMS} for at in (0, -1))
    sentences = [f"Under attack {arm} goes from {before[arm]:.1%} to {after[arm]:.1%}." for arm in ARMS]
    at, gain = stops_at(records), gained(records)
    if at is None or gain is None:
        sentences.append("Alignment and PC1 never say that more training is unlikely to help.")
    else:
        sentences.append(f"By alignment and PC1 the training could have ended at step {at:,}; what followed changed")
        sentences.append(f"GrokAlign's robust accuracy by {100 * gain:+.1f} points.")
    return " ".join(sentences)


def figures(records: Sequence[Record]) -> list[Figure]:
    """Figure 5 as curves, figure 6 as images."""
    return [curves(records), centroids(records)]


def curves(records: Sequence[Record]) -> Curves:
    """Accuracy with and without attack, and the geometry, against steps."""
    at, arms = stops_at(records), {arm: arm for arm in ARMS}
    marks = () if at is None else (Mark(f"plateau, step {at:,}", at, ARMS.index("GrokAlign")),)
    clean = lines(records, {arm: f"{arm}, not attacked" for arm in ARMS}, UNSEEN, dashed=True)
    known = Panel("Accuracy on unseen images", "share correct", clean + lines(records, arms, ROBUST), marks)
    return Curves(
        "curves",
        "Accuracy under attack, and the geometry behind it",
        "Solid: test images whose pixels an attacker changes by up to 4/255; dashed: the same images as they are. "
        "Below, means over the training images; PC1 and norm over 64 of them. A mark: where alignment and PC1 say that "
        "more is unlikely to help.",
        "step (a pass over the training images)",
        (known, *geometry(records, arms, marks, jacobians="some")),
    )


def centroids(records: Sequence[Record]) -> ImageSlider:
    """Training images, and the centroids that both networks have there."""
    return ImageSlider(
        "centroids",
        "What each network looks for",
        "Above, normalised training images; below, the centroids of the linear regions around them, the sum of the "
        "Jacobian's rows. Colour images are drawn as the mean over their three channels.",
        image_frames(records, {"training images": records[0]["images"]}),
    )


def claims(seeds: Seeds) -> list[Claim]:
    """What the paper says about figure 5, over all finished seeds.

    A change in robust accuracy counts from 1/√n on, with n attacked images: two standard errors at their largest.
    """
    noise = 1 / math.sqrt(last(seeds[0], ARMS[0])["tested"])

    def ends(arm: str, name: str) -> list[float]:
        return [last(records, arm)[name] for records in seeds]

    def changes(arm: str, name: str, start: Callable[[Sequence[float]], float]) -> list[float]:
        return [end - start(series(records, arm, name)[1]) for end, records in zip(ends(arm, name), seeds, strict=True)]

    def beyond(name: str) -> list[float]:
        return [ours - theirs for ours, theirs in zip(ends("GrokAlign", name), ends(ARMS[0], name), strict=True)]

    def claim(message: str, values: Sequence[float], least: float, how: str = "+.1%") -> Claim:
        holds = all(value >= least for value in values)
        return Claim(message, SOURCE, f"at least {least:{how}}", over_seeds(values, how), holds)

    lost = changes("weight decay", ROBUST, highest_trained)
    gains = [gain for gain in map(gained, seeds) if gain is not None]
    measured = [over_seeds(gains, "+.1%")] if gains else []
    if len(gains) < len(seeds):
        measured.append(f"the rule never stopped {len(seeds) - len(gains)} of {len(seeds)} seeds")
    return [
        claim("GrokAlign: PC1 is close to one at the end", ends("GrokAlign", PC1), 0.9, ".3f"),
        claim("GrokAlign: alignment rises from start to end", changes("GrokAlign", ALIGNMENT, first), 0.02, "+.3f"),
        claim("GrokAlign ends more aligned than weight decay", beyond(ALIGNMENT), 0.02, "+.3f"),
        claim("GrokAlign: robust accuracy rises from start to end", changes("GrokAlign", ROBUST, first), noise),
        Claim(
            "weight decay: robust accuracy declines from its highest after step 0 to the end",
            SOURCE,
            f"at most {-noise:+.1%}",
            over_seeds(lost, "+.1%"),
            all(change <= -noise for change in lost),
        ),
        claim("GrokAlign ends more robust than weight decay", beyond(ROBUST), noise),
        Claim(
            "GrokAlign: robust accuracy rises little after alignment and PC1 have come to rest (gnomon.plateau)",
            "Walker et al., arXiv:2506.12284, section 4.3",
            f"at most {noise:+.1%}",
            ", ".join(measured),
            len(gains) == len(seeds) and all(gain <= noise for gain in gains),
        ),
    ]  # fmt: skip


def first(values: Sequence[float]) -> float:
    """Where a series starts."""
    return values[0]


def highest_trained(values: Sequence[float]) -> float:
    """The highest value after step 0: an untrained network guesses, which no training has made robust."""
    return max(values[1:])


EXPERIMENT = Experiment(
    EXPERIMENTS["delayed-robustness"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, OTHERS
)
