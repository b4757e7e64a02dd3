"""Timing things beside each other: in turns, in one process, on one thread; medians, kept with their machine."""

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

# Before torch is imported: small operations are slower and less repeatable with more.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from gnomon_lab.runs.machine import machine

RESULTS = Path(__file__).with_name("results.jsonl")
"""A line a comparison, appended: what took how long, when, and on which machine."""

torch.set_num_threads(1)
T = TypeVar("T")


def compare(
    title: str,
    contenders: Mapping[str, Callable[[], object]],
    rounds: int = 25,
    calls: int = 10,
    clock: Literal["wall", "processor"] = "wall",
) -> None:
    """Times each contender in turn, round after round, and prints medians and ratios to the first.

    In turns, so that a machine that slows down slows all; the ratio is the median of the rounds' ratios. Processor time
    is what other work on the machine moves least.
    """
    now = time.perf_counter if clock == "wall" else time.process_time
    took: dict[str, list[float]] = {name: [] for name in contenders}
    for contender in contenders.values():
        for _ in range(calls):
            contender()
    for _ in range(rounds):
        for name, contender in contenders.items():
            start = now()
            for _ in range(calls):
                contender()
            took[name].append((now() - start) / calls)
    first = took[next(iter(took))]
    print(f"\n{title}; median of {rounds} rounds, {clock} time, torch {torch.__version__}, one thread")
    seconds = {name: statistics.median(times) for name, times in took.items()}
    for name, times in took.items():
        ratio = statistics.median(mine / base for mine, base in zip(times, first, strict=True))
        print(f"  {name:<52} {1e3 * seconds[name]:8.2f} ms   {ratio:5.2f} x")
    keep(title, seconds, rounds=rounds, clock=clock)


def keep(title: str, seconds: Mapping[str, float], *, rounds: int, clock: str) -> None:
    """Appends the seconds of each contender to `results.jsonl`; the clock is "wall" or "processor"."""
    found = {
        "title": title,
        "seconds": dict(seconds),
        "rounds": rounds,
        "clock": clock,
        "threads": torch.get_num_threads(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
    }
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(found, ensure_ascii=False) + "\n")


def median_seconds(run: Callable[[], T], rounds: int) -> tuple[float, T]:
    """The median processor time of a call, after one that does not count, and what the last returned.

    Processor time, since it is held against figures from elsewhere, and other work on the machine must not count.
    """
    result = run()
    took = []
    for _ in range(rounds):
        start = time.process_time()
        result = run()
        took.append(time.process_time() - start)
    return statistics.median(took), result
