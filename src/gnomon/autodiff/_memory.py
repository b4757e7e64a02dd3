"""How many samples fit into a memory budget."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from jaxtyping import Shaped
from torch import Tensor, UntypedStorage, nn

from gnomon._budget import budget_of
from gnomon.autodiff._operations import Operations
from gnomon.autodiff._run import Model
from gnomon.autodiff._tape import Tape, forward
from gnomon.errors import UnsupportedModuleError

T = TypeVar("T")
OUTPUTS = 6
"""How many times a chunk's outputs are in memory at once: also in order, and in float64 for a loss, with a copy."""


def kept_by(build: Callable[[], T], model: object) -> tuple[T, int]:
    """What `build` returns, and the bytes that autograd keeps for its graph, not counting the parameters of `model`.

    Raises:
        UnsupportedModuleError: if torch cannot count them.
    """
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = storage_of(tensor)
        kept[storage.data_ptr()] = storage.nbytes()
        # Detached: a node that holds its own output is never freed.
        return tensor.detach()

    try:
        with staying(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            built = build()
    except RuntimeError as error:
        if "saved tensor hooks" not in str(error):
            raise
        raise UnsupportedModuleError(
            "model",
            "a network whose graph torch can look into",
            "one that calls torch.func.grad, vjp, jacrev or hessian",
            "Call torch.autograd.grad(..., create_graph=True) in their place.",
        ) from error
    for parameter in model.parameters() if isinstance(model, nn.Module) else ():
        kept.pop(storage_of(parameter).data_ptr(), None)
    return built, sum(kept.values())


def storage_of(tensor: Tensor) -> UntypedStorage:
    """The storage of a tensor, of a sparse one that of its values; one that is sharded over processes has none.

    Raises:
        UnsupportedModuleError: if it is sharded.
    """
    if hasattr(tensor, "device_mesh"):
        raise sharded()
    if tensor.layout is torch.sparse_coo:
        tensor = tensor._values()
    elif tensor.layout is not torch.strided:
        tensor = tensor.values()
    return tensor.untyped_storage()


def require_whole(model: nn.Module) -> None:
    """Raises UnsupportedModuleError if a network is sharded over processes: for code that reads or copies weights."""
    by_tensors = any(hasattr(parameter, "device_mesh") for parameter in model.parameters())
    if by_tensors or any(hasattr(module, "set_reshard_after_backward") for module in model.modules()):
        raise sharded()


def sharded() -> UnsupportedModuleError:
    """The error for a network that is sharded over processes."""
    return UnsupportedModuleError(
        "model",
        "unsharded parameters",
        "ones that are sharded over several",
        "Read them with a Probe, or inside gnomon.probe.whole, on all processes.",
    )


@contextmanager
def staying() -> Iterator[None]:
    """Inside, parameters must stay in place: after a backward pass that shards them again, as in FSDP, none can follow.

    Raises:
        UnsupportedModuleError: if they do not.
    """
    try:
        yield
    except RuntimeError as error:
        if "storage of size 0" not in str(error):
            raise
        raise sharded() from error


def chunk_size(
    model: Model,
    x: Shaped[Tensor, "n *d"],
    *,
    jacobian: int = 0,
    prepare: Callable[[Tape], tuple[object, int]] | None = None,
    memory: int | None,
) -> int:
    """The number of samples whose graph and gradients fit into `memory` bytes: at least two, at most all n.

    Two, because a single sample is run together with a copy of itself.
    """
    budget = budget_of(memory)
    sample = sample_bytes(model, x, jacobian=jacobian, prepare=prepare)
    return min(x.shape[0], max(2, budget // max(1, sample)))


def sample_bytes(
    model: Model,
    x: Shaped[Tensor, "n *d"],
    *,
    jacobian: int,
    prepare: Callable[[Tape], tuple[object, int]] | None,
) -> int:
    """The memory that one sample needs, measured on the first two.

    The graph counts three times, for what it saves, for temporary results and for the gradients in flight, and so does
    the largest result of a pass over tokens, of which a network with frozen weights need not save anything. In
    addition, the outputs count with what is computed of them, as many of the chunk's Jacobians as are in memory at
    once, and the row being computed. `prepare` computes what else is kept for the tape, and returns how many numbers
    are held in addition to that.
    """

    def made() -> tuple[Tape, tuple[object, int]]:
        # A clone, since a slice would count with the storage of all samples.
        tape = forward(model, x[:2].clone(), products=prepare is not None)
        return tape, (None, 0) if prepare is None else prepare(tape)

    (tape, (_, held)), kept = kept_by(made, model)
    if not x.is_floating_point() and not recorded_at_tokens(model):
        kept = max(kept, largest_result(model, x[:2]))
    row = math.prod(x.shape[1:])
    outputs = OUTPUTS * tape.logits[0].nbytes
    held = max(jacobian * tape.logits.shape[1] * row, held, row)
    return 3 * math.ceil(kept / 2) + outputs + (held + row) * x.element_size()


def recorded_at_tokens(model: Model) -> bool:
    """Whether autograd records all that a network does with tokens, which have no gradients themselves."""
    return isinstance(model, nn.Module) and all(parameter.requires_grad for parameter in model.parameters())


def largest_result(model: Model, x: Shaped[Tensor, "n *d"]) -> int:
    """The bytes by which the result of an operation grows with n more samples: weights that are computed do not."""
    sizes = []
    for samples in (x, torch.cat([x, x])):
        with Operations() as operations:
            forward(model, samples.clone())
        sizes.append(operations.results)
    return max((more - few for few, more in zip(*sizes, strict=False)), default=0)
