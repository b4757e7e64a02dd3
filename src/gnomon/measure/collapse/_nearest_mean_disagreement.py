"""Where the network does not choose the class with the nearest mean (NC4)."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import ShapeError
from gnomon.measure.collapse._class_moments import ClassMoments

_HELD = 2**20
"""Numbers of a block of features or scores that is held in float64."""


@full_precision
def nearest_mean_disagreement(
    features: Float[Tensor, "n *p"], logits: Float[Tensor, "n k"], class_moments: ClassMoments
) -> Float[Tensor, "n"]:
    r"""Whether each sample's class by the logits differs from that of the nearest class mean.

    Reading:
        Low, high: 0: the network predicts the class of the nearest mean.
        Generalising: On training digits it falls to 0.0 % with true labels (96 % accuracy on unseen digits), and ends
            at 6.2 % from a large initialisation (84 %).
        Misleads: Shuffled labels reach 0.0 % too, later.

    $\mathbf{1}\{\operatorname{argmax}_c f_c(x) \ne \operatorname{argmin}_c\|h(x) - \mu_c\|\}$

    The nearest mean has the largest $\langle h - \mu_G, \mu_c - \mu_G\rangle - \tfrac12\|\mu_c - \mu_G\|^2$: one
    product for all classes, in float64, so that a large common mean, or a class far from two that lie close together,
    costs no more digits than rounding the features does.

    Source:
        Papyan, Han, Donoho, arXiv:2008.08186, figure 7, which is figure 8 of Han, Papyan, Donoho, arXiv:2106.02073:
        the proportion, which is the mean of these values.
    Args:
        features: the layer's output for each sample; further axes are flattened.
        logits: the network's outputs for the same samples; the largest wins, of equal ones the first.
        class_moments: the layer's class moments, on the training samples or on these. A class that has no samples there
            is never the nearest, so that where the network chooses it, they disagree.
    Returns:
        0 or 1 per sample, in the features' dtype. Invariant under scaling, shift and rotation of features and means.
    Raises:
        ShapeError: if features, logits and moments disagree in samples, classes or width.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity.
    Cost: O(n k p).
    Example:
        >>> import torch, gnomon
        >>> h = torch.tensor([[0.0], [2.0], [9.0]])
        >>> moments = gnomon.class_moments(h, torch.tensor([0, 0, 1]), 2)
        >>> gnomon.nearest_mean_disagreement(h, torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), moments)
        tensor([0., 1., 0.])
    """
    _checks.samples(features=features, logits=logits)
    _checks.rows(logits=logits)
    _checks.finite(features=features, logits=logits)
    rows = features.flatten(1)
    for name, width, expected in (("features", rows.shape[1], 1), ("logits", logits.shape[1], 0)):
        if width != class_moments.means.shape[expected]:
            raise ShapeError(
                name,
                f"width {class_moments.means.shape[expected]} as in class_moments",
                width,
                "Pass the moments of the same layer.",
            )
    there = class_moments.present()
    origin, centred = there.global_mean, there.centred_means.double()
    middle = there.weights.double() @ there.relative_to(origin).double()
    offset = centred @ middle + centred.square().sum(1) / 2
    blocks = torch.split(rows, max(1, _HELD // max(centred.shape)))
    scores = (torch.addmm(-offset, block.double() - origin.double(), centred.mT) for block in blocks)
    nearest = torch.cat([block.argmax(1) for block in scores])
    if there is not class_moments:
        nearest = (class_moments.counts > 0).nonzero().flatten()[nearest]
    return (nearest != logits.argmax(1)).to(features.dtype)
