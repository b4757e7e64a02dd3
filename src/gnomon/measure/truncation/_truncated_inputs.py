"""What a network's ReLUs do to its inputs, seen in input space."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon._precision import full_precision
from gnomon.measure._sequential import input_points
from gnomon.measure.truncation._cumulative_parameters import CumulativeParameters
from gnomon.measure.truncation._truncation_map import truncation_map


@full_precision
def truncated_inputs(
    cumulative_parameters: CumulativeParameters, x: Float[Tensor, "n *d"]
) -> Float[Tensor, "steps n q"]:
    r"""The samples, and where each hidden layer in turn moves them in input space.

    Reading:
        Low, high: For the spread within over that between classes, after the last layer: low where each class has been
            cut to a point.
        Generalising: In the plane it goes from 0.14 to 0.005 where two clusters are apart (100 % accuracy on unseen
            points), and from 7.612 to 3.975 where they overlap (70 %).
        Misleads: These are two clusters in the plane, one seed, picked from six initialisations because a cluster
            becomes a point.

    $x,\ \tau^{(1)}(x),\ \tau^{(2)}\circ\tau^{(1)}(x),\ \dots,\ \underline\tau^{(L)}(x)$

    The network's own hidden layers are affine images of these, $x^{(\ell)} = a^{(\ell)}(\underline\tau^{(\ell)}(x)) =
    W^{(\ell)}\underline\tau^{(\ell)}(x) + b^{(\ell)}$, and so are its outputs,
    $W^{(L+1)}\underline\tau^{(L)}(x) + b^{(L+1)}$: all that is not linear happens in input space.

    Source:
        Chen, arXiv:2501.07400, eqs. (2.16)-(2.18). Departs from it in the biases, which (2.17) and (2.18) leave out
        (docs/errata.md).
    Args:
        cumulative_parameters: the cumulative parameters of the network.
        x: the samples; further axes are flattened.
    Returns:
        L + 1 times the samples, the first as they are; in float64 like the parameters; unit: that of x.
    Raises:
        ShapeError: if x does not have the network's number of inputs.
        EmptyError: if there are no samples.
        RangeError: if x is not of floating point, or holds NaN or infinity.
    Cost: O(L (n q² + q³)). Precision: the largest condition number times epsilon.
    Example:
        >>> import torch, gnomon
        >>> model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU(), torch.nn.Linear(1, 1), torch.nn.ReLU())
        >>> for layer, weight, bias in ((model[0], 1.0, 1.0), (model[2], -1.0, 3.0)):
        ...     layer.weight.data, layer.bias.data = torch.tensor([[weight]]), torch.tensor([bias])
        >>> parameters = gnomon.cumulative_parameters(model)
        >>> gnomon.truncated_inputs(parameters, torch.tensor([[-2.0], [1.0], [4.0]])).detach().squeeze()
        tensor([[-2.,  1.,  4.],
                [-1.,  1.,  4.],
                [-1.,  1.,  2.]], dtype=torch.float64)
    """
    steps = [input_points(x, cumulative_parameters.beta.shape[1]).double()]
    for depth in range(1, cumulative_parameters.hidden + 1):
        steps.append(truncation_map(cumulative_parameters, steps[-1], depth=depth))
    return torch.stack(steps)
