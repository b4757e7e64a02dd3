"""Grokfast: the slow part of the gradients, amplified between `backward()` and the optimiser's step."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from gnomon import _checks
from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.steer._attach import attach


class _Grokfast(ABC):
    """Adds λ times a running mean of the gradients to them; how the mean runs is the subclass's."""

    def __init__(self, parameters: Iterable[Tensor | tuple[str, Tensor]], lamb: float, skip_nonfinite: bool) -> None:
        self.lamb = lamb
        self.skip_nonfinite = skip_nonfinite
        self.steps = 0
        self._where = type(self).__name__
        self._parameters = _named(self._where, parameters)
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
        attach(self, optimizer, self._parameters)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on: the steps, and by the parameters' numbers what is remembered of how many.

        The tensors are the live ones, as in torch's optimisers: save or copy them before the next step.
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
                "Call it between backward() and the optimiser's step.",
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


class GrokfastEMA(_Grokfast):
    r"""Grokfast with an exponential moving average: the gradients plus λ times their running mean.

    $\mu \leftarrow \alpha\mu + (1-\alpha)g$, $g \leftarrow g + \lambda\mu$, from $\mu = g$ at the first gradient

    Call it once a step of the optimiser, whichever that is; gradients accumulated over several backward passes count
    as one:

        loss.backward()
        grokfast()
        optimizer.step()

    Or, where a framework makes the steps, `grokfast.attach(optimizer)`: it is then called before each of them, the last
    thing, and its state is in `optimizer.state_dict()`.

    The mean starts at the first gradient, as in the authors' code, so that a constant gradient becomes $(1+\lambda)g$
    at once; from zero it would be $(1+\lambda(1-\alpha^t))g$.

    Mixed precision. The mean is kept in float32 at least, and the sum is rounded once, to the gradient's dtype.
    Under a `torch.amp.GradScaler` the order is `scaler.unscale_(optimizer)`, `grokfast()`, `scaler.step(optimizer)`:
    before `unscale_` the mean would mix gradients of different scales. The scaler skips steps whose gradients
    overflow; with `skip_nonfinite` so does Grokfast, leaving gradients and mean as they are. Attached to an optimizer
    that is not fused, it has the right order, and no part in the steps that are skipped.

    Resuming. With `state_dict` in the checkpoint, a resumed run is bit for bit the unbroken one.

    Source:
        Lee et al., arXiv:2405.20233. Walker et al., arXiv:2506.12284, take α = 0.8, λ = 0.1.
    Args:
        parameters: `model.named_parameters()`, or `model.parameters()`, which leaves errors without names.
        alpha: α in [0, 1), how much of the mean stays: it looks back about 1 / (1 − α) steps.
        lamb: λ ≥ 0.
        skip_nonfinite: leave a step with NaN or infinite gradients alone instead of raising.
    Raises:
        RangeError: listing every setting that is out of range; if a tensor is no parameter, or is given twice.
        EmptyError: if there are no parameters.
    Cost: O(p) time and memory.
    Example:
        >>> import torch, gnomon
        >>> w = torch.zeros(2, requires_grad=True)
        >>> grokfast = gnomon.GrokfastEMA([w], alpha=0.5, lamb=2.0)
        >>> for slope in (1.0, 3.0):  # The mean is 1, then 2.
        ...     w.grad = torch.full((2,), slope)
        ...     grokfast()
        ...     print(w.grad)
        tensor([3., 3.])
        tensor([7., 7.])
    """

    def __init__(
        self,
        parameters: Iterable[Tensor | tuple[str, Tensor]],
        alpha: float = 0.98,
        lamb: float = 2.0,
        *,
        skip_nonfinite: bool = False,
    ) -> None:
        _checks.settings(
            "GrokfastEMA",
            ("alpha", alpha, "in [0, 1)", 0 <= alpha < 1),
            ("lamb", lamb, "finite and at least 0", 0 <= lamb < math.inf),
        )
        super().__init__(parameters, lamb, skip_nonfinite)
        self.alpha = alpha

    def _start(self, gradient: Tensor) -> Tensor:
        return gradient.clone()

    def _mean(self, memory: Tensor, taken: int, gradient: Tensor) -> Tensor:
        return memory.lerp_(gradient, 1 - self.alpha)

    def _shape(self, parameter: Tensor) -> tuple[int, ...]:
        return tuple(parameter.shape)


class GrokfastMA(_Grokfast):
    r"""Grokfast with a moving average: the gradients plus λ times the mean of the last w, this one among them.

    $g_t \leftarrow g_t + \frac{\lambda}{w}\sum_{s=t-w+1}^{t} g_s$ for $t \ge w$; the first $w - 1$ stay as they are

    A parameter's window fills with its own gradients, as they were before being amplified. The mean is summed anew
    at each step: a running sum would keep the rounding errors of large early gradients after those have left.

    Use, mixed precision and resuming are as for `GrokfastEMA`.

    Source:
        Lee et al., arXiv:2405.20233, whose code, too, waits for a full window.
    Args:
        parameters: `model.named_parameters()`, or `model.parameters()`, which leaves errors without names.
        window: w ≥ 1.
        lamb: λ ≥ 0.
        skip_nonfinite: leave a step with NaN or infinite gradients alone instead of raising.
    Raises:
        RangeError: listing every setting that is out of range; if a tensor is no parameter, or is given twice.
        EmptyError: if there are no parameters.
    Cost: O(w p) time and memory.
    Example:
        >>> import torch, gnomon
        >>> w = torch.zeros(2, requires_grad=True)
        >>> grokfast = gnomon.GrokfastMA([w], window=2, lamb=2.0)
        >>> for slope in (1.0, 3.0):  # The window fills, then its mean is 2.
        ...     w.grad = torch.full((2,), slope)
        ...     grokfast()
        ...     print(w.grad)
        tensor([1., 1.])
        tensor([7., 7.])
    """

    def __init__(
        self,
        parameters: Iterable[Tensor | tuple[str, Tensor]],
        window: int = 100,
        lamb: float = 5.0,
        *,
        skip_nonfinite: bool = False,
    ) -> None:
        _checks.settings(
            "GrokfastMA",
            ("window", window, "at least 1", window >= 1),
            ("lamb", lamb, "finite and at least 0", 0 <= lamb < math.inf),
        )
        super().__init__(parameters, lamb, skip_nonfinite)
        self.window = window

    def _start(self, gradient: Tensor) -> Tensor:
        return gradient.new_zeros(self._shape(gradient))

    def _mean(self, memory: Tensor, taken: int, gradient: Tensor) -> Tensor | None:
        memory[taken % self.window] = gradient
        return memory.mean(0) if taken + 1 >= self.window else None

    def _shape(self, parameter: Tensor) -> tuple[int, ...]:
        return (self.window, *parameter.shape)


def _named(where: str, parameters: Iterable[Tensor | tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
    """The parameters with their names, or, where they come without, `parameter 0` and so on."""
    named = [(f"parameter {i}", p) if isinstance(p, Tensor) else p for i, p in enumerate(parameters)]
    if not named:
        raise EmptyError("parameters", "at least one", "none", "Pass model.named_parameters().", where=where)
    for name, parameter in named:
        if not parameter.is_leaf:
            raise RangeError(
                "parameters",
                "leaf tensors",
                f"the result of an operation as {name}",
                "Pass model.named_parameters().",
                where=where,
            )
    if len({id(parameter) for _, parameter in named}) < len(named):
        raise RangeError("parameters", "each once", "some twice", "Pass model.named_parameters().", where=where)
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
