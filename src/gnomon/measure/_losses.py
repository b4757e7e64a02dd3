"""The loss of each sample: one of the two common ones, by name, or a user's function."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Float, Int, Real, Shaped
from torch import Tensor
from torch.nn import functional

from gnomon import _checks
from gnomon._precision import in_single
from gnomon.autodiff import scale_of_sum
from gnomon.errors import GnomonError, RangeError, ShapeError
from gnomon.linalg import cross_entropies

Loss = Literal["cross_entropy", "mse"] | Callable[[Tensor, Tensor], Tensor]
"""By name; or from outputs and labels to one value per sample, such as `partial(cross_entropy, reduction="none")`."""

TARGETS = (
    "For targets bind a loss: functools.partial({where}, loss='mse'), or a function of outputs and targets in place of "
    "'mse', with one value per sample."
)
"""The advice where labels are no classes, of what takes a loss."""


def check_labelled(x: Shaped[Tensor, "n *d"], labels: Shaped[Tensor, "n *y"]) -> None:
    """Raises unless these are finite samples, and as many labels or targets, of any kind."""
    _checks.samples(1, x=x, labels=labels)
    _checks.finite(x=x)


def sample_losses(loss: Loss, logits: Float[Tensor, "n c"], labels: Real[Tensor, "n *y"]) -> Float[Tensor, "n"]:
    """The loss of each sample; for one output and its label it is a number, whichever axes these have.

    Raises:
        ShapeError, EmptyError, RangeError: if outputs, labels and loss do not match.
    """
    formula, targets = formula_and_targets(loss, logits, labels)
    losses: object = formula(logits, targets)
    if not isinstance(losses, Tensor) or losses.shape != logits.shape[:1]:
        got = f"shape {_checks.shape_of(losses)}" if isinstance(losses, Tensor) else type(losses).__name__
        raise ShapeError("loss", "one value per sample", got, _advice(losses, logits, targets))
    if callable(loss):
        _checks.finite(loss=losses)
    return losses


def _advice(losses: object, logits: Tensor, targets: Tensor) -> str:
    """What helps where a loss did not give one value per sample."""
    if isinstance(losses, Tensor) and losses.ndim > 1 and losses.shape == logits.shape:
        return "Take the mean over outputs: lambda outputs, targets: loss(outputs, targets).mean(1)."
    if isinstance(losses, Tensor) and losses.ndim == 2 == logits.ndim and targets.ndim == 1 == logits.shape[1]:
        return 'Outputs (n, 1) and targets (n,) broadcast: pass targets (n, 1) or loss="mse", or use outputs[:, 0].'
    return (
        'Leave out the mean, as reduction="none" does; with class weights w, multiply by n / w[labels].sum() of all '
        "samples, as torch's mean does, and leave out samples whose label is ignored."
    )


def single_losses(loss: Loss, logits: Float[Tensor, "n c"], labels: Real[Tensor, "n *y"]) -> Float[Tensor, "n"]:
    """The same, in single precision at least."""
    return sample_losses(loss, in_single(logits), labels)


def scaled_sum(loss: Loss, logits: Float[Tensor, "n c"], labels: Real[Tensor, "n *y"]) -> Float[Tensor, ""]:
    """Their sum over `scale_of_sum`, so that half precision holds its gradients."""
    return single_losses(loss, logits, labels).sum() / scale_of_sum(len(logits))


def mean_loss(loss: Loss) -> Callable[[Tensor, Tensor], Tensor]:
    """What training minimises, from all outputs and `train_labels` to a number; by name, the mean over the samples."""
    if callable(loss):
        return _on_copies(loss)

    def mean(logits: Tensor, train_labels: Tensor) -> Tensor:
        try:
            return single_losses(loss, logits, train_labels).mean()
        except GnomonError as error:
            error.argument = "train_labels" if error.argument == "labels" else error.argument
            raise

    return mean


def formula_and_targets(
    loss: Loss, logits: Float[Tensor, "n c"], labels: Real[Tensor, "n *y"]
) -> tuple[Callable[[Tensor, Tensor], Tensor], Real[Tensor, "n *_"]]:
    """The loss as torch operations that read no tensor's values, and its targets, which have been checked.

    Raises:
        ShapeError, EmptyError, RangeError: if outputs, labels and loss do not match.
    """
    if callable(loss):
        _checks.samples(1, logits=logits, labels=labels)
        _checks.finite(logits=logits)
        return _on_copies(loss), labels
    if not isinstance(loss, str) or loss not in FORMULAS:
        raise RangeError("loss", "'cross_entropy', 'mse' or a function", repr(loss), "Name one of these.")
    if loss == "mse" and labels.is_floating_point():
        return _squares, _numbers(logits, labels)
    if loss == "mse" and (labels.shape == logits.shape or logits.shape[1:] == (1,)):
        raise RangeError("labels", "targets of floating point", labels.dtype, "Convert them by .float().")
    _checks.outputs(logits, labels, TARGETS)
    classes = labels.long()
    return FORMULAS[loss], functional.one_hot(classes, logits.shape[1]) if loss == "mse" else classes


def _on_copies(loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """A user's function, which may change what it is given in place: others read that too."""
    return lambda logits, labels: loss(logits.clone(), labels.clone())


def _entropies(logits: Float[Tensor, "n c"], classes: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
    """In float64: of samples that are memorised, single precision rounds the loss and its derivatives to zero."""
    wide = logits if logits.device.type == "mps" else logits.double()  # which it does not have
    return cross_entropies(wide, classes).to(logits.dtype)


def _squares(logits: Float[Tensor, "n c"], targets: Real[Tensor, "n c"]) -> Float[Tensor, "n"]:
    return (logits - targets.to(logits.dtype)).square().mean(1)


def _numbers(logits: Float[Tensor, "n c"], labels: Float[Tensor, "n *y"]) -> Float[Tensor, "n c"]:
    """The labels, one per output."""
    _checks.rows(logits=logits)
    _checks.samples(1, logits=logits, labels=labels)
    _checks.finite(logits=logits, labels=labels)
    if labels.shape != logits.shape and not (labels.ndim == 1 and logits.shape[1] == 1):
        expected = f"shape {_checks.shape_of_samples(logits)} as the outputs have, or classes"
        raise ShapeError("labels", expected, _checks.shape_of_samples(labels), "Pass one number per output.")
    return labels.view_as(logits)


FORMULAS = {"cross_entropy": _entropies, "mse": _squares}
