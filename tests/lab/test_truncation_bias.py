"""truncation-bias: what it says of its records, and its smallest variant for real, stopped half way."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from gnomon.errors import RangeError
from gnomon_lab.papers._shared import principal
from gnomon_lab.papers.effective_flow.truncation_bias.components import components, never_met
from gnomon_lab.papers.effective_flow.truncation_bias.page import CASES, DATA, claims, figures, summary, table
from gnomon_lab.papers.effective_flow.truncation_bias.run import PAPER, SMALL, Config, FixedRotation, run
from gnomon_lab.runs import Run
from tests.lab.resuming import resumed

TINY = Config(points=12, components=2, readings=2, until=100.0)
ONE = Config(points=12, components=1, readings=2, until=100.0)
POINTS = [0.0, 1.0, 2.0, 3.0]
SETTING = {
    # Of four points: where the cut starts, its target, the points it meets, the rates from the start on, its end.
    "rises": (0.5, 4.0, (1, 2, 3), (0.25, 0.5, 0.75, 1), 4.0),
    "rises-within": (0.5, 2.5, (1, 2), (0.25, 0.5, 0.75), 2.5),
    "falls-within": (2.5, 0.5, (2, 1), (0.75, 0.5, 0.25), 0.5),
    "falls": (2.5, -1.0, (2, 1, 0), (0.75, 0.5, 0.25, 0), 0.0),
}


def made_up(arm=None, at=0, event=None, **change):
    """Records in which all holds that can; of one arm a record, or an event in its first one, is changed."""
    records = []
    for data in DATA:
        for case, (cut, goal, met, rates, end) in SETTING.items():
            time, place, events = 0.0, cut, []
            for point, before, rate in zip(met, rates, rates[1:], strict=False):
                time += math.log((goal - place) / (goal - point)) / before
                place = float(point)
                events.append([time, 0, place, rate])
            if event is not None and arm == f"{data} {case}":
                events[event[0]][event[1]] += event[2]
            first = {"points": [POINTS], "goal": [goal], "events": events, "crossings": len(met), "off_crossings": 0.0}
            for k, (when, where, rate, loss) in enumerate(((0.0, cut, rates[0], 2.0), (100.0, end, rates[-1], 1.0))):
                record = {"arm": f"{data} {case}", "step": k, "time": when, "cut": [where], "rate": [rate],
                          "loss": loss, "truncated": [round(4 * rate)], "off": 1e-13}  # fmt: skip
                records.append(record | (first if k == 0 else {}))
                if (arm, at) == (f"{data} {case}", k):
                    records[-1] |= change
    return records


def failing(*seeds):
    return [place for place, claim in enumerate(claims(seeds)) if not claim.holds]


def test_table_summary_and_figures():
    records = made_up("normal falls", at=1, off=1e-12)
    columns, rows = table(records)
    assert len(columns) == len(rows[0]) == 7
    assert rows[0] == ("4 digits", "rises", "3", "2.35", "0.25 → 1.00", "2 → 1", "1e-13")
    assert [row[1] for row in rows] == [*CASES, *CASES]
    assert rows[-1][-1] == "1e-12"
    said = summary(records)
    assert "Event by event, 20 in all, the exact bias is that of the integrated gradient flow to 1e-12." in said
    assert "from 0.25 to 1.00 where the target lies above all points, and to 0.75 where it lies among them." in said
    beyond, within, rates, *_, differences = shown = figures(records)
    assert [figure.name for figure in shown[:3]] == ["cuts-beyond-digits", "cuts-among-digits", "rates-digits"]
    rises, target, falls, below = beyond.panels[0].points
    assert (rises.label, rises.y, rises.values) == ("rises", (1.0, 2.0, 3.0), (0.5, 0.75, 1.0))
    assert (target.x, target.y) == ((rises.x[-1], 100.0), (4.0, 4.0))
    assert (falls.y, below.y) == ((2.0, 1.0, 0.0), (-1.0, -1.0))
    assert [points.label for points in within.panels[0].points[::2]] == ["rises-within", "falls-within"]
    assert rates.panels[0].lines[3].y == (0.75, 0.0)
    assert rates.panels[1].lines[3].y == (1.0, 0.5)
    assert differences.panels[1].lines[3].y == (1e-13, 1e-12)


NEVER = [6, 7]
"""What the paper says of all points, and what does not hold where the target lies among them."""


def test_claims_hold_but_for_the_points_behind_the_target():
    found = claims([made_up(), made_up()])
    assert [place for place, claim in enumerate(found) if not claim.holds] == NEVER
    assert [found[place].measured for place in NEVER] == ["1 in each of 2 seeds", "0.25 in each of 2 seeds"]


@pytest.mark.parametrize(
    ("change", "also"),
    [
        ({"arm": "normal falls-within", "at": 1, "off": 1.1e-10}, [0]),
        ({"arm": "digits rises", "off_crossings": 1.1e-10}, [0]),
        ({"arm": "digits rises", "crossings": 2}, [0]),
        ({"arm": "digits rises", "event": (2, 0, 1e-11)}, [1]),
        ({"arm": "normal falls", "event": (0, 0, 1e-11)}, [2]),
        ({"arm": "normal rises-within", "event": (1, 3, -0.25)}, [3]),
        ({"arm": "digits falls", "event": (0, 3, 0.25)}, [4]),
        ({"arm": "digits falls-within", "at": 1, "truncated": [2]}, [5]),
        ({"arm": "digits falls-within", "event": (1, 2, -1.0)}, [8]),
        ({"arm": "digits rises-within", "at": 1, "rate": [1.0], "truncated": [4]}, [9]),
        ({"arm": "digits falls", "at": 1, "cut": [-1.0]}, [10]),
        ({"arm": "digits rises", "at": 1, "cut": [4.0 - 2e-10]}, [10]),
        ({"arm": "normal rises", "at": 1, "loss": 2.1}, [11]),
    ],
    ids=str,
)
def test_each_claim_fails_where_it_does_not_hold(change, also):
    """In one of two seeds."""
    assert failing(made_up(), made_up(**change)) == sorted(NEVER + also)


def test_a_component_has_its_own_events_and_meets_what_lies_above_its_first_cut():
    first = {"points": [[3.0, 0.0, 2.0, 1.0], [5.0, 4.0]], "goal": [4.0, 0.0], "time": 0.0, "cut": [1.5, 4.5]}
    events = [[1.0, 0, 2.0, 0.75], [1.5, 1, 4.0, 0.0], [2.0, 0, 3.0, 1.0]]
    rising, falling = components([first | {"rate": [0.5, 0.5], "truncated": [2, 1], "events": events}])
    assert (rising.points, rising.met, rising.falls) == ([0, 1, 2, 3], [(1.0, 2.0, 0.75), (2.0, 3.0, 1.0)], False)
    assert (falling.points, falling.met, falling.falls) == ([4, 5], [(1.5, 4.0, 0.0)], True)
    assert (falling.readings, falling.truncated) == ([(0.0, 4.5, 0.5)], [1])
    assert never_met(rising) == 0
    assert never_met(replace(rising, met=rising.met[:1])) == 1


def test_settings_are_checked_together():
    message = r"digit from 0 to 9, got 10; points at least 5, got 4; components from 1 to 60, less than points, got 4; "
    with pytest.raises(RangeError, match=message + "until finite and at least 10, got inf"):
        Config(digit=10, points=4, components=4, until=math.inf)


def test_settings_wait_for_the_last_point():
    """Falling, the least of N points is met within N log((m + gap) / m) or so: ten margins for its gap are rare."""
    for config in (SMALL, PAPER):
        assert config.until > config.points * math.log(11)


def test_principal_components_are_uncorrelated_and_fall_in_variance():
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64) @ torch.ones(6, 6).double()
    x = x + torch.randn(40, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = principal(x, 3).mT.cov()
    wanted = torch.linalg.eigvalsh(x.mT.cov()).flip(0)[:3]
    torch.testing.assert_close(found, torch.diag(wanted))


def test_the_integrated_flow_is_scipys_on_a_line_and_leaves_the_rotation():
    points, target, cut, times = np.array([0.0, 1.0, 1.5, 3.0]), 5.0, 0.5, [0.5, 2.0, 6.0]
    solved = solve_ivp(lambda _, c: (points <= c).mean() * (target - c), (0, 6), [cut], t_eval=times, max_step=1e-3)
    column, one = torch.from_numpy(points)[:, None], torch.ones(1).double()
    orbit = FixedRotation(column, target * one).flow(-cut * one, torch.eye(1).double(), torch.tensor(times).double())
    torch.testing.assert_close(-orbit.beta[:, 0], torch.from_numpy(solved.y[0]), rtol=0, atol=1e-3)
    turned = torch.linalg.qr(torch.randn(2, 2, generator=torch.Generator().manual_seed(0)).double())[0]
    points = torch.randn(9, 2, generator=torch.Generator().manual_seed(1)).double()
    flow = FixedRotation(points, torch.ones(2).double())
    orbit = flow.flow(torch.zeros(2).double(), turned, torch.tensor([1.0, 4.0]).double())
    torch.testing.assert_close(orbit.rotation, turned.expand(2, 2, 2))
    assert (orbit.beta[1] - orbit.beta[0]).norm() > 0.01


def test_a_seed_is_its_own_draw(tmp_path):
    starts = []
    for seed in (0, 1):
        (folder := tmp_path / str(seed)).mkdir()
        run(ONE, whole := Run(folder, seed))
        starts.append([record["points"] for record in whole.records() if "points" in record])
    assert len(starts[0]) == len(starts[1]) == 8
    assert all(ours != theirs for ours, theirs in zip(*starts, strict=True))


def test_smallest_variant_resumes_exactly_and_follows_the_paper(tmp_path):
    records = resumed(run, TINY, tmp_path, step=4, arm="normal rises-within")
    assert [record["arm"] for record in records if record["step"] == 0] == [f"{d} {c}" for d in DATA for c in CASES]
    assert failing(records) == NEVER
    first = next(record for record in records if record["arm"] == "normal rises")
    x, y, cut = sorted(first["points"][1]), first["goal"][1], first["cut"][1]
    assert y == pytest.approx(x[-1] + 0.3)
    assert x[3] < cut < x[4], "three tenths of twelve, rounded, lie below"
    # Equation 4.49, to the letter, behind the first point.
    s = [time for time, component, _, _ in first["events"] if component == 1]
    for n in range(5, 12):
        assert s[n - 4] - s[n - 5] == pytest.approx(12 / n * math.log((y - x[n - 1]) / (y - x[n])), rel=1e-11)
    fallen = [record for record in records if record["arm"] == "digits falls"]
    assert fallen[-1]["cut"] == pytest.approx([min(points) for points in fallen[0]["points"]])
