"""The singular values of the Jacobian, without the Jacobian where the first layer allows it."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.autodiff import Model, Tape, jacobian_gram, map_tapes


@full_precision
def singular_values(model: Model, x: Float[Tensor, "n *d"], *, memory: int | None = None) -> Float[Tensor, "n r"]:
    r"""The singular values of each sample's input Jacobian, the largest first.

    $\sigma_k = \sqrt{\lambda_k(J_x J_x^\top)}$

    Their squares sum to the squared Frobenius norm, and the first square's share of that sum is the explained variance
    (PC1): a reading of rank and norm that keeps no Jacobian. Where x enters through one linear map $z = xW^\top$, as in
    any multilayer perceptron, $J = GW$ and $JJ^\top = G(WW^\top)G^\top$, so that only $G = \partial f/\partial z$ is
    propagated back. Follows torch's grad mode, as `input_jacobian` does.

    Source:
        The quantity behind PC1 of Walker et al., arXiv:2506.12284, figure 2; the shortcut is gnomon's.
    Args:
        model: a network, or any function, from (n *d) to (n c), whose samples do not mix.
        x: the samples.
        memory: bytes to use beyond the result; default: 512 MiB.
    Returns:
        r = min(c, d) values a sample, at least 0; unit: outputs per input. Invariant under rotations of inputs and of
        outputs. The gradient of a value that is 0 is 0.
    Raises:
        ShapeError: if the outputs are not (n, c).
        EmptyError: if there are no samples.
        RangeError: if x is not of floating point, or holds NaN or infinity; if the Jacobian does.
        UnsupportedModuleError: if BatchNorm in training mode mixes the samples.
    Cost: c backward passes, and O(n c² d) for the Gram matrices; h for d where a linear layer of width h < d comes
        first. Precision: that of squares, so that values below the root of the dtype's epsilon times the first, 3e-4
        in float32, are noise.
    Example:
        >>> import torch, gnomon
        >>> layer = torch.nn.Linear(2, 2, bias=False)
        >>> layer.weight.data = torch.tensor([[0.0, 3.0], [2.0, 0.0]])
        >>> gnomon.singular_values(layer, torch.zeros(1, 2)).detach()
        tensor([[3., 2.]])
    """

    def read(tape: Tape, start: int) -> dict[str, Tensor]:
        rank = min(tape.logits.shape[1], tape.x[0].numel())
        # There are no decompositions in half precision.
        products = jacobian_gram(tape).to(torch.promote_types(tape.x.dtype, torch.float32))
        _checks.finite(jacobian=products)
        squares = torch.linalg.eigvalsh(products).flip(1)[:, :rank]
        positive = squares > 0
        return {"values": torch.where(positive, torch.where(positive, squares, 1).sqrt(), 0).to(tape.x.dtype)}

    return map_tapes(model, x, read, jacobian=1, memory=memory)["values"]
