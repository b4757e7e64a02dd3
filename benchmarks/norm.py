"""The norm of a Jacobian by random vectors: what gnomon does, beside Hutchinson alone, Hutch++ and XTrace.

On the Jacobians of three networks with 1,000 outputs, made once, so that many draws can be had: the error after as many
products, and the products after which it is 5 % in 95 % of draws. A product from the right counts as one from the left,
which is in favour of those that take it: what it takes is printed last, on the networks themselves.
"""

from functools import partial

import torch
from torch import nn
from torch.nn import functional

from gnomon import input_jacobian
from gnomon.autodiff import TapeProducts, forward
from gnomon.linalg import Products
from gnomon.measure._estimates import Accuracy, root_of, squared_norm_of
from gnomon.models import mlp
from timing import compare

OUTPUTS, DRAWS, BUDGETS = 1000, 100, (24, 48, 96)
COUNTS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def untrained():
    """Many directions carry the norm."""
    generator = torch.Generator().manual_seed(0)
    return mlp((784, 512, 512, OUTPUTS), generator=generator), torch.randn(1, 784, generator=generator)


def aligned():
    """After steps towards rank one: few do."""
    model, x = untrained()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(40):
        loss = functional.mse_loss(model(x), torch.ones(1, OUTPUTS))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, x


def convolutional():
    """A convolution, LayerNorm and one linear layer."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU(), nn.Flatten(), nn.LayerNorm(1568), nn.Linear(1568, OUTPUTS))
    return model, torch.randn(1, 3, 16, 16, generator=generator)


def hutchinson(jacobian, products, generator):
    """The mean of as many squared lengths."""
    z = torch.randn(products, len(jacobian), generator=generator, dtype=jacobian.dtype)
    return (z @ jacobian).square().sum() / products


def hutch_plus_plus(jacobian, products, generator):
    """A third of the vectors find a space, on which the norm is taken; a third estimate what is left.

    Meyer, Musco, Musco, Woodruff, Hutch++: Optimal Stochastic Trace Estimation, 2021, algorithm 1. One vector of the
    space takes a product from the left, one from the right, and once more one from the left.
    """
    k = products // 4
    s, z = torch.randn(2, k, len(jacobian), generator=generator, dtype=jacobian.dtype)
    q = torch.linalg.qr(jacobian @ (jacobian.T @ s.T))[0]
    rest = z - (z @ q) @ q.T
    return (q.T @ jacobian).square().sum() + (rest @ jacobian).square().sum() / k


def xtrace(jacobian, products, generator):
    """Each vector estimates what the space of all the others leaves.

    Epperly, Tropp, Webber, XTrace: Making the most of every sample in stochastic trace estimation, 2024.
    """
    c, k = len(jacobian), products // 3
    z = torch.randn(k, c, generator=generator, dtype=jacobian.dtype)
    q, r = torch.linalg.qr(jacobian @ (jacobian.T @ z.T))
    left_out = functional.normalize(torch.linalg.inv(r).T, dim=0)  # column i: what of q the i-th alone spans
    rows = q.T @ jacobian
    inside = q.T @ z.T
    inside = inside - left_out * (left_out * inside).sum(0)
    rest = z - (q @ inside).T
    known = rows.square().sum() - (left_out.T @ rows).square().sum(1)
    scale = (c - k + 1) / rest.square().sum(1)
    return (known + scale * (rest @ jacobian).square().sum(1)).mean()


def ours(jacobian, most):
    """Of all draws at once: the squared norms, and the products that they took."""
    c, d = jacobian.shape
    products = Products((DRAWS, c, d), jacobian, lambda u: u @ jacobian.mT, lambda v: v @ jacobian)
    return squared_norm_of(products, Accuracy.of(0.05, most, 0))


def within(jacobian, way, products):
    """The root mean square of the norm's relative error, and the 95th percentile of its size."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.linalg.matrix_norm(jacobian)
    found = torch.stack([way(jacobian, products, generator) for _ in range(DRAWS)]).sqrt()
    error = (found / truth - 1).abs()
    return float(error.square().mean().sqrt()), float(error.quantile(0.95))


WAYS = {"Hutchinson": hutchinson, "Hutch++": hutch_plus_plus, "XTrace": xtrace}


def table(name, jacobian):
    """A line each way."""
    norm = torch.linalg.matrix_norm(jacobian)
    rank = float((norm / torch.linalg.matrix_norm(jacobian, 2)).square())
    print(f"\n{name}, {OUTPUTS} outputs, {jacobian.shape[1]} inputs, stable rank {rank:.1f}")
    for title, way in WAYS.items():
        errors = {count: within(jacobian, way, count)[0] for count in BUDGETS}
        told = ", ".join(f"{100 * rms:.1f} % at {count}" for count, rms in errors.items())
        enough = next((count for count in COUNTS if within(jacobian, way, count)[1] <= 0.05), "over 512")
        print(f"  {title:<12} {told}; 5 % from {enough} on")
    found = ours(jacobian, 256)
    error = (root_of(found).value / norm - 1).square().mean().sqrt()
    print(f"  {'gnomon':<12} {100 * error:.1f} % where it stops for itself, after {found.passes.double().mean():.0f}")


if __name__ == "__main__":
    for build in (untrained, aligned, convolutional):
        model, x = build()
        table(build.__name__, input_jacobian(model, x).detach().flatten(2)[0].double())
        x = x.expand(16, *x.shape[1:])
        part = TapeProducts(forward(model, x, products=True))
        v, u = torch.ones(part.shape[:2]), torch.ones(x.shape)
        ways = {"from the left": partial(part.left, v), "from the right": partial(part.right, u)}
        compare(f"A product with the Jacobians of 16 samples, {build.__name__}", ways, rounds=15, calls=2)
