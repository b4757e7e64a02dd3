"""How far samples stray from their class means, against how far pairs of these are apart (CDNV)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import ShapeError
from gnomon.measure.collapse._class_moments import ClassMoments


@half_as_single
def cdnv(features: Float[Tensor, "n *p"], labels: Int[Tensor, "n"], class_moments: ClassMoments) -> Float[Tensor, "n"]:
    r"""The class-distance normalised variance, as the part that each sample has in it: their mean is the CDNV.

    Reading:
        Low, high: Low: the sample stands at its class mean, beside the distances to the others. Above 1 its class is
            wider than far from the others.
        Generalising: Not measured here.
        Misleads: Two classes that are close dominate the mean over pairs, which `nc1_trace_ratio` does not see. As all
            of collapse it is small of memorised samples too.

    $\frac{n}{k\,n_y}\,\|h - \mu_y\|^2\,\frac1{k-1}\sum_{c\ne y}\|\mu_y - \mu_c\|^{-2}$

    Its mean over the samples is the paper's mean over pairs of classes of
    $\frac{\operatorname{Var}_i + \operatorname{Var}_j}{2\,\|\mu_i - \mu_j\|^2}$, exactly, also of unequal classes, for
    which the first factor is; of equal ones it is 1.

    Source:
        Galanti, György, Hutter, On the Role of Neural Collapse in Transfer Learning, arXiv:2112.15121.
    Args:
        features: what a layer puts out at each sample; further axes are flattened.
        labels: the classes, 0 to k - 1.
        class_moments: those of the layer at these samples. Classes without samples there are left out of k.
    Returns:
        At least 0; 0 where the sample stands at its class mean, and else infinite where another mean coincides with
        that, or the moments have no samples of the class. Invariant under scaling, shift and rotation of features and
        moments.
    Raises:
        ShapeError: if features, labels and moments disagree in samples or width.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, or at labels that are no classes.
    Cost: O(n k p), for the distances between the classes that there are among the samples and all.
    Example:
        >>> import torch, gnomon
        >>> h, labels = torch.tensor([[0.0], [2.0], [10.0], [12.0]]), torch.tensor([0, 0, 1, 1])
        >>> gnomon.cdnv(h, labels, gnomon.class_moments(h, labels, 2))
        tensor([0.0100, 0.0100, 0.0100, 0.0100])
    """
    _checks.samples(features=features)
    _checks.finite(features=features)
    means = class_moments.means
    _checks.class_labels(labels, len(features), len(means))
    rows, labels = features.flatten(1), labels.long()
    if rows.shape[1] != means.shape[1]:
        raise ShapeError(
            "features", f"width {means.shape[1]} as in class_moments", rows.shape[1], "Pass the moments of the layer."
        )
    strayed = (rows - means[labels]).square().sum(1)
    nearness = _inverse_squares(class_moments, labels) / (class_moments.classes_present - 1)
    share = class_moments.weights[labels] * class_moments.classes_present
    return torch.where(strayed > 0, strayed * nearness / share, 0)


def _inverse_squares(class_moments: ClassMoments, labels: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
    """The sum of the inverse squared distances from each sample's class mean to the others."""
    means, place = class_moments.means, labels
    classes = torch.arange(len(means), device=means.device)
    if len(means) > len(labels):  # of many classes most are not among these samples
        classes, place = torch.unique(labels, return_inverse=True)
    # Not by products, which lose the digits of means that lie close to each other.
    apart = torch.cdist(means[classes], means, compute_mode="donot_use_mm_for_euclid_dist").square()
    itself = classes.unsqueeze(1) == torch.arange(len(means), device=means.device)
    return apart.masked_fill(itself | (class_moments.counts == 0), torch.inf).reciprocal().sum(1)[place]
