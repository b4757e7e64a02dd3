"""How the cost of a reading grows: with outputs, samples, parameters and processes.

Each point of the grid is read in a process of its own, on one thread, for at most `LIMIT` seconds of the processor, and
then stands in `scale.jsonl`. What stands there is not read again: delete the file to measure all, in some ten minutes.
What it says of the claims is printed, and `docs/pictures/scale.py` draws it. Weights are random, samples noise. Needs
Linux, which tells peaks of memory, and transformers.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gnomon import Estimate, Probe, explained_variance_ratio, jacobian_norm
from gnomon.integrations.transformers_inputs import Logits
from gnomon.models import cnn, mlp, resnet18
from gnomon_lab.measuring.quantities import DEFAULT
from gnomon_lab.runs.machine import machine

RESULTS = Path(__file__).with_name("scale.jsonl")
LIMIT = 300
"""Seconds of the processor that a point may take; one that takes longer is kept as that."""
BATCH = 256
QUANTITIES = {"default": DEFAULT, "norm and PC1": (jacobian_norm, explained_variance_ratio), "norm": (jacobian_norm,)}


@dataclass(frozen=True)
class Point:
    """What is read of what; `rtol` 0 takes the Jacobian itself.

    Over several processes the network is sharded, and each reads a part of the samples.
    """

    network: str
    outputs: int
    samples: int
    quantities: str = "default"
    rtol: float = 0.05
    processes: int = 1


GRID = {
    "outputs": [Point("ResNet-18", outputs, 16) for outputs in (10, 100, 1_000, 10_000)],
    "matrix": [Point("ResNet-18", outputs, 16, rtol=0) for outputs in (10, 100, 1_000)],
    "norm and PC1": [Point("ResNet-18", 1_000, 16, "norm and PC1", rtol) for rtol in (0.05, 0)],
    "norm": [Point("ResNet-18", 1_000, 16, "norm", rtol) for rtol in (0.05, 0)],
    "samples": [Point("CNN", 10, samples) for samples in (1_000, 10_000, 100_000)],
    "parameters": [
        Point("MLP", 200, 2),
        Point("ResNet-18 of width 8", 200, 2),
        Point("ResNet-18 of width 20", 200, 2),
        Point("ResNet-18", 1_000, 2),
        Point("ResNet-50", 1_000, 2),
        Point("ViT-B/16", 1_000, 2),
    ],
    "processes": [Point("ResNet-18", 1_000, 16, processes=processes) for processes in (1, 2)],
}


def residual(outputs: int, depths: tuple[int, ...], kind: str, widths: tuple[int, ...]) -> nn.Module:
    """A residual network as ImageNet has it."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(depths=depths, layer_type=kind, hidden_sizes=widths, num_labels=outputs)
    return Logits(ResNetForImageClassification(config), "pixel_values")


def vision_transformer(outputs: int) -> nn.Module:
    """ViT-B/16, of which transformers has the sizes as its defaults."""
    from transformers import ViTConfig, ViTForImageClassification

    return Logits(ViTForImageClassification(ViTConfig(num_labels=outputs)), "pixel_values")


NETWORKS: dict[str, tuple[Callable[[int], nn.Module], tuple[int, ...]]] = {
    "MLP": (lambda outputs: mlp((64, 40, outputs)), (64,)),
    "CNN": (lambda outputs: cnn((3, 8, 16, outputs)), (3, 16, 16)),
    "ResNet-18 of width 8": (lambda outputs: resnet18(3, outputs, width=8), (3, 32, 32)),
    "ResNet-18 of width 20": (lambda outputs: resnet18(3, outputs, width=20), (3, 32, 32)),
    "ResNet-18": (lambda outputs: residual(outputs, (2, 2, 2, 2), "basic", (64, 128, 256, 512)), (3, 64, 64)),
    "ResNet-50": (
        lambda outputs: residual(outputs, (3, 4, 6, 3), "bottleneck", (256, 512, 1024, 2048)),
        (3, 224, 224),
    ),
    "ViT-B/16": (vision_transformer, (3, 224, 224)),
}
"""By name what makes it, of so many outputs, and the shape of its samples."""


class Stream:
    """Samples that are made when they are asked for, and not kept: each of these numbers."""

    def __init__(self, numbers: range, shape: tuple[int, ...], outputs: int) -> None:
        self.numbers, self.shape, self.outputs = numbers, shape, outputs

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, len(self.numbers), BATCH):
            some = self.numbers[start : start + BATCH]
            generator = torch.Generator().manual_seed(some[0])
            yield torch.randn(len(some), *self.shape, generator=generator), torch.tensor(some) % self.outputs


def read(point: Point, rank: int, meeting: str) -> dict[str, object]:
    """What a reading takes of this process."""
    torch.manual_seed(0)
    make, shape = NETWORKS[point.network]
    model = make(point.outputs).eval()
    stream = Stream(range(rank, point.samples, point.processes), shape, point.outputs)
    found = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "pass": one_pass(model, next(iter(stream))[0][:16]),
    }
    if point.processes > 1:
        from torch.distributed.fsdp import fully_shard  # seconds

        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=point.processes)
        fully_shard(model)
    data = stream if point.samples > BATCH else next(iter(stream))
    probe = Probe(model, data, QUANTITIES[point.quantities], rtol=point.rtol)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is from here on
    before = resident("VmRSS")
    wall, processor = time.perf_counter(), time.process_time()
    values = probe.read().values
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    estimates = {name: value for name, value in values.items() if isinstance(value, Estimate)}
    return found | {
        "seconds": {"wall": wall, "processor": processor},
        "MiB": {"before": before, "beyond": resident("VmHWM") - before},
        "passes": {name: value.passes.float().mean().item() for name, value in estimates.items()},
        "error": {name: (value.error / value.value).max().item() for name, value in estimates.items()},
    }


def resident(which: str) -> int:
    """MiB of this process in memory, now (VmRSS) or at the most (VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(which))


def one_pass(model: nn.Module, x: Tensor) -> float:
    """The processor seconds of a pass forward and back to x, for each of these samples."""
    start, count, took = time.process_time(), 0, 0.0
    while took < 0.2:
        torch.autograd.grad(model(x.requires_grad_()).sum(), x)
        count, took = count + 1, time.process_time() - start
    return took / count / len(x)


def measured(point: Point) -> dict[str, object]:
    """A line of the file; of several processes what the slowest says."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, json.dumps(asdict(point)), f"file://{folder}/meeting"]
        environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo"}
        children = [
            subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True, env=environment)
            for rank in range(point.processes)
        ]
        said = [child.communicate()[0] for child in children]
    if any(child.returncode in (-signal.SIGXCPU, -signal.SIGKILL) for child in children):
        return {"seconds": None}
    return max(map(json.loads, said), key=lambda found: found["seconds"]["processor"])


def results() -> dict[Point, dict]:
    """What stands in the file, by point."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return {Point(**found["point"]): found for found in map(json.loads, lines)}


def fill() -> None:
    """Reads the points that are not in the file, and says how long each took."""
    for name, points in GRID.items():
        for point in points:
            if point in results():
                continue
            found = {
                "point": asdict(point),
                **measured(point),
                "limit": LIMIT,
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
                "machine": machine(),
            }
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
            print(f"{name}: {point}\n  {found['seconds']} s, {found.get('MiB')} MiB", flush=True)


@dataclass(frozen=True)
class Claim:
    """What was claimed, what was measured, and whether that is so."""

    said: str
    measured: str
    holds: bool


def claims(found: dict[Point, dict]) -> list[Claim]:
    """Those of the file, by processor time, which other work on the machine moves least."""

    def seconds(points: list[Point]) -> list[float]:
        return [found[point]["seconds"]["processor"] for point in points]

    many = GRID["outputs"][1:]
    growth = max(seconds(many)) / min(seconds(many))
    peaks = [found[point]["MiB"]["beyond"] for point in GRID["samples"]]
    higher = max(peaks) / min(peaks)
    listed = [
        Claim(
            "beyond a hundred outputs time is flat, at 5 %: the slowest reading takes at most 1.5 times the fastest",
            f"{growth:.2f} times, from {many[0].outputs} to {many[-1].outputs:,} outputs",
            growth <= 1.5,
        ),
        Claim(
            "memory is flat in samples: the highest peak is at most 1.1 times the lowest",
            f"{higher:.3f} times, {min(peaks)} to {max(peaks)} MiB, from 1,000 to 100,000 samples",
            higher <= 1.1,
        ),
    ]
    for name, words in (("norm and PC1", "norm and PC1 are"), ("norm", "the norm alone is")):
        ours, theirs = seconds(GRID[name])
        listed.append(
            Claim(
                f"at 1,000 outputs {words} read to 5 % at least 25 times as fast as from the Jacobian",
                f"{theirs / ours:.1f} times, {ours:.1f} s for {theirs:.1f} s",
                theirs / ours >= 25,
            )
        )
    return listed


if __name__ == "__main__":
    if len(sys.argv) > 1:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")  # of classes without samples; how exact estimates are is kept
        print(json.dumps(read(Point(**json.loads(sys.argv[1])), int(sys.argv[3]), sys.argv[2])))
    else:
        fill()
        for claim in claims(results()):  # as rows of the table in docs/results.md
            print(f"| {claim.said} | {claim.measured} | {'holds' if claim.holds else 'does not hold'} |")
