"""Gradient flow of the standard loss once each class is one point: two matrices, an integral of motion, and a rate."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.dynamics._integration import increasing_times, integrated, require_float64, require_rtol
from gnomon.errors import ShapeError
from gnomon.linalg import identity


@dataclass(frozen=True)
class CollapsedFlowRun:
    r"""The flow at the requested times.

    Attributes:
        times: (t).
        weight: (t q q), W.
        biases: (t q q), B.
        loss: (t), $\frac12\|WB + Y\|_F^2$.
        bound: (t), $e^{-2s\lambda_0}$ times the loss at time 0, which the loss does not exceed
            but for the integrator's error.
        gap: (t), $\lambda_{\min}(WW^\top) + \lambda_{\min}(B^\top B)$: twice this is the least rate at which the loss
            decays at that time; never below $\lambda_0$.
        drift: (t), the largest entry of the integral of motion less its value at time 0.
    """

    times: Float[Tensor, "t"]
    weight: Float[Tensor, "t q q"]
    biases: Float[Tensor, "t q q"]
    loss: Float[Tensor, "t"]
    bound: Float[Tensor, "t"]
    gap: Float[Tensor, "t"]
    drift: Float[Tensor, "t"]


@dataclass(frozen=True)
class CollapsedPropagators:
    r"""The propagators from time 0, each the identity there.

    The outer ones carry the residual, $WB + Y = U_W\,(W_0B_0 + Y)\,U_B$. The inner ones solve the two equations as
    linear equations, with $V(s, s')$ for `V(s) V(s')⁻¹` of the weight and `V(s')⁻¹ V(s)` of the biases:

    $B = V_WB_0 - \int_0^sV_W(s, s')\,W^\top Y\,ds'$, $\quad W = W_0V_B - \int_0^sYB^\top V_B(s, s')\,ds'$

    Attributes:
        times: (t).
        outer_weight: (t q q), $\dot U_W = -WW^\top U_W$.
        outer_biases: (t q q), $\dot U_B = -U_BB^\top B$.
        inner_weight: (t q q), $\dot V_W = -W^\top WV_W$.
        inner_biases: (t q q), $\dot V_B = -V_BBB^\top$.
    """

    times: Float[Tensor, "t"]
    outer_weight: Float[Tensor, "t q q"]
    outer_biases: Float[Tensor, "t q q"]
    inner_weight: Float[Tensor, "t q q"]
    inner_biases: Float[Tensor, "t q q"]


class CollapsedFlow:
    r"""Gradient flow of the standard loss where the truncation maps send each class to a point.

    $\dot W = -(WB + Y)\,B^\top$, $\quad\dot B = -W^\top(WB + Y)$

    the gradient flow of $\frac12\|WB + Y\|_F^2$, where the columns of B are the cumulative biases and those of Y the
    labels: class l is at $-\beta^{(l)}$ and its output is $-W\beta^{(l)}$, with $W = W^{(Q+1)}$ the product of all
    weights and no cumulative bias at the output. It holds for the network as long as each class stays in the negative
    sector of its own truncation map and its image in the positive sectors of the later ones; moving biases may end
    this.

    $BB^\top - W^\top W$ is conserved. If it is definite, with $\lambda_0$ its least eigenvalue in absolute value, the
    loss decays to 0 at the rate $2\lambda_0$ or faster, and W and B converge. Otherwise nothing is guaranteed.

    Source:
        Chen, arXiv:2501.07400, section 8. Departs from it in which products the propagators of 8.11 belong to, and in
        the signs of 8.10, 8.16 and 8.17 (docs/errata.md).
    Args:
        weight: W at time 0, (q q). In float64.
        biases: B at time 0, (q q), one column per class.
        labels: Y, (q q), one column per class.
    Attributes:
        weight: as given.
        biases: as given.
        labels: as given.
        integral: (q q), $BB^\top - W^\top W$.
        spectral_gap: $\lambda_0$, or 0 where the integral is not definite; unit: the square of a weight's.
    Raises:
        ShapeError: if the three are not square and of the same size.
        EmptyError: if they have no rows.
        RangeError: at NaN or infinity, or if they are not in float64.
    Example:
        >>> import torch, gnomon
        >>> eye = torch.eye(2, dtype=torch.float64)
        >>> flow = gnomon.CollapsedFlow(eye, 2 * eye, eye)
        >>> flow.spectral_gap  # of 4 - 1
        tensor(3., dtype=torch.float64)
        >>> run = flow.flow(torch.tensor([1.0], dtype=torch.float64))
        >>> bool(run.loss <= run.bound), float(run.drift) < 1e-9
        (True, True)
    """

    @full_precision
    def __init__(
        self, weight: Float[Tensor, "q q"], biases: Float[Tensor, "q q"], labels: Float[Tensor, "q q"]
    ) -> None:
        given = {"weight": weight, "biases": biases, "labels": labels}
        _checks.samples(weight=weight)
        for name, matrix in given.items():
            if matrix.shape != (len(weight), len(weight)):
                raise ShapeError(
                    name,
                    "a square matrix, the size of weight",
                    f"shape {_checks.shape_of(matrix)}",
                    "Pass as many classes as dimensions, one column each.",
                )
        require_float64(**given)
        # Copies, since a network's parameters change during training, and the integral of motion is computed now.
        self.weight, self.biases, self.labels = (matrix.detach().clone() for matrix in given.values())
        self.integral = _integral(self.weight, self.biases)
        _checks.finite(integral=self.integral)
        values = torch.linalg.eigvalsh(self.integral)
        self.spectral_gap: Float[Tensor, ""] = torch.maximum(values[0], -values[-1]).clamp(min=0)

    @full_precision
    def flow(self, times: Float[Tensor, "t"], *, rtol: float = 1e-10) -> CollapsedFlowRun:
        """The flow integrated by SciPy's Runge-Kutta method of order 8, from time 0, at increasing times.

        Args:
            times: from 0 on, strictly increasing, the last above 0; unit: of gradient flow on `loss`.
            rtol: the integrator's relative tolerance; its absolute one is a thousandth of it, in units of the largest
                entry of W and B at time 0.
        Returns:
            W and B, with the loss and the integral's drift computed from them.
        Raises:
            RangeError: if the times are not as described, or rtol is not from 1e-13 to 0.001.
            ConvergenceError: if the integrator gives up, or needs more than 20,000 evaluations: near the limit its
                steps do not grow with the time.
        Cost: O(q³) for each evaluation, of which there are a hundred to a thousand. Not differentiable.
        """
        solved = self._solve(times, self._velocity, torch.stack([self.weight, self.biases]), rtol)
        weight, biases = solved.unbind(1)
        residual = weight @ biases + self.labels
        loss = residual.square().sum((1, 2)) / 2
        start = (self.weight @ self.biases + self.labels).square().sum() / 2
        return CollapsedFlowRun(
            times=times.to(self.weight.device),
            weight=weight,
            biases=biases,
            loss=loss,
            bound=torch.exp(-2 * self.spectral_gap * times.to(loss)) * start,
            gap=torch.linalg.svdvals(weight)[:, -1] ** 2 + torch.linalg.svdvals(biases)[:, -1] ** 2,
            drift=(_integral(weight, biases) - self.integral).abs().amax((1, 2)),
        )

    @full_precision
    def propagators(self, times: Float[Tensor, "t"], *, rtol: float = 1e-10) -> CollapsedPropagators:
        """The propagators along the flow, integrated with it; arguments, errors and cost as for `flow`."""

        def field(state: Float[Tensor, "m q q"]) -> Float[Tensor, "m q q"]:
            weight, biases, outer_weight, outer_biases, inner_weight, inner_biases = state
            carried = [
                -weight @ (weight.mT @ outer_weight),
                -(outer_biases @ biases.mT) @ biases,
                -weight.mT @ (weight @ inner_weight),
                -(inner_biases @ biases) @ biases.mT,
            ]
            return torch.cat([self._velocity(state[:2]), torch.stack(carried)])

        start = torch.stack([self.weight, self.biases, *[identity(self.weight)] * 4])
        solved = self._solve(times, field, start, rtol)[:, 2:]
        return CollapsedPropagators(times.to(self.weight.device), *solved.unbind(1))

    def _velocity(self, state: Float[Tensor, "2 q q"]) -> Float[Tensor, "2 q q"]:
        """The velocities of W and B."""
        weight, biases = state
        residual = weight @ biases + self.labels.to(state)
        return torch.stack([-residual @ biases.mT, -weight.mT @ residual])

    def _solve(
        self, times: Tensor, field: Callable[[Tensor], Tensor], start: Float[Tensor, "m q q"], rtol: float
    ) -> Float[Tensor, "t m q q"]:
        """The matrices at all times, from those at time 0."""
        moments = increasing_times(times)
        require_rtol(rtol)
        # Small weights grow from what they are: their errors are measured by their size, those of propagators by 1.
        sizes, largest = torch.ones_like(start), start[:2].abs().amax()
        sizes[:2] = torch.where(largest > 0, largest, 1)
        return integrated(field, start, moments, rtol, sizes)


def _integral(weight: Float[Tensor, "*t q q"], biases: Float[Tensor, "*t q q"]) -> Float[Tensor, "*t q q"]:
    r"""The integral of motion, $BB^\top - W^\top W$."""
    return biases @ biases.mT - weight.mT @ weight
