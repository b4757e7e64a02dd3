"""The AGOP of a fitted kernel machine with 10 classes in 3,072 dimensions, beside a loop over classes and `xrfm`."""

import torch

from gnomon.kernels import LaplaceKernel, kernel_agop
from timing import keep, median_seconds

try:
    from xrfm.rfm_src.kernels import LaplaceKernel as XRFMLaplace
    from xrfm.rfm_src.kernels import LightLaplaceKernel as XRFMHighDim
except ImportError:
    XRFMLaplace = XRFMHighDim = None

D, C, BANDWIDTH = 3072, 10, 50.0
generator = torch.Generator().manual_seed(0)


def loop_over_classes(x, coefficients):
    """The plain way: the slopes once, then the gradients of one class at all points, and their product."""
    lengths = x.square().sum(1)
    distances = (lengths[:, None] + lengths - 2 * x @ x.mT).clamp(min=0).sqrt().fill_diagonal_(1)
    slopes = ((distances / -BANDWIDTH).exp() / (BANDWIDTH * distances)).fill_diagonal_(0)
    total = x.new_zeros(D, D)
    for column in coefficients.mT:
        weights = slopes * column
        gradients = weights @ x - weights.sum(1, keepdim=True) * x
        total += gradients.mT @ gradients
    return total / len(x)


def contenders(n):
    """Ours first, then all others that there are."""
    x, coefficients = torch.randn(n, D, generator=generator), torch.randn(n, C, generator=generator)
    ways = {
        "kernel_agop": lambda: kernel_agop(LaplaceKernel(BANDWIDTH), x, coefficients),
        "a loop over classes": lambda: loop_over_classes(x, coefficients),
    }
    if XRFMLaplace is None:
        print("xrfm is not installed: pip install -e '.[bench]'. At n = 2,000 version 0.4.5 took 8 s.")
        return ways
    for name, kernel in (("l2_high_dim", XRFMHighDim), ("l2", XRFMLaplace)):
        # Its exponent is 1 for the Laplace kernel; it sums where we average.
        peer = kernel(BANDWIDTH, 1.0)
        ways[f"xrfm, {name}"] = lambda peer=peer: peer.get_agop(x, x, coefficients.mT) / n
    return ways


if __name__ == "__main__":
    for n in (2000, 4000):
        title = f"AGOP of a kernel machine, n = {n:,}, d = 3,072, 10 classes"
        print(f"\n{title}; processor time, torch {torch.__version__}")
        ours, took = None, {}
        for name, way in contenders(n).items():
            took[name], agop = median_seconds(way, rounds=2)
            base, expected = ours = ours or (took[name], agop)
            error = float((agop - expected).norm() / expected.norm())
            print(f"  {name:<24} {took[name]:7.2f} s   {took[name] / base:5.2f} x   differs by {error:.0e}", flush=True)
        keep(title, took, rounds=2, clock="processor")
