"""collapsed-flow: what it says of its records, its network, and its smallest variant for real, stopped half way."""

import math

import pytest
import torch
from torch import nn

from gnomon import cumulative_parameters
from gnomon.errors import RangeError
from gnomon_lab.papers._shared import principal
from gnomon_lab.papers.effective_flow._shared import CollapsedNetwork, collapsed_network, cone, extrapolated, outputs
from gnomon_lab.papers.effective_flow.collapsed_flow import run as collapsed_flow
from gnomon_lab.papers.effective_flow.collapsed_flow.page import (
    DEFINITE,
    NETWORKS,
    STARTS,
    claims,
    figures,
    powers,
    ratio,
    summary,
    table,
)
from gnomon_lab.papers.effective_flow.collapsed_flow.run import Config, run
from gnomon_lab.runs import Run
from tests.lab.resuming import resumed

TINY = Config(classes=(2,), early=2.0, late=10.0, steps=1)
PRINTED = [6, 8, 13]
"""The claims that do not hold as printed."""


def made_up(arm=None, step=1, **change):
    """Records in which all holds that the errata leave, at three times; one of them changed."""
    records = []
    for start in STARTS:
        for at, time in enumerate((0.0, 1.0, 40.0)):
            decay = math.exp(-3 * time)
            values = {"classes": 3, "start": start, "gap": 3.0 if start != "even" else 0.0, "time": time}
            values |= {"least": 3.0}
            values |= {"loss": decay**2 * 0.9, "bound": decay**2, "drift": 1e-11, "weight": [1.0, 2.0]}
            values |= {"biases": [3.0, 4.0], "way": decay / 2 * (at < 2), "propagator": decay * 0.9}
            values |= {"off_outer": 1e-11, "off_inner": 0.5, "off_minus": 1e-12, "off_plus": 2.0}
            values |= {"way_bound": decay, "decay": decay} if start != "even" else {}
            records.append({"arm": f"3 {start}", "step": at} | values | {"way": 0.0 if at else 0.5})
    for name in NETWORKS:
        for at in range(3):
            values = {"time": 0.05 * at, "flow_loss": 0.1, "loss": 0.1, "off_field": 1e-13, "off_limit": 1e-9}
            values |= {"off_steps": [0.08 * at, 0.04 * at, 0.02 * at, 0.01 * at], "drift": 0.1, "moved_out": 1.2}
            values["layers"] = 0.3 if name == "leaves" else 1e-15
            records.append({"arm": f"network {name}", "step": at} | values)
    return [record | (change if (record["arm"], record["step"]) == (arm, step) else {}) for record in records]


def test_table_summary_and_figures():
    records = made_up()
    columns, rows = table(records)
    assert {len(row) for row in rows} == {len(columns)}
    assert rows[0] == ("3, B larger", "3.00", "5e-105", "0.90", "1e-11", "1e-11", "5e-01", "1e-12", "2e+00")
    assert rows[2][1:4] == ("", "5e-105", "")
    assert rows[-1] == ("network leaves", "", "1e-01", "", "1e-01", "", "", "", "")
    assert "0.90 of its bound at most, and ends at 5e-105 or below" in summary(records)
    assert "ends at 3e-07 or below" in summary(made_up("3 weight", 2, loss=3e-7))
    assert "ends 0.02 away from it" in summary(records)
    losses, drift, values, networks = figures(records)
    assert [panel.title for panel in losses.panels] == ["Start: B larger", "Start: W larger", "Start: both alike"]
    assert [len(panel.lines) for panel in losses.panels] == [2, 2, 1]
    assert losses.panels[0].lines[0].y == pytest.approx((0.9, 0.9 * math.exp(-6), 1e-16))
    assert drift.panels[2].lines[0].y == (1e-11,) * 3
    assert [line.label for line in values.panels[0].lines] == ["W", "W", "B", "B"]
    assert networks.panels[0].lines[1].y == (0.04, 0.08)


def test_a_ratio_ends_where_its_bound_is_no_longer_resolved():
    arm = [{"a": 5.0, "b": 1.0}, {"a": 1.0, "b": 4.0}, {"a": 1.0, "b": 2.0}, {"a": 9.0, "b": 1e-9}]
    assert ratio(arm, "a", "b", 1e-8) == 0.5
    assert ratio(arm, "a", "b", 5.0) == 0


def test_claims_hold_for_what_the_errata_leave():
    found = claims([made_up()])
    assert [place for place, claim in enumerate(found) if not claim.holds] == PRINTED
    assert (found[6].expected, found[6].measured) == ("at most 1e-08", "0.5")
    assert found[12].measured == "1.000 to 1.000"


@pytest.mark.parametrize(
    ("arm", "step", "change", "failing"),
    [
        ("3 even", 1, {"drift": 2e-8}, [0]),
        ("3 biases", 1, {"loss": 1.01 * math.exp(-6)}, [1]),
        ("3 biases", 0, {"gap": 0.3}, [1, 4, 5]),
        ("3 weight", 0, {"gap": 0.0}, [1, 4, 5]),
        ("3 weight", 0, {"gap": 0.0, "least": 0.0}, [1, 4, 5]),
        ("3 even", 1, {"loss": 2.0}, []),
        ("3 weight", 2, {"loss": 2e-16}, [2]),
        ("3 even", 2, {"loss": 1e-3}, []),
        ("3 biases", 1, {"way": 2e-8}, [3]),
        ("3 biases", 1, {"way": 0.1}, [3, 4]),
        ("3 weight", 1, {"propagator": 0.06}, [5]),
        ("3 even", 2, {"off_outer": 2e-8}, [7]),
        ("3 weight", 0, {"off_minus": 2e-8}, [9]),
        ("3 even", 0, {"off_minus": 2e-8}, [9]),
        ("3 even", 1, {"way": 0.1}, []),
        ("network stays", 2, {"off_field": 2e-12}, [10]),
        ("network leaves", 2, {"off_field": 2e-12}, []),
        ("network stays", 2, {"off_limit": 2e-6}, [11]),
        ("network stays", 2, {"off_steps": [0.2, 0.08, 0.04, 0.02]}, [12]),
        ("network stays", 2, {"off_steps": [0.8, 0.6, 0.4, 0.3]}, [12]),
        ("network stays", 1, {"layers": 2e-12}, [14]),
    ],
    ids=str,
)
def test_each_claim_fails_where_it_does_not_hold(arm, step, change, failing):
    """In one of two seeds."""
    found = claims([made_up(), made_up(arm, step, **change)])
    assert [place for place, claim in enumerate(found) if not claim.holds] == sorted(PRINTED + failing)


@pytest.mark.parametrize(("name", "claim"), [("off_inner", 6), ("off_plus", 8)])
def test_what_is_printed_fails_in_any_flow(name, claim):
    records = [record | ({name: 1e-9} if record.get("start") in DEFINITE else {}) for record in made_up()]
    assert not claims([records])[claim].holds
    everywhere = [record | ({name: 1e-9} if "start" in record else {}) for record in records]
    assert claims([everywhere])[claim].holds


def test_powers_and_extrapolation_are_exact_for_what_they_assume():
    steps = torch.tensor([0.8, 0.4, 0.2, 0.1], dtype=torch.float64)
    cubic = [5 + 2 * step - step**2 + 3 * step**3 for step in steps]
    torch.testing.assert_close(extrapolated(cubic), torch.tensor(5.0, dtype=torch.float64))
    assert powers([{"off_steps": [4.0, 1.0]}, {"off_steps": [3.0, 0.5]}]) == [2.0]


def test_the_network_has_these_cumulative_parameters_and_is_cut_to_points():
    """As a network of torch's own layers; class l by layer l, to minus its cumulative bias."""
    net = collapsed_network(3, 3.0, 3.0, torch.Generator().manual_seed(0))
    (weight, biases), layers = net.start, net.layers
    before, shift, modules = torch.eye(3).double(), torch.zeros(3).double(), []
    for layer, bias in zip([*layers, weight], [*biases.T, None], strict=True):
        linear = nn.Linear(3, 3, dtype=torch.float64)
        own = layer @ torch.linalg.inv(before)
        offset = layer @ ((bias - shift) if bias is not None else -shift)
        linear.weight.data, linear.bias.data = own, offset
        modules += [linear, nn.ReLU()]
        before, shift = layer, bias
    network = nn.Sequential(*modules[:-1])
    found = cumulative_parameters(network)
    torch.testing.assert_close(torch.stack(found.weight[:3]), layers)
    torch.testing.assert_close(found.beta[:3], biases.T)
    for points, bias in zip(net.clusters, biases.T, strict=True):
        expected = network(points).detach()
        torch.testing.assert_close(outputs(points, weight, biases.T, layers), expected)
        torch.testing.assert_close(expected, (-weight @ bias).expand(len(points), 3))
    assert {len(points) for points in net.clusters} == {3, 4, 5}


@pytest.mark.parametrize("q", [2, 3, 6])
def test_a_cone_is_wide_and_conditioned(q):
    axis = torch.randn(q, generator=torch.Generator().manual_seed(q), dtype=torch.float64)
    matrix = cone(axis)
    torch.testing.assert_close(torch.linalg.cond(matrix), torch.tensor(20.0, dtype=torch.float64))
    across = torch.randn(q, 100, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    across -= axis[:, None] * (axis @ across) / axis.square().sum()
    rim, centre = 7 * across / across.norm(dim=0), axis[:, None] / axis.norm()
    assert (matrix @ (rim + centre) > 0).all()
    assert (matrix @ (rim - centre) < 0).all()


def test_descent_is_that_of_the_sum_of_the_class_averages(generator):
    """In all cumulative parameters, the layers' too, which rest in a collapsed network; a label is a column of Y."""

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    clusters, labels = [normal(3, 2), normal(5, 2)], normal(2, 2)
    network = CollapsedNetwork(normal(2, 2, 2), normal(2, 2, 2), clusters, labels)
    states, losses, most = network.descend(0.01, 2, 1)
    state, layers = network.start.clone().requires_grad_(), network.layers.clone().requires_grad_()
    expected, largest = [], 0.0
    for step in range(3):
        errors = [
            (outputs(part, state[0], state[1].T, layers) - y) ** 2 for part, y in zip(clusters, labels.T, strict=True)
        ]
        loss = sum(error.sum() / len(error) / 2 for error in errors)
        of_state, of_layers = torch.autograd.grad(loss, (state, layers))
        expected.append(loss.item())
        if step < 2:
            largest = max(largest, of_layers.abs().max().item())
            state, layers = state - 0.01 * of_state, layers - 0.01 * of_layers
    assert largest > 0
    assert losses.tolist() == pytest.approx([expected[0], expected[2]])
    assert most.tolist() == pytest.approx([0.0, largest])
    torch.testing.assert_close(states[1], state)


def test_principal_components_are_those_of_the_covariance_wherever_the_samples_lie(generator):
    x = torch.randn(40, 4, generator=generator, dtype=torch.float64) * torch.tensor([4.0, 3.0, 2.0, 1.0])
    found = principal(x + 100, 2)
    values, vectors = torch.linalg.eigh(x.T.cov())
    torch.testing.assert_close(found.T.cov(), values[[3, 2]].diag())
    torch.testing.assert_close(found.abs(), ((x - x.mean(0)) @ vectors[:, [3, 2]]).abs())


def test_settings_are_checked_together():
    message = r"classes 2 or more, each once, got \(3, 3\); smaller above 0 and at most a quarter of larger, got 1.0"
    with pytest.raises(RangeError, match=message):
        Config(classes=(3, 3), smaller=1.0)
    with pytest.raises(RangeError, match=r"late finite and above early, got 1.0; steps at least 1, got 0"):
        Config(late=1.0, steps=0)


def test_smallest_variant_resumes_exactly_and_leaves_what_the_errata_say(tmp_path, monkeypatch):
    monkeypatch.setattr(collapsed_flow, "PACES", 20)
    records = resumed(run, TINY, tmp_path, step=30, arm="2 weight")
    assert [place for place, claim in enumerate(claims([records])) if not claim.holds] == PRINTED
    first, end = (next(r for r in records if r["arm"] == "2 biases" and r["step"] == step) for step in (0, 88))
    assert end["time"] == 10.0
    assert min(end["biases"]) ** 2 > first["gap"] > 0
    even = next(r for r in records if r["arm"] == "2 even")
    assert first["least"] == pytest.approx(first["gap"])
    assert (even["gap"], even["least"] > 0) == (0, True)
    leaves = [record for record in records if record["arm"] == "network leaves"]
    assert leaves[-1]["moved_out"] < 1.6 < [r for r in records if r["arm"] == "network stays"][-1]["moved_out"]
    assert leaves[-1]["off_steps"][-1] > 0.1


def test_a_flow_with_a_smaller_gap_is_found_out(tmp_path, monkeypatch):
    """Its bounds hold all the more; what is claimed is the rate of the paper."""

    class Slower(collapsed_flow.CollapsedFlow):
        def __init__(self, *parts):
            super().__init__(*parts)
            self.spectral_gap = 0.1 * self.spectral_gap

    monkeypatch.setattr(collapsed_flow, "PACES", 1)
    monkeypatch.setattr(collapsed_flow, "CollapsedFlow", Slower)
    run(TINY, whole := Run(tmp_path, 0))
    failing = [place for place, claim in enumerate(claims([whole.records()])) if not claim.holds]
    assert {1, 4, 5} <= set(failing)
