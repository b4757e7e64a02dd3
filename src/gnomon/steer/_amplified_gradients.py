"""Gradients, amplified by a running mean of theirs between `backward()` and the optimizer's step."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from gnomon import _checks
from gnomon.errors import EmptyError, RangeError, ShapeError, within
from gnomon.steer._attach import attach


class AmplifiedGradients(ABC):
    """Adds λ times a running mean of the gradients to them; how the mean runs is the subclass's."""

    def __init__(self, parameters: Iterable[Tensor | tuple[str, Tensor]], lamb: float, skip_nonfinite: bool) -> None:
        self.lamb = lamb
        self.skip_nonfinite = skip_nonfinite
        self.steps = 0
        self._where = type(self).__name__
        self._parameters = _named(parameters)
        self._memory: dict[int, Tensor] = {}
        self._taken: dict[int, int] = {}

    @abstractmethod
    def _start(self, gradient: Tensor) -> Tensor:
        """The memory before the first gradient, this one, has been taken into it."""

    @abstractmethod
    def _mean(self, memory: Tensor, taken: int, gradient: Tensor) -> Tensor | None:
        """Takes the gradient, after `taken` others, into the memory: the running mean, or None while there is none."""

    @abstractmethod
    def _shape(self, parameter: Tensor) -> tuple[int, ...]:
        """Of the memory of a parameter."""

    @torch.no_grad()
    def __call__(self) -> None:
        """Amplifies the gradients in place. Where a parameter has none, its mean rests.

        Raises:
            EmptyError: if no parameter has a gradient.
            RangeError: naming step, parameter and norms, if a gradient is NaN or infinite (then nothing has been
                changed) or becomes so by being amplified; if a gradient is sparse.
        """
        self.steps += 1
        gradients = {i: p.grad for i, (_, p) in enumerate(self._parameters) if p.grad is not None}
        self._check(gradients)
        if (bad := _first_nonfinite(gradients)) is not None:
            if self.skip_nonfinite:
                return
            raise self._diverged("gradient", bad, gradients[bad])
        for i, gradient in gradients.items():
            # In float32 at least: in half precision a step of 1 - α is soon too small to be seen.
            wide = gradient.to(torch.promote_types(gradient.dtype, torch.float32))
            taken = self._taken.get(i, 0)
            memory = self._memory[i].to(wide) if taken else self._start(wide)
            mean = self._mean(memory, taken, wide)
            self._memory[i], self._taken[i] = memory, taken + 1
            if mean is not None:
                gradient.add_(mean, alpha=self.lamb)
        if (bad := _first_nonfinite(gradients)) is not None:
            raise self._diverged("amplified gradient", bad, gradients[bad])

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Amplifies before each step of the optimizer from now on, and travels in its `state_dict`.

        Gradients are then accumulated, unscaled and clipped. With a closure, as of LBFGS, it is after each evaluation.
        `torch.distributed.checkpoint` takes only a part of an optimizer's `state_dict`, and leaves this out: save
        Grokfast's own beside, load both, and attach then.

        Raises:
            RangeError: if the optimizer lacks one of the parameters, or has Grokfast already. At a step: if it is fused
                and would unscale the gradients itself.
            CheckpointError: on loading, if the optimizer's state has none of Grokfast.
        """
        with within(f"{self._where}.attach"):
            attach(self, optimizer, self._parameters)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on: the steps, and by the parameters' numbers what is remembered of how many.

        The tensors are the live ones, as in torch's optimizers: save or copy them before the next step.
        """
        return {"steps": self.steps, "taken": dict(self._taken), "memory": dict(self._memory)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from there; the memory follows the gradients to their device.

        Raises:
            ShapeError: if the state is not of this method, with this window, on these parameters.
        """
        for i, memory in state_dict["memory"].items():
            wanted = self._shape(self._parameters[i][1]) if i < len(self._parameters) else "nothing"
            if tuple(memory.shape) != wanted:
                raise ShapeError(
                    "state_dict",
                    f"{wanted} for parameter {i}",
                    f"shape {_checks.shape_of(memory)}",
                    "Load a state of the same method, window and parameters.",
                    where=self._where,
                )
        self.steps = state_dict["steps"]
        self._taken = dict(state_dict["taken"])
        self._memory = {i: memory.clone() for i, memory in state_dict["memory"].items()}

    def _check(self, gradients: dict[int, Tensor]) -> None:
        if not gradients:
            raise EmptyError(
                None,
                "gradients",
                f"none on all {len(self._parameters)} parameters",
                "Call it between backward() and the optimizer's step.",
                where=self._where,
            )
        for i, gradient in gradients.items():
            if gradient.layout is not torch.strided:
                raise RangeError(
                    None,
                    "dense gradients",
                    f"{gradient.layout} in {self._parameters[i][0]}",
                    "Make the layer with sparse=False.",
                    where=self._where,
                )

    def _diverged(self, what: str, i: int, gradient: Tensor) -> RangeError:
        taken = self._taken.get(i, 0)
        mean = f"of norm {_norm(self._memory[i])}" if taken else "empty"
        return RangeError(
            None,
            f"a finite {what}",
            f"norm {_norm(gradient)} ({gradient.dtype}) in {self._parameters[i][0]} at step {self.steps}; "
            f"the memory of its {taken} gradients is {mean}",
            "Lower the lamb or the learning rate; under a GradScaler unscale_ first and set skip_nonfinite.",
            where=self._where,
        )


def _named(parameters: Iterable[Tensor | tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
    """The parameters with their names, or, where they come without, `parameter 0` and so on."""
    named = [(f"parameter {i}", p) if isinstance(p, Tensor) else p for i, p in enumerate(parameters)]
    if not named:
        raise EmptyError("parameters", "at least one", "none", "Pass model.named_parameters().")
    for name, parameter in named:
        if not parameter.is_leaf:
            raise RangeError(
                "parameters",
                "leaf tensors",
                f"the result of an operation as {name}",
                "Pass model.named_parameters().",
            )
    if len({id(parameter) for _, parameter in named}) < len(named):
        raise RangeError("parameters", "each once", "some twice", "Pass model.named_parameters().")
    return named


def _first_nonfinite(gradients: dict[int, Tensor]) -> int | None:
    """The number of the first gradient with a NaN or infinity."""
    sums = [gradient.sum(dtype=torch.promote_types(gradient.dtype, torch.float32)) for gradient in gradients.values()]
    # Infinities and NaNs survive a sum: it is 20 times faster than to look at each entry, and one wait for the device.
    if torch.stack([total.to(sums[0].device) for total in sums]).isfinite().all():
        return None
    return next((i for i, gradient in gradients.items() if not gradient.isfinite().all()), None)


def _norm(tensor: Tensor) -> str:
    wide = tensor.to(torch.promote_types(tensor.dtype, torch.float64))
    return f"{torch.linalg.vector_norm(wide).item():.3g}"
