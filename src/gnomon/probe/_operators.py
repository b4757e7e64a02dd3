"""Which quantities are given the Jacobian as an operator, and when."""

import inspect
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from gnomon._kinds import members
from gnomon.autodiff import FEW_OUTPUTS, JacobianOperator, TapeProducts, forward
from gnomon.errors import UnsupportedModuleError
from gnomon.measure import explained_variance_ratio, stable_rank
from gnomon.probe._plan import Plan, Quantity

ACCURACY = ("rtol", "passes")
"""The settings of an estimate that a probe gives."""


def by_products(plan: Plan, model: nn.Module, x: Tensor) -> Plan:
    """The plan, with the operator in the place of the Jacobian where that is cheaper and all who look at it take it.

    That is where outputs are more than a few, products can be had from both sides, and no quantity looks at the result
    of another that would become an estimate.
    """
    takers = [name for name in plan.quantities if "jacobian" in plan.arguments[name].values()]
    looked_at = {key for arguments in plan.arguments.values() for key in arguments.values()}
    all_take_it = all(takes_operator(plan.quantities[name]) for name in takers)
    if not (takers and all_take_it and looked_at.isdisjoint(takers) and x.is_floating_point()):
        return plan
    tape = forward(model, x[:2])
    if tape.logits.shape[1] <= FEW_OUTPUTS:
        return plan
    try:
        TapeProducts(tape).right(torch.zeros_like(tape.x))
    except UnsupportedModuleError:
        return plan
    arguments = {name: with_operator(plan, name) if name in takers else plan.arguments[name] for name in plan.arguments}
    observations = plan.observations - {"jacobian"} | {"jacobian_operator"}
    order = sorted(plan.quantities, key=lambda name: not finds_norm(plan.quantities[name]))
    quantities = {name: plan.quantities[name] for name in order}
    return replace(plan, quantities=quantities, arguments=arguments, observations=observations)


def with_operator(plan: Plan, name: str) -> dict[str, str]:
    """What a quantity looks at, with the operator in the place of the Jacobian, and the accuracy that is asked for."""
    looks = {of: "jacobian_operator" if key == "jacobian" else key for of, key in plan.arguments[name].items()}
    parameters = inspect.signature(plan.quantities[name]).parameters
    settings = getattr(plan.quantities[name], "keywords", {})
    return looks | {setting: setting for setting in ACCURACY if setting in parameters and setting not in settings}


def finds_norm(quantity: Quantity) -> bool:
    """Whether it estimates the norm on its way, so that those who ask for that later find it with the operator."""
    function = quantity.func if isinstance(quantity, partial) else quantity
    return any(function is each for each in (explained_variance_ratio, stable_rank))


def takes_operator(quantity: Quantity) -> bool:
    """Whether its annotation says that the Jacobian may be an operator."""
    annotation = inspect.signature(quantity).parameters["jacobian"].annotation
    return JacobianOperator in members(annotation)
