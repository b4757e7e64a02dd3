"""regions: what it says of its records, its slices, and its smallest variant on real digits, stopped half way."""

import pytest
import torch

from gnomon import jacobian_alignment
from gnomon.errors import RangeError
from gnomon.models import mlp
from gnomon_lab.papers.grokalign.regions.page import (
    ARM,
    claims,
    curves,
    figures,
    maps,
    memorised,
    moments,
    others,
    summary,
    table,
)
from gnomon_lab.papers.grokalign.regions.run import Config, bend, run
from gnomon_lab.papers.grokalign.regions.slices import cut, frame, plane_of, reach
from tests.lab.resuming import resumed

SLICE = {
    "label": 0, "polygons": [[[0, 0], [1, 0], [0, 1]], [[1, 0], [1, 1], [0, 1]]], "norms": [2.0, 1.0],
    "areas": [0.5, 0.5], "classes": [0, 3], "boundary": [[[1, 0], [0, 1]]], "points": [[0, 0], [1, 0], [0, 1]],
    "centroids": [[0.1, 0.1]] * 3, "digits": [[0.5] * 784] * 3, "images": [[-0.5] * 784] * 3,
}  # fmt: skip


def made_up(train=(0.1, 0.9, 1.0, 1.0), bends=(0.99, 0.999, 0.998, 0.9), turned=(0.0, 0.1, 0.1, 0.5), reached=True):
    """Four readings, the second without a slice; the last has two planes."""
    records = []
    for i, step in enumerate((0, 3, 10, 40)):
        numbers = {
            "train/accuracy": train[i],
            "test/accuracy": 0.1 + 0.25 * i,
            "bend.median": bends[i],
            "train/jacobian_norm": 5.0 - i,
        }
        numbers |= {"train/centroid_alignment": turned[i], "turned": [turned[i]] * 6, "reached": reached and i == 3}
        if i != 1:
            numbers |= {
                "slices": [SLICE, SLICE | {"label": 1}][: 2 if i == 3 else 1],
                "near/boundary_distance": 0.1 * i,
            }
        records.append({"arm": ARM, "step": step, **numbers, "seconds": {"trained": 1.0}})
    return records


def test_memorisation_is_the_first_slice_from_which_on_all_is_known():
    assert memorised(made_up())["step"] == 10
    assert memorised(made_up(train=(0.1, 1.0, 1.0, 1.0)))["step"] == 10
    assert memorised(made_up(train=(1.0, 0.9, 0.9, 1.0)))["step"] == 40
    assert memorised(made_up(train=(1.0, 1.0, 1.0, 0.9))) is None
    assert [name for name, _ in moments(made_up())] == ["start", "memorised", "generalised"]
    assert [name for name, _ in moments(made_up(train=(0.1,) * 4, reached=False))] == ["start", "end"]


def test_table_summary_and_claims():
    columns, rows = table(made_up())
    assert {len(row) for row in rows} == {len(columns)}
    assert rows[1] == ("memorised", "10", "100.0%", "60.0%", "0.9980", "3", "0.10 0.10 0.10", "0.2", "2")
    assert "step 10 (test accuracy 60%) and generalised at step 40 (85%)" in summary(made_up())
    stated = claims([made_up(), made_up()])
    assert [claim.holds for claim in stated] == [True] * 5
    assert stated[1].measured == "0.9980 → 0.9000; 0.9980 → 0.9000"
    assert stated[2].measured.startswith("0.10…0.10 → 0.50…0.50")


def test_claims_fail_where_they_do_not_hold():
    assert [c.holds for c in claims([made_up(bends=(0.9, 0.9, 0.9, 0.9))])] == [True, False, True, True, True]
    assert [c.holds for c in claims([made_up(turned=(0.0, 0.1, 0.1, 0.1))])] == [True, True, False, True, False]
    for records in (made_up(reached=False), made_up(train=(0.1, 0.1, 0.1, 0.1))):
        stated = claims([made_up(), records])
        assert not any(claim.holds for claim in stated)
        assert stated[0].measured.endswith("1 of 2 seeds did not both memorise and generalise")
        assert summary(records) == "The network did not both memorise and generalise."
    # Memorised with the last reading only: not before it generalised.
    assert not claims([made_up(train=(0.1, 0.1, 0.1, 1.0))])[0].holds


def test_each_cosine_counts_where_its_digit_is():
    def holds(place, to, *others):
        records = made_up()
        records[-1]["turned"][place] = to
        return [claim.holds for claim in claims([records, *others])]

    for place in (0, 1, 2):
        assert holds(place, 0.1) == [True, True, False, True, True]
    for place in (3, 4, 5):
        assert holds(place, 0.05, made_up()) == [True, True, True, True, False]


def test_other_digits_are_asked_about_where_they_are_shown():
    few = made_up()
    for record in few:
        record["turned"] = record["turned"][:3]
    assert [claim.holds for claim in claims([few])] == [True] * 4


def test_the_boundary_has_to_be_farther():
    records = made_up()
    records[-1]["near/boundary_distance"] = records[-2]["near/boundary_distance"]
    assert [claim.holds for claim in claims([made_up(), records])] == [True, True, True, False, True]


def test_figures_show_the_slices():
    norms, areas, classes = maps(made_up())
    assert [frame.label for frame in norms.frames] == ["step 0, start", "step 10, memorised", "step 40, generalised"]
    assert (norms.beside, norms.value_range, areas.value_range) == ((1, 2), (1.0, 2.0), (0.5, 0.5))
    assert classes.frames[0].values.tolist() == [0, 3]
    assert [frame.label for frame in others(made_up()).frames] == ["digits 0", "digits 1"]
    assert [mark.label for mark in curves(made_up()).panels[0].marks] == ["memorised, step 10", "generalised, step 40"]
    looks = {line.label: line.colour for panel in curves(made_up()).panels for line in panel.lines}
    assert len(looks) == len(set(looks.values())) == 3
    assert len(figures(made_up())) == 6
    assert maps(made_up(train=(0.1,) * 4))[0].beside is None


def test_bend_is_the_distance_to_the_nearest_flat_jacobian():
    generator = torch.Generator().manual_seed(0)
    jacobian = torch.randn(5, 3, 7, generator=generator, dtype=torch.float64)
    x = torch.randn(5, 7, generator=generator, dtype=torch.float64)
    # Least squares of J on c xᵀ: each row on x.
    c = torch.linalg.lstsq(x[:, :, None], jacobian.mT).solution.mT
    left = (jacobian - c * x[:, None]).flatten(1).norm(dim=1) / jacobian.flatten(1).norm(dim=1)
    torch.testing.assert_close(bend(jacobian_alignment(jacobian, x)), left)
    flat = torch.ones(5, 3, 1, dtype=torch.float64) * x[:, None]
    torch.testing.assert_close(
        bend(jacobian_alignment(flat, x)), torch.zeros(5, dtype=torch.float64), atol=1e-7, rtol=0
    )


def test_a_slice_holds_the_regions_and_the_centroids_along_their_digits():
    model = mlp((784, 6, 6, 10), generator=torch.Generator().manual_seed(0)).double()
    digits = torch.randn(3, 784, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    taken = cut(model, digits, reach(digits))
    plane = plane_of(digits)
    torch.testing.assert_close(plane.embed(plane.project(digits)), digits)
    points = torch.tensor(taken["points"])
    torch.testing.assert_close(points.amax(0), -points.amin(0), atol=0.02, rtol=0)
    assert sum(taken["areas"]) == pytest.approx((2 * reach(digits)) ** 2, rel=1e-3)
    assert len(taken["polygons"]) == len(taken["norms"]) == len(taken["classes"]) > 3
    centroids = torch.tensor(taken["images"], dtype=torch.float64)
    torch.testing.assert_close(centroids.norm(dim=1), digits.norm(dim=1), rtol=1e-2, atol=0)
    sums = torch.autograd.functional.jacobian(lambda x: model(x).sum(), digits)
    torch.testing.assert_close(torch.cosine_similarity(sums, centroids), torch.ones(3).double(), atol=1e-4, rtol=0)
    assert len(frame("now", taken, "areas").polygons) == len(taken["areas"])


def test_settings_are_checked_together():
    with pytest.raises(RangeError, match=r"goal in \(0, 1\), got 2; classes one or more from 0 to 9, got \(10,\)"):
        Config(goal=2, classes=(10,))


@pytest.mark.data
def test_smallest_variant_resumes_exactly(tmp_path, monkeypatch):
    """It memorises, is stopped after that, and ends as an unbroken run."""
    monkeypatch.setattr("gnomon_lab.papers.grokalign.regions.run.NEAR", 10)  # of 100: distances take most of the time
    config = Config(
        coefficient=1e-3, init_scale=1.0, dtype="float32", samples=100, width=32, goal=0.99, steps=60, classes=(1, 7)
    )

    records = resumed(run, config, tmp_path, step=56)
    known = memorised(records)
    assert 10 < known["step"] < 56
    assert [record["step"] for record in records if "slices" in record] == [0, 1, 10, known["step"], 60]
    assert [taken["label"] for taken in records[-1]["slices"]] == [1, 7]
    assert len(known["turned"]) == 6
    assert len(figures(records)) == 6
