"""How the singular values of the signal-to-noise ratio grow on the central path, in closed form."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import ConvergenceError, public

Projection = Literal["orthogonal", "renormalised"]
"""How a gradient is projected onto the tangent space of the features of identity within-class covariance."""

STEPS = 64
"""Newton steps before giving up; six are usual."""


@half_as_single
def snr_growth(
    initial: Float[Tensor, "j"],
    times: Float[Tensor, "t"],
    classes: int,
    samples: int,
    *,
    projection: Projection = "orthogonal",
) -> Float[Tensor, "t j"]:
    r"""The singular values of the signal-to-noise ratio at all times, from those at time 0.

    $c_1\log\omega(t) + c_2\,\omega(t)^2 + c_3\,\omega(t)^4 = a + t$

    with $(c_1, c_2, c_3) = (C^2N,\; CN,\; N/4)$ for the orthogonal projection of the gradient, the solution of
    $\dot\omega = \frac{\omega}{N(C + \omega^2)^2}$, and $(C^2N,\; CN/2,\; 0)$ for a gradient step after which the
    features are renormalised, the solution of $\dot\omega = \frac{\omega}{CN(C + \omega^2)}$. Each $a$ is the left-hand
    side at time 0. `CentralPath` integrates both flows.

    The equation is solved by Newton's method in $\log\omega$, in which its left-hand side is increasing and convex,
    from above: there the steps decrease and each roughly squares the error. The last step is the relative error that
    was left before it.

    Source:
        Han, Papyan, Donoho, arXiv:2106.02073, proposition 2 (equation 9), whose constants are those of the orthogonal
        projection; the flow that the paper defines, by proposition 4 and lemma 2, is the other (docs/errata.md).
    Args:
        initial: the singular values at time 0, positive; unit: class means per within-class standard deviation.
        times: the times at which to compute them, from 0 on, in any order; unit: of gradient flow on the loss averaged
            over samples and summed over outputs.
        classes: the number C of classes.
        samples: the number N of samples per class.
        projection: "orthogonal" or "renormalised".
    Returns:
        In the unit of `initial`; increasing with time, with the order of the values preserved. For large times they are
        asymptotic to $(t/c_3)^{1/4}$, or $(t/c_2)^{1/2}$ where $c_3 = 0$.
    Raises:
        EmptyError: if there are no values or no times.
        RangeError: at NaN or infinity, at a value that is not positive or whose square (orthogonal: fourth power)
            overflows, a negative time or a setting out of range.
        ConvergenceError: if Newton's method does not reach the precision of the dtype.
    Cost: O(t j). Precision: about ten epsilons, 1e-14 in float64 for times from 0 to 1e12; some forty for ω near 1e-30.
    Example:
        >>> import torch
        >>> from gnomon.dynamics import snr_growth
        >>> omega = snr_growth(torch.tensor([0.1, 1.0]), torch.tensor([0.0, 1e12]), classes=10, samples=100)
        >>> [[round(value, 1) for value in row] for row in omega.tolist()]
        [[0.1, 1.0], [447.2, 447.2]]
    """
    _checks.one_axis(initial=initial, times=times)
    _checks.finite(initial=initial, times=times)
    least, earliest = float(initial.detach().min()), float(times.detach().min())
    _checks.settings(
        ("initial", least, "above 0", least > 0),
        ("times", earliest, "from 0 on", earliest >= 0),
        ("classes", classes, "at least 2", classes >= 2),
        ("samples", samples, "at least 1", samples >= 1),
    )
    c1, c2, c3 = constants(classes, samples, projection)
    # In units of the square root of C, and of C²N for time, only the two coefficients are left.
    square, fourth = c2 * classes / c1, c3 * classes**2 / c1
    begin = initial / math.sqrt(classes)
    passed = _level(begin, square, fourth) + times.to(initial.device)[:, None] / c1
    _checks.held("initial", "powers", passed)
    return math.sqrt(classes) * _root(passed, square, fourth)


@public
def constants(classes: int, samples: int, projection: Projection) -> tuple[float, float, float]:
    """The coefficients of log ω, ω² and ω⁴."""
    known = {
        "orthogonal": (float(classes**2 * samples), float(classes * samples), samples / 4),
        "renormalised": (float(classes**2 * samples), classes * samples / 2, 0.0),
    }
    wanted = f"one of {', '.join(known)}"
    _checks.settings(("projection", projection, wanted, projection in known))
    return known[projection]


def _level(v: Tensor, square: float, fourth: float) -> Tensor:
    """The side of the equation that increases with v: log v + square v² + fourth v⁴."""
    level = v.log() + square * v**2
    return level + fourth * v**4 if fourth else level  # v⁴ may be infinite where v is not


def _root(passed: Tensor, square: float, fourth: float) -> Tensor:
    """The v at which `_level` is `passed`."""
    v = _bound(passed, square, fourth)
    for _ in range(STEPS):
        slope = 1 + 2 * square * v**2 + (4 * fourth * v**4 if fourth else 0)
        step = (_level(v, square, fourth) - passed) / slope
        v = v * torch.exp(-step)
        # log v carries an absolute error of its own size times epsilon, and that is v's relative error.
        if (step.abs() <= 16 * torch.finfo(v.dtype).eps * (1 + v.log().abs())).all():
            return v
    raise ConvergenceError(
        "times",
        f"Newton's method to converge within {STEPS} steps",
        f"a last step of {float(step.detach().abs().max()):.1e}",
        "Pass float64.",
    )


def _bound(passed: Tensor, square: float, fourth: float) -> Tensor:
    """A value above the root: each of the three terms alone is at most their sum, once log v is not negative."""
    large = passed.clamp(min=square + fourth)
    above = (large / square).sqrt()
    if fourth > 0:
        above = torch.minimum(above, (large / fourth) ** 0.25)
    return torch.where(passed > square + fourth, above, passed.clamp(max=0).exp())
