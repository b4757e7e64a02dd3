"""The neural feature ansatz, layer by layer."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon._warn import warn
from gnomon.autodiff import gradient_products, named_weights, weight_of
from gnomon.errors import EmptyError
from gnomon.measure._correlation import correlation, root_of, weight_gram


@dataclass(frozen=True)
class NFATable:
    r"""How each layer's $W^\top W$ agrees with the average gradient outer product G at its input.

    Attributes:
        layers: the layers' names.
        pearson_root: Pearson's correlation with $G^{1/2}$, which is what the paper plots.
        cosine_root: the cosine with $G^{1/2}$.
        pearson: Pearson's correlation with G.
        cosine: the cosine with G, which is the ansatz as printed.
    """

    layers: tuple[str, ...]
    pearson_root: Float[Tensor, "l"]
    cosine_root: Float[Tensor, "l"]
    pearson: Float[Tensor, "l"]
    cosine: Float[Tensor, "l"]


@full_precision
def nfa_table(
    model: nn.Module,
    x: Float[Tensor, "n *d"],
    *,
    layers: str | Sequence[str] | None = None,
    memory: int | None = None,
) -> NFATable:
    r"""`nfa_correlation` of every layer, in its four versions, from one pass through the network.

    Reading:
        Low, high: 1 in a layer: up to scale its weight's Gram matrix is the AGOP at its input, or its root.
        Generalising: Says little: on digits the third layer's value goes from 0.76 to 0.82 in a network that
            generalises and to 0.84 in one that memorised. On MNIST, training changes the cosine with the AGOP itself
            most, from 0.55 to 0.83 (nfa).
        Misleads: Without the table at initialisation, where values are already high. So does a mean that
            includes the last layer, whose values are near 1 by construction.

    At default initialisation correlations are already high: compute the table there too, and compare.

    Where a layer's outputs are the network's, or their mean over tokens or patches is, G is a multiple of $W^\top W$:
    the correlations with G are 1, those with its root too if there is one output, and 0.93 to 0.99 with the ten of the
    digits (0 where all entries are equal or W is 0). The paper's ansatz and its mean of 0.74 are of the hidden layers:
    for such a mean leave this layer out.

    Source:
        Beaglehole et al., arXiv:2402.13728, ansatz 3.2, appendix C and figures 10 to 12.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples.
        layers: the name, or names, as in `model.named_modules()`, of linear layers or convolutions; all of the
            network's if None, but for those through which no path from the input to the outputs leads, such as an
            unused head: these are left out, with a warning. Transposed convolutions and subclasses of torch's layers
            are not among them, nor are the four projections of `nn.MultiheadAttention`; `fact_table` has all weights.
        memory: bytes to use for a graph; default: 512 MiB.
    Returns:
        One number in [-1, 1] per layer and version, in float64; see `nfa_correlation`.
    Raises:
        UnsupportedModuleError: if a layer that is named is not one of these, or as for `AGOP`.
        EmptyError: if there are no such layers, none that a path leads through, or no samples.
        ShapeError, RangeError: as for `AGOP`.
    Cost: that of `AGOP`, and that of `nfa_correlation` for each layer.
    Example:
        >>> import torch, gnomon
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
        >>> table = gnomon.nfa_table(model, torch.ones(5, 3))
        >>> table.layers, round(table.cosine[1].item(), 6)  # behind layer 2 nothing comes
        (('0', '2'), 1.0)
    """
    named = named_weights(model, layers)
    agops = gradient_products(model, x, list(named), memory=memory, required=layers is not None)
    unused = [name for name in named if name not in agops]
    if unused:
        where = f"no path from the input to the outputs leads through {', '.join(unused)}"
        if not agops:
            raise EmptyError("model", "a linear layer or convolution that is used", where, "Pass a network with one.")
        warn(f"nfa_table: {where}. The others are measured; pass layers=[…] with their names to silence this.")
    rows: list[Tensor] = []
    for name in agops:
        weight = weight_of(named[name]).double()
        _checks.finite(**{f"model.{name}.weight": weight})
        gram = weight_gram(weight)
        roots = root_of(agops[name]).dense(), agops[name].dense()
        rows.append(torch.stack([correlation(gram, matrix, centred=c) for matrix in roots for c in (True, False)]))
    return NFATable(tuple(agops), *torch.stack(rows, dim=1))
