"""How strongly the loss curves through the first derivatives of the outputs, over all directions together."""

from jaxtyping import Real, Shaped
from torch import Tensor, nn

from gnomon._precision import full_precision
from gnomon.linalg import Estimate
from gnomon.measure._curvature import accuracy_of_trace, gauss_newton, trace
from gnomon.measure._losses import Loss


@full_precision
def gauss_newton_trace(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    labels: Real[Tensor, "n *y"],
    *,
    loss: Loss = "cross_entropy",
    rtol: float | int | None = None,
    passes: int | None = None,
    seed: int = 0,
    memory: int | None = None,
) -> Estimate:
    r"""The trace of the Gauss-Newton matrix of the mean loss in the parameters.

    Reading:
        Low, high: High: outputs react strongly to the parameters where the loss curves in the outputs. Low: they do
            not, or the loss is flat there.
        Generalising: On digits as for `hessian_trace`, within their errors at every step.
        Misleads: As for `hessian_eigenvalues`.

    $\operatorname{tr}G = \frac1n\sum_i\operatorname{tr}J_i^\top H_iJ_i$, $J_i = \partial_\theta f(x_i)$,
    $H_i = \nabla^2_f\,\ell(f(x_i), y_i)$

    For cross-entropy it is the trace of the Fisher information under the network's own labels; under `mse` it is the
    mean of the `ntk`'s diagonal times $\frac2c$. Estimated as `hessian_trace`.

    Source:
        Hutchinson 1990; Meyer et al. 2021 (Hutch++), Chen and Hallman 2023 for the use of a Krylov space.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples; token indices are allowed.
        labels: the labels of the samples, as for `training_loss`.
        loss: as for `training_loss`: `cross_entropy`, `mse`, or a function that torch differentiates twice. In a probe,
            use `functools.partial(gauss_newton_trace, loss="mse")`.
        rtol: the relative error at which it stops, with a warning if that is not reached; default: it stops at 0.05, or
            when the passes are used up.
        passes: the largest number of products; at least 16; default: 64, or 256 where an accuracy is requested.
        seed: the seed of the random vectors, which are drawn independently of training's random numbers.
        memory: bytes to use; default: 512 MiB. Samples are processed in chunks that fit, and steps are taken only as
            far as they fit; some 20 vectors as long as all parameters are held in any case.
    Returns:
        The estimate, for a convex loss at least 0 up to its error; unit: loss per parameter squared. The error is half
        the width of its 95 % interval, 0 where it is exact. The passes are products with the matrix. For half
        precision, in float32.
    Raises:
        ShapeError: if the outputs are not (n, c), or labels do not go with them.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, in the loss too, at labels that are not classes, or at a setting out of range.
        UnsupportedModuleError: if samples mix, Dropout draws random numbers, nothing is trainable, or a layer has no
            second derivative.
    Cost: a forward pass and two backward, and three backward passes for each of 24 to 64 products. Memory for 32
        vectors over all parameters. Precision: products in float32 have about six digits.
    Example:
        >>> import torch, gnomon
        >>> layer, x = torch.nn.Linear(2, 1, bias=False), torch.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> found = gnomon.gauss_newton_trace(layer, x, torch.zeros(2, 1), loss="mse")
        >>> bool(found.value.isclose(torch.tensor(5.0)))
        True
    """
    accuracy = accuracy_of_trace(rtol, passes, seed)
    matrix = gauss_newton(model, x, labels, loss, memory)
    return trace("gauss_newton_trace", matrix, accuracy, memory, requested=rtol is not None)
