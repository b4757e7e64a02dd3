"""How little a sample must be changed for the network to predict another class."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.autodiff import Model, Tape, map_tapes, observe, require_one_function
from gnomon.errors import ShapeError
from gnomon.linalg import length, unit


@dataclass(frozen=True)
class DeepFool:
    r"""The perturbations found, sample by sample.

    Attributes:
        perturbation: r, (n *d), such that the network predicts `reached` at x + r; unit: inputs.
        norm: $\|r\|_2$, at least 0; unit: inputs.
        robustness: $\|r\|_2 / \|x\|_2$, at least 0, whose mean over samples is the papers' robustness measure; infinite
            where x is zero and r is not.
        left: the class that the network predicted at x.
        reached: the class that it predicts at x + r.
        flipped: whether the two differ. Where they do not, the search ended without success: r is as far as it got, 0
            for a sample that no step can move, and neither norm nor robustness is that of an adversarial perturbation.
        steps: the number of linearisations that it took.
    """

    perturbation: Float[Tensor, "n *d"]
    norm: Float[Tensor, "n"]
    robustness: Float[Tensor, "n"]
    left: Int[Tensor, "n"]
    reached: Int[Tensor, "n"]
    flipped: Bool[Tensor, "n"]
    steps: Int[Tensor, "n"]


@full_precision
def deepfool(
    model: Model,
    x: Float[Tensor, "n *d"],
    *,
    overshoot: float | int = 0.02,
    max_steps: int = 50,
    memory: int | None = None,
) -> DeepFool:
    r"""Small perturbations that change the predicted class, by steps to the nearest boundary of the tangent map.

    Reading:
        Low, high: Low: a small perturbation changes the class, where `flipped`. Read `robustness`, its length over the
            sample's.
        Generalising: On unseen digits 0.018 in a network that memorised, 0.381 in one that generalises.
        Misleads: What it finds is an upper bound. A network that assigns all samples to one class is robust: 0.154
            untrained, 0.009 trained (mse-collapse). A sample that is not `flipped` counts as far as the search got,
            0 where nothing moves it, as if it were fragile: if the mean of `flipped` is below 1, take that over the
            samples that are flipped; these are the easier ones, so it is too low for all.

    With y the class predicted at x, $x_0 = x$, f and its Jacobian J taken at $x_i$, until $x_i$ is in another class:

    $\rho_k = \dfrac{f_y - f_k}{\|J_y - J_k\|}, \quad k = \arg\min_{k\ne y}\rho_k$,
    $\quad r_i = \max\bigl(\rho_k,\ \eta\,\|\textstyle\sum_{j<i} r_j\|\bigr)\,\dfrac{J_k - J_y}{\|J_k - J_y\|}$,
    $\quad x_{i+1} = x + (1 + \eta)\sum_{j\le i} r_j$

    Every sample takes its own number of steps. The class to leave is the prediction, not the label, so a misclassified
    sample counts like any other; `left != labels` finds them. Inputs are not clipped to the range of pixels. This is a
    search, without gradients; `robust_radius` is the length of a single step for a ReLU network without biases, and can
    be differentiated.

    Source:
        Moosavi-Dezfooli et al., DeepFool, arXiv:1511.04599, algorithm 2, with the overshoot in each step as in their
        code. There, steps near the boundary get so small that rounding decides, and 1e-4 is added to each, a length
        without a scale; here the share $\eta$ of the distance so far is the minimum. All classes are tried, not just
        the ten with the largest outputs. Han, Papyan, Donoho, arXiv:2106.02073, figure 9, do not define their measure
        but refer to figure 8 of Papyan, Han, Donoho 2020: the mean of `robustness` over 100 test images.
    Args:
        model: a network, or any function, from (n *d) to (n c), c at least 2, whose samples do not mix.
        x: the samples.
        overshoot: $\eta$, how far to go beyond the boundary, as a share of the distance; above 0.
        max_steps: the number of linearisations after which a sample is given up.
        memory: bytes to use beyond a few copies of x; default: 512 MiB.
    Returns:
        The perturbations, in the dtype and on the device of x. Where `flipped`, the norm is at least the distance to
        another class; for a linear classifier it is that distance times 1 + overshoot, in one step. Invariant under
        positive scaling of the outputs, and under adding one function to all of them. A sample that no step can move,
        because all outputs have y's gradient, because one with another gradient ties with y, or because the dtype does
        not hold the distance, is given up at once.
    Raises:
        ShapeError: if the outputs are not (n, c), or c is 1.
        EmptyError: if there are no samples.
        RangeError: if x is not of floating point; at NaN or infinity in x, outputs or Jacobian; at a setting out of
            range.
        UnsupportedModuleError: if in training mode BatchNorm mixes the samples or Dropout draws random numbers.
    Cost: for each step, of which there are mostly two or three, two forward and c backward passes over the samples that
        are not done.
    Example:
        >>> import torch, gnomon
        >>> line = torch.nn.Linear(2, 2, bias=False)
        >>> line.weight.data = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
        >>> found = gnomon.deepfool(line, torch.tensor([[3.0, 4.0]]), overshoot=0.1)
        >>> found.perturbation, found.robustness
        (tensor([[-3.3000, -4.4000]]), tensor([1.1000]))
    """
    _checks.settings(
        _checks.above_0("overshoot", overshoot),
        _checks.whole_number("max_steps", max_steps, 1),
    )
    _checks.samples(x=x)
    _checks.finite(x=x)
    require_one_function(model, x)
    x, stretch = x.detach(), 1 + overshoot
    total = torch.zeros_like(x)

    def moved(which: Tensor) -> Tensor:
        return x[which] + stretch * total[which]

    def predicted(which: Tensor) -> Tensor:
        logits = observe(model, moved(which), {"logits"}, memory=memory, independent=True).values["logits"]
        if logits.shape[1] < 2:
            raise ShapeError("model", "at least 2 outputs", logits.shape[1], "Add a class.")
        _checks.finite(logits=logits)
        return logits.argmax(1)

    with torch.no_grad():
        waiting = torch.arange(len(x), device=x.device)
        left = predicted(waiting)
        reached, steps = left.clone(), torch.zeros_like(left)
        for _ in range(max_steps):
            least = overshoot * length(total[waiting].flatten(1))
            step = _steps_to_boundary(model, moved(waiting), left[waiting], least, memory)
            total[waiting] += step
            steps[waiting] += 1
            reached[waiting] = predicted(waiting)
            waiting = waiting[(reached[waiting] == left[waiting]) & step.flatten(1).any(1)]
            if len(waiting) == 0:
                break
        perturbation = stretch * total
        norm = length(perturbation.flatten(1))
        robustness = torch.where(norm > 0, norm / length(x.flatten(1)), 0)
    return DeepFool(perturbation, norm, robustness, left, reached, reached != left, steps)


def _steps_to_boundary(
    model: Model,
    x: Float[Tensor, "n *d"],
    classes: Int[Tensor, "n"],
    least: Float[Tensor, "n"],
    memory: int | None,
) -> Float[Tensor, "n *d"]:
    """Step to where the tangent map's output for the class is no longer the largest, or `least` that way; else 0."""

    def read(tape: Tape, start: int) -> dict[str, Tensor]:
        logits, jacobian = tape.logits.detach(), tape.jacobian()
        _checks.finite(logits=logits, jacobian=jacobian)
        part = slice(start, start + len(logits))
        y, rows = classes[part, None], jacobian.flatten(2)
        gap = logits.gather(1, y) - logits
        apart = rows - rows.take_along_dim(y[..., None], 1)
        # Instead of its zeros, since lengths of zero take longer to compute.
        apart.scatter_(1, y[..., None].expand_as(apart[:, :1]), 1)
        slope = length(apart)
        distance = torch.where(slope > 0, gap / slope, torch.inf).scatter(1, y, torch.inf)
        nearest, k = distance.min(1, keepdim=True)
        direction = unit(apart.take_along_dim(k[..., None], 1).squeeze(1))
        step = torch.where(nearest < torch.inf, nearest.maximum(least[part, None]) * direction, 0)
        return {"step": step.view_as(tape.x)}

    return map_tapes(model, x, read, jacobian=2, memory=memory, independent=True)["step"]
