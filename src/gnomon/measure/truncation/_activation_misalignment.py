"""How far cumulative weights are from being aligned with the activation."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon._precision import full_precision
from gnomon.linalg import norm, psd_root, unit
from gnomon.measure.truncation._cumulative_parameters import CumulativeParameters


@full_precision
def activation_misalignment(cumulative_parameters: CumulativeParameters) -> Float[Tensor, "hidden"]:
    r"""How far the modulus of each hidden layer's cumulative weight is from diagonal, its rows at unit length.

    Reading:
        Low, high: 0: the rows of the cumulative weight are orthogonal. Near $\sqrt{1 - 1/h}$ for width h, 0.71 in the
            plane: they are almost parallel.
        Generalising: Says nothing: in the plane it grows to 0.57 where two clusters are apart (100 % accuracy on unseen
            points), to 0.44 where they overlap (70 %).
        Misleads: Collapse to a point does not need alignment.

    $\||U| - \operatorname{diag}|U|\|_F / \||U|\|_F$, $\quad|U| = (UU^\top)^{1/2}$,
    $\quad U_r = W^{(\ell)}_r/\|W^{(\ell)}_r\|$

    A weight is aligned with the activation if $W = W_*R$ with diagonal $W_*$ and orthogonal R: exactly if its rows are
    orthogonal, so that the faces of its sectors are too. Rows are normalised to unit length because the truncation map
    does not depend on their lengths, whereas $|W|$, with its off-diagonal share, does: it is close to diagonal whenever
    the lengths are very unequal.

    Source:
        Chen, arXiv:2501.07400, definition 2.2, which says when it is 0; the number is gnomon's.
    Args:
        cumulative_parameters: the cumulative parameters of the network.
    Returns:
        In [0, $\sqrt{1 - 1/h}$) for width h, one per hidden layer, in float64 like the parameters; 0 exactly if
        $W^{(\ell)}$ is aligned, and near the upper end if all rows are almost parallel. Invariant under positive
        scaling of each row, under permutations and signs of rows, and under rotations of the input.
    Cost: O(l q³).
    Example:
        >>> import torch, gnomon
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        >>> model[0].weight.data = torch.tensor([[1.0, 0.0], [3.0, 4.0]])
        >>> gnomon.activation_misalignment(gnomon.cumulative_parameters(model)).detach()
        tensor([0.3162], dtype=torch.float64)
    """
    return torch.stack(
        [_off_diagonal(weight) for weight in cumulative_parameters.weight[: cumulative_parameters.hidden]]
    )


def _off_diagonal(weight: Float[Tensor, "h q"]) -> Float[Tensor, ""]:
    """The off-diagonal share of the modulus of the unit rows, as a ratio of norms."""
    rows = unit(weight)
    modulus = psd_root(rows @ rows.mT)
    beside = modulus - modulus.diagonal().diag()
    # The squared norm of the modulus is the trace of its square, which has one for each row.
    return norm(beside.flatten()) / len(rows) ** 0.5
