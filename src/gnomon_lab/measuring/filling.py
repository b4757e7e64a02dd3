"""Filling the network with a checkpoint's weights, wherever in it they are."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gnomon.errors import CheckpointError
from gnomon_lab.measuring.places import Place, Weights, at_key, places

SHOWN = 3
"""How many names an error gives."""


class Loaded(NamedTuple):
    """What the network was filled with.

    Attributes:
        words: what was loaded, in words.
        others: the names of other places that would fill it.
    """

    words: str
    others: tuple[str, ...] = ()

    @property
    def in_full(self) -> str:
        """What was loaded, and what else could have been."""
        return f"{self.words}; also there: {', '.join(self.others)} (--key)" if self.others else self.words


def load(network: nn.Module, found: Sequence[Weights], key: str | None = None) -> Loaded:
    """Fills the network from the state dict that has all of its tensors, and returns in words what was loaded.

    The names may have a prefix, such as `module.` or `backbone.`, which is removed; names without it are ignored. If
    several places would do, the one where checkpoints usually keep the weights is taken, or the one that `key` names.
    For a parameter that the network has under two names, one is enough, and a BatchNorm's `num_batches_tracked` may be
    missing, as torch allows.

    Raises:
        CheckpointError: naming the first tensors that are missing or left over, or one that has another shape or does
            not hold floating-point numbers; or the places, if there are several.
    """
    place, others = chosen(network, places(network.state_dict(), found), key)
    own = place.tensors
    tensors = own | implied(network, own)
    require_all(network.state_dict(), tensors, len(own))
    try:
        network.load_state_dict(tensors)
    except RuntimeError as cause:
        # Below a heading, a line for each tensor of another shape.
        lines = [line.strip().rstrip(".") for line in str(cause).splitlines()]
        raise CheckpointError(
            "checkpoint",
            "the shapes of the network's tensors",
            lines[min(1, len(lines) - 1)],
            "Name the factory of the network that was saved.",
        ) from cause
    return Loaded(place.words, tuple(other.name for other in others))


def chosen(network: nn.Module, there: Sequence[Place], key: str | None) -> tuple[Place, list[Place]]:
    """The place to take the weights from, and others that would do.

    Raises:
        CheckpointError: if there is nothing under the key, or there are several places of which none is the usual one.
    """
    whole = [place for place in there if fills(network, place)]
    usual = at_key(there, key)
    if key is not None and not usual:
        raise CheckpointError(
            "--key",
            f"one of {listed([place.name for place in whole if place.name] or ['none, of a plain state dict'])}",
            repr(key),
            "Name what holds a state dict, such as ema or snapshots.3.",
        )
    right = [place for place in usual if place in whole] or ([] if key else whole)
    if len(right) > 1 and right[0] not in usual:
        raise CheckpointError(
            "checkpoint",
            "one state dict that is the network's",
            f"{len(right)}: {listed([place.name for place in right])}",
            f"Name one, such as --key {right[0].name}.",
        )
    if right:
        return right[0], [place for place in whole if place is not right[0] and place.name]
    return max(usual if key else there, key=lambda place: place.known), []


def fills(network: nn.Module, place: Place) -> bool:
    """Whether a place has all of the network's tensors, in their shapes, and nothing else."""
    if place.known < max(1, len([*network.parameters()])):
        return False
    wanted, own = network.state_dict(), place.tensors
    return (
        own.keys() <= wanted.keys()
        and wanted.keys() <= {*own, *implied(network, own)}
        and all(is_lazy(wanted[name]) or wanted[name].shape == tensor.shape for name, tensor in own.items())
    )


def require_all(wanted: Mapping[str, Tensor], tensors: Mapping[str, Tensor], own: int) -> None:
    """Raises CheckpointError unless these are the network's tensors, with its kinds of numbers."""
    missing = [name for name in wanted if name not in tensors]
    unexpected = [name for name in tensors if name not in wanted]
    if missing or unexpected:
        kinds = {"missing": missing, "unexpected": unexpected}
        raise mismatch(len(wanted), own, "Name the factory of the network that was saved.", kinds)
    for name, tensor in tensors.items():
        if wanted[name].is_floating_point() and not tensor.is_floating_point():
            raise CheckpointError(
                "checkpoint",
                f"floating-point numbers in {name}",
                tensor.dtype,
                "Quantised numbers are not the network's weights: save the weights that they stand for.",
            )


def mismatch(wanted: int, found: int, advice: str, kinds: Mapping[str, Sequence[str]]) -> CheckpointError:
    """The error for tensors that are missing, left over, or of another shape: their names, by kind."""
    got = "; ".join(f"{kind} {listed(names)}" for kind, names in kinds.items() if names)
    return CheckpointError("checkpoint", f"the {wanted} tensors of the network", f"{found}: {got}", advice)


def implied(network: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What is not among the tensors and need not be: tied parameters, and how many batches a BatchNorm has seen.

    Files of before torch 0.4.1, and what was converted from other libraries, lack the latter; without a momentum alone
    it decides anything, and then only in training.
    """
    norms = nn.modules.batchnorm._BatchNorm
    layers = (name for name, layer in network.named_modules() if isinstance(layer, norms))
    counts = {".".join(filter(None, [name, "num_batches_tracked"])) for name in layers}
    own = {name: count for name, count in network.state_dict().items() if name in counts - {*tensors}}
    return tied(network, tensors) | own


def tied(network: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters that are not among the tensors, but are the same as one that is, under another name."""
    parameters = dict(network.named_parameters(remove_duplicate=False))
    there = {id(parameters[name]): tensor for name, tensor in tensors.items() if name in parameters}
    return {
        name: there[id(parameter)]
        for name, parameter in parameters.items()
        if name not in tensors and id(parameter) in there
    }


def listed(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
