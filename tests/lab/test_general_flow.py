"""general-flow: its data, what it says of its records, and its smallest variant, stopped half way."""

import copy

import numpy as np
import pytest
import torch

from gnomon.errors import RangeError
from gnomon_lab.papers.effective_flow.general_flow import run as general_flow
from gnomon_lab.papers.effective_flow.general_flow.page import ARMS, STEPS, claims, figures, summary, table
from gnomon_lab.papers.effective_flow.general_flow.run import Config, begin, run
from tests.lab.resuming import resumed

TINY = Config(points=2, until=1.0, readings=4)


@pytest.fixture(scope="module")
def made_up():
    """Records in which all holds but the printed β: the loss halves, half by β; small steps are off by their size."""
    records = []
    for arm in ARMS:
        layers, width = int(arm.split()[1]), 2 if arm.split()[0] in ("plane", "separated") else 3
        for step in range(3):
            loss = 4.0 / 2**step
            record = {
                "arm": arm, "step": step, "s": step / 2, "loss": loss, "slopes": [[-1.0] * layers, [-0.5] * layers],
                "decrease": [(4.0 - loss) / 2] * 2, "truncated": [[0.25 * step] * 3] * layers, "stretch": 1e-16,
                "gradient_error": 1e-12, "printed_error": 0.5 if layers == 3 else None,
            }  # fmt: skip
            if step == 1:
                record |= dict.fromkeys(("gradient_error", "slopes", "printed_error"))
            if step == 0:
                first = {"crossings": 7, "slides": 2, "labels": [0, 1, 2, 0], "targets": [[1.0] * width] * 3}
                record |= first | {"small_steps": [1 / count for count in STEPS]}
                record |= {"alone": 1e-10} if arm == ARMS[-1] else {}
            if width == 2:
                record |= {"beta": [[0.1, 0.2]] * layers, "rotation": [[[1.0, 0.0], [0.0, 1.0]]] * layers}
                record |= {"images": [[[0.0, 1.0]] * 4] * (layers + 1)}
            records.append(record)
    return records


def test_all_claims_hold_of_records_in_which_all_holds(made_up):
    found = claims([made_up, made_up])
    assert [k for k, claim in enumerate(found) if not claim.holds] == [1]
    assert (len(found), found[1].measured) == (8, "0.5 in each of 2 seeds")
    assert found[0].measured == "1e-12 in each of 2 seeds"


@pytest.mark.parametrize(
    ("place", "change", "fails"),
    [
        (0, {"gradient_error": 1.1e-10}, [0]),
        (0, {"small_steps": [1 / count**2 for count in STEPS]}, [2]),
        (0, {"small_steps": [1 / count**0.5 for count in STEPS]}, [2]),
        (1, {"stretch": 1.1e-12}, [3]),
        (2, {"loss": 2.1, "decrease": [0.95, 0.95]}, [4]),
        (2, {"slopes": [[-1.0], [1e-11]]}, [5]),
        (5, {"slopes": [[-1.0, 1e-11], [-0.5, -0.5]]}, [5]),
        (2, {"decrease": [1.5, 1.5 + 1e-8]}, [6]),
        (15, {"alone": 1.1e-8}, [7]),
        # Of the first loss, which is 4.
        (2, {"loss": 2 + 3e-12, "decrease": [1 - 1.5e-12] * 2}, []),
        (2, {"slopes": [[-1.0], [3e-12]]}, []),
        (2, {"decrease": [1.5, 1.5 + 3e-9]}, []),
    ],
)
def test_a_claim_fails_where_its_number_does(made_up, place, change, fails):
    records = copy.deepcopy(made_up)
    records[place] |= change
    assert [k for k, claim in enumerate(claims([made_up, records])) if not claim.holds] == sorted([1, *fails])


def test_without_a_reading_away_from_the_faces_nothing_is_claimed(made_up):
    records = [record | dict.fromkeys(("gradient_error", "slopes", "printed_error")) for record in made_up]
    assert [k for k, claim in enumerate(claims([records])) if not claim.holds] == [0, 1, 5]


def test_table_and_summary_name_the_numbers(made_up):
    columns, rows = table(made_up)
    assert len(rows) == len(ARMS)
    assert dict(zip(columns, rows[0], strict=True)) == {
        "maps": "plane 1", "crossings": "7", "slides": "2", "truncated": "0% → 50%", "loss": "4 → 1", "by β": "38%",
        "by R": "38%", "off autodiff": "1e-12", "power": "1.000",
    }  # fmt: skip
    assert summary(made_up).startswith("Over 42 crossings of faces, after 12 of which")


def test_figures_are_a_film_and_curves(made_up):
    film, curves, layers = figures(made_up)
    assert [frame.label for frame in film.frames] == ["s = 0.00", "s = 0.50", "s = 1.00"]
    assert [len(panel.lines) for panel in curves.panels] == [len(ARMS)] * 4
    assert [len(panel.lines) for panel in layers.panels] == [3] * 3


def test_separated_clusters_stand_in_front_of_their_own_map_alone():
    start = begin(ARMS[-1], 50, torch.Generator().manual_seed(0))
    for k in range(2):
        heights = (start.points + start.beta[k]) @ start.rotation[k].mT
        assert (heights[start.labels != k] > 5).all()
        assert (heights[start.labels == k] < 1.5).all()


def test_right_sides_and_small_steps_can_fail():
    start = begin(ARMS[1], 4, torch.Generator().manual_seed(0))
    flow = general_flow.GeneralFlow(start.points, start.labels, start.targets)
    right = general_flow.compared(start, flow, start.beta, start.rotation)
    assert right["gradient_error"] < 1e-12
    assert [len(rates) for rates in right["slopes"]] == [2, 2]
    assert right["printed_error"] is None
    other = general_flow.GeneralFlow(start.points, start.labels, start.targets + 0.1)
    assert general_flow.compared(start, other, start.beta, start.rotation)["gradient_error"] > 1e-3
    on_face = start.beta.clone()
    on_face[0] = -start.points[0]
    near = general_flow.compared(start, flow, on_face, start.rotation)
    assert near.pop("stretch") < 1e-12
    assert near == dict.fromkeys(("gradient_error", "slopes", "printed_error"))
    beta, rotation = general_flow.small_steps(start, 5)
    torch.testing.assert_close(rotation @ rotation.mT, torch.eye(2).double().expand(2, 2, 2))
    assert general_flow.loss_of(start, beta, rotation) < general_flow.loss_of(start, start.beta, start.rotation)


class Wrong(general_flow.GeneralFlow):
    """β ascends, and R is stretched; the integrator's R is the polar factor all the same."""

    def velocity(self, coefficients):
        right = super().velocity(coefficients)

        def velocity(state):
            found = right(state)
            return np.concatenate([-found[:, :1], 0.1 * state[:, 1:]], 1)

        return velocity


def test_a_flow_that_ascends_or_leaves_the_orthogonal_matrices_fails(made_up):
    start = begin(ARMS[1], 4, torch.Generator().manual_seed(0))
    flow = Wrong(start.points, start.labels, start.targets)
    orbit = flow.flow(start.beta, start.rotation, torch.tensor([0.05]).double(), rtol=1e-6)
    # What an orbit holds shows neither.
    torch.testing.assert_close(orbit.rotation @ orbit.rotation.mT, torch.eye(2).double().expand(1, 2, 2, 2))
    assert (orbit.rates <= 0).all()
    found = general_flow.compared(start, flow, orbit.beta[0], orbit.rotation[0])
    assert found["stretch"] == pytest.approx(0.2)
    assert max(found["slopes"][0]) > 0
    records = [*made_up[:4], made_up[4] | {name: found[name] for name in ("stretch", "slopes")}, *made_up[5:]]
    assert [k for k, claim in enumerate(claims([records])) if not claim.holds] == [1, 3, 5]


def test_what_5_4_prints_is_a_sum_over_clusters_with_their_own_layers_projectors():
    """Point by point, from the definitions (5.1) and (5.2)."""
    start = begin(ARMS[2], 4, torch.Generator().manual_seed(0))
    images = general_flow.images_through(start.points, start.beta, start.rotation)
    heights = torch.stack([(x + b) @ r.T for x, b, r in zip(images, start.beta, start.rotation, strict=False)])
    found = general_flow.printed_descent(
        heights, images[-1] - start.targets[start.labels], start.labels, start.rotation
    )
    expected = torch.zeros(3, 2).double()
    for i, label in enumerate(start.labels.tolist()):
        through = start.rotation[label].T @ (heights[label, i] <= 0).double().diag() @ start.rotation[label]
        for later in range(label + 1, 3):
            r = start.rotation[later]
            through = r.T @ (heights[later, i] > 0).double().diag() @ r @ through
        for layer in range(label + 1):
            expected[layer] -= through.T @ (images[-1][i] - start.targets[label]) / 4
    torch.testing.assert_close(found, expected)
    flow = general_flow.GeneralFlow(start.points, start.labels, start.targets)
    assert general_flow.compared(start, flow, start.beta, start.rotation)["printed_error"] > 0.1


@pytest.mark.bad_input
def test_bad_settings_are_named_together():
    message = r"points from 2 to 170, got 1; until finite and at least 1, got 0.5; readings at least 3, got 2"
    with pytest.raises(RangeError, match=message):
        Config(points=1, until=0.5, readings=2)


def test_smallest_variant_stopped_half_way_ends_as_an_unbroken_one(tmp_path, monkeypatch):
    monkeypatch.setattr(general_flow, "STEPS", (5, 10, 20, 40))
    records = resumed(run, TINY, tmp_path, step=2, arm="plane 2")
    assert list(dict.fromkeys(record["arm"] for record in records)) == list(ARMS)
    held = [claim.holds for claim in claims([records])]
    assert (held[:2], held[3:]) == ([True, False], [True] * 5)
