"""Whether a user's loss of each sample is of its outputs and its label alone, as means over chunks assume."""

import torch
from jaxtyping import Float, Int, Real, Shaped
from torch import Tensor, nn

from gnomon._precision import outside_inference
from gnomon.autodiff import Tape, differ, forked, map_tapes, uses_of
from gnomon.errors import RangeError
from gnomon.measure._losses import Loss, single_losses

FEW = 16
"""The number of samples whose losses are compared."""


def require_separate_losses(
    model: nn.Module, x: Shaped[Tensor, "n *d"], labels: Real[Tensor, "n *y"], loss: Loss, memory: int | None
) -> None:
    """Raises RangeError if a user's loss uses the network's parameters, or changes with the samples beside a sample.

    Of a few samples, drawn without regard to an order of labels, the second half is replaced by copies of that of the
    largest loss, then of that of the smallest. All draw the same numbers of torch; a loss that draws others, as of
    NumPy, differs from itself too, and is let through.
    """
    if not callable(loss):
        return
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(0), device="cpu")[:FEW]
    with torch.inference_mode(False), torch.enable_grad():
        some, own = (outside_inference(given[rows.to(given.device)]) for given in (x, labels))
        logits = map_tapes(model, some, _outputs, derivative=False, memory=memory, independent=True)["logits"]
        logits.requires_grad_()  # for losses that differentiate by them
        places = torch.arange(len(logits), device=logits.device)
        half = (len(logits) + 1) // 2

        def of(rows: Int[Tensor, "m"]) -> Float[Tensor, "m"]:
            with forked(logits):
                return single_losses(loss, logits[rows], own[rows.to(own.device)])

        losses = of(places)
        _require_no_parameters(losses, model)
        first = losses[:half].detach()
        for other in (losses.argmax(), losses.argmin()):
            beside = of(torch.where(places < half, places, other))[:half].detach()
            if differ(first, beside) and not differ(first, of(places)[:half].detach()):
                raise RangeError(
                    "loss",
                    "the loss of each sample by itself",
                    "losses that change with the samples beside it",
                    "Divide by a number of all samples, such as w[labels].mean(), computed before.",
                )


def _outputs(tape: Tape, _: int) -> dict[str, Tensor]:
    return {"logits": tape.logits.detach()}


def _require_no_parameters(losses: Float[Tensor, "n"], model: nn.Module) -> None:
    """Raises RangeError if losses, computed of outputs without a graph, have one to a parameter."""
    used = {id(getattr(node, "variable", None)) for node in uses_of(losses)}
    for name, parameter in model.named_parameters():
        if id(parameter) in used:
            raise RangeError(
                "loss",
                "a function of outputs and labels alone",
                f"one that uses the network's {name!r}",
                "Leave out penalties of the parameters.",
            )
