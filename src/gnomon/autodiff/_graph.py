"""One forward pass whose graph reaches the input, and what can be read off it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from gnomon import _checks
from gnomon.errors import ShapeError, UnsupportedModuleError

Model = nn.Module | Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Graph:
    """A forward pass: `x` (n *d) as the leaf that gradients reach, `logits` (n c), and whether results keep a graph.

    `where` is what errors name.
    """

    where: str
    x: Tensor
    logits: Tensor
    create_graph: bool

    def vector_jacobian(self, v: Float[Tensor, "n c"]) -> Float[Tensor, "n *d"]:
        """Each sample's vᵀJ, by one backward pass over the whole batch: right where samples do not mix.

        Raises:
            UnsupportedModuleError: if nothing leads from the outputs back to x.
        """
        product = None
        if self.logits.requires_grad:
            try:
                (product,) = torch.autograd.grad(
                    self.logits, self.x, v, retain_graph=True, create_graph=self.create_graph, allow_unused=True
                )
            except RuntimeError as error:
                if "use_reentrant=True" not in str(error):
                    raise
                raise UnsupportedModuleError(
                    "model",
                    "layers that can be differentiated in x alone",
                    "a reentrant checkpoint",
                    "Checkpoint with use_reentrant=False.",
                    where=self.where,
                ) from error
        if product is None:
            raise UnsupportedModuleError(
                "model",
                "outputs with a graph to x",
                "none",
                "Leave out torch.no_grad, inference_mode, detach and integers on the way.",
                where=self.where,
            )
        return product

    def jacobian(self) -> Float[Tensor, "n c *d"]:
        """The Jacobian, one backward pass an output."""
        n, c = self.logits.shape
        basis = torch.eye(c, dtype=self.logits.dtype, device=self.logits.device)
        rows = (self.vector_jacobian(e.expand(n, c)) for e in basis)
        if self.create_graph:
            return torch.stack(list(rows), dim=1)
        # Made before the passes: rows kept one by one would fragment the memory that the next pass needs.
        jacobian = self.x.new_empty(n, c, *self.x.shape[1:])
        for k, row in enumerate(rows):
            jacobian[:, k] = row
        return jacobian


def forward(where: str, model: Model, x: Shaped[Tensor, "n *d"], *, mixed: bool = False) -> Graph:
    """Runs the model on `x` so that its outputs can be differentiated by the input.

    Follows torch's grad mode: where gradients are on, results keep their graph to the parameters (and to `x`, if it
    asks for gradients); under `torch.no_grad()` or `inference_mode()` they keep none. A lone sample is run beside
    itself, as `run` has it, unless samples may be `mixed`: then the batch is run as it is.

    Raises:
        ShapeError: if the model's output is not (n, c).
    """
    keep = torch.is_grad_enabled() and (x.requires_grad or depends_on_parameters(model))
    # Fused attention and what is compiled have no double backward; inference tensors cannot enter a graph.
    with torch.inference_mode(False), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), uncompiled():
        leaf = x if keep and x.requires_grad else x.clone() if x.is_inference() else x.detach()
        leaf.requires_grad_(leaf.is_floating_point())  # not tokens
        logits = outputs_of(where, model(leaf), x) if mixed else run(where, model, leaf)
    return Graph(where, leaf, logits, create_graph=keep)


@contextmanager
def uncompiled() -> Iterator[None]:
    """What is compiled runs as it was written."""
    # Nothing is, unless the compiler was imported, which takes seconds.
    with torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext():
        yield


def run(where: str, model: Model, x: Shaped[Tensor, "n *d"]) -> Float[Tensor, "n c"]:
    """The model's outputs, one row a sample.

    One sample never runs alone but beside itself: torch's gradient of BatchNorm in eval mode is wrong at one sample
    whose channels come last in memory, and some networks drop the axis of samples with the others of length one.
    """
    if len(x) != 1:
        return outputs_of(where, model(x), x)
    twice = torch.cat([x, x])
    return outputs_of(where, model(twice), twice)[:1]


def outputs_of(where: str, outputs: object, x: Tensor) -> Float[Tensor, "n c"]:
    """What the model returned, if it is one row of outputs a sample; ShapeError otherwise."""
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.shape[0] != x.shape[0]:
        got = f"shape {_checks.shape_of(outputs)}" if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ShapeError(
            "model",
            f"outputs of shape ({x.shape[0]}, c)",
            got,
            "Wrap the model so that it returns one row of outputs a sample.",
            where=where,
        )
    return outputs


def depends_on_parameters(model: Model) -> bool:
    """Whether results can have gradients in parameters; of a plain callable nobody knows, so yes."""
    return not isinstance(model, nn.Module) or any(p.requires_grad for p in model.parameters())
