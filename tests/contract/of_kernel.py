"""Of the gradients in the parameters."""

import torch

import gnomon
from tests.contract.row import Contract


def gradients(model, x):
    """One gradient for each sample and output."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    outputs = model(x).shape[1]

    def gradient(sample, k):
        grads = torch.autograd.grad(model(sample[None])[0, k], parameters, materialize_grads=True)
        return torch.cat([grad.flatten() for grad in grads])

    return torch.stack([torch.stack([gradient(sample, k) for k in range(outputs)]) for sample in x])


def kernel(model, x, z):
    return torch.stack(
        [torch.stack([(one * other).sum() for other in gradients(model, z)]) for one in gradients(model, x)]
    )


ROWS = [
    Contract(
        gnomon.ntk,
        lambda model, x: kernel(model, x, x),
        lambda s: {"model": s.network(), "x": s.normal("n", "d")},
        differentiable=False,
    ),
    Contract(
        gnomon.ntk_to_point,
        lambda model, x, point: kernel(model, x, point[None])[:, 0],
        lambda s: {"model": s.network(), "x": s.normal("n", "d"), "point": s.normal("d")},
        differentiable=False,
        settings=("point",),
    ),
]
