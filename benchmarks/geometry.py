"""Centroids and PC1 of 1,024 points, beside one `autograd.functional.jacobian` a sample (the papers' reference)."""

import torch

from gnomon import Probe, centroid, explained_variance_ratio, singular_values
from gnomon.models import mlp
from timing import compare

generator = torch.Generator().manual_seed(0)
x = torch.randn(1024, 784, generator=generator)
model = mlp((784, 196, 196, 196, 10), scale=8.0, generator=generator)


def ours():
    """All Jacobians at once, then both quantities."""
    values = Probe(model, x, [centroid, explained_variance_ratio]).read().values
    return values["centroid"], values["explained_variance_ratio"]


def without_jacobians():
    """The centroid by one backward pass, PC1 from Gram matrices."""
    with torch.no_grad():
        energy = singular_values(model, x).square()
        return centroid(model, x), energy[:, 0] / energy.sum(1)


def a_jacobian_a_sample():
    """The reference's way: the Jacobian of one sample, its singular values, and the next."""
    centroids, shares = [], []
    for sample in x:
        jacobian = torch.autograd.functional.jacobian(lambda point: model(point[None])[0], sample)
        energy = torch.linalg.svdvals(jacobian).square()
        centroids.append(jacobian.sum(0))
        shares.append(energy[0] / energy.sum())
    return torch.stack(centroids), torch.stack(shares)


if __name__ == "__main__":
    for way in (ours, without_jacobians):
        for mine, theirs in zip(way(), a_jacobian_a_sample(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3)
    contenders = {
        "centroid and singular_values": without_jacobians,
        "Probe, with the Jacobians": ours,
        "autograd.functional.jacobian, a sample a call": a_jacobian_a_sample,
    }
    compare("Centroids and PC1 of 1,024 points, 784-196-196-196-10", contenders, rounds=7, calls=1)
