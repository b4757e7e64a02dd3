"""What TF32 costs a reading of a ResNet-18 in digits, and what GrokAlign costs its training in time; on a GPU.

`python benchmarks/gpu.py`, or `python benchmarks/gpu.py cpu` for what needs none. A Jacobian jumps where rounding flips
a ReLU: so the same in float64 at images that are changed by 1e-7 of their size.
"""

import copy
import sys
import time
from functools import partial

import torch
from torch.nn import functional

from gnomon import GrokAlign, Probe, centroid_alignment, effective_rank, explained_variance_ratio, jacobian_norm, nc1
from gnomon.models import resnet18

torch.set_num_threads(1)
DEVICE = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda")
if DEVICE.type == "cuda" and not torch.cuda.is_available():
    print("gpu.py: no GPU here; `python benchmarks/gpu.py cpu` shows what needs none")
    sys.exit()
BATCH, STEPS = (256, 32) if DEVICE.type == "cuda" else (2, 1)
QUANTITIES = [jacobian_norm, explained_variance_ratio, centroid_alignment, nc1, effective_rank]
generator = torch.Generator().manual_seed(0)
network = resnet18(3, 10, generator=generator).eval()
images, labels = torch.randn(16, 3, 32, 32, generator=generator), torch.arange(16) % 4
moved = images * (1 + 1e-7 * torch.randn(images.shape, generator=generator, dtype=torch.float64))


def read(device: torch.device, x: torch.Tensor, *, tf32: bool = False) -> dict[str, float]:
    """A reading in the dtype of x, with convolutions that may round their factors to ten bits."""
    torch.backends.cudnn.allow_tf32 = tf32
    model = copy.deepcopy(network).to(device, x.dtype)
    probe = Probe(model, (x.to(device), labels.to(device)), QUANTITIES)
    probe.read()
    begun = time.perf_counter()
    return probe.read().scalars() | {"seconds": time.perf_counter() - begun}


def milliseconds(penalty: GrokAlign | None, *, tf32: bool) -> float:
    """The mean time of a training step, after half as many steps that are not counted."""
    torch.backends.cudnn.allow_tf32 = tf32
    model = copy.deepcopy(network).to(DEVICE).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x, y = torch.randn(BATCH, 3, 32, 32, device=DEVICE), torch.randint(10, (BATCH,), device=DEVICE)
    synchronise = torch.cuda.synchronize if DEVICE.type == "cuda" else lambda: None
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


exact = read(DEVICE, images.double())
for name, found in {
    "float64, images moved": partial(read, DEVICE, moved),
    "float32, on the CPU": partial(read, torch.device("cpu"), images),
    "float32": partial(read, DEVICE, images),
    "TF32": partial(read, DEVICE, images, tf32=True),
}.items():
    values = found()
    print(f"{name}, {values.pop('seconds'):.2f} s")
    print(
        {quantity: f"{abs(value - exact[quantity]) / abs(exact[quantity]):.1e}" for quantity, value in values.items()}
    )
for tf32 in (False, True):
    steps = {"plain": None, "GrokAlign": GrokAlign(1e-3), "GrokAlign, every=16": GrokAlign(1e-3, every=16)}
    for name, penalty in steps.items():
        print("TF32" if tf32 else "float32", name, f"{milliseconds(penalty, tf32=tf32):.1f} ms a step")
