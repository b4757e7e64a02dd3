"""What a network and its samples lack of what quantities look at: found with one sample, before all are measured."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from gnomon import _checks
from gnomon.autodiff import observe
from gnomon.errors import RangeError, ShapeError, UnsupportedModuleError
from gnomon_lab.measuring.network import foreign
from gnomon_lab.measuring.quantities import Quantity, needs
from gnomon_lab.measuring.samples import Data

Lacking = dict[frozenset[str], str]
"""By the names under which quantities ask for it, all together, why it cannot be had."""


def lacking(model: nn.Module, data: Data, layer: str | None) -> tuple[int, Lacking]:
    """The number of outputs, and what cannot be looked at, with the reasons.

    Raises:
        DataError: if the network does not take the samples.
        ShapeError: if its outputs are not one row a sample.
        RangeError: if it has no layer of this name, or its outputs are NaN or infinite.
        UnsupportedModuleError: if the forward pass does not come to the layer of this name.
    """
    outputs = look(model, data.x[:1], "logits", None)
    _checks.finite("measure", outputs=outputs)
    classes = outputs.shape[1]
    reasons: Lacking = {}
    if (reason := without_classes(data.labels, len(data.x), classes)) is not None:
        reasons[frozenset({"labels"})] = reason
    elif (reason := without_means(data.labels, classes)) is not None:
        reasons[frozenset({"class_moments"})] = reason
    if classes < 2:
        for what in ("class_moments", "classifier"):
            reasons[frozenset({what})] = "the network has one output, and no classes"
    try:
        look(model, data.x[:1], "features", None)
    except UnsupportedModuleError:
        reason = "the network does not end in a linear layer"
        reasons[frozenset({"classifier"})] = reason
        if layer is None:
            reasons[frozenset({"features"})] = f"{reason}; name the layer whose input is meant with --layer"
    if layer is not None:
        look(model, data.x[:1], "features", layer)
        reasons[frozenset({"classifier", "features"})] = (
            "the final layer's weight belongs to other features than --layer's"
        )
    return classes, reasons


def look(model: nn.Module, x: Tensor, name: str, layer: str | None) -> Tensor:
    """One observation."""
    with running(x), torch.no_grad():
        features = {name: layer} if name == "features" else {}
        return observe("measure", model, x, {name} - features.keys(), features=features).values[name]


def running(x: Tensor) -> AbstractContextManager[None]:
    """What the network raises inside, as one sentence."""
    return foreign(
        f"a network that takes samples of shape {tuple(x.shape[1:])} in {x.dtype} on {x.device}",
        "Pass the samples as the network gets them.",
    )


def without_classes(labels: Tensor | None, n: int, classes: int) -> str | None:
    """Why the labels are no classes of the network; None if they are."""
    if labels is None:
        return "the data hold no labels"
    try:
        _checks.class_labels("measure", labels, n, classes)
    except (ShapeError, RangeError):
        span = f"{labels.min().item():g} to {labels.max().item():g}, {labels.dtype}, shape {tuple(labels.shape)}"
        return f"the labels ({span}) are no classes 0 to {classes - 1} of the network's {classes} outputs"
    return None


def without_means(labels: Tensor | None, classes: int) -> str | None:
    """Why there are no means of all classes; None if there are, or no labels."""
    if labels is None:
        return None
    missing = (torch.bincount(labels, minlength=classes) == 0).nonzero().flatten().tolist()
    if not missing:
        return None
    which = f"class {missing[0]}" if len(missing) == 1 else f"{len(missing)} classes, such as {missing[0]}"
    return f"among the samples is none of {which}; take more"


def left_out(quantities: Mapping[str, Quantity], reasons: Lacking) -> dict[str, str]:
    """The quantities that look at what is lacking, each with the first reason."""
    asked = {name: needs(quantity) for name, quantity in quantities.items()}
    why = {name: next((reason for what, reason in reasons.items() if what <= asked[name]), None) for name in asked}
    return {name: reason for name, reason in why.items() if reason is not None}
