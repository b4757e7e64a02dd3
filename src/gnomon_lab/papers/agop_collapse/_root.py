"""NC1 behind the root of the AGOP at each layer's input, which the paper infers from that behind the weight."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gnomon import AGOP, class_moments, psd_root
from gnomon_lab.papers.agop_collapse._shared import CLASSES, linear_layers

CHUNK = 1000
"""Samples that go through the layers together."""


@dataclass(frozen=True)
class RootCollapse:
    r"""What the AGOP G at the input $\Phi$ of each linear layer does to the classes there.

    Attributes:
        nc1_root: $\operatorname{tr}\Sigma_W/\operatorname{tr}\Sigma_B$ of $G^{1/2}\Phi$.
        nc1_fourth_root: the same of $G^{1/4}\Phi$, which is that of $SV^\top\Phi$ where $W^\top W\propto G^{1/2}$.
    """

    nc1_root: Float[Tensor, "l"]
    nc1_fourth_root: Float[Tensor, "l"]


def root_collapse(
    model: nn.Sequential, x: Float[Tensor, "n *d"], labels: Int[Tensor, "n"], memory: int | None
) -> RootCollapse:
    r"""NC1 of $G^{1/2}\Phi$ and $G^{1/4}\Phi$ at each linear layer.

    At the readout, which is included, the former is that of $W\Phi$. The variances of $G^{1/2}\Phi$ have the traces of
    $\Sigma_WG$ and $\Sigma_BG$: no root is taken for it.
    """
    names = linear_layers(model)
    agops = AGOP(names, memory=memory).to(x.device)
    agops.update(model, x)
    found, features, place = agops.compute(), x, 0
    ratios: list[Tensor] = []
    for name in names:
        with torch.no_grad():
            features = torch.cat([model[place : int(name)](part) for part in torch.split(features, CHUNK)])
        place = int(name)
        moments, agop = class_moments(features.double(), labels, CLASSES), found[name].dense()
        within, between = moments.within_covariance.dense(), moments.between_covariance.dense()
        squares = agop, psd_root(agop)
        ratios.append(torch.stack([(within * square).sum() / (between * square).sum() for square in squares]))
    return RootCollapse(*torch.stack(ratios, dim=1))
