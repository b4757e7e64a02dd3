"""Egalitarian gradient descent: every principal direction of a gradient matrix gets a step of the same length."""

from collections.abc import Iterable

import torch
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision, in_single
from gnomon.steer._changed_gradients import ChangedGradients


class EgalitarianGradients(ChangedGradients):
    r"""Egalitarian gradient descent: sets the singular values of each gradient matrix to one.

    $G = USV^\top \leftarrow UV^\top$, which is $(GG^\top)^{-1/2}G$; a singular value s below a floor becomes s / floor

    Call it once per step, or attach it, as with `OrthoGrad`; with plain SGD it is the paper's method.
    `torch.optim.Muon` does nearly the same to its momentum, by five steps of an iteration in bfloat16.

    Steps no longer shrink with the gradients, until those are at the floor: training does not settle without help. The
    authors' code continues with the plain gradient once more than 95 % of unseen samples are classified correctly; do
    the same, by `detach()` if it is attached, or decay the learning rate. Their code changes only the first layer's
    weight, or layers that the user names: pass those.

    Source:
        Pasand and Dohmatob, arXiv:2510.04930.
    Args:
        parameters: `model.named_parameters()`, or those of them that are to be changed. With three axes or more, as in
            convolutions, all but the first are flattened into one; those with one axis or none, such as biases, stay
            unchanged.
        floor: above 0, in the unit of the gradients; the authors' is 1e-6. Singular values above it count in full, and
            so does rounding, some 1e-7 of the largest in float32: raise it for gradients of norm 10 and more.
        skip_nonfinite: leave a step with NaN or infinite gradients alone instead of raising.
    Raises:
        RangeError: if floor is out of range, a tensor is not a parameter, or is given twice.
        EmptyError: if there are no parameters.
    Cost: a singular value decomposition of each matrix, O(a b min(a, b)) time for an a by b one.
    Example:
        >>> import torch, gnomon
        >>> w = torch.zeros(2, 2, requires_grad=True)
        >>> w.grad = torch.diag(torch.tensor([-3.0, 0.01]))
        >>> gnomon.EgalitarianGradients([w])()
        >>> w.grad.diag()
        tensor([-1.,  1.])
    """

    @full_precision
    def __init__(
        self, parameters: Iterable[Tensor | tuple[str, Tensor]], floor: float = 1e-6, *, skip_nonfinite: bool = False
    ) -> None:
        _checks.settings(_checks.above_0("floor", floor))
        super().__init__(parameters, skip_nonfinite)
        self.floor = floor

    def _change(self, i: int, gradient: Tensor) -> None:
        if gradient.ndim < 2:
            return
        u, s, vh = torch.linalg.svd(in_single(gradient).flatten(1), full_matrices=False)
        gradient.copy_(((u * (s / s.clamp(min=self.floor))) @ vh).view_as(gradient))
