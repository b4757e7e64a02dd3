"""A reading of very few samples, before training: what quantities need, and the network or the samples lack."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FunctionType

import torch
from jaxtyping import Int
from torch import Tensor, nn

from gnomon import _checks
from gnomon.autodiff import observe
from gnomon.errors import ConvergenceError, DataError, EmptyError, GnomonError, RangeError
from gnomon.probe.evaluating import evaluated
from gnomon.probe.plan import Plan, Quantity, presentable
from gnomon.probe.side_effects import side_effects_said
from gnomon.probe.wrapped import has_shapes

CLASSES = 128
"""Up to so many classes give a sample each; of more, only the first and the last."""


def rehearse(
    plan: Plan, model: nn.Module, given: Mapping[str, object], *, layer: str | None, memory: int | None
) -> set[str]:
    """Raises one error that names all quantities that cannot be had, and says why; leaves everything as it was.

    Observations are made, and gnomon's own functions are called, on one sample of each class, or two in all. A function
    of the user's is not called before it is due: it may keep a state, cost much, or want all samples. A network that is
    not yet where its samples are, or has lazy layers without a shape, is left alone.

    Returns:
        The names of the parameters to which passes write, in eval mode too.
    Raises:
        GnomonError: of the kind of the first, if something lacks for good.
    """
    x, labels = given["x"], given.get("labels")
    if not isinstance(x, Tensor) or not ready(model, x):
        return set()
    rows, every_class = few(len(x), labels if isinstance(labels, Tensor) else None)
    known = {
        name: value[rows.to(value.device)] if isinstance(value, Tensor) else value for name, value in given.items()
    }

    def try_all() -> dict[str, GnomonError]:
        why: dict[str, GnomonError] = {}
        for name in sorted(plan.observations):
            with noting(why, name, every_class), in_a_sentence("x", "samples that the network takes", x):
                _checks.finite("Probe", x=x)
                known[name] = look(model, x[rows.to(x.device)], name, layer, memory)
        features = known.get("features")
        fewer = isinstance(features, Tensor) and len(x) < features[0].numel()
        for name, quantity in plan.quantities.items():
            wanted = plan.arguments[name]
            if lacking := [why[argument] for argument in wanted if argument in why]:
                why[name] = lacking[0]
            elif own(quantity) and known.keys() >= set(wanted):
                with noting(why, name, every_class, fewer), in_a_sentence(name, "what it can be computed of", x):
                    value = quantity(**{argument: known[argument] for argument in wanted})
                    known[name] = presentable(name, value) if name in plan.reported else value
        return why

    why, written = evaluated(model, lambda: side_effects_said(model, try_all), None)
    say({name: why[name] for name in plan.reported if name in why})
    return written


def ready(model: nn.Module, x: Tensor) -> bool:
    """Whether the network is where the samples are, and has all its shapes."""
    return has_shapes(model) and all(parameter.device == x.device for parameter in model.parameters())


def few(n: int, labels: Tensor | None) -> tuple[Int[Tensor, "m"], bool]:
    """The first sample of each class, so that the smallest and the largest label are there; and whether all are."""
    if labels is None or labels.ndim != 1:
        return torch.arange(min(2, n)), False
    order = labels.argsort(stable=True)
    ranked = labels[order]
    begins = torch.ones_like(ranked, dtype=torch.bool)
    begins[1:] = ranked[1:] != ranked[:-1]
    first = order[begins]
    return (first, True) if len(first) <= CLASSES else (first[[0, -1]], False)


def look(model: nn.Module, x: Tensor, name: str, layer: str | None, memory: int | None) -> Tensor:
    """One observation; for the Jacobian, one of equal rows with the same sum, by one backward pass and not c."""
    if name != "jacobian":
        return observe("Probe", model, x, {name}, layer=layer, memory=memory).values[name]
    seen = observe("Probe", model, x, {"centroid", "logits"}, memory=memory).values
    n, c = seen["logits"].shape
    return (seen["centroid"] / c).unsqueeze(1).expand(n, c, *x.shape[1:])


def own(quantity: Quantity) -> bool:
    """Whether it is one of gnomon's functions, as it stands."""
    return isinstance(quantity, FunctionType) and str(quantity.__module__).partition(".")[0] == "gnomon"


@contextmanager
def noting(why: dict[str, GnomonError], name: str, every_class: bool, fewer: bool = False) -> Iterator[None]:
    """Keeps what is raised inside, if it lasts."""
    try:
        with suppress(torch.linalg.LinAlgError):  # type: ignore[attr-defined]
            yield
    except GnomonError as error:
        if lasts(error, every_class, fewer):
            why[name] = error


@contextmanager
def in_a_sentence(argument: str, expected: str, x: Tensor) -> Iterator[None]:
    """What the network or torch itself raises inside, as an error of gnomon's."""
    try:
        yield
    except (GnomonError, torch.OutOfMemoryError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
        raise
    except Exception as cause:  # whatever the user's network raises
        raise DataError(
            f"Probe({argument}): expected {expected}, got {type(cause).__name__}: {cause} at samples of shape "
            f"{tuple(x.shape[1:])} in {x.dtype} on {x.device}. Pass network and samples as they are in training, and "
            f"in float32 or float64."
        ) from cause


def lasts(error: GnomonError, every_class: bool, fewer: bool) -> bool:
    """Whether neither training nor more samples would mend it.

    A number out of range may be one of untrained weights, or of too few samples for a full rank: it counts only if it
    is about the samples themselves, which stay, about a setting, or about moments of fewer samples than features.
    """
    if isinstance(error, RangeError):
        # Where settings are wrong, the message names them behind the colon.
        samples_or_settings = error.argument in (None, "x", "labels", "layer", "memory")
        return samples_or_settings or (error.argument == "class_moments" and fewer)
    if isinstance(error, EmptyError):
        return every_class or error.argument != "labels"
    return not isinstance(error, ConvergenceError)


def say(why: Mapping[str, GnomonError]) -> None:
    """Raises one error for all, quantities with one reason together."""
    if not why:
        return
    names: defaultdict[str, list[str]] = defaultdict(list)
    for name, error in why.items():
        names[str(error)].append(name)
    lines = (f"\n  {', '.join(quantities)}: {reason}" for reason, quantities in names.items())
    first = next(iter(why.values()))
    raise type(first)(
        f"Probe(quantities): expected what this network has at these samples, got{''.join(lines)}"
    ) from first
