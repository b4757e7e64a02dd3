"""What the papers' own settings cost, from a slice of each: processor hours of one thread and a seed, and memory.

Of each arm of an experiment some steps are made: the first, some without a reading, some of those that are read, and
the last; what they take is extrapolated to all. Each experiment has a process of its own, and then stands in
`paper_costs.jsonl`. What stands there is not measured again: delete the file to measure all, in about an hour.

The networks are still young in a slice. Where a reading's cost goes with what a network has become (regions, attacks),
or an arm ends when a goal is reached, the number says what the setting costs at that age and at its full length.
"""

import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

# Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from gnomon_lab.papers import experiment
from gnomon_lab.runs import Record, Run
from gnomon_lab.runs.machine import machine

RESULTS = Path(__file__).with_name("paper_costs.jsonl")
ARM = 4.0
"""Seconds of the processor for an arm, beside its first and its last step."""
LIMIT = 300.0
"""Seconds of the processor for an experiment: what is left of its arms is then not made."""
FITS = 8.0
"""Hours that a seed may take."""


@dataclass(frozen=True)
class Point:
    """A setting, the paper's but for `changes`; what was made smaller is made good by two factors."""

    name: str
    changes: Mapping[str, object] = field(default_factory=dict)
    training: float = 1.0
    reading: float = 1.0

    @property
    def title(self) -> str:
        """As the table has it."""
        return " ".join([self.name, *(f"{name}={value}" for name, value in self.changes.items())])


SUBSET = {
    "cases": ("fashion_mnist-resnet18",), "train": 100, "test": 2000, "side": 28, "width": 8,
    "learning_rates": (0.1,), "early": 50, "spacing": 5, "attack_spacing": 50,
}  # fmt: skip
"""That of `mse-vs-ce`, but for 24 of its 25 learning rates, each trained in the search, and read once of 109 times."""
OF_MNIST = {"train": 64, "test": 640, "attacked": 2, "learning_rates": (0.01842,)}
"""DeepFool's two images stand for a hundred, as 640 images stand for 54,210, those of ten balanced classes."""
NAMES = (
    "row-alignment",
    "rank",
    "inhibit",
    "xor",
    "ntk-regime",
    "init-scaling",
    "modular-addition",
    "regions",
    "layer-denoising",
    "nfa",
    "linear-rfm",
    "rfm-addition",
    "general-flow",
    "truncation-practice",
    "anatomy",
)
"""Of the others accelerate ends at a goal, deep-rfm does not fit a slice, and what is not here takes minutes."""
POINTS = [
    *map(Point, NAMES),
    *(Point(name, {"dtype": "mixed"}) for name in ("rank", "row-alignment")),
    Point("delayed-robustness", {"test": 64}, reading=16),
    Point("mse-vs-ce", SUBSET, training=26, reading=1.25),
    Point("mse-collapse", OF_MNIST | {"cases": ("mnist-resnet18",)}, training=54_210 / 640, reading=64_210 / 1280),
]


class OverError(Exception):
    """The experiment has had its time."""


@dataclass
class Arm:
    """What the steps of an arm took, in seconds of the processor."""

    total: int
    due: int
    first: float = 0.0
    last: float = 0.0
    plain: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)

    @property
    def training(self) -> float:
        """All steps, without what is read."""
        return mean(self.plain) * self.total

    @property
    def reading(self) -> float:
        """What is read at the steps that are due, at the first and at the last."""
        step = mean(self.plain)
        ends = self.first + max(0.0, self.last - step)
        return ends + max(0.0, mean(self.read) - step) * self.due


def mean(values: list[float]) -> float:
    """Of all but the first few, which also pay for what is done once."""
    kept = values[3:] if len(values) > 10 else values
    return sum(kept) / len(kept) if kept else 0.0


class Slice(Run):
    """A run that keeps its records in memory, and makes of each arm what ARM seconds allow."""

    def __init__(self, folder: Path, seed: int, data_dir: Path | None) -> None:
        super().__init__(folder, seed, data_dir=data_dir)
        self.arms: dict[str, Arm] = {}
        self._lines: list[Record] = []

    def records(self) -> list[Record]:
        """All so far."""
        return self._lines

    def record(self, step: int, *readings, **values) -> None:
        """Keeps a record as a run's file would have it, but for its seconds."""
        line = {"arm": list(self.arms)[-1], "step": step, "seconds": {"trained": 0.0, "read": 0.0}, **values}
        for reading in readings:
            line |= reading.scalars()
        self._lines.append(line)

    def stop(self) -> None:
        """Goals are not waited for."""

    def drop_state(self) -> None:
        """None is kept."""

    def steps(self, arm: str, total: int, **state) -> Iterator[int]:
        """Some of the steps, in no order, and what each took."""
        due = planned(sys._getframe(1).f_locals.get("due"), total)  # what the loop that asks for steps calls so
        seen = self.arms[arm] = Arm(total, len(due))
        shuffled = random.Random(0).sample(sorted(due), len(due))
        plain = (step for step in range(1, total) if step not in due)
        for step in self._chosen(seen, total, iter(shuffled), plain):
            start = time.process_time()
            yield step
            took = time.process_time() - start
            if step == 0:
                seen.first = took
            elif step == total:
                seen.last = took
            else:
                (seen.read if step in due else seen.plain).append(took)
            if time.process_time() > LIMIT:
                raise OverError

    @staticmethod
    def _chosen(seen: Arm, total: int, due: Iterator[int], plain: Iterator[int]) -> Iterator[int]:
        """The first step; of both kinds that which has had less time, as long as there is time; the last."""
        yield 0
        left = [(seen.plain, plain), (seen.read, due)]
        while left and sum(seen.plain) + sum(seen.read) < ARM:
            kind = min(left, key=lambda one: sum(one[0]))
            step = next(kind[1], None)
            if step is None:
                left.remove(kind)
            else:
                yield step
        if total > 0:
            yield total


def planned(due: Callable[[int], bool] | Mapping[int, object] | None, total: int) -> set[int]:
    """The steps between the first and the last that are read."""
    if due is None:
        return set()
    is_due = due.__contains__ if isinstance(due, Mapping) else due
    return {step for step in range(1, total) if is_due(step)}


def measured(point: Point) -> dict[str, object]:
    """What a point costs, from a slice in this process."""
    torch.set_num_threads(1)
    chosen = experiment(point.name)
    config = replace(chosen.paper, **point.changes)
    data = os.environ.get("GNOMON_DATA")
    with tempfile.TemporaryDirectory() as folder:
        run = Slice(Path(folder), 0, Path(data) if data else None)
        start, over = time.process_time(), False
        try:
            chosen.run(config, run)
        except OverError:
            over = True
        spent = time.process_time() - start
    arms = run.arms.values()
    inside = sum(arm.first + arm.last + sum(arm.plain) + sum(arm.read) for arm in arms)
    training = point.training * sum(arm.training for arm in arms)
    reading = point.reading * sum(arm.reading for arm in arms)
    return {
        "title": point.title,
        "arms": {name: told(arm) for name, arm in run.arms.items()},
        "hours": (training + reading + spent - inside) / 3600,
        "training": training / 3600,
        "reading": reading / 3600,
        "over": over,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "slice": spent,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
    }


def told(arm: Arm) -> dict[str, float]:
    """An arm in numbers: steps, milliseconds of one, readings and milliseconds of one, and of first and last."""
    step = mean(arm.plain)
    read = mean(arm.read) - step if arm.read else 0.0
    milliseconds = {"step": step, "read": read, "first": arm.first, "last": arm.last}
    made = {"plain": len(arm.plain), "read": len(arm.read)}
    return {"steps": arm.total, "due": arm.due, "made": made} | {
        name: float(f"{1e3 * value:.4g}") for name, value in milliseconds.items()
    }


def known() -> dict[str, dict[str, object]]:
    """What stands in the file, by title."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return {found["title"]: found for found in map(json.loads, lines)}


def said(found: Mapping[str, object]) -> str:
    """The hours, as the table has them."""
    hours = f"{found['hours']:.2g}" if found["hours"] < 100 else f"{found['hours']:.0f}"
    return f"above {hours}" if found["over"] else hours


def alone(point: Point) -> dict[str, object]:
    """What a point costs, in a process of its own, whose peak of memory is the point's."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measured, point).result()


def fill(points: Sequence[Point]) -> None:
    """Measures the points that do not stand in the file, and prints a line for each."""
    for point in points:
        if point.title not in known():
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(alone(point)) + "\n")
        found = known()[point.title]
        shares = f"training {found['training']:.3g}, reading {found['reading']:.3g}"
        fits = "fits" if found["hours"] <= FITS and not found["over"] else "does not fit"
        print(f"{point.title}: {said(found)} h ({shares}), {found['gigabytes']:.1f} GB: {fits}")


if __name__ == "__main__":
    fill([point for point in POINTS if not sys.argv[1:] or point.name in sys.argv[1:]])
