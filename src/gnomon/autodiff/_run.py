"""How a model is run: one row of outputs per sample, with kernels that can be differentiated."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import checkpoint

from gnomon import _checks
from gnomon.errors import ShapeError, UnsupportedModuleError

Model = nn.Module | Callable[[Tensor], Tensor]
R = TypeVar("R")


def run(model: Model, x: Shaped[Tensor, "n *d"]) -> Float[Tensor, "n c"]:
    """The model's outputs, one row per sample, from a copy of the samples, which it may change in place.

    A single sample never runs alone but together with a copy of itself: torch's gradient of BatchNorm in eval mode is
    wrong for a single sample whose channels come last in memory, and some networks drop the axis of samples along with
    other axes of length one.
    """
    if len(x) != 1:
        return outputs_of(model(x.clone()), x)
    twice = torch.cat([x, x])
    return outputs_of(model(twice), twice)[:1]


def outputs_of(outputs: object, x: Tensor) -> Float[Tensor, "n c"]:
    """What the model returned, if it is one row of real outputs per sample.

    Raises:
        ShapeError: if it is not one row per sample.
        UnsupportedModuleError: if it is complex.
    """
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.shape[0] != x.shape[0]:
        got, n = type(outputs).__name__, "n"
        if isinstance(outputs, Tensor):
            alike = outputs.shape[:1] == x.shape[:1]
            got, n = (_checks.shape_of_samples(outputs), "n") if alike else (_checks.shape_of(outputs), str(len(x)))
            got = f"shape {got}"
        several = isinstance(outputs, Tensor) and outputs.ndim > 2
        raise ShapeError(
            "model",
            f"outputs of shape ({n}, c)",
            got,
            "Wrap the model so that it returns one row of outputs per sample"
            + (", or read it by a Probe with positions." if several else "."),
        )
    if outputs.is_complex():
        raise UnsupportedModuleError(
            "model", "real outputs", outputs.dtype, "Return their absolute values, or both parts one beside the other."
        )
    return outputs


@contextmanager
def recorded() -> Iterator[None]:
    """Inside, autograd records, whatever the mode outside, and what runs can be differentiated twice."""
    # Fused attention and compiled code have no double backward; inference tensors cannot enter a graph.
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        sdpa_kernel(SDPBackend.MATH),
        uncompiled(),
        without_checkpoints(),
    ):
        yield


@contextmanager
def uncompiled() -> Iterator[None]:
    """Inside, compiled code runs as it was written."""
    # Nothing is compiled unless the compiler was imported, which takes seconds.
    with torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext():
        yield


def compiling() -> bool:
    """Whether a function that calls this is compiled, or was to be, and runs as it was written since that failed."""
    if torch.compiler.is_compiling():
        return True
    return "torch._dynamo" in sys.modules and callable(torch._C._dynamo.eval_frame.get_eval_frame_callback())


@contextmanager
def without_checkpoints() -> Iterator[None]:
    """Inside, checkpoints keep what they would compute again in each backward pass.

    That comes after the contexts in which the network ran have ended, and would compute it with other kernels; where a
    checkpoint is reentrant, `autograd.grad` refuses it.
    """
    before = checkpoint._checkpoint_hook, checkpoint.CheckpointFunction
    try:
        checkpoint._checkpoint_hook = nullcontext  # type: ignore[misc, assignment]
        checkpoint.CheckpointFunction = _Kept  # type: ignore[misc, assignment]
        yield
    finally:
        checkpoint._checkpoint_hook, checkpoint.CheckpointFunction = before  # type: ignore[misc]


class _Kept:
    """In place of the autograd function of reentrant checkpoints."""

    @staticmethod
    def apply(function: Callable[..., R], _: object, *given: object) -> R:
        """What the checkpointed part gives."""
        return function(*given)
