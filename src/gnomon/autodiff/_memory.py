"""How many samples fit into a memory budget."""

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from gnomon.autodiff._run import Model
from gnomon.autodiff._tape import Tape, forward
from gnomon.errors import RangeError

T = TypeVar("T")

DEFAULT_BUDGET = 512 * 2**20
"""Bytes of tensors that a measurement may hold beyond its own result; the allocator may keep more from the system."""


def kept_by(build: Callable[[], T], model: object) -> tuple[T, int]:
    """What `build` returns, and the bytes that autograd keeps for its graph, the parameters of `model` not counted."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        # Detached: a node that holds its own output is never freed.
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        built = build()
    for parameter in model.parameters() if isinstance(model, nn.Module) else ():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    return built, sum(kept.values())


def chunk_size(
    model: Model,
    x: Shaped[Tensor, "n *d"],
    *,
    jacobian: int = 0,
    prepare: Callable[[Tape], tuple[object, int]] | None = None,
    budget: int | None,
) -> int:
    """The number of samples whose graph and gradients fit into `budget` bytes: at least two, at most all n.

    Two, since one alone is run beside itself. Measured on the first two. The graph counts three times, for what it
    keeps, what it makes on the way and the gradients in flight; of the chunk's Jacobians as many count as stand in
    memory at once, and the row that is being made. `prepare` makes what else is kept of the tape, and says how many
    rows stand beside that.
    """
    budget = DEFAULT_BUDGET if budget is None else budget
    if budget <= 0:
        raise RangeError("memory", "a positive number of bytes", budget, "Allow more memory.")
    # A clone, since a slice would count with the storage of all samples.

    def made() -> tuple[Tape, tuple[object, int]]:
        tape = forward(model, x[:2].clone(), products=prepare is not None)
        return tape, (None, 0) if prepare is None else prepare(tape)

    (tape, (_, rows)), kept = kept_by(made, model)
    rows = max(jacobian * tape.logits.shape[1], rows, 1)
    sample = 3 * math.ceil(kept / 2) + (rows + 1) * math.prod(x.shape[1:]) * x.element_size()
    return min(x.shape[0], max(2, budget // max(1, sample)))
