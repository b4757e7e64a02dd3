"""Norms and ranks of the weights, layer by layer."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon._precision import full_precision
from gnomon.linalg import length
from gnomon.measure._entropy_rank import entropy_rank
from gnomon.measure._parameters import weights_of


@dataclass(frozen=True)
class LayerSpectra:
    r"""Norms and ranks of each weight of two axes or more, from its singular values $\sigma_1\ge\dots\ge\sigma_q$.

    Attributes:
        layers: the weights' names, as in `named_parameters`.
        norm: $\|W\|_F$.
        spectral_norm: $\sigma_1$.
        stable_rank: $\|W\|_F^2/\sigma_1^2$, in [1, q] up to rounding; 0 for a zero weight.
        effective_rank: the exponential of the entropy of $\sigma_j/\sum_i\sigma_i$, in [1, q] up to rounding; 0 for a
            zero weight. `effective_rank`, of an AGOP, is another number, as `stable_rank` is here.
    """

    layers: tuple[str, ...]
    norm: Float[Tensor, "l"]
    spectral_norm: Float[Tensor, "l"]
    stable_rank: Float[Tensor, "l"]
    effective_rank: Float[Tensor, "l"]


@full_precision
def layer_spectra(parameters: Mapping[str, Float[Tensor, "*d"]]) -> LayerSpectra:
    r"""The norms of each weight, and how many directions it has: stable rank and effective rank.

    Reading:
        Low, high: Ranks near 1: the layer carries one direction. High: it carries many equally, as random weights do.
        Generalising: Not measured here.
        Misleads: Norms can be traded between layers, also with biases and normalisation. Small singular values, which
            random weights have, count in the effective rank and hardly in the stable rank.

    A weight is a matrix with a row for each entry of its first axis: for a convolution the patches are flattened.

    Source:
        Stable rank: Rudelson, Vershynin, arXiv:math/0503442. Effective rank: Roy, Vetterli, The Effective Rank (2007).
    Args:
        parameters: the network's parameters, by name; those with one axis are left out.
    Returns:
        One number per weight; unit of the norms: that of the parameters. For half precision, in float32.
    Raises:
        EmptyError: if none has two axes.
        RangeError: at NaN or infinity, or if they are not a mapping.
    Cost: O(q p min(q, p)) per weight, for the singular values.
    Example:
        >>> import torch, gnomon
        >>> spectra = gnomon.layer_spectra({"0.weight": torch.diag(torch.tensor([2.0, 1.0])), "0.bias": torch.ones(2)})
        >>> spectra.layers, spectra.spectral_norm, spectra.stable_rank
        (('0.weight',), tensor([2.]), tensor([1.2500]))
    """
    weights = weights_of(parameters)
    spectra = [torch.linalg.svdvals(weight) for weight in weights.values()]
    first = torch.stack([values[0] for values in spectra])
    ranks = [length(values / torch.where(values[0] > 0, values[0], 1)).square() for values in spectra]
    return LayerSpectra(
        tuple(weights),
        torch.stack([length(values) for values in spectra]),
        first,
        torch.stack(ranks),
        torch.stack([entropy_rank(values) for values in spectra]),
    )
