"""How far a classifier is from the least-squares classifier of its features."""

from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.linalg import root
from gnomon.measure._least_squares import parts_of_loss
from gnomon.measure._moments import ClassMoments


@half_as_single
def central_path_distance(
    classifier: Float[Tensor, "k p"],
    bias: Float[Tensor, "k"] | None,
    class_moments: ClassMoments,
    *,
    weight_decay: float | int = 0.0,
) -> Float[Tensor, ""]:
    r"""The distance of a classifier from the central path, where classifiers are the least-squares ones.

    Reading:
        Low, high: 0: the classifier is the best possible one for these features.
        Generalising: On training digits it falls to 0.0055 with true labels (96 % accuracy on unseen digits), and to
            0.12 from a large initialisation (84 %).
        Misleads: Shuffled labels end at 0.004: it tells how far optimisation has progressed. At a large learning rate
            it does not fall (mse-collapse).

    $\sqrt{2\mathcal L_{LS}^\perp} = \Big(\frac1n\sum_i\|(\tilde W - \tilde W_{LS})\tilde h_i\|^2
    + \lambda\|\tilde W - \tilde W_{LS}\|_F^2\Big)^{1/2}$

    Without weight decay, it is the root mean square of the difference of their outputs. `mse_decomposition` gives the
    same as a part of the loss.

    Source:
        Han, Papyan, Donoho, arXiv:2106.02073, theorem 1: its $\mathcal L_{LS}^\perp$ "quantifies the distance". There,
        half the square of a distance is called a distance; this is the distance.
    Args:
        classifier: the classifier's weight; unit: 1 per feature.
        bias: the classifier's bias, or None if it has none.
        class_moments: the class moments of the last layer's inputs, in a precision not below the classifier's.
        weight_decay: λ of `mse_decomposition`, on weight and bias alike; at least 0.
    Returns:
        At least 0, and 0 on the central path alone, up to rounding, with gradient 0 there; unit: outputs. Without
        weight decay, invariant under invertible linear maps of the features that the classifier undoes, and with a bias
        under shifts too.
    Raises:
        ShapeError, RangeError: as `mse_decomposition`.
    Cost: that of `least_squares_classifier`. Precision: its square is as exact as `deviation` in `mse_decomposition`.
    Example:
        >>> import torch, gnomon
        >>> moments = gnomon.class_moments(torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 1]), 2)
        >>> gnomon.central_path_distance(torch.zeros(2, 1), torch.zeros(2), moments)
        tensor(1.)
    """
    *_, deviation, _ = parts_of_loss(classifier, bias, class_moments, weight_decay)
    return root(2 * deviation)
