"""The memory budget holds: measured as the peak of a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MEASURE = """
import torch, gnomon
from pathlib import Path
torch.set_num_threads(1)

def highest():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)

model = torch.nn.Sequential(torch.nn.Linear(100, 5000), torch.nn.ReLU(), torch.nn.Linear(5000, 10))
x = torch.randn(4000, 100)
with torch.no_grad():
    gnomon.input_jacobian(model, x[:2])
    before = highest()
    gnomon.input_jacobian(model, x, memory=BUDGET)
print(highest() - before)
"""
RESULT = 4000 * 10 * 100 * 4


def peak(budget):
    """Bytes that the Jacobian took at its highest, its result included."""
    code = MEASURE.replace("BUDGET", str(budget))
    # Large blocks go back to the system when they are freed, so that the peak is that of living tensors.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return 1024 * int(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_peak_is_the_result_and_the_budget():
    budget = 32 * 2**20
    # A tenth for the allocator's own needs.
    assert peak(budget) < 1.1 * (RESULT + budget)
    assert peak(2**30) > 3 * (RESULT + budget), "the whole graph would have fitted: the test shows nothing"
