"""What GrokAlign costs: a training step of the papers' networks and of a ResNet-18, with it and without.

The papers' reference runs a second forward pass for the penalty and takes its norm through the squares; facebook's
JacobianReg, which halves the squared norm, is on no package index, so its way is written here plainly.
"""

from functools import partial

import torch
from torch.nn import functional

from gnomon import GrokAlign
from gnomon.models import cnn, mlp, resnet18
from timing import compare


def steps_of(build, x):
    """What makes training steps of a network on this batch: loss, the penalty if there is one, AdamW."""
    labels = torch.randint(10, (len(x),), generator=torch.Generator().manual_seed(1))

    def contender(penalty, *, named=True, own=False):
        """The penalty shares the loss's forward pass, or has its own. The tiny rate keeps all at the start."""
        model = build(generator=torch.Generator().manual_seed(0)).to(x)
        parameters = list(model.parameters())
        optimizer = torch.optim.AdamW(parameters, 1e-9, weight_decay=0.01)

        def step():
            optimizer.zero_grad()
            if penalty is None:
                logits, added = model(x), 0
            else:
                logits, added = (model(x), penalty(model, x)) if own else penalty.logits_and_penalty(model, x)
            loss = functional.cross_entropy(logits, labels) + added
            loss.backward(inputs=parameters if named else None)
            optimizer.step()

        return step

    return contender


def images(*shape, dtype):
    """Noise, the same for each dtype."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def second_forward(squared):
    """The reference's way (the root), and JacobianReg's (half the square)."""

    def penalty(model, batch):
        batch = batch.detach().clone().requires_grad_()
        outputs = model(batch)
        v = torch.randn_like(outputs)
        v = v / v.norm(dim=1, keepdim=True)
        (product,) = torch.autograd.grad(outputs, batch, v, create_graph=True)
        size = outputs.shape[1] * product.flatten(1).square().sum(1)
        return 1e-3 * (0.5 * size.mean() if squared else size.sqrt().mean())

    return penalty


WIDTHS = (784, 196, 196, 196, 10)
PARTS = {
    "at every step": {},
    "on half the batch": {"fraction": 0.5},
    "on a quarter of it": {"fraction": 0.25},
}
RARELY = {"at one step in 4": {"every": 4}, "at one step in 16": {"every": 16}}
WAYS = {
    "shared, inputs=": {},
    "shared, backward()": {"named": False},
    "its own pass, backward()": {"own": True, "named": False},
}
"""Where the forward pass of the penalty comes from, and whether the backward pass is told the parameters."""


def in_all_ways(contender, cases):
    """Contenders by what they are called."""
    return {
        f"GrokAlign {on}, {how}": contender(GrokAlign(1e-3, **settings), **way)
        for on, settings in cases.items()
        for how, way in WAYS.items()
    }


if __name__ == "__main__":
    for dtype in (torch.float32, torch.float64):
        contender = steps_of(partial(mlp, WIDTHS, scale=8.0), images(256, 784, dtype=dtype))
        compare(
            f"One training step, 784-196-196-196-10, batch 256, {dtype}",
            {
                "plain": contender(None),
                **in_all_ways(contender, PARTS | RARELY),
                "GrokAlign, exact, shared, inputs=": contender(GrokAlign(1e-3, "exact")),
                "the reference's way": contender(second_forward(squared=False), own=True, named=False),
                "JacobianReg's way": contender(second_forward(squared=True), own=True, named=False),
            },
            rounds=15,
            calls=16,
            clock="processor",
        )
    for batch in (32, 64, 128):
        contender = steps_of(partial(mlp, WIDTHS, scale=8.0), images(batch, 784, dtype=torch.float32))
        compare(
            f"One training step, 784-196-196-196-10, batch {batch}, float32",
            {"plain": contender(None), "exact": contender(GrokAlign(1e-3, "exact"))},
            rounds=15,
            calls=16,
            clock="processor",
        )
    # As the experiment lazy-penalty trains.
    contender = steps_of(partial(mlp, WIDTHS, scale=8.0), images(256, 784, dtype=torch.float64))
    compare(
        "One training step, 784-196-196-196-10, batch 256, float64, penalty on a part of one batch in k",
        {"plain": contender(None)}
        | {
            f"k = {k}, part {part:g}": contender(GrokAlign(0.1, every=k, fraction=part))
            for k in (1, 4, 16, 64)
            for part in (1.0, 0.25)
        },
        rounds=15,
        calls=64,
        clock="processor",
    )
    contender = steps_of(cnn, images(64, 3, 32, 32, dtype=torch.float32))
    compare(
        "One training step, the papers' convolutional network, batch 64, float32",
        {"plain": contender(None), **in_all_ways(contender, PARTS)},
        rounds=7,
        calls=2,
        clock="processor",
    )
    for dtype, batch, width in ((torch.float32, 64, 64), (torch.float32, 32, 16), (torch.float64, 8, 16)):
        contender = steps_of(partial(resnet18, 3, 10, width=width), images(batch, 3, 32, 32, dtype=dtype))
        compare(
            f"One training step, ResNet-18 of width {width} on 32 x 32, batch {batch}, {dtype}",
            {
                "plain": contender(None),
                "GrokAlign, shared, inputs=": contender(GrokAlign(1e-3)),
                "GrokAlign, its own pass, backward()": contender(GrokAlign(1e-3), own=True, named=False),
                # All its graphs would take 15 GB at the full width.
                **({} if width == 64 else {"GrokAlign, exact, shared, inputs=": contender(GrokAlign(1e-3, "exact"))}),
                "the reference's way": contender(second_forward(squared=False), own=True, named=False),
            },
            rounds=3,
            calls=1,
            clock="processor",
        )
