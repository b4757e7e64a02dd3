"""What is wrong with a network that cannot be differentiated twice, and how torch tells."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction, once_differentiable

from gnomon.autodiff._tape import Tape, uses_of
from gnomon.errors import RangeError, UnsupportedModuleError
from gnomon.linalg import once

OTHER = "Use one that has it"
STATIC = "Construct DistributedDataParallel without static_graph, which reduces at the first derivative"
FUSED = "Let it use torch.nn.attention.SDPBackend.MATH"
DISTANCE = "Take torch.linalg.vector_norm(x[:, None] - z, dim=2)"
ONE_DERIVATIVE = {
    **dict.fromkeys(("CtcLossBackward0", "CtcLossBackward1", "EmbeddingBagBackward0", "SegmentReduceBackward0"), OTHER),
    **dict.fromkeys(("FusedRmsNormBackward0", "ThnnFusedGruCellBackward0", "MiopenRnnBackward0"), OTHER),
    **dict.fromkeys(("CdistBackward0", "PdistBackward0"), DISTANCE),
    "HardsigmoidBackward0": "Take torch.clamp(x / 6 + 0.5, 0, 1)",
    "CudnnRnnBackward0": "Run model(x) inside torch.backends.cudnn.flags(enabled=False)",
}
"""The nodes that torch differentiates only once, some of which report it too late, and what to do instead."""
ONCE = {once_differentiable(lambda ctx: None).__code__, once("")(lambda ctx: None).__code__}
"""The code of every function that these decorators return."""


class AsymmetryError(UnsupportedModuleError, RangeError):
    """Products with second derivatives are not those of one matrix; once a probe was made, by rounding."""


def asymmetric() -> AsymmetryError:
    """The error for second derivatives that disagree, which torch does not always report."""
    return AsymmetryError(
        "model",
        "layers with a second derivative",
        "one whose derivative is not differentiated, or numbers of which rounding leaves nothing",
        "Replace that layer by one of torch's own operations; if all are, read the network in float64.",
    )


def require_second(derivative: Tensor) -> None:
    """Raises UnsupportedModuleError if torch knows that a derivative, which has a graph, cannot be differentiated.

    It prunes the node that would raise the error, and gives a wrong gradient instead.
    """
    if any(node.name() == "torch::autograd::Error" for node in uses_of(derivative)):
        raise _only_once("one differentiable once only")


@contextmanager
def differentiating_again() -> Iterator[None]:
    """Raises UnsupportedModuleError where torch finds that a derivative cannot be differentiated."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise _only_once(str(error).partition("\n")[0]) from error


def _only_once(got: str) -> UnsupportedModuleError:
    """The error for a layer that cannot be differentiated twice."""
    return UnsupportedModuleError(
        "model",
        "layers with a second derivative",
        got,
        "Replace that layer by one of torch's own operations.",
    )


def require_second_derivative(tape: Tape) -> None:
    """Raises UnsupportedModuleError if something on the way from x to the outputs cannot be differentiated twice.

    Found by name, because torch would report it only while the loss is differentiated, and without naming the node.
    """
    for node in tape.dependent:
        name = node.name()
        if name in ONE_DERIVATIVE:
            advice = ONE_DERIVATIVE[name]
        elif "ScaledDotProduct" in name and "Math" not in name:
            advice = FUSED
        elif isinstance(node, BackwardCFunction) and _marked_once(node):
            advice = OTHER
        elif name == "_DDPSinkBackward" and vars(node)["ddp_weakref"]().static_graph:
            advice = STATIC
        else:
            continue
        raise UnsupportedModuleError("model", "layers with a second derivative", name, f"{advice}.")


def _marked_once(node: BackwardCFunction) -> bool:
    """Whether a custom function's gradient is marked `@once_differentiable`: it has no graph.

    Checked here, because `autograd.grad` silently ignores the missing graph and gives wrong gradients.
    """
    forward_class: Any = vars(type(node))["_forward_cls"]
    function = forward_class.backward
    while function is not None:
        if getattr(function, "__code__", None) in ONCE:
            return True
        function = getattr(function, "__wrapped__", None)
    return False
