"""In how many of 200 draws the stated 95 % interval of an estimate holds the truth: each estimate, three networks.

Of 1,000 outputs, by what is public: a sample has random vectors of its own, so that one sample 200 times over is 200
draws of what is estimated sample by sample; the rest is estimated with 200 seeds. The truth is from the Jacobians.
Prints the table of `docs/reliability.md`, in a quarter of an hour.
"""

import sys
import warnings

import torch

import gnomon
from gnomon import JacobianOperator, input_jacobian
from norm import aligned, convolutional, untrained

NETWORKS = {"untrained": untrained, "aligned": aligned, "convolutional": convolutional}
DRAWS, SAMPLES, POINTS = 200, 32, 3
BY_SAMPLE = (gnomon.jacobian_norm, gnomon.explained_variance_ratio, gnomon.stable_rank, gnomon.jacobian_alignment)


def share(estimates, truth):
    """Of how many entries, of all draws, the interval holds the truth, rounding aside."""
    held = [(each.value - truth).abs() <= each.error + 1e-5 * truth.abs().max() for each in estimates]
    return float(torch.stack(held).double().mean())


def share_in_norm(estimates, truth):
    """The same of matrices with one error each."""
    held = [torch.linalg.matrix_norm(each.value - truth) <= each.error for each in estimates]
    return float(torch.stack(held).double().mean())


def passes(estimates):
    """How many products each takes in the mean."""
    return sum(float(each.passes.double().mean()) for each in estimates) / len(estimates)


def by_sample(model, x, rtol):
    """What has a value a sample."""
    copies = x.expand(DRAWS, *x.shape[1:])
    jacobian = input_jacobian(model, x)
    for quantity in BY_SAMPLE:
        at = (lambda x: (x,)) if quantity is gnomon.jacobian_alignment else (lambda x: ())
        # An operator for each, so that none finds what another has left.
        found = quantity(JacobianOperator(model, copies), *at(copies), rtol=rtol)
        yield quantity.__name__, [found], quantity(jacobian, *at(x)), share
    found = gnomon.singular_values(model, copies, k=3, rtol=rtol)
    yield "singular_values", [found], gnomon.singular_values(model, x)[:, :3], share


def of_all(model, x, rtol):
    """What is of all samples together, seed by seed."""
    noise = torch.randn(SAMPLES - 1, *x.shape[1:], generator=torch.Generator().manual_seed(1))
    x = torch.cat([x, x + noise])
    operator = JacobianOperator(model, x)
    gradients = gnomon.agop(input_jacobian(model, x))
    ranks = [gnomon.effective_rank(operator, rtol=rtol, seed=seed) for seed in range(DRAWS)]
    yield "effective_rank", ranks, gnomon.effective_rank(gradients), share
    found = [gnomon.agop(operator, rtol=4 * rtol, seed=seed) for seed in range(DRAWS)]
    yield "agop", found, gradients, share_in_norm
    few = x[:POINTS]
    found = [gnomon.ntk_to_point(model, few, x[0], rtol=rtol, seed=seed) for seed in range(DRAWS)]
    yield "ntk_to_point", found, gnomon.ntk_to_point(model, few, x[0]), share
    found = [gnomon.ntk(model, few, rtol=rtol, seed=seed) for seed in range(DRAWS)]
    yield "ntk", found, gnomon.ntk(model, few), share


@torch.no_grad()
def main(names, rtol=0.1):
    """A line each estimate, a column each network: of how many draws it holds, after how many products."""
    lines = {}
    for name in names:
        with torch.enable_grad():
            model, x = NETWORKS[name]()
        for way in (by_sample, of_all):
            for quantity, found, truth, held in way(model.eval().requires_grad_(way is of_all), x, rtol):
                said = f"{held(found, truth):.3f}, {passes(found):.0f}"
                lines.setdefault(quantity, []).append(said)
                print(f"# {name}: {quantity} {said}", file=sys.stderr, flush=True)
    print("| " + " | ".join(["estimate", *names]) + " |")
    print("| --- " * (len(names) + 1) + "|")
    for quantity, said in lines.items():
        print("| " + " | ".join([f"`{quantity}`", *said]) + " |")


if __name__ == "__main__":
    warnings.simplefilter("error")  # an accuracy that is not met
    main(sys.argv[1:] or list(NETWORKS))
