"""How strongly the loss curves, at most."""

from jaxtyping import Real, Shaped
from torch import Tensor, nn

from gnomon._precision import full_precision
from gnomon.autodiff import RTOL
from gnomon.linalg import Estimate
from gnomon.measure._curvature import eigenvalues, hessian
from gnomon.measure._estimates import Accuracy
from gnomon.measure._losses import Loss


@full_precision
def hessian_eigenvalues(
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
    r"""The largest eigenvalues of the Hessian of the mean loss in the parameters: its sharpness.

    Reading:
        Low, high: High: in gradient descent, a learning rate above 2 over this value overshoots along its direction.
            Low: the loss is flat here.
        Generalising: On digits, from a large initialisation, it falls from 704 to 41 as a network groks, and rises to
            164 afterwards; in one that memorises it keeps falling, to 59.4.
        Misleads: In the end the network that generalises is the sharper one there. Rescaling layers changes it even
            where the function stays the same. Once all samples are classified correctly, that of cross-entropy falls
            to 0 as the outputs grow, whatever is learnt; while some are not, it grows with them.

    $\lambda_1\ge\dots\ge\lambda_k$ of $H = \nabla^2_\theta\,\frac1n\sum_i\ell(f(x_i), y_i)$

    Computed by Lanczos' method: only products with the Hessian are needed, and it is never formed. Weight decay and
    other penalties are not in it. At a ReLU's kink the second derivative is torch's, 0.

    Source:
        As a measure of a minimum's sharpness: Keskar et al., arXiv:1609.04836; compared with the learning rate: Cohen
        et al., arXiv:2103.00065. Lanczos 1950.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples; token indices are allowed.
        labels: the labels of the samples, as for `training_loss`.
        loss: as for `training_loss`: `cross_entropy`, `mse`, or a function. In a probe, use
            `functools.partial(hessian_eigenvalues, loss="mse")`.
        k: how many eigenvalues.
        rtol: the error at which it stops, relative to each value, or to a tenth of the largest of the k in absolute
            value where it is smaller.
        passes: the largest number of products; at least 16; default: 256. A warning says if they do not suffice.
        seed: the seed of the random starting vector, which is drawn independently of training's random numbers.
        memory: bytes to use; default: 512 MiB. Samples are processed in chunks that fit, and half of it holds the
            vectors, one for each product: their number is limited too, though not below 2k. The warning says which
            limit it was.
    Returns:
        The estimates (k), the largest first, which is at least 0 if some direction leaves the loss unchanged; unit:
        loss per parameter squared. The error holds with a probability of 95 %: for the first, by a bound, this includes
        that no larger one was missed; for the others, it was found empirically over seeds, and is no less than `rtol`
        of them. Of several that are equal, or too close for so few steps, it does not include that some may be missed.
        The passes are products with the Hessian. For a linear layer without bias under `mse` the eigenvalues are those
        of $\frac2{nc}X^\top X$, each c times. For half precision, in float32.
    Raises:
        ShapeError: if the outputs are not (n, c), or labels do not go with them.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, in the loss too, at labels that are not classes, or at a setting out of range.
        UnsupportedModuleError: if samples mix, Dropout draws random numbers, nothing is trainable, or a layer has no
            second derivative.
    Cost: a forward and a backward pass, and two more of each for each of about 7 to 14 products; for ten values about
        50 to 65. Memory for as many vectors over all parameters. Precision: products in float32 have about six digits.
    Example:
        >>> import torch, gnomon
        >>> layer, x = torch.nn.Linear(2, 1, bias=False), torch.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> found = gnomon.hessian_eigenvalues(layer, x, torch.zeros(2, 1), loss="mse", k=2)
        >>> bool(found.value.allclose(torch.tensor([4.0, 1.0])))
        True
    """
    accuracy = Accuracy.of(rtol, passes, seed)
    return eigenvalues("hessian_eigenvalues", hessian(model, x, labels, loss, memory), k, accuracy, memory)
