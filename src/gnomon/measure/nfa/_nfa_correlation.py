"""Whether a layer's weight has learned the directions in which the outputs move."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision, single
from gnomon.errors import ShapeError
from gnomon.linalg import Covariance, covariance_of, scaled
from gnomon.measure._correlation import correlation, root_of, weight_gram


@full_precision
def nfa_correlation(
    layer_weight: Float[Tensor, "q *p"],
    agop: Float[Tensor, "p p"] | Covariance,
    *,
    power: float | int = 0.5,
    centred: bool = True,
) -> Float[Tensor, ""]:
    r"""The correlation between a layer's Gram matrix of weights and the average gradient outer product at its input.

    Reading:
        Low, high: 1: the weight's Gram matrix is the root of the AGOP, which says what the network looks at.
        Generalising: Says nothing on digits: 0.92 at the start, 0.95 in a network that generalises, 0.94 in one that
            memorised.
        Misleads: Without the value at initialisation, which is already high. From a large initialisation it fell
            under weight decay, from 0.85–0.87 to 0.72, as the network generalised (anatomy).

    $\rho(W^\top W, G^s)$, with $\rho(A, B) = \langle A, B\rangle / (\|A\|\,\|B\|)$ over all entries, minus their mean
    if `centred`

    The neural feature ansatz says that it is close to 1 in trained networks. A value that is close to 1 without
    training is no evidence: at default initialisation it is high too, so compare it with the value at initialisation.
    At a layer whose outputs are the network's, where G is $W^\top W$, it is no evidence at all.

    A probe passes it the weight of the linear layer that the samples enter, and the AGOP at the network's input;
    `nfa_table` covers every layer.

    Source:
        Beaglehole et al., arXiv:2402.13728, ansatz 3.2 and appendix C. The paper prints the cosine with G itself
        (`power=1, centred=False`), but measures Pearson's correlation with its root, which is the default here.
    Args:
        layer_weight: the weight of a linear layer or a convolution; axes after the first are flattened.
        agop: G at the input of the layer, in full or as rows; for a convolution that of patches, as from `AGOP`.
        power: s, 1/2 for the root or 1.
        centred: whether the mean entry of each matrix is subtracted: Pearson's correlation, or the cosine if not.
    Returns:
        In [-1, 1], not centred in [0, 1], up to rounding; 1 exactly for proportional matrices, and when centred also
        where they differ by a multiple of the matrix of ones; 0 where either matrix, after centring if any, is 0 up to
        rounding, of which the root of a full matrix keeps half the digits.
        Invariant under scaling of either; when not centred, also under a common rotation of the input. In the wider of
        the two dtypes. The gradient in the root of an AGOP as rows exists where its singular values differ and none is
        0; that in the root of a full matrix, as from `dense()`, where they are equal too, but once only.
    Raises:
        ShapeError: if the weight has no second axis, or the AGOP is not (p p).
        EmptyError: if the weight has no entries.
        RangeError: at NaN or infinity, if `power` is neither 1/2 nor 1, or if the AGOP is not symmetric or, for
            its root, has a negative eigenvalue.
    Cost: O(p³), or O(r² p + (q + r) p²) for r rows; O(p²) memory.
    Example:
        >>> import torch, gnomon
        >>> weight = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> gnomon.nfa_correlation(weight, torch.diag(torch.tensor([16.0, 1.0])))
        tensor(1.)
    """
    _checks.settings(("power", power, "1/2 or 1", power in (0.5, 1)))
    if layer_weight.ndim < 2:
        got = f"shape {_checks.shape_of(layer_weight)}"
        raise ShapeError("layer_weight", "at least 2 axes, the outputs first", got, "Pass a layer's weight, (q, p).")
    _checks.entries(layer_weight=layer_weight)
    _checks.finite(layer_weight=layer_weight)
    held = covariance_of(agop)
    given = held.held.dtype
    dtype = single(torch.promote_types(layer_weight.dtype, given))
    # The root in the AGOP's own precision, which says what of its eigenvalues is rounding.
    matrix = (root_of(held) if power == 0.5 else held).to(dtype).dense()
    p = layer_weight[0].numel()
    if matrix.shape != (p, p):
        raise ShapeError(
            "agop",
            f"shape ({p}, {p}) for a weight of shape {_checks.shape_of(layer_weight)}",
            _checks.shape_of(matrix),
            "Take it at the input of this layer.",
        )
    found = correlation(weight_gram(scaled(layer_weight).to(dtype)), matrix, centred=centred)
    return found.to(torch.promote_types(layer_weight.dtype, given))
