"""Piecewise-smooth flows of vectors and orthogonal matrices, solved in the sense of Filippov.

The flow is smooth where no height is 0. A *discontinuity surface* is where one is; it is *crossed* where the velocities
of both sides lead across it. Where both lead to it the solution *slides*: its velocity is the convex combination of the
two sides' velocities that stays on the surface, with *coefficient* α for the upper one. Off the surfaces α is 0 below,
1 above.

Source:
    A. F. Filippov, Differential Equations with Discontinuous Righthand Sides, Kluwer 1988, sections 4 and 18.
"""

from gnomon.dynamics._filippov._events import SwitchingEvents
from gnomon.dynamics._filippov._system import Coefficients, State
from gnomon.dynamics._filippov._trajectory import Snapshot, Trajectory

__all__ = ["Coefficients", "Snapshot", "State", "SwitchingEvents", "Trajectory"]
