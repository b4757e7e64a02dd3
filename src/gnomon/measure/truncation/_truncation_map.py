"""A layer's ReLU, as a map of input space."""

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.measure._sequential import input_points
from gnomon.measure.truncation._cumulative_parameters import CumulativeParameters


@full_precision
def truncation_map(
    cumulative_parameters: CumulativeParameters, x: Float[Tensor, "n *d"], *, depth: int = 1
) -> Float[Tensor, "n q"]:
    r"""Where a layer's ReLU moves points of input space: to the layer, cut off there, and back.

    Reading:
        Low, high: For the distance by which samples are moved: 0 where the layer lets all pass; large where it cuts.
        Generalising: In the plane 0.57 of the samples' length where two clusters are apart (100 % accuracy on unseen
            points), 0.05 where they overlap (70 %).
        Misleads: As a sign of collapse in ordinary training: there the share of truncated coordinates of separated
            clusters falls by 17 to 21 points (truncation-practice).

    $\tau^{(\ell)}(x) = (a^{(\ell)})^{-1}(\sigma(a^{(\ell)}(x)))
    = (W^{(\ell)})^+\sigma(W^{(\ell)}(x + \beta^{(\ell)})) - \beta^{(\ell)}$

    With square weights, x stays where it is if all of $a^{(\ell)}(x)$ is at least 0, and goes to $-\beta^{(\ell)}$ if
    none is positive. Where widths decrease the latter holds, and the former up to the projection onto the row space of
    $W^{(\ell)}$. In either case $a^{(\ell)}\circ\tau^{(\ell)} = \sigma\circ a^{(\ell)}$.

    Source:
        Chen, arXiv:2501.07400, eq. (2.9); for decreasing widths with the pseudo-inverse.
    Args:
        cumulative_parameters: the cumulative parameters of the network.
        x: points of input space; further axes are flattened.
        depth: $\ell$, which of the hidden layers, from 1 to their number; default: the first.
    Returns:
        In float64 like the parameters; unit: that of x. $\tau\circ\tau = \tau$. Invariant under multiplying a row of
        $W^{(\ell)}$ and its entry of $b^{(\ell)}$ by a positive number; rotates with x and $\beta$.
    Raises:
        ShapeError: if x does not have the network's number of inputs.
        EmptyError: if there are no points.
        RangeError: if x is not of floating point, or holds NaN or infinity, or if there is no such hidden layer.
    Cost: O(n q² + q³). Precision: the layer's condition number times epsilon.
    Example:
        >>> import torch, gnomon
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        >>> model[0].weight.data = torch.tensor([[0.0, 4.0], [2.0, 0.0]])
        >>> model[0].bias.data = torch.tensor([4.0, 6.0])
        >>> x = torch.tensor([[0.0, 0.0], [-5.0, 2.0], [-9.0, -9.0]])
        >>> gnomon.truncation_map(gnomon.cumulative_parameters(model), x).tolist()
        [[0.0, 0.0], [-3.0, 2.0], [-3.0, -1.0]]
    """
    hidden = cumulative_parameters.hidden
    _checks.settings(_checks.whole_number("depth", depth, 1, hidden))
    points = input_points(x, cumulative_parameters.beta.shape[1]).double()
    return cumulative_parameters.pull_back(depth, cumulative_parameters.affine(depth, points).relu())
