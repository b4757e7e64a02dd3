"""Whether a user's loss of each sample is of its outputs and its label alone, as means over chunks assume."""

import torch
from jaxtyping import Float, Real, Shaped
from torch import Tensor, nn

from gnomon._precision import outside_inference
from gnomon.autodiff import differ, forward, uses_of
from gnomon.errors import RangeError
from gnomon.measure._losses import Loss, single_losses

FEW = 4
"""Of at least this many samples, and of fewer than twice as many, losses are compared."""


def require_separate_losses(
    model: nn.Module, x: Shaped[Tensor, "n *d"], labels: Real[Tensor, "n *y"], loss: Loss
) -> None:
    """Raises RangeError if a user's loss uses the network's parameters, or changes with the samples beside a sample.

    Some samples from everywhere are passed, then the first half of them. A loss that draws random numbers differs from
    itself too, and is let through.
    """
    if not callable(loss):
        return
    step = max(1, len(x) // FEW)
    some, own = outside_inference(x[::step]), outside_inference(labels[::step])
    with torch.inference_mode(False), torch.no_grad():
        logits = forward(model, some).logits.detach()
    with torch.inference_mode(False), torch.enable_grad():
        losses = single_losses(loss, logits, own)
        _require_no_parameters(losses, model)
        half = (len(logits) + 1) // 2

        def alone() -> Float[Tensor, "h"]:
            return single_losses(loss, logits[:half], own[:half]).detach()

        first = alone()
        if differ(first, losses[:half].detach()) and not differ(first, alone()):
            raise RangeError(
                "loss",
                "the loss of each sample by itself",
                "losses that change with the samples beside it",
                "Divide by a number of all samples, such as w[labels].mean(), computed before.",
            )


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
