"""Whether each sample's outputs depend on that sample alone, as every per-sample derivative assumes."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain

import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from gnomon import _checks
from gnomon.autodiff._randomness import differ, draws, forked, states
from gnomon.autodiff._run import Model, recorded, run
from gnomon.autodiff._tape import Call, recording
from gnomon.errors import GnomonError, UnsupportedModuleError

FEW = 8
"""Samples used to check whether a layer gets them in their order."""
MUCH = 10
"""How many times farther than from itself a sample's outputs are with others beside it if samples mix."""


def require_samples(model: Model, x: Shaped[Tensor, "n *d"], *, derivative: bool) -> None:
    """Raises unless there are samples that are finite, of floating point if a derivative is taken, and do not mix."""
    if derivative:
        _checks.floating(x=x)
    _checks.samples(1, x=x)
    _checks.finite(x=x)
    require_fixed_statistics(model)


def require_one_function(model: Model, x: Shaped[Tensor, "n *d"]) -> None:
    """Raises unless samples do not mix, and random numbers do not change the function from one pass to the next.

    torch's own layers that draw in training mode are known. What else draws, such as `torch.nn.functional.dropout`, is
    noticed by the state of torch's generators, and what is drawn may be without effect. Numbers of other generators,
    such as NumPy's, are not noticed.

    Raises:
        UnsupportedModuleError: if they do, or as `require_independent_samples`.
    """
    drawn = require_independent_samples(model, x)
    expected = "a network that computes the same in each pass"
    for name, module in model.named_modules() if isinstance(model, nn.Module) else ():
        if draws(module):
            got = f"{type(module).__name__} '{name}' drawing random numbers"
            raise UnsupportedModuleError("model", expected, got, "Call model.eval() first.")
    if not drawn:
        return
    own, _ = two_kinds(x)
    with forked(own), recorded():
        first, second = (run(model, torch.cat([own, own])).detach() for _ in range(2))
    if differ(first, second):
        raise UnsupportedModuleError(
            "model",
            expected,
            f"outputs that change by {float((first - second).abs().max()):.2g} with the random numbers that are drawn",
            "Let it draw none, as by model.eval().",
        )


def require_independent_samples(model: Model, x: Shaped[Tensor, "n *d"]) -> bool:
    """Raises unless the outputs of a sample stay the same when the other samples in the batch change.

    A sample is run between two others, and between two copies of itself: batches of the same shape, from the same state
    of torch's random number generator, so that its outputs are equal up to rounding. Three samples are used because a
    network that is recurrent along them lets each see only those before it, and because with three the share of each in
    a mean is large.

    Returns:
        Whether a pass draws random numbers.
    Raises:
        UnsupportedModuleError: if samples mix, in a BatchNorm that uses batch statistics or otherwise, or if the
            network accepts these samples only all together.
    """
    require_fixed_statistics(model)
    own, other = two_kinds(x)
    try:
        with no_calls_of_mixing(model):
            (first, drawn), (second, _) = (beside(model, own, neighbour) for neighbour in (other, own))
    except (GnomonError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # whatever the user's network raises
        require_any_number(model, x, error)
        raise
    # Networks with other random number generators, or with state, differ from themselves.
    if differ(first, second) and repeats(first, second, beside(model, own, other)[0]):
        raise UnsupportedModuleError(
            "model",
            "samples that do not mix",
            f"outputs of a sample that change by {float(apart(first, second)):.2g}, where the "
            f"largest is {float(first.abs().max()):.2g}, with the samples beside it",
            "Usual causes: attention or a recurrent layer without batch_first, statistics over the batch. "
            "Let the network treat each sample by itself.",
        )
    return drawn


def repeats(first: Shaped[Tensor, "c"], second: Shaped[Tensor, "c"], again: Shaped[Tensor, "c"]) -> bool:
    """Whether the first outputs come again up to rounding, by much less than the second are from them."""
    return not differ(first, again) and bool(apart(first, second) > MUCH * apart(first, again))


def apart(one: Shaped[Tensor, "c"], other: Shaped[Tensor, "c"]) -> Shaped[Tensor, ""]:
    """The largest difference."""
    return (one - other).abs().max()


def require_fixed_statistics(model: Model) -> None:
    """Raises UnsupportedModuleError if a forward pass may change a normalisation.

    In training mode a BatchNorm uses the statistics of the batch, and has no Jacobian per sample; an InstanceNorm and a
    spectral norm have, but move their running statistics and their power iteration. In eval mode what matters is
    whether a pass calls a BatchNorm that keeps no statistics: see `require_independent_samples`.
    """
    for name, module in model.named_modules() if isinstance(model, nn.Module) else ():
        if module.training and uses_batch_statistics(module):
            refuse_mixing(name, "Call model.eval() first.", module)
        if moving := moved_by_a_pass(module):
            expected = "a network that a forward pass leaves as it is"
            got = f"{type(module).__name__} '{name}' moving its {moving}"
            raise UnsupportedModuleError("model", expected, got, "Call model.eval() first.")


@contextmanager
def no_calls_of_mixing(model: Model) -> Iterator[None]:
    """Inside, a BatchNorm of this network that keeps no running statistics is an error before it runs."""
    advice = "It keeps no running statistics: build it with track_running_stats=True."
    with ExitStack() as hooks:
        for name, module in model.named_modules() if isinstance(model, nn.Module) else ():
            if uses_batch_statistics(module):
                hook = module.register_forward_pre_hook(partial(refuse_mixing, name, advice))
                hooks.callback(hook.remove)
        yield


def refuse_mixing(name: str, advice: str, module: nn.Module, _: object = None) -> None:
    """Raises UnsupportedModuleError about a layer that normalises by the batch."""
    got = f"{type(module).__name__} '{name}' normalising by the batch"
    raise UnsupportedModuleError("model", "samples that do not mix", got, advice)


@contextmanager
def no_batch_statistics(expected: str, advice: str) -> Iterator[None]:
    """Inside, a BatchNorm that would use the statistics of the batch is an error before it runs, whoever calls it."""
    here = threading.get_ident()

    def refuse(module: nn.Module, _: object) -> None:
        if threading.get_ident() == here and uses_batch_statistics(module):
            raise UnsupportedModuleError("model", expected, f"{type(module).__name__} normalising by the batch", advice)

    hook = nn.modules.module.register_module_forward_pre_hook(refuse)
    try:
        yield
    finally:
        hook.remove()


def uses_batch_statistics(module: nn.Module) -> bool:
    """Whether it is a BatchNorm that normalises by the batch."""
    norms = nn.modules.batchnorm._BatchNorm
    return isinstance(module, norms) and (module.training or module.running_mean is None)


def moved_by_a_pass(module: nn.Module) -> str | None:
    """What each forward pass moves in an InstanceNorm, or in a spectral norm, a module or a hook; None if nothing."""
    if not module.training:
        return None
    if isinstance(module, nn.modules.instancenorm._InstanceNorm) and module.track_running_stats:
        return "running statistics"
    hooked = any(isinstance(hook, SpectralNorm) for hook in module._forward_pre_hooks.values())
    # That of a vector iterates over nothing.
    return "power iteration" if hooked or (isinstance(module, _SpectralNorm) and hasattr(module, "_u")) else None


def two_kinds(x: Shaped[Tensor, "n *d"]) -> tuple[Shaped[Tensor, "1 *d"], Shaped[Tensor, "1 *d"]]:
    """The first sample, and the first that differs from it; if there is none, a sample derived from it."""
    with torch.inference_mode(False):
        own = x[:1].detach().clone()
        for i in range(1, len(x)):
            if not torch.equal(x[i : i + 1], own):
                return own, x[i : i + 1].detach().clone()
        made = own.flip(tuple(range(1, own.ndim)))
        # Tokens are left as they are, since there may be no other.
        return own, made + 1 if torch.equal(made, own) and made.is_floating_point() else made


def beside(
    model: Model, own: Shaped[Tensor, "1 *d"], neighbour: Shaped[Tensor, "1 *d"]
) -> tuple[Shaped[Tensor, "c"], bool]:
    """The outputs of a sample between two equal ones, and whether random numbers were drawn."""
    outputs, drawn = tried(model, neighbour, own, neighbour)
    return outputs[1], drawn


def tried(model: Model, *samples: Shaped[Tensor, "_ *d"]) -> tuple[Shaped[Tensor, "n c"], bool]:
    """The outputs of a pass over these samples together, and whether torch drew random numbers, which it forgets."""
    with forked(samples[0]), recorded():
        before = states(samples[0])
        outputs = run(model, torch.cat(samples)).detach()
        return outputs, not all(map(torch.equal, before, states(samples[0])))


def require_samples_in_order(
    model: Model, x: Shaped[Tensor, "n *d"], layers: Iterable[nn.Module], argument: str = "layer"
) -> None:
    """Raises unless the input rows of these layers follow the samples, in their order wherever they are as many.

    A network may put another axis first, which may happen to be as long as there are samples: three times as many are
    run too. It may sort its samples and restore the order only of its outputs, as mixtures of experts do. Some samples
    are run as they are, and in reverse: the rows then have to be reversed too.

    Raises:
        UnsupportedModuleError: if they do not, or random numbers that change them hide whether they do.
    """
    with torch.inference_mode(False):
        some = x[:FEW].detach().clone()
        reverse = some.flip(0)
        thrice = torch.cat([some, some, some])
    layers = [*layers]
    few, many = (inputs_of(model, each, layers) for each in (some, thrice))
    for layer, ones, others in zip(layers, few, many, strict=True):
        lengths = [len(one) for one, other in zip(ones, others, strict=False) if 0 != len(one) == len(other)]
        if lengths:
            raise UnsupportedModuleError(
                argument,
                "a layer whose input has the samples along its first axis",
                f"a {type(layer).__name__} whose input has {lengths[0]} rows, however many samples there are",
                "Choose another, or put the samples first, as by batch_first.",
            )
    forth, back = (with_rows_of(some, few), with_rows_of(some, inputs_of(model, reverse, layers)))
    wrong = [k for k, (one, other) in enumerate(zip(forth, back, strict=True)) if moved(one, other)]
    # A network with state differs from itself.
    if wrong and not any(map(differ, chain(*forth), chain(*with_rows_of(some, inputs_of(model, some, layers))))):
        require_one_function(model, x)
        raise UnsupportedModuleError(
            argument,
            "a layer whose input has the samples in their order",
            f"a {type(layers[wrong[0]]).__name__} that gets them in another",
            "Choose a layer before they are reordered, or after their order is restored.",
        )


def with_rows_of(x: Shaped[Tensor, "n *d"], inputs: Sequence[Sequence[Tensor]]) -> list[list[Shaped[Tensor, "n *p"]]]:
    """Those inputs of each layer that have as many rows as there are samples."""
    return [[each for each in own if len(each) == len(x)] for own in inputs]


def inputs_of(
    model: Model, x: Shaped[Tensor, "n *d"], layers: Sequence[nn.Module]
) -> list[list[Shaped[Tensor, "_ *p"]]]:
    """The inputs of each of these layers in one pass, call by call."""
    seen: dict[str, list[Tensor]] = {str(place): [] for place in range(len(layers))}

    def note(call: Call, output: object) -> None:
        seen[call.name].append(call.x.detach())

    with recording(dict(zip(seen, layers, strict=True)), note):
        tried(model, x)
    return list(seen.values())


def moved(forth: Sequence[Tensor], back: Sequence[Tensor]) -> bool:
    """Whether a layer's inputs for the reversed samples differ from its inputs for the samples, reversed."""
    return any(differ(one, other.flip(0)) for one, other in zip(forth, back, strict=False))


def require_any_number(model: Model, x: Shaped[Tensor, "n *d"], error: Exception) -> None:
    """Raises UnsupportedModuleError if a network that raised `error` at a few of these samples takes them together."""
    if not takes(model, x[:3]) and takes(model, x):
        raise UnsupportedModuleError(
            "model",
            "a network that takes any number of samples",
            f"{type(error).__name__}: {error} at a few of them, and none at all {len(x)}",
            "Where samples are nodes of one graph, or depend on each other otherwise, make each a sample "
            "of its own, with all that it depends on.",
        ) from error


def takes(model: Model, x: Shaped[Tensor, "n *d"]) -> bool:
    """Whether the network accepts these samples, all at once."""
    with suppress(Exception):  # whatever the user's network raises
        run(model, x)
        return True
    return False
