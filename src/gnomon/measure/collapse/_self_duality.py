"""Whether the classifier is the class means (NC3)."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.linalg import unit
from gnomon.measure._moments import ClassMoments


@half_as_single
def self_duality(classifier: Float[Tensor, "k p"], class_moments: ClassMoments) -> Float[Tensor, ""]:
    r"""The squared distance of the classifier from the centred class means, both of unit norm.

    Reading:
        Low, high: 0: the classifier's rows are the class means. About 2: they are unrelated.
        Generalising: On training digits it falls from 2 to 0.42 with true labels (96 % accuracy on unseen digits), to
            1.33 from a large initialisation (84 %).
        Misleads: Shuffled labels end lower, 0.22: the classifier is dual to whatever was learnt. Losses differ early:
            after 60 epochs 0.45 to 0.54 under the squared error and 0.13 to 0.15 under cross-entropy, after 350 epochs
            at the best learning rate 0.12 and 0.11 (mse-vs-ce).

    $\left\|W/\|W\|_F - \bar M/\|\bar M\|_F\right\|_F^2$, the rows of $\bar M$ being $\mu_c - \mu_G$

    Rows of classes that have no samples are left out of both.

    Source:
        Papyan, Han, Donoho, arXiv:2008.08186, figure 5. The statement of NC3 in Han, Papyan, Donoho, arXiv:2106.02073,
        divides each row by its own length; the figures of both divide the complete matrix by its Frobenius norm, as
        here.
    Args:
        classifier: the weight of the final linear layer, one row for each class.
        class_moments: the class moments of that layer's inputs.
    Returns:
        In [0, 4] up to rounding; 0 exactly where W is a positive multiple of the centred means, 4 where it is a
        negative one, 2 where they are orthogonal, 1 where one is zero, 0 where both are. In the wider of the two
        dtypes. Invariant under positive scaling of either, and under rotations of both.
    Raises:
        ShapeError: if the classifier does not have the shape of the means.
        RangeError: at NaN or infinity.
    Cost: O(k p).
    Example:
        >>> import torch, gnomon
        >>> moments = gnomon.class_moments(torch.tensor([[1.0, 0.0], [3.0, 0.0]]), torch.tensor([0, 1]), 2)
        >>> gnomon.self_duality(torch.tensor([[-5.0, 0.0], [5.0, 0.0]]), moments)
        tensor(0.)
    """
    _checks.same_shape(class_means=class_moments.means, classifier=classifier)
    _checks.finite(classifier=classifier)
    # Rows of classes without samples have nothing to be compared with.
    weight = torch.where((class_moments.counts > 0).unsqueeze(1), classifier, 0)
    return (unit(weight.flatten()) - unit(class_moments.centred_means.flatten())).square().sum()
