"""What a run's page says that is not in its experiment's own words: what the readings cost, and all seeds together."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gnomon import Probe, accuracy, every, jacobian_norm, verdict
from gnomon_lab.figures import (
    Curves,
    ImageFrame,
    ImageRow,
    ImageSlider,
    Line,
    Mark,
    Panel,
    Points,
    Scatter,
    ScatterPanel,
)
from gnomon_lab.papers.own.anatomy import EXPERIMENT
from gnomon_lab.report.build import build
from gnomon_lab.report.cost import cost
from gnomon_lab.report.over_seeds import build_over_seeds, left_out, together
from gnomon_lab.report.spread import over, spread
from gnomon_lab.report.worth import UNREAD, by_arms, in_details, in_sight, sentences
from gnomon_lab.runs import Run, open_run
from tests.lab.test_anatomy import made_up
from tests.unit.test_verdict import STEPS, readings


def seconds(read, trained, **parts):
    return {"read": read, "trained": trained, "cost": parts}


def test_cost_is_told_by_arm_with_the_dearest():
    records = [
        {"arm": "a", "step": 0, "seconds": seconds(1.0, 0.0, jacobian=0.75, logits=0.25)},
        {"arm": "a", "step": 1, "seconds": seconds(3.0, 12.0, jacobian=1.0, logits=0.25, ntk=0.5, rest=0.25)},
        {"arm": "flow", "step": 0, "seconds": seconds(0.0, 2.0)},
        {"arm": "still", "step": 0, "seconds": seconds(0.5, 0.0, logits=0.5)},
        {"arm": "long", "step": 0, "seconds": seconds(7800.0, 90_000.0, logits=7800.0)},
    ]
    assert cost(records) == {
        "a": "3 s of reading beside 12 s of training, 25% of it; most for jacobian 1.8 s, logits 0.5 s, ntk 0.5 s",
        "still": "0.5 s of reading beside 0 s of training; most for logits 0.5 s",
        "long": "2.2 h of reading beside 25.0 h of training, 9% of it; most for logits 2.2 h",
    }


def test_cost_is_that_of_the_readings(tmp_path):
    run = Run(tmp_path, 0)
    model = torch.nn.Linear(4, 3)
    probe = Probe(model, (torch.randn(20, 4), torch.arange(20) % 3), [accuracy, jacobian_norm], every(1))
    for step in run.steps("arm", 3, model=model):
        run.record(step, probe.read(step))
    told = cost(run.records())["arm"]
    costs = [record["seconds"]["cost"] for record in run.records()]
    by_name = {name: sum(own.get(name, 0.0) for own in costs) for name in {*costs[0], *costs[-1]}}
    assert by_name.keys() >= {"logits", "accuracy", "jacobian_norm"}
    dearest = sorted(by_name, key=by_name.__getitem__, reverse=True)[:3]
    assert told.endswith(f"; most for {', '.join(f'{name} {by_name[name]:.2g} s' for name in dearest)}")
    read = sum(by_name.values())
    assert told.startswith(f"{read:.2g} s of reading beside")


def test_the_verdict_is_said_of_arms_that_were_read_for_it():
    values = readings()
    read = [
        {"arm": "a", "step": step, **{f"train/{name}": own[place] for name, own in values.items()}}
        for place, step in enumerate(STEPS)
    ]
    lacking = [{"arm": "b", "step": step, "train/accuracy": 1.0} for step in STEPS]
    solved = [{"arm": "c", "step": step, "train": 1.0, "test/accuracy": 0.5} for step in STEPS]
    told, found = by_arms([*read, *lacking, *solved]), verdict(STEPS, **values)
    assert list(told) == ["a", "b"], "beside what classifies, nothing is said of what does not"
    assert told["a"] == found
    why = told["b"]
    assert why.startswith("No verdict: the readings lack train/log_probability, train/parameter_norm, train/jacobian_n")
    assert sentences(found) == [found.message, found.evidence, found.counterfactual]
    assert in_details(told) == {"is more training worth it?": {"a": " ".join(sentences(found)), "b": why}}
    assert in_sight(told) == {"a": " ".join(sentences(found)), "b": why}
    assert in_sight({"b": why}) == {}
    assert in_details({"b": why, "d": why}) == {"is more training worth it?": why}
    assert in_details(by_arms(solved)) == {"is more training worth it?": UNREAD}
    split = [record | {"validation/accuracy": 0.5} for record in read]
    assert by_arms(split)["a"].agrees is not None


def finished(root, seed, late):
    found = open_run(root, "anatomy", EXPERIMENT.small, seed)
    run = Run(found.folder, seed)
    for record in made_up(late=late):
        run.record(record["step"], **{key: value for key, value in record.items() if key not in ("step", "seconds")})
    found.finish()
    return found


def test_what_differs_between_the_seeds_is_not_said_of_all():
    def figures(step, lines):
        title, caption = (
            f"grokked at step {step}",
            f"As trained. It groks at step {step}, of 1.5 s. The mark: 99 %. Means.",
        )
        panel = Panel("loss", "", lines, (Mark("grokked", step),), (0.0, 1.0))
        return [Curves("curves", title, caption, "step", (panel,))]

    first = figures(3, (Line("a", (1, 2), (0.5, 0.25)),))
    second = figures(5, (Line("a", (1, 2), (0.75, 0.5)),))
    (curves,) = together([first, second])
    assert (curves.name, curves.title) == ("curves-seeds", "curves")
    left_out = "The steps marked on each seed's own page are left out."
    assert curves.caption == f"One line for each of 2 seeds. {left_out} As trained. Means."
    assert curves.panels == (
        Panel("loss", "", (Line("a", (1, 2), (0.5, 0.25)), Line("a", (1, 2), (0.75, 0.5))), (), (0.0, 1.0)),
    )
    assert together([first, []]) == []


def test_marks_are_spoken_of_where_they_are():
    panel = Panel("loss", "", (Line("loss", (1.0,), (2.0,)),))
    (curves,) = together([[Curves("curves", "curves", "Classes lie in a mark's place.", "step", (panel,))]] * 2)
    assert curves.caption == "One line for each of 2 seeds. Classes lie in a mark's place."


def test_a_page_over_seeds_says_where_the_figures_are_that_it_has_not():
    """Its introduction spoke of films that it did not show."""
    curves = Curves("curves", "", "", "step", (Panel("loss", "", (Line("loss", (1.0,), (2.0,)),)),))
    film = ImageSlider("film", "", "", (ImageFrame("step 1", (ImageRow("digits", np.ones((1, 2, 2))),)),))
    points = Scatter("points", "", "", (ScatterPanel("", "", "", (Points("", (1.0,), (1.0,)),)),))
    shown = together([[curves]] * 2)
    assert left_out([curves], shown) == ""
    assert left_out([curves, film], shown) == "Films are on each seed's own page (gnomon report RUN)."
    said = "Films and other figures are on each seed's own page (gnomon report RUN)."
    assert left_out([film, points, curves], shown) == said
    assert left_out([curves, points], shown) == said.replace("Films and o", "O")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["0.50", "0.55", "0.51"], "0.52 (0.50 to 0.55)"),
        (["98.0%", "99.0%"], "98.5% (98.0% to 99.0%)"),
        (["step 1,200", "step 800"], "step 1,000 (800 to 1,200)"),
        (["-1.5", "\N{MINUS SIGN}2.5"], "-2.0 (\N{MINUS SIGN}2.5 to -1.5)"),
        (["1e-05", "3e-05"], "2e-05 (1e-05 to 3e-05)"),
        (["1.2e-01", "3.0e-01"], "2.1e-01 (1.2e-01 to 3.0e-01)"),
        (["-0.3", "+0.1", "+0.1"], "0.0 (-0.3 to +0.1)"),
        (["3 of 10", "5 of 10"], "4 (3 to 5) of 10"),
        (["never", "step 3", "step 5"], "never in 1 of 3; step 4 (3 to 5) in 2 of 3"),
        (["yes", "yes"], "yes"),
        (["step 1,000, then 5", "step 3,000, then 5"], "step 2,000 (1,000 to 3,000), then 5"),
        (["3,5", "3,7"], "3,6 (5 to 7)"),
        (["3-5", "3-7"], "3-6 (5 to 7)"),
        (["90%-91%", "90%-93%"], "90%-92% (91% to 93%)"),
        (["3", "4"], "3.5 (3 to 4)"),
        (["1,000", "2,001"], "1,500.5 (1,000 to 2,001)"),
        (["7"], "7"),
    ],
)
def test_a_cell_over_seeds(cells, expected):
    assert over(cells, len(cells)) == expected


def test_tables_are_joined_by_the_names_of_their_rows():
    first = (("", "test"), [("a", "1.0"), ("b", "2.0")])
    second = (("", "test"), [("b", "4.0"), ("c", "5.0")])
    assert spread([first, second]) == (
        ("", "test"),
        (("a, in 1 of 2 seeds", "1.0"), ("b", "3.0 (2.0 to 4.0)"), ("c, in 1 of 2 seeds", "5.0")),
    )


def test_rows_of_one_table_that_share_a_name_stay_apart():
    tables = [(("", "depth", "test"), [("a", "1", f"{seed}.0"), ("a", "2", f"{seed}.5")]) for seed in (1, 3)]
    rows = (("a", "1", "2.0 (1.0 to 3.0)"), ("a", "2", "2.5 (1.5 to 3.5)"))
    assert spread(tables) == (("", "depth", "test"), rows)


def test_columns_of_one_table_that_share_a_name_stay_apart():
    tables = [(("", "test", "at", "rank", "at"), [("a", f"{seed}.0", "5", "2", f"{seed}")]) for seed in (1, 3)]
    assert spread(tables) == (
        ("", "test", "at", "rank", "at"),
        (("a", "2.0 (1.0 to 3.0)", "5", "2", "2 (1 to 3)"),),
    )


def test_a_column_that_only_some_seeds_have_says_how_many():
    tables = [(("", "test"), [("a", "1.0")]), (("", "test", "time"), [("a", "3.0", "7 s")])]
    assert spread(tables) == (("", "test", "time"), (("a", "2.0 (1.0 to 3.0)", "7 s in 1 of 2"),))


def test_a_page_shows_all_seeds_of_its_setting(tmp_path):
    runs = [finished(tmp_path, 1, 1), finished(tmp_path, 0, 0)]
    path = build_over_seeds(EXPERIMENT, runs)
    page = path.read_text()
    assert path == tmp_path / "anatomy" / f"{runs[0].digest}-seeds" / "report.html"
    assert "anatomy, 2 seeds: one training run" in page
    assert "2 runs that differ in the seed alone (default setting)." in page
    assert "2 seeds: where all change, their range holds the median over all seeds with 50%" in page
    assert {figure.name for figure in (path.parent / "figures").iterdir()} == {
        "order-over-seeds.svg",
        "anatomy-seeds.svg",
    }
    steps = [line.x for panel in EXPERIMENT.figures(runs[0].records())[1].panels for line in panel.lines]
    (together_,) = together([EXPERIMENT.figures(run.records()) for run in runs])
    assert sum(len(panel.lines) for panel in together_.panels) == 2 * len(steps)
    assert "Other figures are on each seed&#39;s own page (gnomon report RUN)." in page
    assert "The table shows their mean and, in brackets, the lowest and the highest." in page
    own = replace(EXPERIMENT, table_over_seeds=lambda seeds: (("", "seeds"), [("all", f"{len(seeds)} at once")]))
    joint = build_over_seeds(own, runs).read_text()
    assert "The table is over all of them." in joint
    assert "2 at once" in joint
    # They are not on the page of one.
    one = build(EXPERIMENT, runs[0]).read_text()
    assert "order-over-seeds" not in one
    for said in (page, one):
        assert said.count("<dt>is more training worth it?</dt><dd>No verdict: the readings lack train/log_proba") == 1
