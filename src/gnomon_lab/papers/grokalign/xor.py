"""xor: a network memorises XOR clusters, generalises, becomes robust; does GrokAlign make it so sooner? (figure 4)."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from gnomon import GrokAlign, Probe, centroid_alignment, log_spaced
from gnomon.data import xor_clusters
from gnomon.models import mlp
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, Line, Panel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import centroid_norm, marked
from gnomon_lab.runs import Cells, Claim, Record, Run, Seeds, last, over_seeds, series, settled_at
from gnomon_lab.settings import Count, NonNegative, Positive, Settings, at_least
from gnomon_lab.training import fit

ARMS = ("weight decay", "GrokAlign")
BASE = ARMS[0]
NOISES = (0.2, 0.4, 0.6, 0.8, 1.0)
"""Standard deviations of the Gaussian noise on all coordinates without signal."""
LEVEL = 0.95
"""An accuracy is reached where it stays at this level or above; the paper names none."""
MUCH = 2.0
"""How many times fewer steps are "much sooner"; the paper names no number."""
SOURCE = "Walker et al., arXiv:2506.12284, section 4.2 and figure 4"
ROBUST = {f"robust to {s}": f"noise {s}/right" for s in NOISES}
STAGES = {"memorised": "train/right", "generalised": "test/right"} | ROBUST
"""The stages that a network reaches, and the accuracy that shows each."""
ONSET = next(iter(ROBUST))
MARKED = ("memorised", "generalised", ONSET)
INTRODUCTION = """
Only the first two of a point's many coordinates determine its class, by their product; all the others are noise, by
which the training points can be told apart. The paper says that a network first fits the training points by their
noise, then finds the pattern, and last, if at all, forgets the noise: only then do its answers on unseen points survive
added noise. Two networks start from the same weights. One has weight decay, the other also the GrokAlign penalty.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of figure 4, except for the width."""

    dimension: Annotated[int, at_least(2)] = 40_000
    """Coordinates of a point, two of them signal."""
    samples: Count = 400
    """Training points, and as many for testing."""
    noise: NonNegative = 0.05
    """Size of the coordinates without signal."""
    width: Count = 512
    """Width of the hidden layer."""
    coefficient: Positive = 1.0
    """Coefficient of the GrokAlign penalty; the workshop version of the paper has 0.001."""
    steps: Count = 1000
    """Full-batch SGD steps."""
    learning_rate: Positive = 0.1
    """Learning rate of SGD."""
    weight_decay: NonNegative = 0.1
    """Weight decay of SGD, in both arms."""
    readings: Count = 24
    """Readings in each factor of ten of the steps."""


SMALL = Config()
PAPER = Config(width=2048)


def run(config: Config, run: Run) -> None:
    """Trains both networks from one start, in the subspace in which training takes place."""
    generator = torch.Generator().manual_seed(run.seed)
    points = [
        xor_clusters(config.samples, config.dimension, noise=config.noise, generator=generator, dtype=torch.float64)
        for _ in ("train", "test")
    ]
    kick = off_signal(points[1].x, generator)
    model = mlp((config.dimension, config.width, 1), generator=generator).double()
    basis = into_subspace(model, points[0].x)
    train, test = ((x @ basis, 2 * labels[:, None].to(x) - 1) for x, labels in points)
    kick = kick @ basis
    seen = {"train": train, "test": test} | {f"noise {s}": (test[0] + s * kick, test[1]) for s in NOISES}
    for arm in ARMS:
        train_arm(config, run, arm, copy.deepcopy(model), seen)


def off_signal(x: Float[Tensor, "n d"], generator: torch.Generator) -> Float[Tensor, "n d"]:
    """Standard Gaussian noise on all coordinates without signal."""
    kick = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    kick[:, :2] = 0
    return kick


def into_subspace(model: nn.Sequential, x: Float[Tensor, "n d"]) -> Float[Tensor, "d r"]:
    """Rewrites the first layer in an orthonormal basis, which it returns, of the span of its rows and the points.

    This is exact: the gradients of the loss and of the penalty in the first weight are sums of points and of its own
    rows, so that gradient descent never leaves the span, r ≤ n + width; and lengths, angles and outputs are the same
    there.
    """
    weight = model.get_parameter("0.weight").detach()
    basis = torch.linalg.qr(torch.cat([x, weight]).T).Q
    model[0] = nn.Linear(basis.shape[1], len(weight), bias=False, device="meta")
    model[0].weight = nn.Parameter(weight @ basis)
    return basis


def right(logits: Float[Tensor, "n 1"], labels: Float[Tensor, "n 1"]) -> Float[Tensor, "n"]:
    """1 where the output has the label's sign, otherwise 0."""
    return (logits.sign() == labels).to(logits.dtype)[:, 0]


def alignment(centroid: Float[Tensor, "n d"], x: Float[Tensor, "n d"], labels: Float[Tensor, "n 1"]) -> Tensor:
    """Centroid alignment times the label: an aligned network that says -1 has a centroid against its point."""
    return labels[:, 0] * centroid_alignment(centroid, x)


def train_arm(config: Config, run: Run, arm: str, model: nn.Module, seen: dict[str, tuple[Tensor, Tensor]]) -> None:
    """Trains one network."""
    optimizer = torch.optim.SGD(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    generator = torch.Generator().manual_seed(run.seed)
    penalty = GrokAlign(config.coefficient, generator=generator) if arm == "GrokAlign" else None
    x, labels = seen["train"]
    splits = seen | {"point": (x[:1], labels[:1])}
    of_centroids = {"alignment": alignment, "norm": centroid_norm}
    probe = Probe(model, splits, {"right": right, "train": of_centroids, "point": of_centroids})
    for step in fit(
        run, arm, config.steps, model, optimizer, lambda step: [(x, labels)], mse_loss,
        due=log_spaced(config.readings), penalty=penalty, generator=generator,
    ):  # fmt: skip
        run.record(step, probe.read(step))


def stages(records: Sequence[Record], arm: str) -> dict[str, int | None]:
    """The steps from which on the network has memorised, generalised, and is robust to each noise."""
    return {stage: settled_at(records, arm, name, LEVEL) for stage, name in STAGES.items()}


def table(records: Sequence[Record]) -> Cells:
    """The step of each stage, those of robustness by their noise, and the fixed point at the end."""
    rows: list[tuple[str, ...]] = []
    for arm in ARMS:
        end = last(records, arm)
        steps = ("never" if step is None else f"{step:,}" for step in stages(records, arm).values())
        point = (f"{end['point/alignment']:.3f}", f"{end['point/norm']:.3f}", f"{end['seconds']['trained']:.0f}")
        rows.append((arm, *steps, *point))
    return ("", "memorised", "generalised", *(f"noise {s}" for s in NOISES), "alignment", "norm", "seconds"), rows


def summary(records: Sequence[Record]) -> str:
    """The result in a sentence for each network."""
    sentences = []
    for arm in ARMS:
        steps = {stage: step for stage, step in stages(records, arm).items() if step is not None}
        reached = ", ".join(f"{stage} from step {step:,} on" for stage, step in steps.items())
        sentences.append(f"With {arm}: {reached or 'nothing reached'}.")
    return " ".join(sentences)


def figures(records: Sequence[Record]) -> list[Figure]:
    """The two rows of figure 4."""
    return [curves(records, arm) for arm in ARMS]


def curves(records: Sequence[Record], arm: str) -> Curves:
    """Accuracies, the alignment of the fixed point and its norm, with the moments of the three stages."""

    def line(label: str, name: str, colour: int, *, dashed: bool = False) -> Line:
        return Line(label, *series(records, arm, name), dashed, colour)

    found = stages(records, arm)
    marks = marked({stage: found[stage] for stage in MARKED})
    known = (line("training points", "train/right", 0, dashed=True), line("unseen points", "test/right", 1))
    shaken = tuple(line(f"noise {s}", f"noise {s}/right", 2 + place) for place, s in enumerate(NOISES))

    def both(name: str) -> tuple[Line, ...]:
        return line("one training point", f"point/{name}", 0), line("mean of all", f"train/{name}", 1, dashed=True)

    return Curves(
        arm.replace(" ", "-"),
        f"Memorised, generalised, robust: {arm}",
        f"Unseen points also with Gaussian noise of {len(NOISES)} standard deviations, {NOISES[0]} to {NOISES[-1]}, on "
        "all coordinates but the first two. "
        f"A stage is reached where its accuracy stays at {LEVEL:.0%} or above. Alignment is times the label.",
        "step",
        (
            Panel("Accuracy", "share correct", known + shaken, marks, (0.2, 1.05)),
            Panel("Centroid alignment", "cosine", both("alignment"), marks),
            Panel("Centroid norm", "outputs per input", both("norm"), marks),
        ),
    )


def story(records: Sequence[Record]) -> dict[str, float | None]:
    """The paper's story of weight decay alone, in numbers at the fixed point; None where a stage was not reached."""
    memorised, generalised, robust = (stages(records, BASE)[stage] for stage in MARKED)
    cosine, size = (dict(zip(*series(records, BASE, f"point/{name}"), strict=True)) for name in ("alignment", "norm"))
    found: dict[str, float | None] = dict.fromkeys(("delay", "first rise", "second rise", "peak", "fall"))
    if memorised is not None and generalised is not None:
        found["delay"] = generalised - memorised
        found["first rise"] = cosine[generalised] - cosine[memorised] - (cosine[memorised] - cosine[0])
    if generalised is not None and robust is not None:
        found["second rise"] = cosine[robust] - cosine[generalised]
    if robust is not None:
        peak = max(value for step, value in size.items() if step <= robust)
        found |= {"peak": peak / size[0], "fall": size[robust] / peak}
    return found


def sooner(records: Sequence[Record], stage: str) -> float | None:
    """How many times fewer steps GrokAlign takes; if weight decay never gets there, its last step counts."""
    base, ours = (stages(records, arm)[stage] for arm in ARMS)
    if ours is None:
        return None
    steps: int = last(records, BASE)["step"] if base is None else base
    return steps / max(ours, 1)  # a network that is there from the start is as soon as after one step


def claims(seeds: Seeds) -> list[Claim]:
    """What section 4.2 says about the two rows of figure 4, over all finished seeds."""
    found = [story(records) for records in seeds]

    def claim(message: str, name: str, above: float = 0, below: float = math.inf) -> Claim:
        return checked(f"{BASE}: {message}", [one[name] for one in found], above, below)

    return [
        claim("it generalises after it has memorised: steps later", "delay"),
        claim("alignment rises more while it generalises than while it memorises: difference", "first rise"),
        claim(f"alignment rises further until it is {ONSET}: gain", "second rise"),
        claim("before that the centroid's norm grows: peak as a multiple of the start", "peak", above=1),
        claim(f"the norm has fallen when it is {ONSET}: share of the peak", "fall", below=1),
        *(
            checked(f"GrokAlign is {stage} much sooner: times fewer steps", [sooner(r, stage) for r in seeds], MUCH)
            for stage in ROBUST
        ),
    ]


def checked(message: str, values: Sequence[float | None], above: float, below: float = math.inf) -> Claim:
    """A claim that holds if every seed has a value between the two bounds."""
    reached = [value for value in values if value is not None]
    measured = over_seeds(reached) if reached else "stage not reached"
    if 0 < len(reached) < len(values):
        measured += f", stage not reached by {len(values) - len(reached)} more"
    expected = f"above {above:g}" if below == math.inf else f"below {below:g}"
    holds = len(reached) == len(values) and all(above < value < below for value in reached)
    return Claim(message, SOURCE, expected, measured, holds)


EXPERIMENT = Experiment(EXPERIMENTS["xor"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
