"""truncation: what it says of its records, and its smallest variant for real, stopped half way."""

import math

import pytest
import torch

from gnomon import TruncationFlow, truncation_time_bound
from gnomon.errors import RangeError
from gnomon_lab.papers.effective_flow.truncation import run as truncation
from gnomon_lab.papers.effective_flow.truncation.page import KINDS, claims, figures, summary, table
from gnomon_lab.papers.effective_flow.truncation.run import Config, clusters, compared, moments, run
from gnomon_lab.runs import Run
from tests.lab.resuming import resumed

HALF = 0.5**0.5
BOUND = {"bound": 2.0, "eta0": 0.5, "eta1": 0.1, "eta1_prime": 0.1, "eta2": 0.1, "gamma": 0.4, "failed": None}
NONE = BOUND | {"bound": None, "failed": "translation of all points into the negative sector (4.16)"}
EQUILIBRIA = {"collapse": ["truncated"] * 2, "large": [None] * 2, "inside": [None] * 2,
              "rest": ["untruncated", "truncated"], "near": ["truncated"] * 2}  # fmt: skip
COLLAPSE = {"collapse": [1.0, 2.0], "large": [None, None], "inside": [None, None], "rest": [None, 0.0],
            "near": [0.0, 1.0]}  # fmt: skip
PRINTED = [3, 4, 10]
"""The claims that do not hold as printed."""


def made_up(arm=None, step=2, **change):
    """Records of every kind in the plane at s = 0 to 3, in which all holds but what is printed falsely.

    One record may be changed.
    """
    records = []
    for kind in KINDS:
        still = kind == "rest"
        for at in range(4):
            left = math.exp(-at)
            distance = [1.0 if still else left, left]
            record = {
                "arm": f"2 {kind}", "step": at, "s": float(at), "gradient_error": 1e-15,
                "loss": [d**2 for d in distance], "decrease": [[1 - d**2, 0.0] for d in distance],
                "rates": [[-1.0, 0.0]] * 2, "slopes": [[-1.0, 0.0]] * 2,
                "printed_error": 0.5, "moments_error": 0.1, "stretch": [0.0, 0.0],
                "truncated": [[0, 0] if still else [at, 2], [3, 3]], "to_go": [3 if still or at < 3 else 1, 0],
                "distance": distance, "moved": [0.0, 1 - left] if still else [1 - left] * 2, "turned": [0.0, 0.0],
                "clearance": [1.0, 1.0], "aside": [0.0, 0.0], "whole_distance": distance,
                "whole_unrest": [0.0, 0.0], "beta": [[4 - left, 0.0], [left - 4, 0.0]],
                "rotation": [[[HALF, HALF], [HALF, -HALF]], [[-HALF, HALF], [-HALF, -HALF]]],
            }  # fmt: skip
            if at == 0:
                record |= {
                    "points": [[[-6.0, 0.0], [-5.0, 1.0], [-4.0, 2.0]], [[6.0, 0.0], [5.0, 1.0], [5.0, 0.0]]],
                    "targets": [[-4.0, 0.0], [4.0, 0.0]], "count": 3, "collapse": COLLAPSE[kind],
                    "equilibrium": EQUILIBRIA[kind], "slides": [0, 0],
                    "limits": [{"bound": 2.5 if kind == "near" else None}] * 2,
                } | dict.fromkeys(("sharp", "printed"), [BOUND if kind == "collapse" else NONE] * 2)  # fmt: skip
            records.append(record | (change if (f"2 {kind}", at) == (arm, step) else {}))
    return records


def failing(found):
    return [place for place, claim in enumerate(found) if not claim.holds]


def test_table_summary_and_figures():
    records = made_up()
    columns, rows = table(records)
    assert len(columns) == len(rows[0]) == 10
    assert rows[1] == ("2", "collapse", "second", "2.000", "2.000", "2.000", "0.0e+00", "0.0498", "0.00248", "0 of 3")
    assert rows[2][:6] == ("2", "large", "first", "-", "-", "-")
    said = summary(records)
    assert (
        "hold in 2 clusters; 2 of them are truncated entirely, at s = 1.00, 2.00. By s = 3 points are left in 2" in said
    )
    one = summary(made_up("2 collapse", 0, collapse=[1.0, None]))
    assert "1 of them are truncated entirely, at s = 1.00. By" in one
    none = summary(made_up("2 collapse", 0, sharp=[NONE] * 2))
    assert "hold in 0 clusters; 0 of them are truncated entirely. By" in none
    drawn = figures(records)
    assert [figure.name for figure in drawn] == ["film-2-collapse", "film-2-large", "film-2-inside", "flow-2"]
    distance, _, loss, turned = drawn[-1].panels
    assert distance.lines[0].y == pytest.approx([math.exp(-s) for s in range(4)])
    assert loss.lines[1].y == pytest.approx([math.exp(-2 * s) for s in range(4)])
    assert [mark.x for mark in turned.marks] == [1.0, 2.0]


def test_all_claims_hold_but_three_printed_ones():
    found = claims([made_up()])
    assert len(found) == 19
    assert failing(found) == PRINTED
    assert [found[place].measured for place in PRINTED] == ["0.5", "0.1", "0.95"]
    assert found[10].expected == "at most 1e-09"
    # The length over its decay is 1 at s = 0, give or take the tolerance, which the claim must not hide.
    assert found[16].expected == "at most 1.000000001"
    assert found[12].measured == "1; they hold in 2 of 2 clusters"
    assert found[14].measured == "0.4; they hold in 2 of 2 clusters"


@pytest.mark.parametrize(
    ("arm", "step", "change", "place"),
    [
        ("2 inside", 2, {"clearance": [0.0, 1.0]}, 0),
        ("2 inside", 3, {"aside": [0.0, 1e-8]}, 1),
        ("2 rest", 1, {"gradient_error": 1e-9}, 2),
        ("2 inside", 3, {"loss": [math.exp(-6), math.exp(-4) + 1e-10], "decrease": [[1 - math.exp(-6), 0.0],
                         [1 - math.exp(-4) - 1e-10, 0.0]]}, 5),
        ("2 collapse", 2, {"slopes": [[-1.0, 1e-9], [-1.0, 0.0]]}, 6),
        ("2 large", 3, {"decrease": [[1.0, 0.0], [1.0, 0.0]]}, 7),
        ("2 large", 3, {"stretch": [0.0, 1e-11]}, 8),
        ("2 rest", 2, {"moved": [1e-11, 0.5]}, 9),
        ("2 rest", 0, {"equilibrium": [None, "truncated"]}, 9),
        ("2 rest", 3, {"whole_distance": [1.0, 1.00001 * math.exp(-3)]}, 11),
        ("2 collapse", 0, {"collapse": [1.0, 2.1]}, 12),
        ("2 near", 0, {"collapse": [0.0, 2.6]}, 14),
        ("2 collapse", 3, {"turned": [0.0, 0.11]}, 15),
        ("2 collapse", 2, {"distance": [math.exp(-2), 1.01 * math.exp(-1)]}, 16),
        ("2 collapse", 3, {"whole_distance": [math.exp(-3), 1.00001 * math.exp(-3)]}, 17),
        ("2 collapse", 3, {"whole_unrest": [0.0, 1e-8]}, 18),
    ],
    ids=str,
)  # fmt: skip
def test_each_claim_fails_where_it_does_not_hold(arm, step, change, place):
    """In one record of one of two seeds."""
    found = failing(claims([made_up(), made_up(arm, step, **change)]))
    # One number at the start decides on several claims: the bounds have one s₁, and collapse says where to look.
    assert set(found) - {13} == {place, *PRINTED}


def test_a_map_that_truncates_all_has_to_be_recognised_and_to_rest_in_shares_of_its_way():
    def resting(moved, **start):
        return [
            record | {"moved": [0.0, moved]} | (start if record["step"] == 0 else {})
            if record["arm"] == "2 rest" else record
            for record in made_up()
        ]  # fmt: skip

    assert failing(claims([resting(0.0)])) == [3, 4]
    assert failing(claims([resting(0.0, equilibrium=["untruncated", None])])) == PRINTED
    assert failing(claims([resting(3e-9, distance=[1.0, 4.0])])) == [3, 4]
    assert failing(claims([resting(5e-9, distance=[1.0, 4.0])])) == PRINTED


def test_rises_are_of_the_first_loss():
    """Of both clusters together, which is 2."""
    rise = 1.5e-12
    loss, spent = [math.exp(-6), math.exp(-4) + rise], [[1 - math.exp(-6), 0.0], [1 - math.exp(-4) - rise, 0.0]]
    assert failing(claims([made_up("2 inside", 3, loss=loss, decrease=spent)])) == PRINTED
    assert failing(claims([made_up("2 collapse", 2, slopes=[[-1.0, rise], [-1.0, 0.0]])])) == PRINTED


def test_a_distance_decays_from_its_first_value_and_e_to_minus_s_counts_from_collapse_on():
    far = [
        record | {"distance": [2 * each for each in record["distance"]]} if record["arm"] == "2 collapse" else record
        for record in made_up()
    ]
    assert failing(claims([far])) == PRINTED
    assert failing(claims([made_up("2 collapse", 0, whole_distance=[9.0, 9.0], whole_unrest=[1.0, 1.0])])) == PRINTED


def test_theorem_3_2_is_about_separated_truncations():
    """In the large unit R may turn so far that a map reaches the other cluster; that is no counterexample."""
    astray = {"clearance": [1.0, -0.1], "aside": [0.1, 0.0], "gradient_error": 0.1, "slopes": [[-1.0, 0.1]] * 2}
    assert failing(claims([made_up("2 large", **astray)])) == PRINTED
    assert failing(claims([made_up("2 large", **(astray | {"clearance": [1.0, 0.1]}))])) == [1, 2, *PRINTED[:2], 6, 10]


def test_without_a_bound_or_a_gradient_there_is_no_claim():
    """Statements about nothing do not hold."""
    found = claims([made_up("2 collapse", 0, sharp=[NONE] * 2)])
    assert failing(found) == [*PRINTED, 12, 15, 16]
    assert found[12].measured == "-1; they hold in 0 of 2 clusters"
    assert failing(claims([made_up("2 rest", 0, collapse=[None] * 2)])) == [*PRINTED, 11]
    blind = made_up()
    for record in blind:
        record |= dict.fromkeys(("gradient_error", "slopes", "printed_error", "moments_error"))
    assert failing(claims([blind])) == [2, 3, 4, 6, 10]


def test_a_cluster_that_never_collapses_is_above_its_bound():
    found = claims([made_up("2 collapse", 0, collapse=[1.0, None])])
    assert failing(found) == [*PRINTED, 12, 13]
    assert found[12].measured == "inf; they hold in 2 of 2 clusters"


@pytest.mark.parametrize("width", [2, 3, 8])
def test_clusters_lie_in_front_of_each_other(width):
    """Corners and targets on the line through both means, each sector's axis along it; the same points in all units."""
    pairs = {kind: clusters(kind, 50, width, torch.Generator().manual_seed(3)) for kind in KINDS}
    for kind, pair in pairs.items():
        for own, other, towards in zip(pair, reversed(pair), (1.0, -1.0), strict=True):
            torch.testing.assert_close(own.rotation @ own.rotation.mT, torch.eye(width).double())
            axis = own.rotation.sum(0) / width**0.5
            torch.testing.assert_close(axis, towards * torch.eye(width).double()[0])
            assert ((other.points + own.beta) @ own.rotation.mT).min() > 0
            torch.testing.assert_close((own.beta + own.target)[1:], torch.zeros(width - 1).double(), atol=1e-12, rtol=0)
            unit = truncation.UNIT[kind]
            torch.testing.assert_close(own.points / unit, pairs["rest"][0 if towards > 0 else 1].points)


def test_moments_are_closer_where_faces_are_crossed_and_hold_the_collapses():
    pair = clusters("collapse", 60, 2, torch.Generator().manual_seed(0))
    end = torch.tensor([4.0]).double()
    looks = [TruncationFlow(c.points, c.target).flow(c.beta, c.rotation, end) for c in pair]
    times = moments(looks, Config(readings=20))
    assert (times[0], times[-1]) == (0, 4)
    assert (times.diff() > 0).all()
    events = torch.cat([look.events.times for look in looks])
    for look in looks:
        assert (times == look.collapse).any()
    others = [time for time in times.tolist() if time not in [float(look.collapse) for look in looks]]
    assert min(abs(a - b) for a in others for b in events.tolist()) > 1e-9
    assert (times < events.max()).double().mean() > 0.5


def test_comparison_finds_a_wrong_right_side_and_leaves_out_faces():
    pair = clusters("inside", 10, 3, torch.Generator().manual_seed(1))
    flows = [TruncationFlow(c.points, c.target) for c in pair]
    points, targets, beta, rotation = map(torch.stack, zip(*pair, strict=True))
    right = compared(flows, points, targets, beta, rotation, 0.0)
    assert right["gradient_error"] < 1e-13
    assert max(rate for both in right["slopes"] for rate in both) < 0
    wrong = [TruncationFlow(c.points, c.target + 1e-3) for c in pair]
    assert compared(wrong, points, targets, beta, rotation, 0.0)["gradient_error"] > 1e-5
    near = compared(flows, points, targets, beta, rotation, 9.0)
    assert near.pop("stretch") == right["stretch"]
    assert near == dict.fromkeys(("gradient_error", "slopes", "printed_error", "moments_error"))


def test_comparison_finds_a_flow_that_ascends_or_leaves_the_orthogonal_matrices():
    class Wrong(TruncationFlow):
        def velocity_at(self, beta, rotation):
            of_beta, _ = super().velocity_at(beta, rotation)
            return -of_beta, 1e-3 * rotation

    pair = clusters("inside", 10, 3, torch.Generator().manual_seed(1))
    parts = [*map(torch.stack, zip(*pair, strict=True))]
    right, wrong = (compared([kind(c.points, c.target) for c in pair], *parts, 0.0) for kind in (TruncationFlow, Wrong))
    assert max(right["stretch"]) < 1e-13
    assert wrong["stretch"] == pytest.approx([2e-3, 2e-3])
    assert max(rate for both in wrong["slopes"] for rate in both) > 0.1
    of_wrong = made_up("2 inside", 1, **{name: wrong[name] for name in ("stretch", "slopes")})
    assert failing(claims([of_wrong])) == sorted([*PRINTED, 6, 8])


def test_the_printed_generator_is_the_mean_of_commutators():
    """(3.25) and (3.26), point by point; what the errata add is the mean of the second moments' commutators."""
    points, targets, beta, rotation = map(torch.stack, zip(*clusters("inside", 10, 3, torch.Generator()), strict=True))
    heights = (points + beta[:, None]) @ rotation.mT
    found = truncation.printed_turning(heights, targets, beta, rotation)
    for k in (0, 1):
        goal, total = rotation[k] @ (beta[k] + targets[k]), torch.zeros(3, 3).double()
        for x in heights[k]:
            h, m = (x > 0).double().diag(), (torch.outer(x, goal) + torch.outer(goal, x)) / 2
            total += h @ m - m @ h
        torch.testing.assert_close(found[k], total / 10)
        velocity = TruncationFlow(points[k], targets[k]).velocity_at(beta[k], rotation[k])[1]
        seconds = [(torch.outer(x, x), (x > 0).double().diag()) for x in heights[k]]
        lacking = sum(xx @ h - h @ xx for xx, h in seconds) / 20
        torch.testing.assert_close((found[k] + lacking) @ rotation[k], velocity)


def test_two_clusters_with_the_same_first_moments_turn_r_differently():
    """(1, -1) and (3, -3) have the mean of (1, -3) and (3, -1), in the same sector; the generators are 3 and 2."""
    target, beta, eye = torch.tensor([-0.3, 0.2]).double(), torch.zeros(2).double(), torch.eye(2).double()
    pairs = [torch.tensor([[1.0, -1.0], [3.0, -3.0]]).double(), torch.tensor([[1.0, -3.0], [3.0, -1.0]]).double()]
    turns = [TruncationFlow(pair, target).velocity_at(beta, eye)[1][0, 1].item() for pair in pairs]
    assert turns == pytest.approx([3.0, 2.0])
    means = [truncation.at_sector_means(pair, pair > 0) for pair in pairs]
    torch.testing.assert_close(means[0], torch.tensor([[2.0, -2.0]]).double().expand(2, 2))
    torch.testing.assert_close(means[1], means[0])
    beside = torch.cat([pairs[0], torch.tensor([[5.0, 7.0]]).double()])
    torch.testing.assert_close(truncation.at_sector_means(beside, beside > 0)[2], beside[2])


def test_the_bound_at_the_limits_needs_all_three_hypotheses():
    """Ten points at height -1 about a target at 0; a corner at 0.5 · (-1, 1) is 0.7 away from it."""
    base = truncation.Cluster(
        -torch.ones(10, 2).double(), torch.zeros(2).double(), torch.tensor([-0.5, 0.5]).double(), torch.eye(2).double()
    )
    small = base._replace(points=1e-3 * base.points, beta=1e-3 * base.beta)
    distance = 0.5e-3 * 2**0.5
    assert truncation.bound_at_limits(small) == pytest.approx(math.log(10) / (0.9 - 0.11 * distance))
    printed = truncation_time_bound(*small, estimates="printed")
    assert max(printed.eta0, printed.eta1) < 0.1 < printed.gamma
    # A speed of R above the rate; a point in ten that may be above a face; a large moment; a point above the target.
    assert truncation.bound_at_limits(base._replace(beta=20 * base.beta)) is None
    near, beyond = small.points.clone(), small.points.clone()
    near[0, 1], beyond[0, 1] = -0.0003, 0.0
    assert truncation.bound_at_limits(small._replace(points=near)) is None
    assert truncation.bound_at_limits(small._replace(points=torch.cat([near, small.points[:1]]))) is not None
    assert truncation.bound_at_limits(small._replace(points=beyond.repeat(2, 1)[9:])) is None


def test_settings_are_checked_together():
    with pytest.raises(RangeError, match=r"dimensions one or more at least 2, got \(1,\); points .* 2, got 1; until"):
        Config(dimensions=(1,), points=1, until=0.0)


def test_seeds_draw_other_clusters(tmp_path):
    drawn = []
    for seed in (0, 1):
        (folder := tmp_path / str(seed)).mkdir()
        run(Config(dimensions=(2,), points=3, until=0.1, readings=12), whole := Run(folder, seed))
        drawn.append(whole.records()[0]["points"])
    assert drawn[0] != drawn[1]


def test_smallest_variant_resumes_exactly_and_shows_the_phenomena(tmp_path):
    config = Config(dimensions=(2,), points=12, until=2.0, readings=12)
    records = resumed(run, config, tmp_path, step=3, arm="2 large")
    found = claims([records])
    # Of so few points no cluster need be one for which the printed estimates hold.
    assert set(failing(found)) - {13} == set(PRINTED)
    by_kind = {kind: [r for r in records if r["arm"] == f"2 {kind}"] for kind in KINDS}
    first, last = by_kind["collapse"][0], by_kind["collapse"][-1]
    assert all(0 < s1 < (b["bound"] or math.inf) for s1, b in zip(first["collapse"], first["sharp"], strict=True))
    assert last["truncated"] == [[12, 12], [12, 12]]
    assert {len(by_kind[kind]) for kind in ("inside", "rest")} == {14}
    assert by_kind["inside"][0]["collapse"] == [None, None]
    for record in by_kind["inside"]:
        # Points above no face are truncated in all coordinates; each face may have other points above it.
        above = [
            sum(any(row) for row in ((torch.tensor(points) + torch.tensor(b)) @ torch.tensor(r).T > 0).tolist())
            for points, b, r in zip(by_kind["inside"][0]["points"], record["beta"], record["rotation"], strict=True)
        ]
        assert record["to_go"] == above
    counts = [pair for record in records for pair in zip(record["to_go"], record["truncated"], strict=True)]
    assert any(to_go > 12 - min(truncated) for to_go, truncated in counts)
    assert max(by_kind["large"][-1]["turned"]) > 1e4 * max(last["turned"])
    assert len(figures(records)) == 4
