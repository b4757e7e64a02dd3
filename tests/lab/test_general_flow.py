"""general-flow: its data, what it says of its records, and its smallest variant, stopped half way."""

import copy

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
    """Records in which all holds: the loss halves, half of it by β, and small steps are off by their size."""
    records = []
    for arm in ARMS:
        layers, width = int(arm.split()[1]), 2 if arm.split()[0] in ("plane", "separated") else 3
        for step in range(3):
            loss = 4.0 / 2**step
            record = {
                "arm": arm, "step": step, "s": step / 2, "loss": loss, "rates": [-1.0, -0.5],
                "decrease": [(4.0 - loss) / 2] * 2, "truncated": [[0.25 * step] * 3] * layers, "defect": 1e-16,
                "gradient_error": None if step == 1 else 1e-12,
            }  # fmt: skip
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
    assert [claim.message for claim in found if not claim.holds] == []
    assert len(found) == 7
    assert found[0].measured == "1e-12 to 1e-12 over 2 seeds"


@pytest.mark.parametrize(
    ("place", "change", "fails"),
    [
        (0, {"gradient_error": 1.1e-10}, [0]),
        (0, {"small_steps": [1 / count**2 for count in STEPS]}, [1]),
        (0, {"small_steps": [1 / count**0.5 for count in STEPS]}, [1]),
        (1, {"defect": 1.1e-12}, [2]),
        (2, {"loss": 2.1, "decrease": [0.95, 0.95]}, [3]),
        (2, {"rates": [-1.0, 1e-11]}, [4]),
        (2, {"decrease": [1.5, 1.5 + 1e-8]}, [5]),
        (15, {"alone": 1.1e-8}, [6]),
        # Of the first loss, which is 4.
        (2, {"loss": 2 + 3e-12, "decrease": [1 - 1.5e-12] * 2}, []),
        (2, {"rates": [-1.0, 3e-12]}, []),
        (2, {"decrease": [1.5, 1.5 + 3e-9]}, []),
    ],
)
def test_a_claim_fails_where_its_number_does(made_up, place, change, fails):
    records = copy.deepcopy(made_up)
    records[place] |= change
    assert [k for k, claim in enumerate(claims([made_up, records])) if not claim.holds] == fails


def test_without_a_reading_away_from_the_faces_nothing_is_claimed(made_up):
    records = [record | {"gradient_error": None} for record in made_up]
    assert not claims([records])[0].holds


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
    assert general_flow.gradient_error(start, flow, start.beta, start.rotation) < 1e-12
    other = general_flow.GeneralFlow(start.points, start.labels, start.targets + 0.1)
    assert general_flow.gradient_error(start, other, start.beta, start.rotation) > 1e-3
    on_face = start.beta.clone()
    on_face[0] = -start.points[0]
    assert general_flow.gradient_error(start, flow, on_face, start.rotation) is None
    beta, rotation = general_flow.small_steps(start, 5)
    torch.testing.assert_close(rotation @ rotation.mT, torch.eye(2).double().expand(2, 2, 2))
    assert general_flow.loss_of(start, beta, rotation) < general_flow.loss_of(start, start.beta, start.rotation)


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
    assert (held[0], held[2:]) == (True, [True] * 5)
