"""truncation-practice: its coordinates, what it says of its records, and its smallest variant, stopped half way."""

import copy

import numpy as np
import pytest
import torch

import gnomon
from gnomon.errors import RangeError
from gnomon_lab.papers.effective_flow._shared import collapsed_network
from gnomon_lab.papers.own.truncation_practice import descents
from gnomon_lab.papers.own.truncation_practice.descents import (
    ADAPTED,
    CUMULATIVE,
    EFFECTIVE,
    HEAD,
    RUNGS,
    TRAINING,
    Affine,
)
from gnomon_lab.papers.own.truncation_practice.page import FOLLOWED, claims, figures, of, summary, table
from gnomon_lab.papers.own.truncation_practice.run import RESTS, SMALL, Config, run
from tests.drawn import normal
from tests.lab.resuming import resumed

TINY = Config(cluster=6, images=3, classes=3, until=0.4, finer=2, readings=4)
CLAIMS = 12


def start(name="clusters", seed=0):
    generator = torch.Generator().manual_seed(seed)
    if name == "digits":
        return descents.digits_start(TINY.images, TINY.classes, generator)
    return descents.clusters_start(SMALL.cluster, name, generator)


@pytest.fixture(scope="module")
def made_up():
    """Records in which all holds: every descent does as the effective flow, which contracts all."""
    records = []
    for name in (*RESTS, *FOLLOWED):
        still = np.zeros((2, 2, 2)).tolist()
        for rung in RUNGS[:-1] if name in RESTS else RUNGS:
            velocity = {"beta_velocity": still[0], "weight_velocity": still}
            if name in FOLLOWED:
                velocity = {"beta_velocity": [[1.0, 0.0]] * 2, "weight_velocity": [[[1.0, 2.0], [-2.0, 0.0]]] * 2}
            for at, left in ((0, 1.0), (1, 1e-9)) if name in FOLLOWED else ((0, 1.0),):
                record = {"arm": f"{name} {rung}", "step": at, "s": float(at), **velocity}
                if name in FOLLOWED:
                    record |= {"loss": left, "pulled_back": left, "effective_loss": left, "spread": left,
                               "beta_apart": 0.0, "rotation_apart": 0.0, "same": 1.0,
                               "truncated": [[0.25 + 0.5 * at] * 2] * 2, "singular_values": [[1.5, 0.5]] * 2,
                               "condition": 3.0, "misalignment": [0.0, 0.1], "beta": [[1.0, 1.0], [-1.0, -1.0]],
                               "weight": [[[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.0, -1.0]]],
                               "images": [[0.0, 0.5], [1.0, 2.0]], "preimages": [[0.5, 0.5]]}  # fmt: skip
                records.append(record)
    return records


def changed(records, name, rung, step, **change):
    """A copy with one record changed."""
    records = copy.deepcopy(records)
    found = [record for record in records if record["arm"] == f"{name} {rung}" and record["step"] == step]
    assert len(found) == 1
    found[0].update(change)
    return records


@pytest.mark.parametrize("name", ["clusters", "digits"])
def test_cumulative_layers_are_those_of_the_network(name):
    at = start(name).at
    model = descents.network(start(name))
    model.load_state_dict(descents.named(descents.apart(at)))
    found = gnomon.cumulative_parameters(model)
    torch.testing.assert_close(torch.stack(found.weight), at.weight)
    torch.testing.assert_close(found.beta, at.bias)
    for one, other in zip(descents.together(descents.apart(at)), at, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("rung", RUNGS[1:])
def test_every_rung_starts_at_one_network(rung):
    free, layers = descents.coordinates(rung, start().at)
    for one, other in zip(layers(free), descents.apart(start().at), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("rung", [ADAPTED, CUMULATIVE, descents.OWN])
def test_the_outputs_map_stays_where_the_last_layer_follows(rung):
    case = start("digits")
    free, layers = descents.coordinates(rung, case.at)
    towards = descents.descent(rung, case, free, descents.network(case))[1]
    there = descents.together(layers(descents.moved(rung, free, towards, 0.1)))
    torch.testing.assert_close(there.weight[-1], case.at.weight[-1])
    torch.testing.assert_close(there.bias[-1], case.at.bias[-1], rtol=1e-9, atol=1e-9)
    assert (there.bias[:-1] - case.at.bias[:-1]).abs().max() > 0.01


def test_adapted_weights_stay_orthogonal():
    case = start("digits")
    free, _ = descents.coordinates(ADAPTED, case.at)
    towards = descents.descent(ADAPTED, case, free, descents.network(case))[1]
    weight = descents.moved(ADAPTED, free, towards, 0.5).weight
    torch.testing.assert_close(weight @ weight.mT, torch.eye(3, dtype=torch.float64).expand(2, 3, 3))


@pytest.mark.parametrize("rung", RUNGS[1:])
def test_steps_go_down_and_cumulative_parameters_move_with_the_velocities(rung):
    case, step = start("digits"), 1e-6
    free, layers = descents.coordinates(rung, case.at)
    model = descents.network(case)
    before, towards = descents.descent(rung, case, free, model)
    at = descents.moved(rung, free, towards, step)
    after = descents.descent(rung, case, at, model)[0]
    assert after < before
    there, found = descents.together(layers(at)), descents.velocities(rung, case)
    beta = (there.bias - case.at.bias)[:-1] / step
    weight = (there.weight - case.at.weight)[:-1] / step @ case.at.weight[:-1].mT
    size = 1e-4 * max(float(beta.abs().max()), float(weight.abs().max()))
    torch.testing.assert_close(torch.tensor(found["beta_velocity"]).double(), beta, rtol=1e-4, atol=size)
    torch.testing.assert_close(torch.tensor(found["weight_velocity"]).double(), weight, rtol=1e-4, atol=size)


def test_with_zero_biases_training_moves_the_cumulative_biases_by_the_lesser_of_two_layers_numbers():
    """The metric of a network's own biases: dβ^(l)/ds = -Σ_m min(l, m) ∂C/∂β^(m), over the outputs' β too."""
    own = Affine(torch.linalg.qr(normal(3, 3, 3)).Q, torch.zeros(3, 3, dtype=torch.float64))
    case = descents.Start(normal(30, 3), torch.arange(30) % 3, descents.together(own))
    found = torch.tensor(descents.velocities(TRAINING, case)["beta_velocity"]).double()
    beta = case.at.bias.clone().requires_grad_()
    layers = descents.apart(Affine(case.at.weight, beta))
    logits = torch.func.functional_call(descents.network(case), descents.named(layers), case.points)
    (gradient,) = torch.autograd.grad(descents.standard_loss(logits, case.labels), beta)
    number = torch.arange(1, 4)
    metric = torch.minimum(number[:, None], number).double()
    torch.testing.assert_close(found, -(metric @ gradient)[:2])


@pytest.mark.parametrize(("layers", "wanted"), [(2, (0, 0, 0)), (3, (0.0766, 0.223, 0.125))])
def test_cumulative_weights_of_collapsed_classes_rest_in_training_up_to_the_second(monkeypatch, layers, wanted):
    """(8.4), docs/errata: a class that one layer cuts to a point is above 0 two layers later."""
    monkeypatch.setattr(descents, "LAYERS", layers)
    for seed, fastest in enumerate(wanted):
        net = collapsed_network(layers, 3.0, 1.0, torch.Generator().manual_seed(seed))
        weight = torch.cat([net.layers, net.start[:1]])
        bias = torch.cat([net.start[1].mT, torch.zeros(1, layers).double()])
        labels = torch.cat([torch.full((len(points),), k) for k, points in enumerate(net.clusters)])
        case = descents.Start(torch.cat(list(net.clusters)), labels, Affine(weight, bias))
        still, *found = (descents.velocities(rung, case)["weight_velocity"] for rung in (CUMULATIVE, HEAD, TRAINING))
        np.testing.assert_allclose(still, 0, atol=1e-13)
        for moving in found:
            np.testing.assert_array_equal(moving[:2], 0)
            np.testing.assert_allclose(np.abs(moving).max(), fastest, rtol=5e-3)


def test_clusters_are_what_their_names_say():
    shares = {}
    for name in ("clusters", *RESTS):
        case = start(name)
        model = descents.network(case)
        model.load_state_dict(descents.named(descents.apart(case.at)))
        shares[name] = gnomon.truncation_sectors(model, case.points, case.labels)
    assert (shares["untruncated"].untruncated_share == 1).all()
    assert (shares["collapsed"].full_share == torch.eye(2)).all()
    assert shares["clusters"].cluster_separated
    assert (shares["clusters"].full_share.diagonal() > 0.2).all()
    assert (shares["clusters"].full_share.diagonal() < 1).all()


def test_table_summary_and_figures(made_up):
    records = changed(made_up, "clusters", TRAINING, 1, beta_apart=0.4, loss=0.25)
    stretching = [[[5.0, 2.0], [-2.0, 7.0]]] * 2
    records = changed(records, "clusters", TRAINING, 0, beta_velocity=[[0.0, 2.0], [2.0, 0.0]])
    records = changed(records, "clusters", TRAINING, 0, weight_velocity=stretching)
    columns, rows = table(records)
    assert len(columns) == len(rows[0]) == 7
    still = ("1.0 x, cos 1.00", "1.0 x, cos 1.00", "never", "100%", "25% to 75%", "1e-09")
    assert rows[0] == (f"clusters: {EFFECTIVE}", *still)
    assert rows[5][:4] == (f"clusters: {TRAINING}", "2.0 x, cos 0.50", "1.0 x, cos 1.00", "0.25")
    assert "Clusters: the effective flow brings the truncated share of the coordinates from 25% to 75%" in summary(
        records
    )
    clusters, handwritten, plane = figures(records)
    assert (clusters.name, handwritten.name, plane.name) == ("clusters", "digits", "plane")
    assert len(clusters.panels) == 8
    first = plane.frames[0]
    areas = {int(value) for value in first.values}
    assert areas == {0, 1, 2}, "the sectors to the lower left and the upper right do not meet"
    assert [points.label for points in first.points][:2] == [f"{EFFECTIVE}: points", f"{EFFECTIVE}: labels"]
    np.testing.assert_allclose(first.lines[0].shapes[0], [[-13, -1], [-1, -1], [-1, -13]])


def test_claims_hold_where_every_descent_does_as_the_effective_flow(made_up):
    found = claims([made_up])
    assert len(found) == CLAIMS
    assert all(claim.holds for claim in found), [claim for claim in found if not claim.holds]


@pytest.mark.parametrize(
    ("arm", "step", "change", "failing"),
    [
        (("digits", TRAINING), 1, {"pulled_back": 1e-7}, [0]),
        (("digits", EFFECTIVE), 1, {"effective_loss": 1e-7}, [1]),
        (("clusters", ADAPTED), 0, {"beta_velocity": [[1.0, 1e-8]] * 2}, [2]),
        (("clusters", ADAPTED), 0, {"beta_velocity": [[1.0, 3e-10], [1.0, 0.0]]}, []),  # of a speed of √20
        (("clusters", TRAINING), 0, {"beta_velocity": [[5.0, 0.0]] * 2}, []),
        (("digits", ADAPTED), 1, {"beta_apart": 0.011}, [3]),
        (("digits", EFFECTIVE), 1, {"truncated": [[0.25] * 2] * 2}, [5]),
        (("clusters", TRAINING), 1, {"truncated": [[0.2] * 2] * 2}, [6]),
        (("clusters", EFFECTIVE), 1, {"spread": 1e-5}, [8]),
        (("clusters", TRAINING), 1, {"spread": 1e-5}, [9]),
        (("untruncated", TRAINING), 0, {"beta_velocity": [[0.0, 1e-9]] * 2}, [10]),
        (("collapsed", TRAINING), 0, {"weight_velocity": [[[0.0, 1e-9], [0.0, 0.0]]] * 2}, [11]),
        (("collapsed", TRAINING), 0, {"beta_velocity": [[0.0, 1.0]] * 2}, []),
    ],
    ids=str,
)
def test_each_claim_fails_where_it_does_not_hold(made_up, arm, step, change, failing):
    """In one of two seeds."""
    found = claims([made_up, changed(made_up, *arm, step, **change)])
    assert [place for place, claim in enumerate(found) if not claim.holds] == failing


def test_differences_and_what_is_left_are_shares_of_the_first(made_up):
    first = dict.fromkeys(("loss", "pulled_back", "effective_loss", "spread"), 4.0)
    records = changed(made_up, "clusters", TRAINING, 0, **first)
    records = changed(records, "clusters", TRAINING, 1, pulled_back=1e-9 + 3e-10, spread=3e-6)
    assert [claim.holds for claim in claims([records])] == [True] * CLAIMS


def test_settings_are_checked_together():
    with pytest.raises(
        RangeError, match=r"classes from 2 to 10, got 11; until finite and at least large_step, got 0.01"
    ):
        Config(classes=11, until=0.01)


def test_smallest_variant_resumes_exactly_and_agrees_where_it_must(tmp_path):
    records = resumed(run, TINY, tmp_path, step=4, arm=f"digits {CUMULATIVE}")
    ends = {rung: of(records, "digits", rung)[-1] for rung in RUNGS}
    assert len({record["loss"] for record in ends.values()}) == len(RUNGS), "two rungs did the same"
    assert all(record["s"] == pytest.approx(0.4) for record in ends.values())
    assert ends[EFFECTIVE]["same"] == 1
    assert ends[EFFECTIVE]["beta_apart"] == 0
    assert max(ends[ADAPTED]["misalignment"]) < 1e-9 < max(ends[CUMULATIVE]["misalignment"])
    case, steps = start("digits"), 8
    model = descents.network(case)
    model.load_state_dict(descents.named(descents.apart(case.at)))
    optimizer = torch.optim.SGD(model.parameters(), 0.4 / steps)
    for _ in range(steps):
        optimizer.zero_grad()
        descents.standard_loss(model(case.points), case.labels).backward()
        optimizer.step()
    trained = descents.standard_loss(model(case.points), case.labels)
    assert ends[TRAINING]["loss"] == pytest.approx(float(trained.detach()), rel=1e-12), (
        "training is plain gradient descent"
    )
    followed = [claim.holds for claim in claims([records])]
    assert followed[:3] == [True] * 3
    assert followed[10:] == [False, True]
    assert len(table(records)[1]) == 2 * len(RUNGS)
