"""What the functions that bend do: elementwise functions, and maxima."""

from collections.abc import Callable, Mapping

from torch import Tensor

from gnomon.regions._operations import Maximum, PiecewiseLinear, clipped
from gnomon.regions._recording import Data, Number, Operand
from gnomon.regions._windows import PerAxis, Window


def _relu(x: Data, inplace: bool = False) -> PiecewiseLinear:
    """The positive part."""
    return PiecewiseLinear()


def _leaky_relu(x: Data, negative_slope: Number = 0.01, inplace: bool = False) -> PiecewiseLinear:
    """ReLU with a slope on its left."""
    return PiecewiseLinear(slopes=(negative_slope, 1.0))


def _rrelu(
    x: Data, lower: Number = 1 / 8, upper: Number = 1 / 3, training: bool = False, inplace: bool = False
) -> PiecewiseLinear | None:
    """ReLU with a random slope on its left; in eval mode, the middle of the range it is drawn from."""
    return None if training else PiecewiseLinear(slopes=((lower + upper) / 2, 1.0))


def _prelu(x: Data, weight: Tensor | Data) -> PiecewiseLinear | None:
    """ReLU with a learnt slope on its left, one for all entries or one per channel."""
    return PiecewiseLinear(slopes=(weight.detach(), 1.0)) if isinstance(weight, Tensor) else None


def _hardtanh(x: Data, min_val: Number = -1.0, max_val: Number = 1.0, inplace: bool = False) -> PiecewiseLinear:
    """Straight between two numbers."""
    return clipped(min_val, max_val)


def _relu6(x: Data, inplace: bool = False) -> PiecewiseLinear:
    """Straight between 0 and 6."""
    return clipped(0.0, 6.0)


def _clamp(x: Data, min: Operand | None = None, max: Operand | None = None) -> PiecewiseLinear | None:
    """Straight between two numbers, either of which may be missing."""
    return None if isinstance(min, Tensor | Data) or isinstance(max, Tensor | Data) else clipped(min, max)


def _clamp_max(x: Data, max: Operand) -> PiecewiseLinear | None:
    """Straight up to a number."""
    return _clamp(x, None, max)


def _threshold(x: Data, threshold: Number, value: Number, inplace: bool = False) -> PiecewiseLinear | None:
    """Straight above a number, constant below; piecewise affine only without a jump."""
    return clipped(threshold, None) if value == threshold else None


def _hardsigmoid(x: Data, inplace: bool = False) -> PiecewiseLinear:
    """From 0 to 1, straight between -3 and 3."""
    return PiecewiseLinear((-3.0, 3.0), (0.0, 1 / 6, 0.0), (0.0, 0.5, 1.0))


def _softshrink(x: Data, lambd: Number = 0.5) -> PiecewiseLinear:
    """Shrinks entries towards 0 by a number."""
    return PiecewiseLinear((-lambd, lambd), (1.0, 0.0, 1.0), (lambd, 0.0, -lambd))


def _absolute(x: Data) -> PiecewiseLinear:
    """The absolute value."""
    return PiecewiseLinear(slopes=(-1.0, 1.0))


def _max_pool(axes: int) -> Callable[..., Maximum | None]:
    """The maximum over windows along this many axes."""

    def made(
        x: Data,
        kernel_size: PerAxis,
        stride: PerAxis | None = None,
        padding: PerAxis = 0,
        dilation: PerAxis = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Maximum | None:
        if return_indices:
            return None
        return Maximum(Window(axes, kernel_size, stride or kernel_size, padding, dilation, ceil_mode))

    return made


def _adaptive_max_pool(axes: int) -> Callable[..., Maximum | None]:
    """The maximum over the requested number of windows, where these are of one size."""

    def made(x: Data, output_size: PerAxis, return_indices: bool = False) -> Maximum | None:
        sides = x.shape[-axes:]
        wanted = output_size if isinstance(output_size, tuple | list) else (output_size,) * axes
        parts = [side if part is None else part for side, part in zip(sides, wanted, strict=True)]
        if return_indices or any(side % part for side, part in zip(sides, parts, strict=True)):
            return None
        size = tuple(side // part for side, part in zip(sides, parts, strict=True))
        return Maximum(Window(axes, size, size))

    return made


BENDS: Mapping[str, Callable[..., PiecewiseLinear | Maximum | None]] = {
    "relu": _relu,
    "leaky_relu": _leaky_relu,
    "rrelu": _rrelu,
    "prelu": _prelu,
    "hardtanh": _hardtanh,
    "relu6": _relu6,
    **dict.fromkeys(("clamp", "clip", "clamp_min"), _clamp),
    "clamp_max": _clamp_max,
    "threshold": _threshold,
    "hardsigmoid": _hardsigmoid,
    "softshrink": _softshrink,
    **dict.fromkeys(("abs", "absolute"), _absolute),
    **{f"max_pool{axes}d": _max_pool(axes) for axes in (1, 2, 3)},
    **{f"adaptive_max_pool{axes}d": _adaptive_max_pool(axes) for axes in (1, 2, 3)},
}
"""Makers, by the functions' names; they return None for arguments that make the function something else."""
