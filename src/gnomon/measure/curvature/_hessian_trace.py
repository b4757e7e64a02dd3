"""How strongly the loss curves, over all directions together."""

from jaxtyping import Real, Shaped
from torch import Tensor, nn

from gnomon._precision import full_precision
from gnomon.linalg import Estimate
from gnomon.measure._curvature import accuracy_of_trace, hessian, trace
from gnomon.measure._losses import Loss


@full_precision
def hessian_trace(
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
    r"""The trace of the Hessian of the mean loss in the parameters.

    Reading:
        Low, high: High: the loss curves in many directions, or strongly in few. Low: the loss is flat here.
        Generalising: On digits, from a large initialisation, it falls with the largest eigenvalue: to 599 as a network
            groks, and is at 3,110 afterwards; in one that memorises it falls to 1,900.
        Misleads: As for `hessian_eigenvalues`. At the start, where eigenvalues of both signs cancel, its error can be
            as large as a third of it: `gauss_newton_trace` is more reliable, and has the same value in networks of
            linear layers and ReLUs that share no weights.

    $\operatorname{tr}H$, $H = \nabla^2_\theta\,\frac1n\sum_i\ell(f(x_i), y_i)$

    The part in a Krylov space is exact, and the rest is the mean of $z^\top Hz$ over normal vectors z. A network of
    linear layers and ReLUs that share no weights is linear in each single parameter, almost everywhere: for it, this is
    the trace of the Gauss-Newton matrix. With up to 64 parameters it is exact.

    Source:
        Hutchinson 1990; Meyer et al. 2021 (Hutch++), Chen and Hallman 2023 for the use of a Krylov space.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples; token indices are allowed.
        labels: the labels of the samples, as for `training_loss`.
        loss: as for `training_loss`: `cross_entropy`, `mse`, or a function. In a probe, use
            `functools.partial(hessian_trace, loss="mse")`.
        rtol: the relative error at which it stops, with a warning if that is not reached; default: it stops at 0.05, or
            when the passes are used up.
        passes: the largest number of products; at least 16; default: 64, or 256 where an accuracy is requested.
        seed: the seed of the random vectors, which are drawn independently of training's random numbers.
        memory: bytes to use; default: 512 MiB. Samples are processed in chunks that fit, and steps are taken only as
            far as they fit; some 20 vectors as long as all parameters are held in any case.
    Returns:
        The estimate; unit: loss per parameter squared. The error is half the width of its 95 % interval, 0 where it is
        exact. The passes are products with the Hessian. For half precision, in float32.
    Raises:
        ShapeError: if the outputs are not (n, c), or labels do not go with them.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, in the loss too, at labels that are not classes, or at a setting out of range.
        UnsupportedModuleError: if samples mix, Dropout draws random numbers, nothing is trainable, or a layer has no
            second derivative.
    Cost: a forward and a backward pass, and two more of each for each of 24 to 64 products. Memory for 32 vectors over
        all parameters. Precision: products in float32 have about six digits.
    Example:
        >>> import torch, gnomon
        >>> layer, x = torch.nn.Linear(2, 1, bias=False), torch.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> found = gnomon.hessian_trace(layer, x, torch.zeros(2, 1), loss="mse")
        >>> bool(found.value.isclose(torch.tensor(5.0)))
        True
    """
    accuracy = accuracy_of_trace(rtol, passes, seed)
    matrix = hessian(model, x, labels, loss, memory)
    return trace("hessian_trace", matrix, accuracy, memory, requested=rtol is not None)
