"""How strongly the loss curves at most, through the first derivatives of the outputs."""

from jaxtyping import Real, Shaped
from torch import Tensor, nn

from gnomon._precision import full_precision
from gnomon.autodiff import RTOL
from gnomon.linalg import Estimate
from gnomon.measure._curvature import eigenvalues, gauss_newton
from gnomon.measure._estimates import Accuracy
from gnomon.measure._losses import Loss


@full_precision
def gauss_newton_eigenvalues(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    labels: Real[Tensor, "n *y"],
    *,
    loss: Loss = "cross_entropy",
    k: int = 1,
    rtol: float | int = RTOL,
    passes: int | None = None,
    seed: int = 0,
    memory: int | None = None,
) -> Estimate:
    r"""The largest eigenvalues of the Gauss-Newton matrix of the mean loss in the parameters.

    Reading:
        Low, high: As for `hessian_eigenvalues`, of which they are the larger part where the loss is small.
        Generalising: On digits as for `hessian_eigenvalues`, of which they were 95 % at the start and all from then on.
        Misleads: As for `hessian_eigenvalues`.

    $\lambda_1\ge\dots\ge\lambda_k$ of $G = \frac1n\sum_iJ_i^\top H_iJ_i$, $J_i = \partial_\theta f(x_i)$,
    $H_i = \nabla^2_f\,\ell(f(x_i), y_i)$

    It is the Hessian of a network that is linear in its parameters, has no negative eigenvalue where the loss is
    convex, and for cross-entropy is the Fisher information under the network's own labels. Under `mse` its eigenvalues
    are those of the full `ntk` times $\frac2{nc}$. Computed by Lanczos' method, as in `hessian_eigenvalues`.

    Source:
        Schraudolph, Fast curvature matrix-vector products for second-order gradient descent (2002). Lanczos 1950.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples; token indices are allowed.
        labels: the labels of the samples, as for `training_loss`.
        loss: as for `training_loss`: `cross_entropy`, `mse`, or a function that torch differentiates twice. In a probe,
            use `functools.partial(gauss_newton_eigenvalues, loss="mse")`.
        k: how many eigenvalues.
        rtol: the error at which it stops, relative to each value, or to a tenth of the largest of the k in absolute
            value where it is smaller.
        passes: the largest number of products; at least 16; default: 256. A warning says if they do not suffice.
        seed: the seed of the random starting vector, which is drawn independently of training's random numbers.
        memory: bytes to use; default: 512 MiB. Samples are processed in chunks that fit, and half of it holds the
            vectors, one for each product: their number is limited too, though not below 2k. The warning says which
            limit it was.
    Returns:
        The estimates (k), the largest first, at least 0 for a convex loss; unit: loss per parameter squared. The error
        holds with a probability of 95 %: for the first, by a bound, this includes that no larger one was missed; for
        the others, it was found empirically over seeds, and is no less than `rtol` of them. Of several that are equal,
        or too close for so few steps, it does not include that some may be missed. The passes are products with the
        matrix. For half precision, in float32.
    Raises:
        ShapeError: if the outputs are not (n, c), or labels do not go with them.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, in the loss too, at labels that are not classes, or at a setting out of range.
        UnsupportedModuleError: if samples mix, Dropout draws random numbers, nothing is trainable, or a layer has no
            second derivative.
    Cost: a forward pass and two backward, and three backward passes for each of about 7 to 14 products; for ten values
        about 25 to 65. Memory for as many vectors over all parameters. Precision: products in float32 have about six
        digits.
    Example:
        >>> import torch, gnomon
        >>> layer, x = torch.nn.Linear(2, 1, bias=False), torch.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> found = gnomon.gauss_newton_eigenvalues(layer, x, torch.zeros(2, 1), loss="mse", k=2)
        >>> bool(found.value.allclose(torch.tensor([4.0, 1.0])))
        True
    """
    accuracy = Accuracy.of(rtol, passes, seed)
    return eigenvalues("gauss_newton_eigenvalues", gauss_newton(model, x, labels, loss, memory), k, accuracy, memory)
