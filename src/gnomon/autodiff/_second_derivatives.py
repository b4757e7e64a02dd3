"""What is wrong with a network that cannot be differentiated twice, and how torch tells."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from gnomon.autodiff._tape import uses_of
from gnomon.errors import RangeError, UnsupportedModuleError


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
