"""Which quantities are given the Jacobian as an operator, and when."""

import inspect
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from gnomon._kinds import members
from gnomon.autodiff import FEW_OUTPUTS, JacobianOperator, TapeProducts, forward
from gnomon.errors import UnsupportedModuleError
from gnomon.measure import explained_variance_ratio, stable_rank
from gnomon.probe._derived import unbound
from gnomon.probe._plan import Plan, Quantity

ACCURACY = ("rtol", "passes")
"""The settings of an estimate that a probe passes."""


def by_products(plan: Plan, model: nn.Module, x: Tensor, *, held: bool) -> Plan:
    """The plan, with the operator in place of the Jacobian if that is cheaper and all that use it accept the operator.

    That is so if there are more than a few outputs, products are available from both sides, and no quantity uses the
    result of another that would become an estimate. It takes the place of the AGOP too, if all samples are held.
    """
    takers = looking_at(plan, "jacobian")
    if takers and not would_take(plan, takers):
        return plan
    of_agop = looking_at(plan, "agop")
    if held and "agop" not in plan.reported and would_take(plan, of_agop):
        takers |= of_agop
    if not takers or not x.is_floating_point():
        return plan
    tape = forward(model, x[:2])
    if tape.logits.shape[1] <= FEW_OUTPUTS:
        return plan
    try:
        TapeProducts(tape).right(torch.zeros_like(tape.x))
    except UnsupportedModuleError:
        return plan
    arguments = plan.arguments | {name: with_operator(plan, name, of) for name, of in takers.items()}
    observations = plan.observations - {"jacobian"} | {"jacobian_operator"}
    order = sorted(plan.quantities, key=lambda name: not finds_norm(plan.quantities[name]))
    if "agop" in takers.values():
        order.remove("agop")
        del arguments["agop"]
    quantities = {name: plan.quantities[name] for name in order}
    return replace(plan, quantities=quantities, arguments=arguments, observations=observations)


def looking_at(plan: Plan, key: str) -> dict[str, str]:
    """The names of the quantities that use this, each mapped to it."""
    return {name: key for name in plan.quantities if key in plan.arguments[name].values()}


def would_take(plan: Plan, takers: Mapping[str, str]) -> bool:
    """Whether all these accept the operator in its place, and no other quantity uses what they return."""
    looked_at = {key for arguments in plan.arguments.values() for key in arguments.values()}
    return looked_at.isdisjoint(takers) and all(
        takes_operator(plan.quantities[name], of) for name, of in takers.items()
    )


def with_operator(plan: Plan, name: str, of: str) -> dict[str, str]:
    """What a quantity uses, with the operator in place of this, and the accuracy that is requested."""
    looks = {name: "jacobian_operator" if key == of else key for name, key in plan.arguments[name].items()}
    parameters = inspect.signature(plan.quantities[name]).parameters
    settings = getattr(plan.quantities[name], "keywords", {})
    return looks | {setting: setting for setting in ACCURACY if setting in parameters and setting not in settings}


def finds_norm(quantity: Quantity) -> bool:
    """Whether it also estimates the norm, so that quantities that need this later find it with the operator."""
    return any(unbound(quantity) is each for each in (explained_variance_ratio, stable_rank))


def takes_operator(quantity: Quantity, argument: str) -> bool:
    """Whether its annotation says that this may be an operator."""
    annotation = inspect.signature(quantity).parameters[argument].annotation
    return JacobianOperator in members(annotation)
