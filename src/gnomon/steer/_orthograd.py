"""⊥Grad: gradients without the component along the weights, removed between `backward()` and the optimizer's step."""

from collections.abc import Iterable

import torch
from torch import Tensor

from gnomon._precision import in_single
from gnomon.errors import public
from gnomon.linalg import largest, norm, unit
from gnomon.steer._changed_gradients import ChangedGradients
from gnomon.steer._parameters import require_real


class OrthoGrad(ChangedGradients):
    r"""⊥Grad: removes from each gradient its component along the weights, and rescales the rest to the original norm.

    $g_\perp = g - \frac{w^\top g}{w^\top w}\,w$, $g \leftarrow \frac{\|g\|}{\|g_\perp\|}\,g_\perp$ for each tensor w

    Beyond 100 % train accuracy the loss falls by scaling the weights up, which changes no prediction of a homogeneous
    network; this removes that direction from the step. Call it once per step, of any optimizer but LBFGS:

        loss.backward()
        orthograd()
        optimizer.step()

    Or `orthograd.attach(optimizer)`, if a framework makes the steps. Adam's own scaling and momentum, and weight decay,
    come afterwards and may move the weights along themselves.

    A gradient along its weights, as that of a single weight always is, becomes zero. In the authors' code only rounding
    errors are left of it, and they are scaled up to its norm.

    Source:
        Prieto et al., arXiv:2501.04697, section 6. The formula there ends at the projection; that each tensor is
        projected separately, biases included, and rescaled, follows the authors' code.
    Args:
        parameters: `model.named_parameters()`, or `model.parameters()`, which leaves errors without names.
        skip_nonfinite: leave a step with NaN or infinite gradients alone instead of raising.
    Raises:
        RangeError: if a tensor is not a parameter, is complex, or is given twice.
        EmptyError: if there are no parameters.
    Cost: O(p) time, and the memory of two more gradients of the largest tensor; in half precision three, in float32.
    Example:
        >>> import torch, gnomon
        >>> w = torch.tensor([1.0, 0.0], requires_grad=True)
        >>> w.grad = torch.tensor([3.0, 4.0])
        >>> gnomon.OrthoGrad([w])()
        >>> w.grad
        tensor([0., 5.])
    """

    @public
    def __init__(self, parameters: Iterable[Tensor | tuple[str, Tensor]], *, skip_nonfinite: bool = False) -> None:
        super().__init__(parameters, skip_nonfinite)
        require_real(self._parameters)

    def _change(self, i: int, gradient: Tensor) -> None:
        if not gradient.numel():
            return
        # All in place, for memory: this is the gradient itself, unless that is in half precision.
        rest, weight = in_single(gradient), self._parameters[i][1]
        along = unit(weight.to(rest.dtype).flatten()).view(weight.shape)
        # Divided out, since small squares underflow; with weights at zero, nothing of the gradient lies along them.
        unit_of_rest = largest(rest)
        rest /= unit_of_rest
        size = norm(rest.flatten())
        rest -= (along * rest).sum() * along
        left = norm(rest.flatten())
        # Below this there is nothing left but rounding errors: of these sums, and of the gradient itself.
        rounding = max(16 * torch.finfo(rest.dtype).eps, torch.finfo(gradient.dtype).eps)
        rest *= torch.where(left > rounding * size, size / left, 0)
        rest *= unit_of_rest
        gradient.copy_(rest)
