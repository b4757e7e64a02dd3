"""A test's code on two real processes, over gloo."""

import os
import subprocess
import sys

BEFORE = """
import os, sys, torch, torch.distributed as dist
{imports}
child = os.fork()  # Before any thread; the imports, which take longest, are done once.
rank = 1 if child == 0 else 0
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
"""
AFTER = """
dist.destroy_process_group()
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("both")
"""


def on_two_processes(imports, body, folder):
    """Runs `body` on both, which finds `torch`, `dist` and its own `rank`; both have to come to its end."""
    done = subprocess.run(
        [sys.executable, "-c", BEFORE.format(imports=imports) + body + AFTER, str(folder / "meeting")],
        env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "both\n", done.stderr
