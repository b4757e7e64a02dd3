"""The first experiment: what it says of its records, and its smallest variant from end to end in a browser."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from gnomon.data import Samples
from gnomon.errors import RangeError
from gnomon.plot import style
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.own import grok_digits
from gnomon_lab.papers.own.grok_digits import ARMS, Config, claims, figures, predicted, run, summary, table
from gnomon_lab.report.build import build
from gnomon_lab.report.over_seeds import together
from gnomon_lab.runs import Run, open_run


def made_up(test, train=1.0):
    """Records of both arms at three steps, with the given accuracies on unseen digits at the end."""
    images = np.zeros((10, 64)).tolist()
    records = []
    for arm, final in zip(ARMS, test, strict=True):
        for step, share in ((0, 0.0), (10, 0.5), (100, 1.0)):
            numbers = {
                "train/centroid_alignment": 0.1,
                "train/jacobian_norm": 2.0,
                "train/explained_variance_ratio": 0.3,
                "train/jacobian_alignment": 0.1,
                "train/log_probability": -0.1,
                "train/parameter_norm": 20.0,
            }
            accuracies = {"train/accuracy": train * share, "test/accuracy": final * share}
            shown = {"digits": images, "standardised": images} if step == 0 else {}
            seconds = {"trained": 1.5}
            records.append(
                {"arm": arm, "step": step, **accuracies, **numbers, "centroids": images, **shown, "seconds": seconds}
            )
    return records


def test_claims_hold_where_they_should():
    good, bad = made_up((0.3, 0.95)), made_up((0.7, 0.85), train=0.98)
    assert [claim.holds for claim in claims([good])] == [True] * 4
    assert [claim.holds for claim in claims([bad])] == [False] * 4
    assert [claim.holds for claim in claims([good, bad])] == [False] * 4
    assert claims([good, bad])[1].measured == "30.0% to 70.0% over 2 seeds"
    expected = ["at least 99%", "at most 60%", "at least 99%", "at least 90%"]
    assert [claim.expected for claim in claims([good])] == expected


def test_claims_at_their_thresholds():
    """At most and at least include the threshold; a hair beyond does not hold."""
    assert [claim.holds for claim in claims([made_up((0.6, 0.9), train=0.99)])] == [True] * 4
    assert [claim.holds for claim in claims([made_up((0.6001, 0.8999), train=0.9899)])] == [False] * 4


def test_table_and_summary_say_the_end():
    records = made_up((0.3, 0.95))
    columns, rows = table(records)
    assert len(columns) == len(rows[0]) == 7
    assert rows[1] == ("GrokAlign", "100.0%", "95.0%", "0.100", "2.00", "0.300", "1.5")
    assert "GrokAlign network recognises 100% of the digits it was trained on and 95%" in summary(records)
    assert "verdict" not in summary(records), "three readings are too few"
    assert grok_digits.centroids(records).caption.endswith(" of 0.100 (baseline) and 0.100 (GrokAlign).")


def test_the_summary_says_what_was_foreseen_when_the_digits_were_fitted():
    dense = []
    for arm in ARMS:
        start, _, end = (record for record in made_up((0.3, 0.95)) if record["arm"] == arm)
        halves = [end | {"step": step, "train/accuracy": 0.5} for step in (2, 4, 8, 16, 32)]
        # What comes after the digits are fitted must not be looked at.
        dense += [start, *halves, end | {"step": 64}, end | {"step": 128, "train/jacobian_norm": 1e6}]
    assert "put the chance that unseen accuracy would rise by five points more at " in summary(dense)
    without = [record for record in dense if record["step"] < 128]
    assert predicted(dense) == predicted(without)


def test_figures_mark_memorisation_and_generalisation():
    curves, slider = figures(made_up((0.3, 0.95)))
    labels = [mark.label for mark in curves.panels[0].marks]
    assert labels == ["both fit their digits, step 100", "GrokAlign generalises, step 100"]
    titles = ["Accuracy (solid: unseen digits)", "Centroid alignment", "Jacobian norm", "PC1"]
    assert [panel.title for panel in curves.panels] == titles
    assert [frame.label for frame in slider.frames] == ["step 0", "step 10", "step 100"]


def test_each_network_has_its_mark_where_they_get_there_at_different_steps():
    records = made_up((0.95, 0.95))
    late = [record | {"train/accuracy": 0.5} if record["arm"] == ARMS[1] else record for record in records]
    later = [record | {"step": 200} for record in records if record["step"] == 100]
    marks = figures([*late, *later])[0].panels[0].marks
    assert [(mark.label, mark.colour) for mark in marks] == [
        ("baseline fits its digits, step 100", 0),
        ("GrokAlign fits its digits, step 200", 1),
        ("both generalise, step 100", grok_digits.GREY),
    ]
    assert style.colour(grok_digits.GREY) == "#7f7f7f"


def test_captions_say_what_came_out():
    """A run in which nothing groks, as one of 1,500 steps, is not said to."""
    told = [figures(made_up(test))[0] for test in ((0.3, 0.95), (0.3, 0.57))]
    assert "The GrokAlign network fits 99% of its digits from step 100 on, and recognises 90% of the others from " in (
        told[0].caption
    )
    assert "The GrokAlign network fits 99% of its digits from step 100 on, and recognises 90% of the others at no " in (
        told[1].caption
    )
    words = " ".join((grok_digits.INTRODUCTION, EXPERIMENTS["grok-digits"].shows, told[1].title, told[1].caption))
    assert not re.search(r"twin|soon|groks (them|late)|stays poor|[Oo]nly GrokAlign", words)


@pytest.mark.parametrize(("end", "said"), [(0.45, True), (0.55, False)])
def test_the_fall_of_pc1_is_spoken_of_where_it_is(end, said):
    records = [record | {"train/explained_variance_ratio": 0.3} for record in made_up((0.3, 0.95))]
    records[-2]["train/explained_variance_ratio"], records[-1]["train/explained_variance_ratio"] = 0.5, end
    later = records[-1] | {"step": 200, "train/explained_variance_ratio": 0.6}  # and rises beyond the peak
    caption = figures([*records, later])[0].caption
    assert ("PC1 of the GrokAlign network falls from 0.50 at step 10 to 0.45; why" in caption) == said


def test_over_seeds_nothing_is_said_of_a_fall_that_differs():
    records = [record | {"train/explained_variance_ratio": 0.3} for record in made_up((0.3, 0.95))]
    other = [dict(record) for record in records]
    records[-2]["train/explained_variance_ratio"], other[-2]["train/explained_variance_ratio"] = 0.5, 0.6
    curves = together([[figures(of_seed)[0]] for of_seed in (records, other)])[0]
    assert "Below, means over the training digits." in curves.caption
    assert "PC1" not in curves.caption
    assert "why" not in curves.caption


def test_the_digits_shown_are_typical_and_all_pixels_share_one_deviation():
    drawn = Samples(torch.tensor([[0.0, 1.0], [4.0, 1.0], [1.0, 1.0], [3.0, 2.0]]), torch.tensor([0, 0, 0, 3]))
    (train,) = grok_digits.scaled(drawn)
    assert grok_digits.typical(train) == [2, 3]
    torch.testing.assert_close(train.x.mean(0), torch.zeros(2))
    torch.testing.assert_close(train.x.square().mean(), torch.tensor(1.0))
    ratio = (train.x[1] - train.x[0])[0] / (train.x[3] - train.x[0])[1]
    torch.testing.assert_close(ratio, torch.tensor(4.0))


def test_settings_are_checked_together():
    with pytest.raises(RangeError, match=r"steps at least 1, got 0; .*train from 10 to 1796, got 5"):
        Config(steps=0, train=5)


def test_a_reading_of_a_diverged_network_says_which_and_when(tmp_path):
    config = Config(steps=1, width=8, train=20, init_scale=1e20)
    with pytest.raises(RangeError, match=r"^accuracy\(logits\): .* The run was in 'baseline', at step 0\. Last good"):
        grok_digits.EXPERIMENT.finish(config, open_run(tmp_path, "grok-digits", config, 0), lambda *_: None)


def test_a_run_rounds_subnormal_numbers_to_zero_and_turns_tf32_off_and_restores_both(tmp_path):
    """The products are matrix products', as in training: a library of their own computes them."""

    def smallest():
        return (torch.full((64, 64), 1e-30) @ torch.full((64, 64), 1e-10)).max().item()

    config = Config(steps=1, width=8, train=20)
    seen, allowed = [], torch.backends.cudnn.allow_tf32
    experiment = replace(
        grok_digits.EXPERIMENT,
        run=lambda *_: seen.append((smallest(), torch.backends.cudnn.allow_tf32)),
        table=lambda _: (("",), []),
        summary=lambda _: "",
    )
    experiment.finish(config, open_run(tmp_path, "grok-digits", config, 0), lambda *_: None)
    assert seen == [(0, False)]
    assert torch.backends.cudnn.allow_tf32 == allowed
    assert 6e-39 < smallest() < 7e-39


@pytest.mark.browser
def test_smallest_variant_from_end_to_end(tmp_path, browser):
    """Trained for real, its page opened without a network: three figures' worth of drawing, and a slider that moves."""
    found = open_run(tmp_path, "grok-digits", Config(steps=20, width=8, train=20), 0)
    run(Config(steps=20, width=8, train=20), Run(found.folder, 0))
    found.finish()
    assert not found.has_one_of(grok_digits.EXPERIMENT.settings)
    assert open_run(tmp_path, "grok-digits", grok_digits.SMALL, 0).has_one_of(grok_digits.EXPERIMENT.settings)
    with browser.new_context() as context:
        context.set_offline(True)
        page, said = context.new_page(), []
        page.on("console", lambda message: said.append(message.text))
        page.goto(build(grok_digits.EXPERIMENT, found).as_uri())
        page.wait_for_function("() => document.querySelectorAll('.slider-label').length")
        assert page.locator("figure").count() == 2
        assert page.locator("figure").first.locator(".scatterlayer path").count() > 4
        assert page.locator(".heatmaplayer image").count() == 4
        before = page.locator(".heatmaplayer image").nth(3).get_attribute("href")
        page.locator(".slider-rail-touch-rect").scroll_into_view_if_needed()
        rail = page.locator(".slider-rail-touch-rect").bounding_box()
        page.mouse.click(rail["x"] + 0.01 * rail["width"], rail["y"] + rail["height"] / 2)
        page.wait_for_function("() => document.querySelector('.slider-label').textContent === 'step 0'")
        # The images are drawn after the label.
        changed = "(before) => document.querySelectorAll('.heatmaplayer image')[3].getAttribute('href') !== before"
        page.wait_for_function(changed, arg=before)
        assert said == []
