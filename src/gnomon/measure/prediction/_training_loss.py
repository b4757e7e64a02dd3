"""The loss that training minimises, sample by sample."""

from jaxtyping import Float, Real
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure._losses import Loss, sample_losses


@half_as_single
def training_loss(
    logits: Float[Tensor, "n c"], labels: Real[Tensor, "n *y"], *, loss: Loss = "cross_entropy"
) -> Float[Tensor, "n"]:
    r"""The loss of each sample, whose mean training minimises.

    Reading:
        Low, high: 0: the outputs are the labels, or predict them with certainty. At the start $\log c$ under
            cross-entropy with small outputs.
        Generalising: Says nothing: on digits 4.6e-3 in a network that generalises, where a penalty pulls against it,
            4.6e-5 in one that memorised.
        Misleads: It falls as low with shuffled labels, 1.9e-6, as with true ones, 3.5e-6. Weight decay and other
            penalties are not in it.

    `cross_entropy`: $-\log\operatorname{softmax}(f(x))_y$, as `log_probability` with the sign turned, but in
    float64 inside, and where the label leads without adding 1: memorised samples keep losses, and their gradients, that
    are below the rounding of 1.
    `mse`: $\frac1c\|f(x) - e_y\|^2$, the mean over the outputs, as `torch.nn.MSELoss` has it.

    Args:
        logits: the outputs.
        labels: classes, 0 to c - 1; for the squared error also numbers in floating point, one per output: whole numbers
            are classes, and refused where they have the outputs' shape or there is one output, for which (n) suffices.
        loss: `cross_entropy`, `mse`, or a function from outputs and labels to one value per sample, such as
            `functools.partial(torch.nn.functional.cross_entropy, reduction="none", label_smoothing=0.1)`. The mean is
            over all n samples: where training's is torch's with class weights w, multiply by `n / w[labels].sum()` of
            all samples, a constant; where it ignores labels, leave out their samples. What differentiates a loss in the
            parameters refuses one that uses these, or that changes with the samples beside a sample. In a probe, use
            `functools.partial(training_loss, loss="mse")`.
    Returns:
        Of the named losses at least 0; unit: nats, or squared outputs.
    Raises:
        ShapeError: if the logits are not (n, c), labels do not match them, or there is not one value per sample.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, at labels that are neither, or if there is no loss of this name.
    Cost: O(n c).
    Example:
        >>> import torch, gnomon
        >>> gnomon.training_loss(torch.tensor([[3.0, 1.0]]), torch.tensor([0]), loss="mse")
        tensor([2.5000])
    """
    return sample_losses(loss, logits, labels)
