"""A test's code on real processes, over gloo."""

import os
import subprocess
import sys

BEFORE = """
import os, sys, torch, torch.distributed as dist
{imports}
world, rank, children = {world}, 0, []
while len(children) < world - 1:  # Before any thread; the imports, which take longest, are done once.
    children.append(os.fork())
    if children[-1] == 0:
        rank, children = len(children), []
        break
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=world)
"""
AFTER = """
dist.destroy_process_group()
if rank == 0:
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * (world - 1)
    print("all")
"""


def on_processes(world, imports, body, folder):
    """Runs `body` on all, which finds `torch`, `dist`, `world` and its own `rank`; all have to come to its end."""
    done = subprocess.run(
        [sys.executable, "-c", BEFORE.format(imports=imports, world=world) + body + AFTER, str(folder / "meeting")],
        env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["all"], done.stderr  # gloo may say before that it is connected
