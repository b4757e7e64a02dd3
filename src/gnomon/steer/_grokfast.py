"""Grokfast: the slow part of the gradients, amplified between `backward()` and the optimizer's step."""

from collections.abc import Iterable

from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.steer._amplified_gradients import AmplifiedGradients


class GrokfastEMA(AmplifiedGradients):
    r"""Grokfast with an exponential moving average: the gradients plus λ times their running mean.

    $\mu \leftarrow \alpha\mu + (1-\alpha)g$, $g \leftarrow g + \lambda\mu$, from $\mu = g$ at the first gradient

    Call it once per step of the optimizer, which is any but LBFGS; gradients accumulated over several backward passes
    count as one:

        loss.backward()
        grokfast()
        optimizer.step()

    Or, if a framework makes the steps, `grokfast.attach(optimizer)`: it is then called immediately before each of them,
    and its state is in `optimizer.state_dict()`.

    The mean starts at the first gradient, as in the authors' code, so that a constant gradient becomes $(1+\lambda)g$
    at once; from zero it would be $(1+\lambda(1-\alpha^t))g$.

    Mixed precision. The mean is kept in float32 at least, and the sum is rounded once, to the gradient's dtype.
    Under a `torch.amp.GradScaler` the order is `scaler.unscale_(optimizer)`, `grokfast()`, `scaler.step(optimizer)`:
    before `unscale_` the mean would mix gradients of different scales. The scaler skips steps whose gradients
    overflow; with `skip_nonfinite` so does Grokfast, leaving gradients and mean as they are. If attached to an
    optimizer that is not fused, it runs in the right order and takes no part in skipped steps.

    Resuming. With `state_dict` in the checkpoint, a resumed run is bit for bit the uninterrupted one.

    Source:
        Lee et al., arXiv:2405.20233. The code of Walker et al., arXiv:2506.12284, has α = 0.8, λ = 0.1.
    Args:
        parameters: `model.named_parameters()`, or `model.parameters()`, which leaves errors without names.
        alpha: α in [0, 1), how much of the mean is kept: it looks back about 1 / (1 − α) steps.
        lamb: λ ≥ 0.
        skip_nonfinite: leave a step with NaN or infinite gradients alone instead of raising.
    Raises:
        RangeError: listing every setting that is out of range; if a tensor is not a parameter, or is given twice.
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

    @full_precision
    def __init__(
        self,
        parameters: Iterable[Tensor | tuple[str, Tensor]],
        alpha: float = 0.98,
        lamb: float = 2.0,
        *,
        skip_nonfinite: bool = False,
    ) -> None:
        _checks.settings(
            ("alpha", alpha, "in [0, 1)", 0 <= alpha < 1),
            _checks.at_least_0("lamb", lamb),
        )
        super().__init__(parameters, lamb, skip_nonfinite)
        self.alpha = alpha

    def _start(self, gradient: Tensor) -> Tensor:
        return gradient.clone()

    def _mean(self, memory: Tensor, taken: int, gradient: Tensor) -> Tensor:
        return memory.lerp_(gradient, 1 - self.alpha)

    def _shape(self, parameter: Tensor) -> tuple[int, ...]:
        return tuple(parameter.shape)


class GrokfastMA(AmplifiedGradients):
    r"""Grokfast with a moving average: the gradients plus λ times the mean of the last w, the current one included.

    $g_t \leftarrow g_t + \frac{\lambda}{w}\sum_{s=t-w+1}^{t} g_s$ for $t \ge w$; the first $w - 1$ stay as they are

    A parameter's window fills with its own gradients, as they were before being amplified. The mean is summed again
    at each step: a running sum would keep the rounding errors of large early gradients after those have dropped out.

    Use, mixed precision and resuming are as for `GrokfastEMA`.

    Source:
        Lee et al., arXiv:2405.20233, whose code, too, waits for a full window.
    Args:
        parameters: `model.named_parameters()`, or `model.parameters()`, which leaves errors without names.
        window: w ≥ 1.
        lamb: λ ≥ 0.
        skip_nonfinite: leave a step with NaN or infinite gradients alone instead of raising.
    Raises:
        RangeError: listing every setting that is out of range; if a tensor is not a parameter, or is given twice.
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

    @full_precision
    def __init__(
        self,
        parameters: Iterable[Tensor | tuple[str, Tensor]],
        window: int = 100,
        lamb: float = 5.0,
        *,
        skip_nonfinite: bool = False,
    ) -> None:
        _checks.settings(
            _checks.whole_number("window", window, 1),
            _checks.at_least_0("lamb", lamb),
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
