"""What GrokAlign costs: a training step of the MLP of `accelerate` with and without it.

The papers' reference runs a second forward pass for the penalty and takes its norm through the squares; facebook's
JacobianReg, which halves the squared norm, is on no package index, so its way is written here plainly.
"""

import torch
from torch.nn import functional

from gnomon import GrokAlign
from gnomon.models import mlp
from timing import compare

generator = torch.Generator().manual_seed(0)
x = torch.randn(256, 784, generator=generator)
labels = torch.randint(10, (256,), generator=generator)


def contender(penalty, *, named=True, share=False):
    """A training step: loss, the penalty if there is one, AdamW. The tiny rate keeps all contenders at the start."""
    model = mlp((784, 196, 196, 196, 10), scale=8.0, generator=torch.Generator().manual_seed(0))
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, 1e-9, weight_decay=0.01)
    inputs = x.clone().requires_grad_(share)

    def step():
        optimizer.zero_grad()
        logits = model(inputs)
        loss = functional.cross_entropy(logits, labels)
        if penalty is not None:
            loss = loss + penalty(model, inputs, logits if share else None)
        loss.backward(inputs=parameters if named else None)
        optimizer.step()

    return step


def second_forward(squared):
    """The reference's way (the root), and JacobianReg's (half the square)."""

    def penalty(model, batch, logits):
        batch = batch.detach().clone().requires_grad_()
        outputs = model(batch)
        v = torch.randn(outputs.shape)
        v = v / v.norm(dim=1, keepdim=True)
        (product,) = torch.autograd.grad(outputs, batch, v, create_graph=True)
        size = outputs.shape[1] * product.square().sum(1)
        return 1e-3 * (0.5 * size.mean() if squared else size.sqrt().mean())

    return penalty


if __name__ == "__main__":
    compare(
        "One training step, 784-196-196-196-10, batch 256",
        {
            "plain": contender(None),
            "GrokAlign, forward shared": contender(GrokAlign(1e-3), share=True),
            "GrokAlign, forward shared, backward() without inputs": contender(GrokAlign(1e-3), share=True, named=False),
            "GrokAlign, own forward": contender(GrokAlign(1e-3)),
            "GrokAlign, own forward, backward() without inputs": contender(GrokAlign(1e-3), named=False),
            "GrokAlign, half the batch": contender(GrokAlign(1e-3, fraction=0.5)),
            "GrokAlign, a quarter of the batch": contender(GrokAlign(1e-3, fraction=0.25)),
            **{
                f"GrokAlign at one step in {k}, own forward, backward()": contender(
                    GrokAlign(1e-3, every=k), named=False
                )
                for k in (4, 16)
            },
            "GrokAlign at one step in 16, forward shared": contender(GrokAlign(1e-3, every=16), share=True),
            "GrokAlign, exact": contender(GrokAlign(1e-3, "exact"), share=True),
            "the reference's way": contender(second_forward(squared=False), named=False),
            "JacobianReg's way": contender(second_forward(squared=True), named=False),
        },
        calls=16,
    )
