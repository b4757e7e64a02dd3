"""The centroid of the linear region around a sample."""

from jaxtyping import Float
from torch import Tensor

from gnomon._precision import full_precision
from gnomon.autodiff import Model, observe


@full_precision
def centroid(model: Model, x: Float[Tensor, "n *d"], *, memory: int | None = None) -> Float[Tensor, "n *d"]:
    r"""The centroid of the linear region around each sample: the sum of the Jacobian's rows.

    Reading:
        Low, high: Not a single number: look at it as an image, or at its length (outputs per input) and its angle with
            the sample.
        Generalising: On digits it shows noise in a network that memorised, strokes in one that generalises: late, since
            the alignment is 0.155 when 93.4 % of unseen digits are recognised (grok-digits).
        Misleads: Under cross-entropy, which does not determine it. It is the site of a power diagram only where the sum
            of outputs is convex.

    $\mu_x = J_x^\top \mathbf{1}$

    For a piecewise affine network whose sum of outputs is convex these are the sites of a power diagram that its linear
    regions form (docs/errata.md); for any other network the sum of the rows is still defined, but the diagram need not
    be. Follows torch's grad mode, as `input_jacobian` does.

    Source:
        Walker et al., Jacobian Alignment Explains Grokking, theorem 4; Balestriero et al. 2019.
    Args:
        model: a network, or any function, from (n *d) to (n c), whose samples do not mix.
        x: the samples.
        memory: bytes to use beyond the result; default: 512 MiB.
    Returns:
        Unit: outputs per input. Linear in the outputs. Where all pieces go through zero, as in a ReLU network without
        biases, $\langle x, \mu_x\rangle = \sum_k f_k(x)$.
    Raises:
        ShapeError: if the outputs are not (n, c).
        EmptyError: if there are no samples.
        RangeError: if x is not of floating point, or holds NaN or infinity.
        UnsupportedModuleError: if BatchNorm in training mode mixes the samples, or no path leads from the outputs back
            to x.
    Cost: one backward pass over the batch; the Jacobian is not formed.
    Example:
        >>> import torch, gnomon
        >>> layer = torch.nn.Linear(3, 2)
        >>> bool(gnomon.centroid(layer, torch.zeros(5, 3)).allclose(layer.weight.sum(0)))
        True
    """
    return observe(model, x, {"centroid"}, memory=memory).values["centroid"]
