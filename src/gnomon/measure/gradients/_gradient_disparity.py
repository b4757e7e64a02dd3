"""How far apart the gradients of two batches are."""

from functools import partial

import torch
from jaxtyping import Float, Real, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision, outside_inference
from gnomon.autodiff import chunk_size, loss_gradient, scale_of_sum, trainable
from gnomon.errors import RangeError
from gnomon.linalg import Estimate, largest
from gnomon.measure._jackknife import half_width
from gnomon.measure._losses import Loss, check_labelled, scaled_sum, single_losses
from gnomon.measure._parameters import alike
from gnomon.measure._separate_losses import require_separate_losses


@full_precision
def gradient_disparity(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    labels: Real[Tensor, "n *y"],
    *,
    loss: Loss = "cross_entropy",
    batches: int = 5,
    batch: int | None = None,
    rescaled: bool = True,
    seed: int = 0,
    memory: int | None = None,
) -> Estimate:
    r"""The distance between the gradients of two batches, averaged over the pairs of a few batches.

    Reading:
        Low, high: Low: what one batch teaches helps the other. High: each pulls its own way.
        Generalising: Its rise is the paper's sign of overfitting: on digits it rises to 76 in a network that
            generalises; in one that memorised to 80,000, in jumps, with 2,033 at the end.
        Misleads: When rescaled, it rises wherever losses vanish: to 1,100 with true labels, where 96 % of unseen digits
            are recognised, and to 450 with shuffled ones. It falls with the square root of the batch size.

    $\frac{2}{s(s-1)}\sum_{i<j}\|\nabla_\theta L_i - \nabla_\theta L_j\|_2$ for s batches, where L is the mean of a
    batch's losses over their standard deviation, or without rescaling just the mean

    The standard deviation divides by n - 1, and is differentiated too, as in the authors' code. Their code uses the
    batches that training draws, in training mode; here they are drawn at random from all samples.

    Source:
        Forouzesh, Thiran, arXiv:2107.06665, and their code (github.com/mahf93/disparity_early_stopping).
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples from which batches are drawn, without replacement.
        labels: what the loss takes in addition to the outputs, as for `training_loss`.
        loss: `cross_entropy`, `mse`, or a function from outputs and labels to one value per sample.
        batches: the number of batches, s; at least 2.
        batch: the number of samples in each; default: as many as fit, in equally large batches. The paper's is that of
            training.
        rescaled: whether the losses of each batch are divided by their standard deviation, as the paper does.
        seed: the seed of the batches, which are drawn independently of training's random numbers.
        memory: bytes to use beyond the batches' gradients; default: 512 MiB.
    Returns:
        At least 0; unit: loss per parameter, or, rescaled, 1 per parameter: then invariant under scaling the loss. The
        error is estimated by the jackknife over batches, and infinite for two. No graph. For half precision, in
        float32.
    Raises:
        ShapeError: if the outputs are not (n, c), or labels and loss do not match them.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, in outputs, loss and gradients too; at labels that are not classes, and at
            settings out of range; if there are too few samples, or if all losses of a batch to be rescaled are equal,
            or differ by less than the dtype's smallest normal number: float64's for a loss by name.
        UnsupportedModuleError: if in training mode BatchNorm mixes the samples or Dropout draws random numbers, or if
            nothing is trainable.
    Cost: a forward and a backward pass over the batches, and O(s p) memory.
    Example:
        >>> import torch, gnomon
        >>> layer = torch.nn.Linear(1, 1, bias=False)
        >>> x, targets = torch.tensor([[1.0], [2.0]]), layer.weight.detach() * torch.tensor([[1.0], [2.0]]) - 1
        >>> gnomon.gradient_disparity(layer, x, targets, loss="mse", batches=2, rescaled=False).value
        tensor(2.)
    """
    fewest = 2 if rescaled else 1
    _checks.settings(
        ("rescaled", rescaled, "True or False", isinstance(rescaled, bool)),
        _checks.whole_number("batches", batches, 2),
        _checks.whole_number("batch", batch, fewest, optional=True),
        _checks.whole_number("seed", seed),
    )
    check_labelled(x, labels)
    parameters = trainable(model, x)
    require_separate_losses(model, x, labels, loss, memory)
    x, labels = outside_inference(x), outside_inference(labels)
    chunk = chunk_size(model, x, memory=memory)
    each = len(x) // batches if batch is None else int(batch)
    if each < fewest or each * batches > len(x):
        # Errors of network and labels are reported first, since more samples do not fix them.
        loss_gradient(model, parameters, x, labels, partial(scaled_sum, loss), chunk, create_graph=False)
        needed = f"{batches * max(each, fewest)} samples for as many of them"
        raise RangeError("batches", needed, len(x), "Pass more samples, or ask for fewer or smaller batches.")
    total = partial(_rescaled if rescaled else scaled_sum, loss)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(int(seed)), device="cpu")
    gradients = []
    # Samples that are selected in inference mode cannot enter a graph.
    with torch.inference_mode(False), torch.no_grad():
        for rows in torch.split(order, each)[:batches]:
            some = x[rows.to(x.device)], labels[rows.to(labels.device)]
            found = loss_gradient(model, parameters, *some, total, chunk, create_graph=False)
            gradients.append(scale_of_sum(each) / each * torch.cat(alike(part.flatten() for part in found.values())))
    return _between(torch.stack(gradients))


def _rescaled(loss: Loss, logits: Float[Tensor, "n c"], labels: Real[Tensor, "n *y"]) -> Float[Tensor, ""]:
    """The scaled sum over the standard deviation."""
    # A loss by name in float64, as single precision has no digits of losses below 1e-38.
    named = isinstance(loss, str) and logits.device.type != "mps"  # which has no float64
    losses = single_losses(loss, logits.double() if named else logits, labels)
    # Over the largest, since the derivative divides by the square of the deviation.
    size = largest(losses)
    shares = losses / size
    spread = shares.std()
    if not spread > 0:
        got = f"a batch where all are {float(losses.detach()[0]):.3g}"
        raise RangeError("loss", "losses that differ within each batch", got, "Compare it with rescaled=False.")
    least, deviation = torch.finfo(losses.dtype).tiny, spread.detach() * size
    if deviation < least:  # whose inverse is infinite
        expected, got = f"a standard deviation of at least {least:.2g} within each batch", f"{float(deviation):.2g}"
        raise RangeError("loss", expected, got, "Compare it with rescaled=False.")
    return shares.sum() / spread / scale_of_sum(len(losses))


def _between(gradients: Float[Tensor, "s p"]) -> Estimate:
    """The mean distance between two rows, with the error from its variation when one is left out."""
    _checks.finite(gradient=gradients)
    s = len(gradients)
    apart = torch.stack([torch.linalg.vector_norm(gradients - row, dim=1, dtype=torch.float64) for row in gradients])
    total = apart.sum()
    without = (total - 2 * apart.sum(1)) / max(1, (s - 1) * (s - 2))
    value, error = total / (s * (s - 1)), half_width(without)
    return Estimate(value.to(gradients), error.to(gradients), torch.tensor(s, device=value.device))
