"""How much two steps of gradient descent on different samples depend on their order."""

import itertools
import math

import torch
from jaxtyping import Float, Real, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.autodiff import LossOperator
from gnomon.linalg import Estimate, length
from gnomon.measure._curvature import hessian
from gnomon.measure._losses import Loss


@full_precision
def commutator_defect(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    labels: Real[Tensor, "n *y"],
    *,
    loss: Loss = "cross_entropy",
    pairs: int = 9,
    batch: int = 512,
    seed: int = 0,
    memory: int | None = None,
) -> Estimate:
    r"""How far two gradient steps on two batches depend on their order: their commutator over the gradients' norms.

    Reading:
        Low, high: 0: the order of batches does not matter, as where the loss is flat or the batches are alike.
            According to its authors it rises before networks generalise.
        Generalising: On digits, from a large initialisation, the other way round: at most 380 in a network while it
            groks, and up to 172,000 in one that memorises, with 28 % of the unseen digits right; 141 and 132 at the
            end.
        Misleads: It grows as the inverse of the gradients: where a network has learnt its samples it is large, whatever
            it knows about others.

    $\frac{\|H_Ag_B - H_Bg_A\|}{\|g_A\|\,\|g_B\|}$, the median over pairs of batches A and B, with the gradients g and
    Hessians H of their mean losses

    The authors take two steps of size $\eta = 10^{-3}$, $\|\theta_{AB} - \theta_{BA}\| / (\eta^2\|g_A\|\,\|g_B\|)$, in
    networks with GELUs, in float32, where rounding can exceed the defect. This is the limit of small steps, with which
    that ratio agrees in float64 to 1 part in 1,000. For a network with ReLUs there is no such limit while steps cross
    kinks: the ratio can be anything, depending on the step (docs/errata.md), and here the kinks are left out.

    Source:
        Xu, arXiv:2602.16967; the definition: Xu, Low-Dimensional and Transversely Curved Optimization Dynamics in
        Grokking, arXiv:2602.16746, and its code, from which the defaults of pairs and batch are taken.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples; token indices are allowed.
        labels: the labels of the samples, as for `training_loss`.
        loss: as for `training_loss`: `cross_entropy`, `mse`, or a function. In a probe, use
            `functools.partial(commutator_defect, loss="mse")`.
        pairs: how many pairs of batches, at least 6.
        batch: the number of samples in a batch, at most as many as there are; drawn one by one, so that some occur
            twice.
        seed: the seed of the batches, which are drawn independently of training's random numbers.
        memory: bytes to use; default: 512 MiB. Samples are processed in chunks that fit.
    Returns:
        The median, at least 0; unit: 1 per parameter; 0 where a gradient is 0. Scaling the loss changes nothing. The
        error is the distance from it to the farther end of the 95 % interval of the median over all pairs of batches.
        The passes are products with Hessians. For half precision, in float32.
    Raises:
        ShapeError: if the outputs are not (n, c), or labels do not go with them.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, in the loss too, at labels that are not classes, or at a setting out of range.
        UnsupportedModuleError: if samples mix, Dropout draws random numbers, nothing is trainable, or a layer has no
            second derivative.
    Cost: over each of the 18 batches a forward and a backward pass, and two more of each for the product.
    Example:
        >>> import torch, gnomon
        >>> layer, x = torch.nn.Linear(2, 1, bias=False), torch.ones(4, 2)
        >>> bool(gnomon.commutator_defect(layer, x, torch.zeros(4, 1), loss="mse").value < 1e-5)
        True
    """
    _checks.settings(
        _checks.whole_number("pairs", pairs, 6),
        _checks.whole_number("batch", batch, 1),
        _checks.whole_number("seed", seed),
    )
    matrix = hessian(model, x, labels, loss, memory)
    generator = torch.Generator().manual_seed(int(seed))
    rows = torch.randint(len(x), (pairs, 2, min(batch, len(x))), generator=generator, device="cpu").to(x.device)
    defects = torch.stack([_defect(matrix.of(a), matrix.of(b)) for a, b in rows])
    return _median(defects)


def _defect(a: LossOperator, b: LossOperator) -> Float[Tensor, ""]:
    """The defect of two batches."""
    of_a, of_b = a.gradient(), b.gradient()
    sizes = length(of_a), length(of_b)
    positive = torch.minimum(*sizes) > 0
    by_a, by_b = (torch.where(positive, size, 1) for size in sizes)
    # Each product is divided by both lengths, by one of them beforehand: otherwise it might underflow.
    apart = a.multiply(of_b / by_b) / by_a - b.multiply(of_a / by_a) / by_b
    return torch.where(positive, length(apart), 0)


def _median(values: Float[Tensor, "m"]) -> Estimate:
    """The median of independent values, with the 95 % interval of their distribution's median, by order statistics."""
    m = len(values)
    # Of the 2^m ways to lie above and below the median, those with less than one, two ... below it, in whole numbers.
    fewer = itertools.accumulate(math.comb(m, i) for i in range(m - 1))
    outside = sum(1 for _ in itertools.takewhile(lambda ways: 40 * ways <= 2**m, fewer))
    ordered = values.sort().values
    median = (ordered[(m - 1) // 2] + ordered[m // 2]) / 2
    error = torch.maximum(median - ordered[outside - 1], ordered[m - outside] - median)
    return Estimate(median, error, torch.tensor(2 * m, device=values.device))
