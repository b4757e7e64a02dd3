"""The peak of memory of a reading of Jacobians, by the number of samples: each in a process of its own."""

import os
import subprocess
import sys

BUDGET = 2**28
CODE = """
import sys, torch, gnomon
from pathlib import Path
torch.set_num_threads(1)

def highest():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)

n, budget = map(int, sys.argv[1:])
nn = torch.nn
model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))
x, labels = torch.empty(n, 3, 32, 32).normal_(generator=torch.Generator().manual_seed(0)), torch.arange(n) % 10
quantities = [gnomon.jacobian_alignment, gnomon.explained_variance_ratio, gnomon.accuracy]
gnomon.Probe(model, (x[:200], labels[:200]), quantities, memory=budget).read()
probe = gnomon.Probe(model, (x, labels), quantities, memory=budget)
before = highest()
probe.read()
print((highest() - before) // 1024)
"""

if __name__ == "__main__":
    # Large blocks go back to the system when they are freed, so that the peak is that of living tensors.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    for n in (4_000, 40_000):
        command = [sys.executable, "-c", CODE, str(n), str(BUDGET)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        print(f"{n:>6,} images: {int(done.stdout)} MiB of {BUDGET // 2**20}, beyond the data")
