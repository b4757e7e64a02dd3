"""Losses and the gradient of their mean at several points in parameter space at once."""

from collections.abc import Callable
from contextlib import suppress

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon._precision import in_single
from gnomon.autodiff._operations import forward_flops
from gnomon.autodiff._parameter_jacobian import differentiable, standing_in
from gnomon.autodiff._parameter_vectors import ParameterVectors
from gnomon.autodiff._run import run
from gnomon.autodiff._tape import uses_of
from gnomon.errors import UnsupportedModuleError

MOST = 10_000_000
"""From this many operations per pass on, a CPU gains nothing from several passes at once: convolutions take longer."""
At = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps points in parameter space, and the samples and targets of each, to the losses of these there."""


class Replicas:
    """A network at several points in parameter space, each of which sees its own samples.

    The points are a batch axis where passes are small, or on an accelerator, provided that torch.func can handle the
    network this way and agrees with a plain pass at the first of them. Elsewhere they are run one after another.

    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: some samples.
        losses: maps outputs (n c), in float32 at least, and targets (n *y) to the loss of each sample, by operations of
            torch alone; where outputs are not finite, it should not be either.
    Attributes:
        vectors: the position of each parameter in a vector.
        start: the current parameters, as a vector.
    Raises:
        UnsupportedModuleError: if samples mix, nothing is trainable, or a pass limits the norms of an embedding; by
            `gradients`, if the network uses a parameter by another reference than that of the module that holds it.
    """

    def __init__(self, model: nn.Module, x: Shaped[Tensor, "n *d"], losses: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.vectors = ParameterVectors.of(model, x)
        _require_free_norms(model)
        self.start = self.vectors.joined([*self.vectors.parameters.values()])
        self._model, self._losses = model, losses
        self._chosen: At | None = None

    def gradients(
        self, points: Float[Tensor, "k p"], x: Shaped[Tensor, "k m *d"], targets: Shaped[Tensor, "k m *y"]
    ) -> tuple[Float[Tensor, "k m"], Float[Tensor, "k p"]]:
        """The losses of m samples at each of k points, and the gradient of their mean there."""
        with differentiable(recording=True):
            if self._chosen is None:
                self._require_replaced(points, x, targets)
                self._chosen = self._choose(points, x, targets)
            return derived(self._chosen, points, x, targets)

    def _require_replaced(self, points: Tensor, x: Tensor, targets: Tensor) -> None:
        """Raises UnsupportedModuleError if the loss at a point depends on the parameters that the point replaces."""
        leaves = {id(getattr(node, "variable", None)) for node in uses_of(self._apart(points[:1], x[:1], targets[:1]))}
        for name, parameter in self.vectors.parameters.items():
            if id(parameter) in leaves:
                raise UnsupportedModuleError(
                    "model",
                    "parameters used through the modules that hold them",
                    f"{name!r} used by another reference",
                    "Read it from its module in forward, as self.layer.weight, not from a list or a closure.",
                )

    def _choose(self, points: Tensor, x: Tensor, targets: Tensor) -> At:
        """All points at once, if that pays off, is possible and is right."""
        if points.device.type == "cpu" and forward_flops(lambda: self._apart(points[:1], x[:1], targets[:1])) > MOST:
            return self._apart
        plain = derived(self._apart, points[:1], x[:1], targets[:1])
        # torch.func cannot handle the network.
        with suppress(RuntimeError, ValueError, TypeError, LookupError):
            mapped = derived(self._together, points, x, targets)
            if all(map(close, (part[0] for part in mapped), (part[0] for part in plain))):
                return self._together
        return self._apart

    def _together(self, points: Tensor, x: Tensor, targets: Tensor) -> Tensor:
        losses: Tensor = torch.func.vmap(self._at)(points, x, targets)
        return losses

    def _apart(self, points: Tensor, x: Tensor, targets: Tensor) -> Tensor:
        return torch.stack([self._at(*each) for each in zip(points, x, targets, strict=True)])

    def _at(self, point: Float[Tensor, "p"], x: Shaped[Tensor, "m *d"], targets: Shaped[Tensor, "m *y"]) -> Tensor:
        """The losses at a point."""
        parameters = self.vectors.parameters
        values = dict(zip(parameters, self.vectors.parts(point), strict=True))
        with standing_in(self._model, parameters, values):
            logits = run(self._model, x)
        return self._losses(in_single(logits), targets)


def _require_free_norms(model: nn.Module) -> None:
    """Raises UnsupportedModuleError if a pass limits norms in place, which it cannot at a part of a point."""
    for name, module in model.named_modules():
        embeds = isinstance(module, nn.Embedding | nn.EmbeddingBag)
        if embeds and module.max_norm is not None and module.weight.requires_grad:
            raise UnsupportedModuleError(
                "model",
                "parameters that a forward pass leaves as they are",
                f"{type(module).__name__} {name!r} limiting norms in place",
                "Set its max_norm to None, or freeze its weight.",
            )


def derived(at: At, points: Tensor, x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The losses, and the gradient of their mean at each point."""
    points = points.detach().requires_grad_()
    losses = at(points, x, targets)
    (gradient,) = torch.autograd.grad(losses.mean(1).sum(), points, materialize_grads=True)
    return losses.detach(), gradient


def close(one: Tensor, other: Tensor) -> bool:
    """Whether two results are equal up to rounding."""
    error = torch.linalg.vector_norm(one - other)
    return bool(error <= torch.finfo(one.dtype).eps ** 0.5 * torch.linalg.vector_norm(other))
