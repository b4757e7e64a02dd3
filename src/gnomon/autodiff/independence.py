"""Whether each sample's outputs are its own: what every derivative by sample rests on."""

from contextlib import suppress

import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from gnomon.autodiff.graph import Model, run, uncompiled
from gnomon.errors import GnomonError, UnsupportedModuleError


def require_independent_samples(where: str, model: Model, x: Shaped[Tensor, "n *d"]) -> None:
    """Raises unless the outputs of a sample stay what they are when the samples beside it change.

    A sample is run between two others and between two of its own kind: batches of one shape, from one state of torch's
    random numbers, so that its outputs are equal up to rounding. Three samples, since a network that runs along them
    lets each see only those before it, and since with three the share of each in a mean is large.

    Raises:
        UnsupportedModuleError: if samples mix, in a BatchNorm that uses the statistics of the batch or otherwise, or
            if the network takes these samples only together.
    """
    require_no_batch_statistics(where, model)
    own, other = two_kinds(x)
    try:
        first, second = (beside(where, model, own, neighbour) for neighbour in (other, own))
    except (GnomonError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # whatever the user's network raises
        if not takes(where, model, x):
            raise
        raise UnsupportedModuleError(
            f"{where}(model): expected a network that takes any number of samples, got {type(error).__name__}: {error} "
            f"at three of them, and none at all {len(x)}. Where samples are nodes of one graph, or depend on each "
            f"other otherwise, make each a sample of its own, with all that it depends on."
        ) from error
    # Networks with random numbers of another kind, or with a state, differ from themselves, be it by little.
    if differ(first, second) and torch.equal(first, beside(where, model, own, other)):
        raise UnsupportedModuleError(
            f"{where}(model): expected samples that do not mix, got outputs of a sample that change by "
            f"{float((first - second).abs().max()):.2g}, where the largest is {float(first.abs().max()):.2g}, with "
            f"the samples beside it. Usual causes: attention or a recurrent layer without batch_first, statistics "
            f"over the batch. Let the network treat each sample by itself."
        )


def require_no_batch_statistics(where: str, model: Model) -> None:
    """Raises UnsupportedModuleError if a BatchNorm uses the statistics of the batch: its Jacobian is not per sample."""
    if not isinstance(model, nn.Module):
        return
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and (module.training or module.running_mean is None):
            raise UnsupportedModuleError(
                f"{where}(model): expected samples that do not mix, got {type(module).__name__} '{name}' "
                f"normalising by the batch. Call model.eval() first."
            )


def two_kinds(x: Shaped[Tensor, "n *d"]) -> tuple[Shaped[Tensor, "1 *d"], Shaped[Tensor, "1 *d"]]:
    """The first sample, and the first that differs from it; if there is none, a sample made of it."""
    with torch.inference_mode(False):
        own = x[:1].detach().clone()
        for i in range(1, len(x)):
            if not torch.equal(x[i : i + 1], own):
                return own, x[i : i + 1].detach().clone()
        made = own.flip(tuple(range(1, own.ndim)))
        # Tokens are left as they are, since there may be no other.
        return own, made + 1 if torch.equal(made, own) and made.is_floating_point() else made


def beside(
    where: str, model: Model, own: Shaped[Tensor, "1 *d"], neighbour: Shaped[Tensor, "1 *d"]
) -> Shaped[Tensor, "c"]:
    """The outputs of a sample between two that are alike."""
    devices = [own.device.index] if own.is_cuda else []
    with (
        torch.random.fork_rng(devices),
        torch.inference_mode(False),
        torch.enable_grad(),
        sdpa_kernel(SDPBackend.MATH),
        uncompiled(),
    ):
        return run(where, model, torch.cat([neighbour, own, neighbour]))[1].detach()


def differ(one: Shaped[Tensor, "c"], other: Shaped[Tensor, "c"]) -> bool:
    """Whether two results differ by more than rounding; where they are NaN, they do not."""
    if not one.is_floating_point() or one.numel() == 0:
        return not torch.equal(one, other)
    scale = torch.maximum(one.abs().max(), other.abs().max())
    return bool((one - other).abs().max() > torch.finfo(one.dtype).eps ** 0.5 * scale)


def takes(where: str, model: Model, x: Shaped[Tensor, "n *d"]) -> bool:
    """Whether the network takes these samples, all at once."""
    with suppress(Exception):  # whatever the user's network raises
        run(where, model, x)
        return True
    return False
