"""How many linear regions meet near a sample."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import ShapeError
from gnomon.linalg import drawn
from gnomon.regions._plane import Plane
from gnomon.regions._slice_regions import regions_of
from gnomon.regions._steps import network_of


@full_precision
def local_complexity(
    model: nn.Module,
    x: Float[Tensor, "n *d"],
    radius: float | int,
    *,
    sides: int = 16,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "n l"]:
    """The number of linear regions that a small disc around each sample meets, layer by layer.

    Reading:
        Low, high: Low: few regions meet the disc; the network is nearly affine there.
        Generalising: On digits it falls to 122 as a network groks and rises to 250 in one that memorised.
        Misleads: It depends on the radius, which must be kept the same. On a plane through MNIST digits the number of
            regions falls to between a third and an eighth of that at memorisation at the paper's setting, and does not
            fall in a smaller network (regions). Neighbours may have the same affine map, in front of a max-pool or of
            dead units: compare networks of one architecture.

    The disc is a regular polygon in a plane of random direction through the sample. Early in training regions crowd
    around the samples; as a network groks they migrate towards the decision boundary, and the number falls.

    Source:
        After Humayun et al., Deep networks always grok and here is why, arXiv:2402.15555, who count the units whose
        sign changes between the corners of a cross-polytope; these are the regions themselves, on a plane.
    Args:
        model: a piecewise affine network, as for `slice_regions`.
        x: the samples.
        radius: the radius of the disc, in the unit of x.
        sides: the number of sides of the polygon that stands for the disc.
        generator: the generator that draws the planes' directions; default: torch's global one.
    Returns:
        At least 1; column l counts the regions of the network up to its bending layer l, so rows never decrease.
    Raises:
        ShapeError: if x is not (n *d) with two or more numbers per sample, or the network does not accept it.
        RangeError: if the radius is not positive, there are not three sides or more, or x holds NaN or infinity or is
            on another device than the network.
        UnsupportedModuleError: as `slice_regions`.
    Cost: that of `slice_regions` for each sample.
    Example:
        >>> import torch
        >>> relu = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.ReLU())
        >>> relu[0].weight.data = torch.eye(2)
        >>> local_complexity(relu.eval(), torch.tensor([[0.0, 0.0], [5.0, 5.0], [5.0, 0.0]]), 0.1)
        tensor([[4],
                [1],
                [2]])
    """
    _checks.samples(2, x=x)
    if x[0].numel() < 2:
        raise ShapeError(
            "x",
            "two numbers per sample or more, to lay a plane through it",
            f"shape {_checks.shape_of(x)}",
            "On a line, take slice_regions of the network with a second input of weight 0.",
        )
    _checks.finite(x=x)
    _checks.settings(
        _checks.above_0("radius", radius),
        _checks.whole_number("sides", sides, 3),
    )
    angles = 2 * math.pi * torch.arange(sides, dtype=torch.float64) / sides
    disc = radius * torch.stack([angles.cos(), angles.sin()], 1)
    rows = []
    with torch.no_grad():
        network = network_of(model, x[:1])
    for sample in x:
        spanning = drawn(torch.randn, (sample.numel(), 2), generator=generator, device=x.device, dtype=torch.float64)
        directions = torch.linalg.qr(spanning).Q.T.reshape(2, *sample.shape)
        with torch.no_grad():
            rows.append(list(regions_of(network, Plane(sample.double(), directions), disc).by_depth.values()))
    return torch.tensor(rows, dtype=torch.int64, device=x.device).reshape(len(x), -1)
