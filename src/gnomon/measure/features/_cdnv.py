"""How far samples stray from their class means, compared with how far apart pairs of these are (CDNV)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import ShapeError
from gnomon.measure._by_class import warn_without_spread
from gnomon.measure._moments import ClassMoments


@half_as_single
def cdnv(features: Float[Tensor, "n *p"], labels: Int[Tensor, "n"], class_moments: ClassMoments) -> Float[Tensor, "n"]:
    r"""Each sample's contribution to the class-distance normalised variance: their mean is the CDNV.

    Reading:
        Low, high: Low: the sample is at its class mean, compared with the distances to the others. Above 1 its class is
            wider than it is far from the others.
        Generalising: Not measured here.
        Misleads: Two classes that are close dominate the mean over pairs, which `nc1_trace_ratio` does not see. Like
            all measures of collapse it is small on memorised samples too. Few samples per class make it low, m of them
            by a factor of at most about 1 - 1/m: 0.06 and 0.14 with 2 and 500 samples of the same ten normal classes in
            16 dimensions. Compare at the same m.

    $\frac{n}{k\,n_y}\,\|h - \mu_y\|^2\,\frac1{k-1}\sum_{c\ne y}\|\mu_y - \mu_c\|^{-2}$

    Its mean over the samples is the paper's mean over pairs of classes of
    $\frac{\operatorname{Var}_i + \operatorname{Var}_j}{2\,\|\mu_i - \mu_j\|^2}$, exactly, also for classes of unequal
    size, which the first factor accounts for; for classes of equal size it is 1.

    Source:
        Galanti, György, Hutter, On the Role of Neural Collapse in Transfer Learning, arXiv:2112.15121.
    Args:
        features: a layer's output for each sample; further axes are flattened.
        labels: the classes, 0 to k - 1.
        class_moments: the layer's class moments on these samples. Classes without samples there are not counted in k.
    Returns:
        At least 0; infinite where the moments have no samples of the class; otherwise 0 where the sample is at its
        class mean, with a warning where no class has two samples, and infinite where another mean coincides with that
        mean. Invariant under scaling, shift and rotation of features and moments. Differentiable once: torch's
        distances have no second derivative, and say so.
    Raises:
        ShapeError: if features, labels and moments disagree in samples or width.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, or at labels that are not classes.
    Cost: O(n k p), for the distances between the classes that occur among the samples and all classes.
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
    warn_without_spread("cdnv", class_moments.counts)
    deviations = rows - means[labels]
    if class_moments.rounded_off is not None:
        deviations = deviations - class_moments.rounded_off[labels]
    strayed = deviations.square().sum(1)
    nearness = _inverse_squares(class_moments, labels) / (class_moments.classes_present - 1)
    share = class_moments.weights[labels] * class_moments.classes_present
    found = torch.where(strayed > 0, strayed * nearness / share, 0).to(strayed.dtype)
    return found.masked_fill(class_moments.counts[labels] == 0, torch.inf)


def _inverse_squares(class_moments: ClassMoments, labels: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
    """The sum of the inverse squared distances from each sample's class mean to the others, in float64."""
    # Not centred: beside a class that is far from all others, single precision has few digits left for these.
    means, place = class_moments.precise_means.double(), labels
    classes = torch.arange(len(means), device=means.device)
    if len(means) > len(labels):  # if there are many classes, most are not among these samples
        classes, place = torch.unique(labels, return_inverse=True)
    # Not by products, which lose the digits of means that lie close to each other.
    apart = torch.cdist(means[classes], means, compute_mode="donot_use_mm_for_euclid_dist").square()
    itself = classes.unsqueeze(1) == torch.arange(len(means), device=means.device)
    return apart.masked_fill(itself | (class_moments.counts == 0), torch.inf).reciprocal().sum(1)[place]
