"""Sharpness-aware minimisation: the gradient at the point nearby where the loss is worst."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from gnomon import _checks
from gnomon._precision import HALF, full_precision
from gnomon._warn import warn
from gnomon.errors import RangeError, within
from gnomon.steer._parameters import gradients_of, joint_norm, named


class SAM:
    r"""Sharpness-aware minimisation: a step uses the gradient after an ascent step of length ρ.

    $g \leftarrow \nabla L(\theta + \rho\,\frac{g}{\|g\|})$ from $g = \nabla L(\theta)$; the norm is over all parameters

    A second pass, on the same batch, runs at that point; then the parameters are restored, bit for bit, and any
    optimizer makes the step:

        loss(model, x, labels).backward()
        with sam.uphill():
            loss(model, x, labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    The first pass's gradients only tell which way is up: they are then cleared, so clipping, accumulation and other
    methods belong after the second. If a batch is accumulated in parts, accumulate all parts before going uphill, and
    all of them again there. While BatchNorm is in training mode, its running statistics are updated in both passes.
    Dropout draws other masks in the second, which is then another network, with another slope: to have the same, put
    torch's random state back before it.

    The scale of a `GradScaler` does not affect the direction, but it grows until gradients overflow. With
    `skip_nonfinite` the parameters then stay where they are: the second pass overflows too, and the scaler skips the
    step and lowers its scale.

    Keep parameters in float32, and compute in half precision by autocast: entries move by about ρ / √p, and rounding
    takes away much of it. Of an `nn.Linear(2500, 2500)` in bfloat16, 29 % of the entries move, at a cosine of
    0.73 to the slope, and of as many ones none does. SAM warns of such parameters when it is made.

    Source:
        Foret et al., arXiv:2010.01412, eq. (2), without its second-order term, as in the paper; the norm has 1e-12
        added, as in the most widely used code, github.com/davda54/sam, whose steps these are.
    Args:
        parameters: `model.named_parameters()`, or `model.parameters()`, which leaves errors without names; all that are
            trained, since others would add up the gradients of both passes.
        rho: ρ ≥ 0, in the unit of the parameters; the paper's is 0.05.
        skip_nonfinite: do not move where gradients are NaN or infinite, instead of raising.
    Raises:
        RangeError: if rho is out of range, a tensor is not a parameter, or is given twice.
        EmptyError: if there are no parameters.
    Cost: one more forward and backward pass per step; O(p) memory.
    Example:
        >>> import torch, gnomon
        >>> w = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> sam = gnomon.SAM([w], rho=5.0)
        >>> (w.square().sum() / 2).backward()  # The slope is w, of norm 5.
        >>> with sam.uphill():  # At 2 w.
        ...     (w.square().sum() / 2).backward()
        >>> w.grad.tolist(), w.tolist()
        ([6.0, 8.0], [3.0, 4.0])
    """

    @full_precision
    def __init__(
        self, parameters: Iterable[Tensor | tuple[str, Tensor]], rho: float = 0.05, *, skip_nonfinite: bool = False
    ) -> None:
        _checks.settings(_checks.at_least_0("rho", rho))
        self.rho = rho
        self.skip_nonfinite = skip_nonfinite
        self._parameters = named(parameters)
        halved = [(name, p.dtype) for name, p in self._parameters if p.requires_grad and p.dtype in HALF]
        if halved:
            name, dtype = halved[0]
            warn(
                f"SAM(parameters): expected float32 or float64, got {dtype} in {name}, whose rounding loses much of "
                f"a step of rho / sqrt(p) per entry. Keep them in float32, and use autocast.",
                UserWarning,
            )

    @contextmanager
    def uphill(self) -> Iterator[None]:
        """Inside, parameters are an ascent step of length ρ away, without gradients; restored at the end, always.

        Raises:
            EmptyError: if no parameter has a gradient.
            RangeError: if a gradient is NaN or infinite, unless these are skipped, or sparse; then nothing has been
                changed.
        """
        with within("SAM.uphill"), torch.no_grad():
            gradients = gradients_of(self._parameters)
            norm = joint_norm(gradients.values())
            finite = bool(norm.isfinite())
            if not finite and not self.skip_nonfinite:
                raise RangeError(
                    None,
                    "finite gradients",
                    f"a norm of {norm.item():.3g}",
                    "Lower the learning rate; under a GradScaler set skip_nonfinite.",
                )
            scale = self.rho / (norm + 1e-12)
            moved = [(self._parameters[i][1], gradient) for i, gradient in gradients.items()]
            before = [parameter.clone() for parameter, _ in moved]
        try:
            with torch.no_grad():
                for parameter, gradient in moved:
                    if finite:
                        parameter.add_(gradient * scale.to(gradient.device))
                    parameter.grad = None
            # An autocast around both passes would go on with its half-precision copies of the weights as they were.
            torch.clear_autocast_cache()
            yield
        finally:
            with torch.no_grad():
                for (parameter, _), value in zip(moved, before, strict=True):
                    parameter.copy_(value)
            torch.clear_autocast_cache()
