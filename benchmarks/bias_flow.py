"""The flow of the bias at a fixed rotation: all events of 10,000 points by their closed form, and by SciPy.

Beside the closed form, SciPy's integrator with the plain right side, which counts the truncated points: stopped by an
event at each point and started again behind it, where the share of truncated points is constant in between; and
without events, where it has to find each jump by small steps, and the points are sorted.
"""

import numpy as np
import torch
from scipy.integrate import solve_ivp

from gnomon.dynamics import bias_flow
from timing import keep, median_seconds

generator = torch.Generator().manual_seed(0)


def with_events(points, target, cut, last):
    """Where the cut is at the last time, and when it meets each point on its way, from below."""
    ahead, now, met = np.sort(points[(points > cut) & (points < target)]), 0.0, []

    def right_side(_, c):
        return share * (target - c)

    behind = cut
    for point in ahead:

        def crossed(_, c, point=point):
            return c[0] - point

        crossed.terminal, share = True, (points <= behind).mean()
        solved = solve_ivp(right_side, (now, last), [cut], "DOP853", events=crossed, rtol=1e-11, atol=1e-13)
        if solved.status == 0:
            return solved.y[0, -1], met
        now, cut, behind = solved.t_events[0][0], point, point
        met.append(now)
    share = (points <= behind).mean()
    solved = solve_ivp(right_side, (now, last), [cut], "DOP853", rtol=1e-11, atol=1e-13)
    return solved.y[0, -1], met


def without_events(points, target, cut, last):
    """Where the cut is at the last time, by an integrator that is not told of the jumps, at half the digits."""
    ordered = np.sort(points)

    def right_side(_, c):
        return np.searchsorted(ordered, c[0], "right") / len(ordered) * (target - c)

    return solve_ivp(right_side, (0, last), [cut], "DOP853", rtol=1e-6, atol=1e-6).y[0, -1]


if __name__ == "__main__":
    count, width, last = 10_000, 2, 3.0
    points = torch.randn(count, width, generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))[0]
    # Some points are truncated from the start, and the target lies beyond all of them.
    target = rotation.T @ torch.full((width,), 6.0, dtype=torch.float64)
    beta = rotation.T @ torch.full((width,), 2.0, dtype=torch.float64)
    times = torch.tensor([last], dtype=torch.float64)

    ours, flow = median_seconds(lambda: bias_flow(points, target, beta, rotation, times), rounds=25)
    title = f"Bias flow of {count:,} points in {width} dimensions to time {last}"
    print(f"\n{title}, torch {torch.__version__}, one thread")
    all_took = {"bias_flow": ours}
    print(f"  {'bias_flow':<44} {1e3 * ours:10.2f} ms        1 x")
    seen, cuts = (points @ rotation.T).numpy(), -(flow.beta[0] @ rotation.T).numpy()
    for name, integrate in (("SciPy, without events", without_events), ("SciPy, stopped at each event", with_events)):
        took, found = median_seconds(lambda run=integrate: [run(seen[:, r], 6.0, -2.0, last) for r in range(width)], 3)
        all_took[name] = took
        ends = [part[0] if isinstance(part, tuple) else part for part in found]
        off = max(abs(end - cut) for end, cut in zip(ends, cuts, strict=True))
        print(f"  {name:<44} {1e3 * took:10.2f} ms {took / ours:8.0f} x   off by {off:.1e}")
    keep(f"{title}; SciPy three rounds", all_took, rounds=25, clock="processor")
    million = torch.randn(1_000_000, width, generator=generator, dtype=torch.float64)
    longer, _ = median_seconds(lambda: bias_flow(million, target, beta, rotation, times), rounds=5)
    keep(title.replace(f"{count:,}", f"{len(million):,}"), {"bias_flow": longer}, rounds=5, clock="processor")
    print(f"  a hundred times the points take {longer / ours:.0f} times as long")
    events = [p[(p > 0) & (p <= last)].sort().values.numpy() for p in flow.passed.T]
    late = max(np.abs(mine - theirs[1]).max() for mine, theirs in zip(events, found, strict=True))
    print(f"  {sum(map(len, events)):,} events, times equal to {late:.1e}")
