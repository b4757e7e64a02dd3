"""XOR clusters: two coordinates that determine the class together but not alone, and many without signal."""

import math

import torch

from gnomon import _checks
from gnomon._kinds import checked
from gnomon.data._samples import Samples


@checked
def xor_clusters(
    n: int, d: int, *, noise: float | int = 0.05, generator: torch.Generator, dtype: torch.dtype = torch.float32
) -> Samples:
    r"""Points with the signal $x_1, x_2 \in \{\pm1\}$ and $d - 2$ coordinates $\pm$`noise`; the class is XOR.

    All signs are drawn independently, each with equal chance. No linear function of x separates the classes by the
    signal, but the other coordinates, of squared norm `noise`² (d − 2), allow n ≲ d points to be learned perfectly.

    Source:
        Walker et al., arXiv:2506.12284, section 4.2 (d = 40,000, `noise` = 0.05), after the clusters of Xu et al.,
        arXiv:2310.02541, whose noise is Gaussian and whose labels are occasionally flipped.

    Args:
        n: number of samples.
        d: number of coordinates.
        noise: $\epsilon$, the size of the coordinates without signal.
        generator: draws the signs.
        dtype: floating-point type of the inputs.

    Returns:
        Samples on the CPU. Inputs of shape (n, d), entries ±1 in the first two columns and ±`noise` in the others.
        Labels int64: 1 where $x_1 x_2 = 1$, else 0; the papers' label $x_1 x_2$ is `2 * labels - 1`.

    Raises:
        RangeError: listing every argument that is out of range.

    Example:
        >>> x, labels = xor_clusters(4, 5, generator=torch.Generator().manual_seed(0))
        >>> (x[:, 0] * x[:, 1] == 2 * labels - 1).all()
        tensor(True)
        >>> x.abs()[0]
        tensor([1.0000, 1.0000, 0.0500, 0.0500, 0.0500])
    """
    largest = torch.finfo(dtype).max if _checks.is_floating(dtype) else math.inf
    _checks.settings(
        _checks.whole_number("n", n, 1),
        _checks.whole_number("d", d, 2),
        ("noise", noise, f"at least 0 and finite in {dtype}", 0 <= noise <= largest),
        ("dtype", dtype, "of floating point", _checks.is_floating(dtype)),
    )
    bits = torch.randint(2, (n, d), generator=generator, device=generator.device, dtype=torch.int8).cpu()
    x = (2 * bits - 1).to(dtype)
    x[:, 2:] *= noise
    return Samples(x, (bits[:, 0] == bits[:, 1]).to(torch.int64))
