"""Norm, PC1 and alignment by products with the Jacobian, beside the Jacobian itself and SciPy's svds.

For how many outputs which is faster, which is the rule of `gnomon.autodiff.FEW_OUTPUTS`, and at 1,000 outputs by how
much; of these the kernel, the AGOP and its effective rank too. Each estimate is held against the truth.
"""

import sys
from functools import partial

import torch
from scipy.sparse.linalg import LinearOperator, svds

from gnomon import (
    AGOP,
    JacobianOperator,
    Probe,
    agop,
    effective_rank,
    explained_variance_ratio,
    input_jacobian,
    jacobian_alignment,
    jacobian_norm,
    ntk,
    ntk_to_point,
)
from gnomon.measure import _estimates
from gnomon.models import mlp, resnet18
from gnomon.probe import _operators
from timing import compare

# To see where the rule lies, it is off: products are taken however few the outputs are.
_operators.FEW_OUTPUTS = _estimates.FEW_OUTPUTS = 0
QUANTITIES = [jacobian_norm, explained_variance_ratio, jacobian_alignment]


def network(kind, outputs):
    """A network with random weights, and samples."""
    generator = torch.Generator().manual_seed(0)
    if kind == "MLP":
        return mlp((784, 512, 512, outputs), generator=generator), torch.randn(16, 784, generator=generator)
    model = resnet18(3, outputs, width=32, generator=generator).eval()
    return model, torch.randn(8, 3, 32, 32, generator=generator)


def by_svds(model, x):
    """PC1's numerator by SciPy, sample by sample: the first singular value, from products that torch gives."""
    first = []
    for sample in x:
        jacobian = JacobianOperator(model, sample[None])

        def product(u, jacobian=jacobian):
            return jacobian.matvec(torch.from_numpy(u).view(jacobian.shape[0], *jacobian.shape[2:])).numpy()[0]

        def back(v, jacobian=jacobian):
            return jacobian.rmatvec(torch.from_numpy(v).view(jacobian.shape[:2])).flatten().numpy()

        operator = LinearOperator((jacobian.shape[1], sample.numel()), product, rmatvec=back, dtype="float32")
        first.append(float(svds(operator, k=1, tol=0.01, return_singular_vectors=False)[0]))
    return torch.tensor(first)


def both(kind, outputs, rounds):
    """A reading by either way, timed, and how far estimates lie off."""
    model, x = network(kind, outputs)
    with torch.no_grad():
        jacobian = input_jacobian(model, x)
    operator = JacobianOperator(model, x)
    for quantity in QUANTITIES:
        arguments = (x,) if quantity is jacobian_alignment else ()
        exact, found = quantity(jacobian, *arguments), quantity(operator, *arguments)
        off = ((found.value - exact) / exact).abs()
        held = ((found.value - exact).abs() <= found.error + 1e-6).float().mean()
        print(
            f"  {quantity.__name__}: off by {100 * off.median():.1f} % at the median, {100 * off.max():.1f} % at most; "
            f"{100 * held:.0f} % of the intervals hold it; {found.passes.float().mean():.0f} passes"
        )
    ways = {
        "by products": lambda: Probe(model, x, QUANTITIES).read(),
        "by the Jacobian": lambda: Probe(model, x, QUANTITIES, rtol=0).read(),
    }
    if outputs == 1000:
        ways["norm alone, by products"] = lambda: Probe(model, x, [jacobian_norm]).read()
        ways["the first singular values alone, SciPy's svds"] = lambda: by_svds(model, x)
    compare(f"Norm, PC1, alignment of {len(x)} samples, {kind}, {outputs} outputs", ways, rounds=rounds, calls=1)


@torch.no_grad()
def of_all_samples():
    """The kernel to a point, and the AGOP, of the multilayer perceptron."""
    model, _ = network("MLP", 1000)
    x = torch.randn(512, 784, generator=torch.Generator().manual_seed(1))

    def exact_agop():
        sums = AGOP()
        sums.update(model, x)
        return sums.compute()[""].dense()

    ways = {
        "the kernel to a point": (
            partial(ntk_to_point, model, x, x[0], rtol=0.05),
            partial(ntk_to_point, model, x, x[0]),
        ),
        "the kernel of 64 with all": (partial(ntk, model, x, x[:64], rtol=0.05), partial(ntk, model, x, x[:64])),
        "the AGOP, to 20 %": (lambda: agop(JacobianOperator(model, x), rtol=0.2), exact_agop),
        "the AGOP's effective rank": (
            lambda: effective_rank(JacobianOperator(model, x)),
            lambda: effective_rank(exact_agop()),
        ),
    }
    for name, (estimate, exact) in ways.items():
        found, truth = estimate(), exact()
        off = torch.linalg.vector_norm(found.value - truth) / torch.linalg.vector_norm(truth)
        print(f"  {name}: off by {100 * off:.1f} % in norm; {int(found.passes.max())} passes")
        title = f"{name[0].upper()}{name[1:]}, 512 samples, MLP, 1000 outputs"
        compare(title, {"estimated": estimate, "exact": exact}, rounds=1, calls=1)


if __name__ == "__main__":
    kinds = sys.argv[1:] or ["MLP", "ResNet-18"]
    for kind in kinds:
        for outputs in (64, 128, 256, 1000):
            both(kind, outputs, rounds=3 if kind == "MLP" else 1)
    if "MLP" in kinds:
        of_all_samples()
