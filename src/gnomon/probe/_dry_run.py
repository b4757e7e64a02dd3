"""A reading on very few samples, before training: what quantities need and the network or the samples lack."""

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from gnomon import _checks
from gnomon._budget import budget_of
from gnomon.autodiff import JacobianOperator, Layer, Positions, at_positions, observe, require_any_number
from gnomon.errors import ConvergenceError, DataError, EmptyError, GnomonError, RangeError, within
from gnomon.linalg import Covariance, Factored
from gnomon.measure import commutator_defect, gauss_newton_trace, hessian_trace, local_learning_coefficient
from gnomon.probe._derived import agop_of, own, require_one_layer
from gnomon.probe._eval_mode import advice_on_gradients, in_eval_mode
from gnomon.probe._outputs import of_jacobian, warn_of_probabilities
from gnomon.probe._plan import Plan, Quantity, presentable
from gnomon.probe._samples import JOINED, Samples
from gnomon.probe._sequences import by_position, naming_ignored, of_one_position, of_several, several
from gnomon.probe._side_effects import reporting_side_effects
from gnomon.probe._wrapped import device_of, has_shapes

CLASSES = 128
"""Up to this many classes contribute a sample each; with more, only the first and the last do."""


def dry_run(
    plan: Plan,
    model: nn.Module,
    samples: Samples,
    given: Mapping[str, object],
    *,
    memory: int | None,
    positions: Positions | None,
) -> tuple[dict[str, GnomonError], set[str]]:
    """Which quantities are unavailable, by name, and why; leaves everything as it was.

    Observations are made, and gnomon's own functions are called, on one sample of each class, or two in all; if samples
    come in batches, from the first batch. A user's function is not called before it is due: it may keep state, be
    expensive, or need all samples. A network that is not yet on the samples' device, or has lazy layers without a
    shape, is left alone.

    Returns:
        What is permanently unavailable, and the names of the parameters to which passes write even in eval mode.
    """
    why = samples.out_of_order(plan.quantities)
    if "labels" not in samples.first:
        why["labels"] = RangeError("data", "labels", "samples alone", "Pass (x, labels).", where="Probe")
    if several(positions):
        for name, error in of_one_position(plan):
            error.where = "Probe"
            why[name] = error
        plan = of_several(plan)
    if not ready(model, samples):
        for name in plan.quantities:
            inherit(why, plan, name)
        return reported(plan, why), set()
    first = samples.first_on(device_of(model))
    x, labels = first["x"], first.get("labels")
    rows, every_class = few(len(x), labels, budget_of(memory) // (16 * max(1, x[0].nbytes)))
    some = {name: value[rows.to(value.device)] for name, value in first.items()}
    trial = Trial(plan, model, x, samples.tensors, some, {**given, **some}, why, every_class, memory, positions)
    _, written = in_eval_mode(model, lambda: reporting_side_effects(model, trial), None)
    return reported(plan, why), written


@dataclass(frozen=True)
class Trial:
    """Tries everything on a few samples.

    Attributes:
        plan: what is to be computed.
        model: the network.
        x: the samples at hand.
        whole: whether these are all, and not a first batch.
        some: a few of them, and their labels.
        known: what is known of them, by name; it grows.
        why: what is unavailable, and why; it grows.
        every_class: whether every class at hand has one.
        memory: bytes to use.
        positions: which positions are read.
    """

    plan: Plan
    model: nn.Module
    x: Tensor
    whole: bool
    some: Mapping[str, Tensor]
    known: dict[str, object]
    why: dict[str, GnomonError]
    every_class: bool
    memory: int | None
    positions: Positions | None

    def __call__(self) -> None:
        """First the observations, then the quantities in their order."""
        with at_positions(self.model, self.positions):
            outputs = {"logits"} if of_jacobian(self.plan) and not several(self.positions) else set[str]()
            for name in sorted({*self.plan.observed, *outputs}):
                with self._noting(name), self._in_a_sentence("x", "samples that the network takes"):
                    self._observe(name)
            if self.positions is not None and several(self.positions) and "logits" in self.known:
                with self._noting("labels"):
                    self._take_rows(self.positions)
            warn_of_probabilities(self.plan, self.known.get("logits"))
            for name in self.plan.quantities:
                if not inherit(self.why, self.plan, name):
                    self._compute(name)

    def _observe(self, name: str) -> None:
        x = self.some["x"]
        _checks.finite(x=self.x)
        self.known[name] = (
            JacobianOperator(self.model, x, memory=self.memory)
            if name == "jacobian_operator"
            else look(self.model, x, name, self.plan.features, self.memory, self.positions)
        )

    def _take_rows(self, positions: Positions) -> None:
        its: dict[str, Any] = {name: self.known.pop(name) for name in self.plan.observed if name in self.known}
        seen = by_position(its, self.some.get("labels"), positions)
        self.known.update(seen if len(seen["logits"]) > 0 else {})

    def _compute(self, name: str) -> None:
        x, wanted, quantity = self.some["x"], self.plan.arguments[name], self.plan.quantities[name]
        if name in self.plan.across_layers:
            with self._noting(name), self._in_a_sentence("x", "samples that the network takes"):
                require_one_layer(self.model, x, self.plan.features.values(), self.plan.head, self.positions)
        if name in self.why or not own(quantity) or not self.known.keys() >= set(wanted.values()):
            return
        features = next((self.known[key] for key in self.plan.features if key in self.known), None)
        entries = features[0].numel() if isinstance(features, Tensor) else 0
        fewer = self.whole and len(self.x) < entries
        quietly = warnings.catch_warnings(action="ignore", category=RuntimeWarning)  # a few samples lack what all have
        with self._noting(name, fewer), quietly, self._in_a_sentence(name, "what it can be computed of"):
            value = in_brief(quantity)(**{of: self.known[key] for of, key in wanted.items()})
            self.known[name] = presentable(name, value) if name in self.plan.reported else value

    @contextmanager
    def _noting(self, name: str, fewer: bool = False) -> Iterator[None]:
        """Keeps the error that is raised inside, if it is permanent."""
        try:
            suppressed = suppress(torch.linalg.LinAlgError)  # type: ignore[attr-defined]
            with suppressed, within("Probe"), naming_ignored(self.positions):
                yield
        except GnomonError as error:
            if is_permanent(error, self.every_class and self.whole, fewer):
                self.why[name] = error

    @contextmanager
    def _in_a_sentence(self, argument: str, expected: str) -> Iterator[None]:
        """Turns what the network or torch itself raises inside into one of gnomon's errors."""
        try:
            yield
        except (GnomonError, torch.OutOfMemoryError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
            raise
        except Exception as cause:  # whatever the user's network raises
            if isinstance(cause, MemoryError) or "DefaultCPUAllocator" in str(cause):
                raise torch.OutOfMemoryError(
                    f"Probe({argument}): expected memory for {expected}, got {type(cause).__name__}: {cause}. "
                    f"Pass fewer samples, or leave it out."
                ) from cause
            require_any_number(self.model, self.x, cause)
            at = f"samples of shape {tuple(self.x.shape[1:])} in {self.x.dtype} on {self.x.device}"
            advice = advice_on_gradients(argument, cause) if argument in self.plan.quantities else None
            advice = advice or advice_on_precision(self.model, self.x)
            raise DataError(
                argument,
                expected,
                f"{type(cause).__name__}: {cause} at {at}",
                advice or f"Pass network and samples as they are in training, and in float32 or float64; {JOINED}.",
            ) from cause


def advice_on_precision(model: nn.Module, x: Tensor) -> str | None:
    """What to convert if the network is in another precision than the samples; None if it is not, or in several."""
    found = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    if not x.is_floating_point() or len(found) != 1 or x.dtype in found:
        return None
    return f"The network is in {min(found, key=str)}: convert the samples."


def inherit(why: dict[str, GnomonError], plan: Plan, name: str) -> bool:
    """Whether something that a quantity uses is unavailable, which then makes the quantity unavailable too."""
    lacking = [why[key] for key in plan.arguments[name].values() if key in why]
    if lacking:
        why[name] = lacking[0]
    return bool(lacking)


def reported(plan: Plan, why: Mapping[str, GnomonError]) -> dict[str, GnomonError]:
    """What was requested and is unavailable."""
    return {name: why[name] for name in plan.reported if name in why}


def ready(model: nn.Module, samples: Samples) -> bool:
    """Whether the network is on the samples' device, or they can be moved to its own, and it has all its shapes."""
    at = samples.first["x"].device
    return has_shapes(model) and all(
        parameter.device == at if samples.stay else parameter.device.type != "meta" for parameter in model.parameters()
    )


def few(n: int, labels: Tensor | None, most: int) -> tuple[Int[Tensor, "m"], bool]:
    """The first sample of each class, so that the smallest and the largest label are there, and whether all are.

    Two of these samples if there are more than `most`, and more than two.
    """
    if labels is None or labels.ndim != 1:
        return torch.arange(min(2, n)), False
    order = labels.argsort(stable=True)
    ranked = labels[order]
    begins = torch.ones_like(ranked, dtype=torch.bool)
    begins[1:] = ranked[1:] != ranked[:-1]
    first = order[begins]
    return (first, True) if len(first) <= max(2, min(CLASSES, most)) else (first[[0, -1]], False)


def look(
    model: nn.Module,
    x: Tensor,
    name: str,
    features: Mapping[str, Layer],
    memory: int | None,
    positions: Positions | None = None,
) -> Tensor:
    """One observation; for the Jacobian, equal rows, computed by one backward pass instead of c.

    There are as many rows as outputs if that takes no more than a quarter of the memory, otherwise fewer.
    """
    if name in features:
        of = {name: features[name]}
        return observe(model, x, set(), features=of, memory=memory, positions=positions).values[name]
    if name != "jacobian":
        return observe(model, x, {name}, memory=memory).values[name]
    seen = observe(model, x, {"centroid", "logits"}, memory=memory).values
    n, c = seen["logits"].shape
    room = budget_of(memory) // (4 * max(1, x.nbytes))
    return (seen["centroid"] / c).unsqueeze(1).expand(n, max(1, min(c, room)), *x.shape[1:])


def agop_in_brief(model: nn.Module, x: Tensor, memory: int | None) -> Covariance:
    """An AGOP of one row per sample, computed by one backward pass instead of c."""
    return Factored(look(model, x, "centroid", {}, memory).reshape(len(x), -1))


IN_BRIEF: dict[Quantity, Quantity] = {
    agop_of: agop_in_brief,
    commutator_defect: partial(commutator_defect, pairs=6),
    gauss_newton_trace: partial(gauss_newton_trace, passes=16),
    hessian_trace: partial(hessian_trace, passes=16),
    local_learning_coefficient: partial(local_learning_coefficient, chains=2, draws=4, burn_in=0),
}
"""What stands in for an expensive function."""


def in_brief(quantity: Quantity) -> Quantity:
    """The quantity, or what stands in for it; settings that it was given are kept, so that wrong ones are noticed."""
    if isinstance(quantity, partial):
        return partial(in_brief(quantity.func), *quantity.args, **quantity.keywords)
    return IN_BRIEF.get(quantity, quantity)


def is_permanent(error: GnomonError, every_class: bool, fewer: bool) -> bool:
    """Whether neither training nor more samples would fix it.

    A number out of range may come from untrained weights, or from too few samples for full rank: it counts only if it
    is about the samples themselves, which stay, about a setting, or about moments of fewer samples than features.
    """
    if isinstance(error, RangeError):
        # If settings are wrong, the message names them after the colon.
        samples_or_settings = error.argument in (None, "x", "labels", "layer", "memory", "positions")
        return samples_or_settings or (error.argument == "class_moments" and fewer)
    if isinstance(error, EmptyError):
        return every_class or error.argument != "labels"
    return not isinstance(error, ConvergenceError)


def raise_together(why: Mapping[str, GnomonError]) -> None:
    """Raises one error for all quantities, those with the same reason together."""
    if not why:
        return
    names: defaultdict[str, list[str]] = defaultdict(list)
    for name, error in why.items():
        names[str(error)].append(name)
    lines = (f"\n  {', '.join(quantities)}: {reason}" for reason, quantities in names.items())
    first = next(iter(why.values()))
    raise type(first)("quantities", "what this network has at these samples", "".join(lines), where="Probe") from first
