"""What TF32 costs a reading of a ResNet-18 in digits, and what GrokAlign costs its training in time; on a GPU.

python benchmarks/gpu.py, or `python benchmarks/gpu.py cpu` to see that it runs.
"""

import copy
import sys
import time
from functools import partial

import torch
from torch.nn import functional

from gnomon import GrokAlign, Probe, centroid_alignment, effective_rank, explained_variance_ratio, jacobian_norm, nc1
from gnomon.models import resnet18

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda"
BATCH, STEPS = (256, 32) if DEVICE == "cuda" else (2, 1)
QUANTITIES = [jacobian_norm, explained_variance_ratio, centroid_alignment, nc1, effective_rank]
generator = torch.Generator().manual_seed(0)
network = resnet18(3, 10, generator=generator).eval()
images, labels = torch.randn(16, 3, 32, 32, generator=generator), torch.arange(16) % 4


def read(device: str, dtype: torch.dtype, *, tf32: bool) -> dict[str, float]:
    """A reading, with convolutions that may round their factors to ten bits."""
    torch.backends.cudnn.allow_tf32 = tf32
    model = copy.deepcopy(network).to(device, dtype)
    return Probe(model, (images.to(device, dtype), labels.to(device)), QUANTITIES).read().scalars()


def milliseconds(penalty: GrokAlign | None, *, tf32: bool) -> float:
    """The mean time of a training step, after as many steps as `every` takes at most."""
    torch.backends.cudnn.allow_tf32 = tf32
    model = copy.deepcopy(network).to(DEVICE).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x, y = torch.randn(BATCH, 3, 32, 32, device=DEVICE), torch.randint(10, (BATCH,), device=DEVICE)
    synchronise = torch.cuda.synchronize if DEVICE == "cuda" else lambda: None
    begun = 0.0
    for step in range(STEPS // 2 + STEPS):
        if step == STEPS // 2:
            synchronise()
            begun = time.perf_counter()
        logits, added = (model(x), 0) if penalty is None else penalty.logits_and_penalty(model, x)
        optimizer.zero_grad()
        torch.autograd.backward(functional.cross_entropy(logits, y) + added, inputs=list(model.parameters()))
        optimizer.step()
    synchronise()
    return 1e3 * (time.perf_counter() - begun) / STEPS


exact = read(DEVICE, torch.float64, tf32=False)
for name, found in {
    "float32, on the CPU": partial(read, "cpu", torch.float32, tf32=False),
    "float32": partial(read, DEVICE, torch.float32, tf32=False),
    "TF32": partial(read, DEVICE, torch.float32, tf32=True),
}.items():
    errors = {quantity: abs(value - exact[quantity]) / abs(exact[quantity]) for quantity, value in found().items()}
    print(name, {quantity: f"{error:.1e}" for quantity, error in errors.items()})
for tf32 in (False, True):
    steps = {"plain": None, "GrokAlign": GrokAlign(1e-3), "GrokAlign, every=16": GrokAlign(1e-3, every=16)}
    for name, penalty in steps.items():
        print("TF32" if tf32 else "float32", name, f"{milliseconds(penalty, tf32=tf32):.1f} ms a step")
