"""Where the network does not choose the class with the nearest mean (NC4)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import ShapeError
from gnomon.measure._by_class import roundings
from gnomon.measure._moments import ClassMoments

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
        Misleads: Shuffled labels reach 0.0 % too, later. On test samples it depends on whose means are given: 3.35 % of
            the test images disagree with those of the training images, as NC4 is defined, and 5.00 % with their own,
            which a probe takes (an MLP on Fashion-MNIST; mse-collapse).

    $\mathbf{1}\{\operatorname{argmax}_c f_c(x) \ne \operatorname{argmin}_c\|h(x) - \mu_c\|\}$

    The nearest mean has the largest $\langle h - \mu_0, \mu_c - \mu_0\rangle - \tfrac12\|\mu_c - \mu_0\|^2$, whatever
    $\mu_0$ is: one product for all classes, in float64, with the first mean. Classes that its rounding leaves are
    compared by another product without the others, or with one of them as the origin: a large common mean, or a class
    far from two that lie close together, costs no more digits than rounding the features does.

    Source:
        Papyan, Han, Donoho, arXiv:2008.08186, figure 7, which is figure 8 of Han, Papyan, Donoho, arXiv:2106.02073:
        the proportion, which is the mean of these values. The means are those of the training samples: "whichever class
        has the closest train class-mean" (abstract of the former).
    Args:
        features: the layer's output for each sample; further axes are flattened.
        logits: the network's outputs for the same samples; the largest wins, of equal ones the first.
        class_moments: the layer's class moments on the training samples, also for features of others: with the means of
            these it is another number. A class that has no samples there is never the nearest, so that where the
            network chooses it, they disagree.
    Returns:
        0 or 1 per sample, in the features' dtype. Invariant under scaling, shift and rotation of features and means.
    Raises:
        ShapeError: if features, logits and moments disagree in samples, classes or width.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity.
    Cost: O(n k p); 2 to 8 times as much where many samples are equally near to two classes, or to all as zeros are to
        one-hot means. Some 100 times as much where they are so to hundreds of classes up to rounding, but not exactly.
    Example:
        >>> import torch, gnomon
        >>> h = torch.tensor([[0.0], [2.0], [9.0]])
        >>> moments = gnomon.class_moments(h, torch.tensor([0, 0, 1]), 2)
        >>> gnomon.nearest_mean_disagreement(h, torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), moments)
        tensor([0., 1., 0.])
        >>> unseen = torch.tensor([[4.0], [6.0]])
        >>> gnomon.nearest_mean_disagreement(unseen, torch.tensor([[1.0, 0.0], [1.0, 0.0]]), moments)
        tensor([0., 1.])
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
    means = there.precise_means.double()
    blocks = torch.split(rows, max(1, _HELD // max(means.shape)))
    nearest = torch.cat([_nearest(block.double(), means) for block in blocks])
    if there is not class_moments:
        nearest = (class_moments.counts > 0).nonzero().flatten()[nearest]
    return (nearest != logits.argmax(1)).to(features.dtype)


def _nearest(rows: Float[Tensor, "m p"], means: Float[Tensor, "k p"]) -> Int[Tensor, "m"]:
    """The mean nearest to each row, of equally near ones the first."""
    apart, away = means - means[0], rows - means[0]
    halves = apart.square().sum(1) / 2
    scores = torch.addmm(-halves, away, apart.mT)
    best, nearest = scores.max(1)
    largest = (2 * halves.amax()).sqrt()
    rounding = roundings(rows.shape[1]) * torch.finfo(rows.dtype).eps * largest
    # Strictly: means that all coincide leave no rounding, and no second class to look at.
    left = scores > (best - 4 * rounding * (torch.linalg.vector_norm(away, dim=1) + largest)).unsqueeze(1)
    unsure = (left.sum(1) > 1).nonzero().flatten()
    if len(unsure) == 0:
        return nearest
    rows, left = rows[unsure], left[unsure]
    kept = left.any(0).nonzero().flatten()
    # Without a mean that is far from the others, one more product usually tells these apart.
    found = _by_pairs(rows, means, left) if len(kept) == len(means) else kept[_nearest(rows, means[kept])]
    return nearest.index_copy(0, unsure, found)


def _by_pairs(rows: Float[Tensor, "m p"], means: Float[Tensor, "k p"], left: Bool[Tensor, "m k"]) -> Int[Tensor, "m"]:
    """The same among the means that are left for each row, with the nearest so far as the origin.

    One product for all rows with the same origin; of these go on those that found nearer ones, with these alone.
    """
    nearest = left.int().argmax(1)
    going = torch.arange(len(rows), device=rows.device)
    while len(going):
        origins, sizes = torch.unique(nearest[going], return_counts=True)
        groups, found = torch.split(going[nearest[going].argsort()], sizes.tolist()), []
        for c, group in zip(origins, groups, strict=True):
            kept = left[group].any(0).nonzero().flatten()
            steps = means[kept] - means[c]
            ahead = torch.addmm(-steps.square().sum(1) / 2, rows[group] - means[c], steps.mT)
            nearer = left[group][:, kept] & ((ahead > 0) | (ahead == 0) & (kept < c))
            left[group.unsqueeze(1), kept] = nearer
            moves = nearer.any(1)
            moved = group[moves]
            nearest[moved] = kept[ahead[moves].where(nearer[moves], -torch.inf).argmax(1)]
            found.append(moved[nearer[moves].sum(1) > 1])
        going = torch.cat(found)
    return nearest
