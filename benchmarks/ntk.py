"""The neural tangent kernel: one point to many, and all to all.

Beside them, in this process, one backward pass a sample and output (the papers' reference) and the first way that
torch.func's documentation shows, whose Jacobians are taken for some samples at a time. neural-tangents needs jax 0.4.24
and is not installed here; its structured implementation took 4.5 ms for 128 points and 48 ms for 512 on a machine of
this kind, one thread. It averages over the outputs; we sum.
"""

import torch
from torch import nn
from torch.func import functional_call, jacrev, vmap

from gnomon.measure import centroid_rate, ntk, ntk_to_point
from gnomon.models import mlp
from timing import compare

generator = torch.Generator().manual_seed(0)
CHUNK = 64
"""Samples whose Jacobians torch.func holds at once: all 1,024 of ten outputs would take 9.5 GB."""


def backward_passes(model, x, point, outputs):
    """One forward pass for each sample, one backward pass for each output, and the products with the point's."""
    parameters = list(model.parameters())

    def gradients(sample):
        logits = model(sample[None])[0]
        return [torch.autograd.grad(logits[k], parameters, retain_graph=k + 1 < outputs) for k in range(outputs)]

    def product(ones, others):
        return sum(
            (a * b).sum() for one, other in zip(ones, others, strict=True) for a, b in zip(one, other, strict=True)
        )

    def run():
        with torch.enable_grad():
            there = gradients(point)
            return torch.stack([product(gradients(sample), there) for sample in x])

    return run


def jacobian_contraction(model, x, x2):
    """The first way of torch.func's tutorial: both Jacobians, and their contraction, traced."""
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def single(values, sample):
        return functional_call(model, values, (sample[None],))[0]

    def run():
        second = vmap(jacrev(single), (None, 0))(parameters, x2)
        return torch.cat([contracted(part, second) for part in x.split(CHUNK)])

    def contracted(part, second):
        first = vmap(jacrev(single), (None, 0))(parameters, part)
        pairs = zip(first.values(), second.values(), strict=True)
        return sum(torch.einsum("nkp,mkp->nm", a.flatten(2), b.flatten(2)) for a, b in pairs)

    return run


def quietly(function, *arguments, **settings):
    """Without a graph, as when measuring."""

    def run():
        with torch.no_grad():
            return function(*arguments, **settings)

    return run


def check(contenders):
    """All contenders must give the same numbers."""
    first, *others = (contender().detach() for contender in contenders.values())
    for other in others:
        torch.testing.assert_close(other.flatten(), first.flatten(), rtol=1e-3, atol=1e-3 * float(first.abs().max()))
    return contenders


if __name__ == "__main__":
    x = torch.randn(1024, 784, generator=generator)
    for outputs, rounds in ((1, 5), (10, 2)):
        model = mlp((784, 196, 196, 196, outputs), generator=generator)
        contenders = {
            "ntk_to_point": quietly(ntk_to_point, model, x, x[0]),
            "torch.func, Jacobian contraction": quietly(jacobian_contraction(model, x, x[:1])),
            "one backward pass a sample and output": backward_passes(model, x, x[0], outputs),
        }
        title = f"NTK of one point to 1,024, 784-196-196-196-{outputs}, traced"
        compare(title, check(contenders), rounds=rounds, calls=1)

    model = mlp((784, 200, 200, 10), generator=generator)
    contenders = {
        "ntk": quietly(ntk, model, x[:128]),
        "ntk, full (128 128 10 10)": quietly(ntk, model, x[:128], trace=False),
        "torch.func, Jacobian contraction": quietly(jacobian_contraction(model, x[:128], x[:128])),
    }
    compare("NTK of 128 points, 784-200-200-10 (neural-tangents: 4.5 ms)", contenders, rounds=15, calls=1)
    contenders = {"ntk": quietly(ntk, model, x[:512]), "ntk, with its graph": lambda: ntk(model, x[:512])}
    compare("NTK of 512 points, 784-200-200-10 (neural-tangents: 48 ms)", contenders, rounds=15, calls=1)

    labels = torch.randint(10, (1024,), generator=generator)
    loss = nn.functional.cross_entropy

    contenders = {
        "loss and gradient": lambda: torch.autograd.grad(loss(model(x), labels), list(model.parameters())),
        "centroid_rate": quietly(centroid_rate, model, x, x, labels, loss),
    }
    compare("Rate of 1,024 inner products, 784-200-200-10", contenders, rounds=15, calls=1)
