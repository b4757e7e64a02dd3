"""Trains a small grok-digits in child processes, kills them at random moments, and lets others go on.

Called by test_runs with a folder; prints how many it killed, and how often before the first record, between and after.
"""

import json
import os
import random
import signal
import time

import torch

from gnomon_lab.papers.own.grok_digits import Config, run
from gnomon_lab.runs import Run

CONFIG = Config(steps=40, width=8, train=30, readings=10)
KILLS = 12


def train(folder):
    """One child: trains to the end, or to the checkpoint before its death."""
    child = os.fork()
    if child == 0:
        made = Run(folder, 0, checkpoint_seconds=0.03)
        with made.locked():
            run(CONFIG, made)
        os._exit(0)
    return child


def plain(folder):
    """The records without wall times."""
    return [{k: v for k, v in record.items() if k != "seconds"} for record in Run(folder, 0).records()]


def main(root):
    torch.set_num_threads(1)
    chance = random.Random(0)
    unbroken = root / "unbroken"
    unbroken.mkdir()
    warm = root / "warm"
    warm.mkdir()
    # Here, so that all that is imported late is there before the first child.
    run(CONFIG, Run(warm, 0))
    start = time.monotonic()
    if os.waitpid(train(unbroken), 0)[1] != 0:
        raise SystemExit("the unbroken run failed")
    length = time.monotonic() - start
    expected, kills, runs, moments = plain(unbroken), 0, 0, set()
    while kills < KILLS:
        folder = root / f"broken-{runs}"
        folder.mkdir()
        for _ in range(200):
            child = train(folder)
            # Often a little later than a checkpoint, so that runs do come to their end.
            time.sleep(chance.uniform(0, 0.5 * length))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            if os.WIFEXITED(status):
                if os.WEXITSTATUS(status):
                    raise SystemExit("a resumed run failed")
                break
            kills += 1
            moments.add(len(plain(folder)))
        else:
            raise SystemExit("a run never came to its end")
        if plain(folder) != expected:
            raise SystemExit(f"run {runs} differs from the unbroken one")
        if left := [path.name for path in folder.iterdir() if path.name.endswith(".part")]:
            raise SystemExit(f"left behind: {left}")
        runs += 1
    print(json.dumps({"kills": kills, "runs": runs, "moments": sorted(moments), "records": len(expected)}))
