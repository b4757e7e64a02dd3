"""Whether class means are orthogonal (NC2)."""

from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure._frames import at_least_two, distance_of_cosines


@half_as_single
def nc2_orthogonal(class_means: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""How far the directions of the class means, not centred, are from being orthogonal.

    Reading:
        Low, high: 0: the class means, not centred, are orthogonal.
        Generalising: Says little: on training digits 4.23 with true labels (96 % accuracy on unseen digits), 4.28 from
            a large initialisation (84 %).
        Misleads: On its own: shuffled labels end at 6.07, and means need not be orthogonal for their centred ones to
            form a simplex.

    $\|\hat M\hat M^\top - I\|_F$, rows $\hat\mu_c = \mu_c/\|\mu_c\|$

    Lengths are divided out, and may differ where the value is 0: $M M^\top \propto I$ also requires `equinorm` of the
    means to be 0. Orthogonal means of equal length form a simplex when centred.

    Source:
        Beaglehole et al., arXiv:2402.13728, definition 3.1, measured as its figure 3 measures the other form.
    Args:
        class_means: the class means, not centred, with k at least 2; `moments.means`.
    Returns:
        In $[0, \sqrt{k(k-1)}]$; 0 exactly where all means are orthogonal and none is 0. Invariant under positive
        scaling of each mean, and under rotations of all; not under shifts.
    Raises:
        ShapeError: if the means are not (k p) with k at least 2.
        EmptyError: if there are none.
        RangeError: at NaN or infinity.
    Cost: O(k p min(k, p)) time, O(k p) memory, and O(p²) or 1,024² numbers.
    Example:
        >>> import torch, gnomon
        >>> gnomon.nc2_orthogonal(torch.tensor([[3.0, 0.0], [0.0, 5.0]]))
        tensor(0.)
    """
    return distance_of_cosines(at_least_two(class_means=class_means), 0.0)
