"""The counts, means and scatter of the classes in one batch."""

from jaxtyping import Float, Int
from torch import Tensor

from gnomon._precision import full_precision, in_single
from gnomon.linalg import smaller
from gnomon.measure._by_class import check_classes, check_samples, check_squares, further
from gnomon.measure._moments import ClassMoments


@full_precision
def class_moments(features: Float[Tensor, "n *p"], labels: Int[Tensor, "n"], classes: int) -> ClassMoments:
    r"""The counts, means and scatter of each class, from one batch.

    Reading:
        Low, high: Not a single number: the quantities of collapse are computed from it. A small scatter, compared with
            the distances between means, is collapse.
        Generalising: On training digits each class becomes a point, with true labels and, less tightly, with shuffled
            ones; hardly so from a large initialisation.
        Misleads: With few samples per class: a single one has no scatter, and looks collapsed.

    $\mu_c = \frac1{n_c}\sum_{y_i = c} h_i$, $\quad S = \sum_i (h_i - \mu_{y_i})(h_i - \mu_{y_i})^\top$

    Differentiable in the features. `ClassStatistics` gives the same for data that come in batches.

    Source:
        Han, Papyan, Donoho, arXiv:2106.02073, section 1.1. Departs from it in the weights $n_c/n$ for unequal classes.
    Args:
        features: a layer's output for each sample; further axes are flattened.
        labels: their classes, 0 to `classes` - 1.
        classes: the number k of classes, at least 2; a warning says which have no samples.
    Returns:
        In the features' dtype; half precision is converted to float32. The scatter is stored as n rows where n < p, so
        that no p x p matrix is formed, and otherwise in full, in float64.
    Raises:
        ShapeError: if labels are not (n).
        EmptyError: if there are no samples, or all are of one class.
        RangeError: at NaN or infinity, at a label that is not a class, if `classes` is below 2, or if features are so
            large or small that their dtype does not hold their squares, as float32 from 1e19 on and below 1e-16.
    Cost: O(n p min(n, p)) time, O(n p) memory. Precision: features are centred before they are squared, and sums are
        of float64, so that large means cost the scatter and the centred means no more digits than they cost the
        features; those of float64 are rounded once.
    Example:
        >>> import torch, gnomon
        >>> moments = gnomon.class_moments(torch.tensor([[1.0], [3.0], [10.0]]), torch.tensor([0, 0, 1]), 2)
        >>> moments.means, moments.within.trace()
        (tensor([[ 2.],
                [10.]]), tensor(2., dtype=torch.float64))
    """
    check_samples(features, labels, classes)
    rows = in_single(features.flatten(1))
    empty = ClassMoments.none(classes, rows[:0].double())
    counts, means, deviations = further(empty.counts, empty.means, rows, labels.long())
    moments = ClassMoments.rounded(counts, means, smaller(deviations), rows.dtype)
    check_classes(moments.counts)
    check_squares(moments.within, moments.means, moments.centred_means)
    return moments
