"""Smooth flows by SciPy's Runge-Kutta method of order 8, with a limit on evaluations."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_ivp
from torch import Tensor

from gnomon import _checks
from gnomon.errors import ConvergenceError

EVALUATIONS = 20_000
"""Evaluations of a right-hand side in one integration; for a flow that meets surfaces, between two requested times.

Near a fixed point steps do not grow with the time. Tests need up to 5,626, `truncation-bias --paper` 62,837 in all.
"""
AT_SURFACES = 30
"""Those for each surface that may be met, if more: an event needs 29 (up to 28,176 in all in `truncation --paper`)."""


def integrated(
    field: Callable[[Tensor], Tensor],
    start: Float[Tensor, "*s"],
    moments: list[float],
    rtol: float,
    sizes: Float[Tensor, "*s"],
) -> Float[Tensor, "t *s"]:
    """The states at increasing times, from that at time 0; the absolute tolerance is a thousandth of rtol of the sizes.

    Raises:
        ConvergenceError: if the integrator gives up, or needs too many evaluations.
    """
    evaluations = Evaluations()

    def right_side(time: float, state: object) -> object:
        evaluations.one_more(time, moments[-1])
        return field(torch.from_numpy(np.asarray(state)).view(start.shape)).flatten().numpy()

    initial, span = start.cpu().flatten().numpy(), (0.0, moments[-1])
    least = (rtol / 1000 * sizes).cpu().flatten().numpy()
    solved = solve_ivp(right_side, span, initial, "DOP853", t_eval=moments, rtol=rtol, atol=least)
    if not solved.success:
        raise ConvergenceError("times", "the integration to finish", solved.message)
    return torch.from_numpy(solved.y.T).reshape(len(moments), *start.shape).to(start)


class Evaluations:
    """Counts evaluations of a right-hand side; an error beyond `EVALUATIONS`, or `AT_SURFACES` for each surface."""

    def __init__(self, surfaces: int = 0) -> None:
        self.count, self.most = 0, max(EVALUATIONS, AT_SURFACES * surfaces)

    def one_more(self, time: float, until: float) -> None:
        """Counts one evaluation, at this time of an integration up to another.

        Raises:
            ConvergenceError: if it is one too many.
        """
        self.count += 1
        if self.count > self.most:
            raise ConvergenceError(
                "times",
                f"the integration to finish at {until:.4g} within {self.most:,} evaluations",
                f"to {time:.4g}",
                "Ask for times up to there.",
            )


def increasing_times(times: Float[Tensor, "t"]) -> list[float]:
    """The times; raises unless they are finite, from 0 on, strictly increasing and end above 0."""
    _checks.one_axis(times=times)
    _checks.finite(times=times)
    moments = times.tolist()
    right = moments[0] >= 0 and bool((times.diff() > 0).all()) and moments[-1] > 0
    _checks.settings(("times", moments, "from 0 on, strictly increasing, the last above 0", right))
    return moments


def require_times(times: Float[Tensor, "t"]) -> None:
    """Raises unless the times are finite and from 0 on; their order does not matter."""
    _checks.one_axis(times=times)
    _checks.finite(times=times)
    earliest = float(times.detach().min())
    _checks.settings(("times", earliest, "from 0 on", earliest >= 0))


def require_rtol(rtol: float) -> None:
    """Raises RangeError unless the integrator can keep the relative tolerance and it is one."""
    _checks.settings(("rtol", rtol, "from 1e-13 to 0.001", 1e-13 <= rtol <= 1e-3))


def require_float64(**tensors: Tensor) -> None:
    """Raises RangeError unless all are in float64 and finite."""
    kinds = [(name, tensor.dtype, "in float64", tensor.dtype == torch.float64) for name, tensor in tensors.items()]
    _checks.settings(*kinds)
    _checks.finite(**tensors)
