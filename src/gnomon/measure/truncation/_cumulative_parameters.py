"""The weights and biases of a ReLU network, composed from the input up to each layer."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import RangeError, ShapeError
from gnomon.measure._sequential import relu_layers

_LIMIT = torch.finfo(torch.float64).eps ** -0.5
"""The largest condition number: half of float64's digits remain when a layer is pulled back."""


@dataclass(frozen=True)
class CumulativeParameters:
    r"""The affine map from the input to each layer that the network would be without its ReLUs, and the way back.

    $a^{(\ell)}(x) = W^{(\ell)}x + b^{(\ell)} = W^{(\ell)}(x + \beta^{(\ell)})$, for layers $\ell$ = 1, 2, ..., all in
    float64.

    Attributes:
        weight: $W^{(\ell)}$, (h q) for a layer of width h, one per layer, the readout's last.
        bias: $b^{(\ell)}$, (h), one per layer.
        beta: $\beta^{(\ell)}$, the biases in input space; unit: that of the inputs.
        condition: $\sigma_1/\sigma_h$ of $W^{(\ell)}$, at least 1: the relative error, in epsilons, of points that are
            pulled back.
        hidden: the number L of layers followed by a ReLU: all, or all but the readout.
    """

    weight: tuple[Float[Tensor, "_ q"], ...]
    bias: tuple[Float[Tensor, "_"], ...]
    beta: Float[Tensor, "l q"]
    condition: Float[Tensor, "l"]
    hidden: int

    @full_precision
    def affine(self, layer: int, x: Float[Tensor, "n q"]) -> Float[Tensor, "n h"]:
        r"""$a^{(\ell)}(x)$."""
        weight = self._weight(layer)
        return _rows_of("x", x, weight.shape[1]) @ weight.mT + self.bias[layer - 1]

    @full_precision
    def pull_back(self, layer: int, z: Num[Tensor, "n h"]) -> Float[Tensor, "n q"]:
        r"""$(a^{(\ell)})^{-1}(z) = (W^{(\ell)})^+(z - b^{(\ell)})$: of all x with $a^{(\ell)}(x) = z$, the shortest.

        At the readout these are the labels as points of input space, $\tilde y = (W^{(L+1)})^+(y - b^{(L+1)})$.
        """
        weight = self._weight(layer)
        return _right_solve(weight, _rows_of("z", z, weight.shape[0]) - self.bias[layer - 1])

    def _weight(self, layer: int) -> Float[Tensor, "h q"]:
        layers = len(self.weight)
        _checks.settings(_checks.whole_number("layer", layer, 1, layers))
        return self.weight[layer - 1]


def _rows_of(name: str, points: Num[Tensor, "n _"], width: int) -> Float[Tensor, "n _"]:
    """The points in float64; ShapeError unless they have this width."""
    if points.ndim != 2 or points.shape[1] != width:
        raise ShapeError(name, f"shape (n, {width})", _checks.shape_of(points), "Pass a row for each point.")
    return points.double()


@full_precision
def cumulative_parameters(model: nn.Sequential) -> CumulativeParameters:
    r"""The products of a ReLU network's weights up to each layer, and its biases pulled back to the input.

    Reading:
        Low, high: For the condition number: 1 where the layers only rotate, high where they stretch.
        Generalising: Says nothing: in the plane 7.5 where two clusters are apart and all unseen points are classified
            correctly, 3.7 where they overlap (70 %).
        Misleads: Near a singular weight: the network is fine there, but its cumulative biases are not
            (truncation-practice).

    $W^{(\ell)} = W_\ell\cdots W_1$, $\quad b^{(\ell)} = W_\ell b^{(\ell-1)} + b_\ell$,
    $\quad\beta^{(\ell)} = (W^{(\ell)})^+b^{(\ell)}$, for the hidden layers and the readout

    For equal widths the weights are square, the pseudo-inverse is the inverse, and
    $\beta^{(\ell)} = \beta^{(\ell-1)} + (W^{(\ell)})^{-1}b_\ell$. Widths may decrease: with full row rank the
    Moore-Penrose pseudo-inverse $W^+ = W^\top(WW^\top)^{-1}$ is a right inverse, $WW^+ = 1$, which is what
    `truncation_map` needs. It is computed by QR, and no inverse is formed.

    Source:
        Chen, arXiv:2501.07400, eqs. (2.6)-(2.8). Departs from it in $\beta^{(L+1)}$, which follows from the same
        formula and is not $W_{L+1}^{-1}\beta^{(L)}$ (docs/errata.md).
    Args:
        model: alternating linear layers and ReLUs, as built by `gnomon.models.mlp`; without a last ReLU, the last layer
            is the readout. A Flatten may come first.
    Returns:
        In float64 on the model's device, since in float32 products of many weights lose the digits that the pull-back
        needs. `affine` and `pull_back` are maps to a layer and back.
    Raises:
        UnsupportedModuleError: if the model is anything else, also by a forward of its own, or by a hook that changes
            outputs.
        ShapeError: if a layer is wider than one before it.
        RangeError: at NaN or infinity, or if a condition number is above 6.7e7, the root of float64's 1/epsilon.
    Cost: O(l q³); where modules have hooks, also a pass at 8 random inputs, to see whether these change outputs.
    Example:
        >>> import torch, gnomon
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        >>> model[0].weight.data = torch.tensor([[0.0, 4.0], [2.0, 0.0]])
        >>> model[0].bias.data = torch.tensor([4.0, 6.0])
        >>> parameters = gnomon.cumulative_parameters(model)
        >>> parameters.beta.tolist(), parameters.condition.tolist()
        ([[3.0, 1.0]], [2.0])
    """
    layers, hidden = relu_layers(model)
    weights: list[Tensor] = []
    biases: list[Tensor] = []
    for name, layer in layers.items():
        _checks.finite(**{f"{name}.weight": layer.weight.detach()})
        weight, bias = layer.weight.double(), layer.weight.new_zeros(layer.out_features).double()
        if layer.bias is not None:
            _checks.finite(**{f"{name}.bias": layer.bias.detach()})
            bias = layer.bias.double()
        if layer.out_features > layer.in_features:
            raise ShapeError(
                "model",
                "widths that do not increase",
                f"{layer.in_features} to {layer.out_features} at {name!r}",
                "Pass the layers before it; truncation_sectors takes any widths.",
            )
        # Copies of the first layer's parameters, which in float64 would otherwise change with every training step.
        weights.append(weight @ weights[-1] if weights else weight.clone())
        biases.append(weight @ biases[-1] + bias if biases else bias.clone())
    condition = torch.stack([torch.linalg.cond(weight) for weight in weights])
    for number, (name, value) in enumerate(zip(layers, condition.tolist(), strict=True), 1):
        if not value <= _LIMIT:
            raise RangeError(
                "model",
                f"condition numbers of at most {_LIMIT:.1e}",
                f"{value:.1e} for W^({number}), up to {name!r}",
                "Pass the layers before it; truncation_sectors takes any weights.",
            )
    beta = torch.stack([_right_solve(weight, bias[None])[0] for weight, bias in zip(weights, biases, strict=True)])
    return CumulativeParameters(tuple(weights), tuple(biases), beta, condition, hidden)


def _right_solve(weight: Float[Tensor, "h q"], z: Float[Tensor, "n h"]) -> Float[Tensor, "n q"]:
    r"""$W^+z$ for each z, W of full row rank: with $W^\top = QR$, this is $QR^{-\top}z$."""
    q, r = torch.linalg.qr(weight.mT)
    return torch.linalg.solve_triangular(r, z, upper=True, left=False) @ q.mT
