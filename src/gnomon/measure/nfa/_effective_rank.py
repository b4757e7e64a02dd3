"""How many directions carry the average gradient outer product."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.linalg import Covariance, Dense, Factored, covariance_of


@half_as_single
def effective_rank(agop: Float[Tensor, "p p"] | Covariance) -> Float[Tensor, ""]:
    r"""The trace over the largest eigenvalue: how many directions, each as strong as the first, would carry as much.

    Reading:
        Low, high: 1: one direction of the input moves the outputs, at all samples. High: many do.
        Generalising: On digits it rises in both, then falls to 5.9 in a network that generalises, after the accuracy,
            and stays at 18.6 in one that memorised.
        Misleads: Low is not good: on MNIST weight decay alone ends at 3.1 to 4.7 and knows fewer unseen digits than
            GrokAlign at 7.8 to 9.5 (anatomy).



    $r(G) = \operatorname{tr}G / \lambda_1(G)$

    Another number goes by the same name, the exponential of the entropy of the eigenvalues' shares (Roy, Vetterli,
    2007), which is never smaller. Of the rows of a matrix A with $A^\top A = G$ this one is the stable rank, as
    `stable_rank` gives it of each sample's Jacobian.

    Source:
        Koltchinskii, Lounici, Concentration Inequalities and Moment Bounds for Sample Covariance Operators,
        arXiv:1405.2468, with this name.
    Args:
        agop: a positive semi-definite matrix, whole or as rows.
    Returns:
        In [1, rank of G]; 0 for a zero matrix. Invariant under positive scaling and rotation.
    Raises:
        ShapeError: if the matrix is not square.
        RangeError: at NaN or infinity.
    Cost: O(p³), or O(r² p) of r rows.
    Example:
        >>> import torch, gnomon
        >>> gnomon.effective_rank(torch.diag(torch.tensor([4.0, 2.0, 2.0])))
        tensor(2.)
    """
    held = covariance_of(agop)
    if isinstance(held, Factored):
        # The largest entry is divided out, so that products neither overflow nor underflow.
        largest = held.rows.detach().abs().amax()
        held = Factored(held.rows / torch.where(largest > 0, largest, 1))
    small = held.matrix if isinstance(held, Dense) else held.rows @ held.rows.mT
    largest = torch.linalg.eigvalsh(small)[-1]
    positive = largest > 0
    return torch.where(positive, held.trace() / torch.where(positive, largest, 1), 0)
