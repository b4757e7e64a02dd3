"""From the argument names of quantities to the order in which to compute them."""

import difflib
import graphlib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial

from torch import Tensor, nn

from gnomon.autodiff import OBSERVATIONS, Layer, Positions
from gnomon.errors import ArgumentTypeError, EmptyError, RangeError, ShapeError
from gnomon.measure import centroid
from gnomon.probe._derived import DERIVED, QUANTITIES, across_layers, own, unbound
from gnomon.probe._reading import Value, as_tensor

Quantity = Callable[..., object]
"""A function whose argument names say what it uses; it returns a tensor, a number or a frozen dataclass of these."""
Quantities = Sequence[Quantity] | Mapping[str, Quantity]
"""Quantities, under their own names or others."""
MAY_BE_SETTINGS = {*QUANTITIES, "head", "positions"}
"""Names that a user's function may give to settings of its own, by a default."""


@dataclass(frozen=True)
class Plan:
    """The quantities in an order in which each finds its arguments, these arguments, and what they need in addition.

    A name is that of a quantity, or of a quantity at one of several layers: `LAYER/NAME`.

    Attributes:
        quantities: what is computed from the rest, in order; some only because others need it.
        arguments: by quantity and argument, the name of what it uses.
        observations: what to observe of the model in addition to features.
        features: by name, the layer whose input they are, or the layers of the head; none if they are to be found.
        across_layers: the quantities that use the final linear layer and features.
        reported: the names that were requested, in their order.
        head: the names of the final layers; none if they are to be found.
    """

    quantities: dict[str, Quantity]
    arguments: dict[str, dict[str, str]]
    observations: frozenset[str]
    features: dict[str, Layer]
    across_layers: list[str]
    reported: tuple[str, ...]
    head: tuple[str, ...]

    @property
    def observed(self) -> list[str]:
        """The names of all that is observed of the model."""
        return [*self.observations, *self.features]

    @property
    def hands_out_network(self) -> bool:
        """Whether a function that is not gnomon's own is given the network or its parameters, and may change them."""
        return any(
            not own(quantity) and not {"model", "parameters"}.isdisjoint(self.arguments[name].values())
            for name, quantity in self.quantities.items()
        )


def named(quantities: object) -> dict[str, Quantity]:
    """The quantities by name: their own, unless a mapping gives one."""
    if isinstance(quantities, str):
        raise no_function(quantities)
    if callable(quantities) or not isinstance(quantities, Iterable):
        raise RangeError(
            "quantities",
            "functions in a list, or by name in a mapping",
            f"{quantities!r} alone",
            "Put it into a list.",
        )
    given = [*quantities.values()] if isinstance(quantities, Mapping) else [*quantities]
    if wrong := [quantity for quantity in given if not callable(quantity)]:
        raise no_function(wrong[0])
    if isinstance(quantities, Mapping):
        return dict(quantities)
    names = [name_of(quantity) for quantity in given]
    if "<lambda>" in names:
        raise RangeError(
            "quantities",
            "functions that have a name",
            "a lambda",
            "Pass a mapping from names, such as {'largest': lambda logits: ...}.",
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RangeError("quantities", "distinct names", ", ".join(twice), "Pass a mapping from names.")
    return dict(zip(names, given, strict=True))


def name_of(quantity: Quantity) -> str:
    """A function's name, even if some of its settings are bound; for a callable object, its class's."""
    function = unbound(quantity)
    return getattr(function, "__name__", type(function).__name__)


def provided(
    model: nn.Module, *, memory: int | None, head: tuple[str, ...], positions: Positions | None
) -> dict[str, object]:
    """What quantities may request of any probe, by name."""
    return {
        "model": model,
        "parameters": dict(model.named_parameters()),
        "memory": memory,
        "head": head,
        "positions": positions,
    }


def plan(
    quantities: Quantities,
    given: Collection[str],
    layers: str | Sequence[str] | None = None,
    head: tuple[str, ...] = (),
) -> Plan:
    """Finds, for each quantity, its arguments among `given`, the observations and the other quantities.

    `gnomon.centroid` as a quantity is the observation of that name: it is computed once. A quantity that uses features
    is repeated for each of several layers.

    Raises:
        EmptyError: if there are no quantities.
        RangeError: if an argument is not available, or quantities request each other in a circle.
    """
    by_name = named(quantities)
    if not by_name:
        raise EmptyError("quantities", "at least one quantity", "none", "Name what to measure.")
    taken = {name for name in by_name if name in given or (name in OBSERVATIONS and by_name[name] is not centroid)}
    if taken:
        raise RangeError("quantities", "names that are not observations", ", ".join(sorted(taken)), "Rename them.")
    known = {*given, "labels", *OBSERVATIONS, *DERIVED, *by_name}  # missing labels are reported for all quantities
    reported = tuple(by_name)
    arguments: dict[str, tuple[str, ...]] = {}
    waiting = list(by_name)
    while waiting:
        name = waiting.pop(0)
        arguments[name] = () if name in OBSERVATIONS else tuple(wanted(name, by_name[name], known, reported))
        derived = [part for part in arguments[name] if part in DERIVED and part not in by_name]
        by_name |= {part: DERIVED[part] for part in derived}
        waiting += derived
    try:
        order = [*graphlib.TopologicalSorter(arguments).static_order()]
    except graphlib.CycleError as error:
        circle = " -> ".join(error.args[1])
        raise RangeError("quantities", "no circular dependency", circle, "Rename an argument.") from error
    ordered = [name for name in order if name in by_name and name not in OBSERVATIONS]
    found = Plan(
        {name: by_name[name] for name in ordered},
        {name: {argument: argument for argument in arguments[name]} for name in ordered},
        frozenset(order) & frozenset(OBSERVATIONS) - {"features"},
        {"features": head if layers is None else str(layers)} if "features" in order else {},
        across_layers(arguments, order),
        reported,
        head,
    )
    return found if layers is None or isinstance(layers, str) else for_each_layer(found, layers)


def for_each_layer(plan: Plan, layers: Sequence[str]) -> Plan:
    """The plan with all that depends on features repeated for each of these layers."""
    deep = {"features"}
    for name, arguments in plan.arguments.items():
        if not deep.isdisjoint(arguments.values()):
            deep.add(name)

    def at(layer: str, name: str) -> str:
        return f"{layer}/{name}" if name in deep else name

    return Plan(
        {at(layer, name): quantity for name, quantity in plan.quantities.items() for layer in layers},
        {
            at(layer, name): {argument: at(layer, of) for argument, of in arguments.items()}
            for name, arguments in plan.arguments.items()
            for layer in layers
        },
        plan.observations,
        {at(layer, name): layer for name in plan.features for layer in layers},
        [at(layer, name) for name in plan.across_layers for layer in layers],
        tuple(dict.fromkeys(at(layer, name) for name in plan.reported for layer in layers)),
        plan.head,
    )


def wanted(name: str, quantity: Quantity, known: set[str], requested: Collection[str]) -> list[str]:
    """The names of the arguments to fill in.

    One that is unknown but has a default keeps the default. So does one of a user's function that is named as one of
    gnomon's quantities is, and the other way round: `margin=1.0` and `loss="cross_entropy"` are settings.
    """
    foreign = {*requested} - DERIVED.keys() if own(quantity) else MAY_BE_SETTINGS
    try:
        parameters = inspect.signature(quantity).parameters
    except (TypeError, ValueError) as cause:
        if isinstance(quantity, partial):
            taken = ", ".join(inspect.signature(quantity.func).parameters)
            given = ", ".join([*map(repr, quantity.args), *quantity.keywords])
            advice = f"It takes {taken}: bind settings of one of these to that one."
            raise RangeError("quantities", f"settings that {name} has", given, advice) from cause
        raise _nameless(quantity) from cause
    settings = quantity.keywords if isinstance(quantity, partial) else {}
    names = []
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.name in settings:
            continue
        setting = parameter.default is not parameter.empty and parameter.name in foreign
        if parameter.name in known - {name} and not setting:
            names.append(parameter.name)
        elif parameter.default is parameter.empty:
            observed = sorted(known - QUANTITIES.keys() - {name})
            near = difflib.get_close_matches(parameter.name, known - {name}, 1, 0.75)
            hint = (
                f"Did you mean {near[0]}?"
                if near
                else f"Pass that quantity too, or data that has it, or functools.partial({name}, {parameter.name}=...)."
            )
            raise RangeError(
                "quantities", f"the arguments of {name} to be among {', '.join(observed)}", parameter.name, hint
            )
    if not names and any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters.values()):
        raise _nameless(quantity)
    return names


def no_function(quantity: object) -> RangeError:
    """The error for what is not a function, with advice on what to pass."""
    advice = "Pass functions of logits, features or others, such as gnomon.accuracy."
    if isinstance(quantity, str):
        example = f", such as gnomon.{quantity}" if quantity in QUANTITIES else ""
        advice = f"Pass the function{example}, not its name."
    elif isinstance(quantity, Tensor):
        advice = "Pass samples and labels as one pair, (x, labels), before them."
    got = repr(quantity) if isinstance(quantity, str) else type(quantity).__name__
    return RangeError("quantities", "functions", got, advice)


def _nameless(quantity: Quantity) -> RangeError:
    return RangeError(
        "quantities",
        "functions whose arguments have names",
        f"{quantity!r}",
        "Wrap it in one, such as lambda logits: ...",
    )


def presentable(name: str, value: object) -> Value:
    """A quantity's result, if it is a tensor or a dataclass; a number of Python or NumPy as a tensor in float64.

    Raises:
        ShapeError: if it is none of these.
        ArgumentTypeError: if it is of complex numbers, of which a log would keep the real parts alone.
    """
    parts = [getattr(value, each.name) for each in fields(value)] if is_dataclass(value) else [value]
    if any(isinstance(part, complex) or (isinstance(part, Tensor) and part.is_complex()) for part in parts):
        raise ArgumentTypeError(
            "quantities",
            f"real numbers from {name}",
            "complex ones",
            "Return its abs(), or real and imag in a dataclass.",
        )
    value = as_tensor(value)
    if isinstance(value, Tensor) or (is_dataclass(value) and not isinstance(value, type)):
        return value
    raise ShapeError(
        "quantities",
        f"a tensor, a number or a dataclass of these from {name}",
        type(value).__name__,
        "Return one.",
    )
