"""What subnormal numbers cost a CPU: passes of the papers' network over digits that it has memorised, cross-entropy.

Both go on from the same weights, and must reach the same ones: with the loss in float64 bit by bit, with all in float32
but for a rounding.
"""

import copy
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from gnomon.data import digits, standardise
from gnomon.models import mlp
from timing import compare

PASSES = 1000
train, _ = standardise(*digits(1024, generator=torch.Generator().manual_seed(0)))
batches = list(zip(train.x.split(256), train.labels.split(256), strict=True))


def one_pass(model: nn.Module, optimizer: torch.optim.Optimizer, dtype: torch.dtype, *, to_zero: bool) -> None:
    """A pass over all batches, with the loss in this dtype."""
    torch.set_flush_denormal(to_zero)
    for x, labels in batches:
        optimizer.zero_grad()
        functional.cross_entropy(model(x).to(dtype), labels).backward()
        optimizer.step()
    torch.set_flush_denormal(False)


for dtype in (torch.float64, torch.float32):
    model = mlp((64, 196, 196, 196, 10), scale=8.0, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.01)
    for _ in range(PASSES):
        one_pass(model, optimizer, dtype, to_zero=True)
    pairs = {"rounded to zero": copy.deepcopy((model, optimizer)), "kept": (model, optimizer)}
    compare(
        f"a float32 network {PASSES} passes after its start, loss in {dtype}",
        {name: partial(one_pass, *pair, dtype, to_zero=name != "kept") for name, pair in pairs.items()},
        rounds=9,
        clock="processor",
    )
    weights = [torch.cat([parameter.flatten() for parameter in pair[0].parameters()]) for pair in pairs.values()]
    torch.testing.assert_close(*weights, rtol=0, atol=0 if dtype == torch.float64 else 1e-9)
