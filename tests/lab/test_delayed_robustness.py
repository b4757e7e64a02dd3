"""delayed-robustness: the attack against a closed form, what it says of its records, and its smallest variant."""

import sys
import types

import pytest
import torch
from torch import nn

from gnomon.errors import MissingExtraError, RangeError
from gnomon_lab.papers.grokalign import delayed_robustness
from gnomon_lab.papers.grokalign._attacks import robust_accuracy
from gnomon_lab.papers.grokalign.delayed_robustness import (
    DEVIATION,
    Config,
    Normalise,
    claims,
    figures,
    gained,
    run,
    stops_at,
    summary,
    table,
)
from gnomon_lab.runs import Run
from tests.lab.resuming import resumed


def linear_case(n=60):
    """A linear network on normalised pixels, grey images that it sees as of ten classes, and its labels there."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(Normalise(), nn.Flatten(), nn.Linear(48, 10))
    for parameter in model.parameters():
        nn.init.normal_(parameter, generator=generator)
    images = 0.3 + 0.4 * torch.rand(n, 3, 4, 4, generator=generator)
    return model, images, model(images).argmax(1)


def test_share_is_the_closed_form_of_a_linear_network():
    """It errs exactly if some margin is below eps times the L1 norm of its gradient in the pixels, in eval mode."""
    model, images, labels = linear_case()
    trained = nn.Sequential(nn.Dropout(0.5), model).train()
    logits = model(images).detach()
    rows = model[2].weight.detach().unflatten(1, (3, 16)) / torch.tensor(DEVIATION)[:, None]
    margins = logits.gather(1, labels[:, None]) - logits
    slopes = (rows[labels][:, None] - rows).abs().sum((2, 3))
    for eps in (0.005, 0.02):
        margin = (margins - eps * slopes).masked_fill(nn.functional.one_hot(labels, 10).bool(), 1.0)
        expected = (margin > 0).all(1).double().mean().item()
        assert 0.1 < expected < 0.9
        assert robust_accuracy(trained, images, labels, eps=eps, seed=0, attacks=("apgd-ce", "apgd-t")) == expected


def test_attack_leaves_everything_as_it_was():
    model, images, labels = linear_case(4)
    model.train()
    model(images).sum().backward()
    gradients, random, before = [p.grad.clone() for p in model.parameters()], torch.get_rng_state(), images.clone()
    robust_accuracy(model, images, labels, eps=0.005, seed=1, attacks=("apgd-ce", "fab-t"))
    torch.testing.assert_close(torch.get_rng_state(), random)
    torch.testing.assert_close([p.grad for p in model.parameters()], gradients)
    torch.testing.assert_close(images, before)
    assert model.training
    assert all(p.requires_grad for p in model.parameters())


def test_settings_of_the_attack_are_checked_together():
    model, images, labels = linear_case(2)
    match = r"images from 0 to 1, got \(.*\); eps in \(0, 1\], got 4; attacks among .*, got \('pgd',\)"
    with pytest.raises(RangeError, match=match):
        robust_accuracy(model, 2 * images, labels, eps=4, seed=0, attacks=("pgd",))
    few = nn.Sequential(nn.Flatten(), nn.Linear(48, 3))
    with pytest.raises(RangeError, match="model to have 10 classes or more, got 3"):
        robust_accuracy(few, images, labels, eps=0.1, seed=0)


def test_missing_and_broken_extras_are_told_apart(monkeypatch):
    model, images, labels = linear_case(2)
    monkeypatch.setitem(sys.modules, "pyautoattack", None)
    with pytest.raises(MissingExtraError, match=r"needs pyautoattack: pip install '.\[attack\]' in the"):
        robust_accuracy(model, images, labels, eps=0.1, seed=0)

    class Broken:
        def find_spec(self, name, *_):
            if name == "pyautoattack":
                raise OSError("bad wheel")

    monkeypatch.delitem(sys.modules, "pyautoattack")
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(MissingExtraError, match=r"does not import \(OSError: bad wheel\)"):
        robust_accuracy(model, images, labels, eps=0.1, seed=0)


def made_up(alignment=0.6, end=0.3, lost=0.02):
    """Records of both arms, 21 readings each, the first half with a rising alignment; n = 400 images attacked."""
    picture, records = [[[0.0, 1.0]] * 2] * 8, []
    for arm, aligned, pc1, last in (("weight decay", 0.1, 0.4, lost), ("GrokAlign", alignment, 0.95, end)):
        for step in range(0, 2001, 100):
            robust = 0.1 if step == 0 else 0.2 if step < 1000 else last
            numbers = {
                "train/accuracy": 1.0,
                "test/accuracy": 0.4,
                "test/robust": robust,
                "some/jacobian_norm": 1.0,
                "tested": 400,
            }
            numbers |= {"train/centroid_alignment": aligned * min(step / 300, 1), "some/explained_variance_ratio": pc1}
            images = {"centroids": picture, "images": picture}
            records.append({"arm": arm, "step": step, **numbers, **images, "seconds": {"trained": 9.0}})
    return records


def test_the_stopping_rule_is_read_from_the_records():
    columns, rows = table(made_up())
    assert len(columns) == len(rows[0]) == 8
    assert rows[0] == ("weight decay", "100.0%", "40.0%", "2.0%", "0.100", "0.400", "", "9")
    assert rows[1][-2:] == ("1,000", "9")
    assert stops_at(made_up()) == 1000
    later = [r | {"test/robust": 0.25} if (r["arm"], r["step"]) == ("GrokAlign", 1000) else r for r in made_up()]
    assert gained(later) == pytest.approx(0.05)
    assert "ended at step 1,000; what followed changed GrokAlign's robust accuracy by +5.0 points" in summary(later)
    assert stops_at(made_up(alignment=0.4)) is None
    assert table(made_up(alignment=0.4))[1][1][-2] == "never"
    assert "never say" in summary(made_up(alignment=0.4))


def test_figures_mark_the_plateau_and_show_the_centroids():
    curves, slider = figures(made_up())
    assert [mark.label for mark in curves.panels[0].marks] == ["plateau, step 1,000"]
    assert [row.label for row in slider.frames[0].rows] == [
        "training images", "weight decay: centroids", "GrokAlign: centroids",
    ]  # fmt: skip
    assert len(slider.frames) == 21


def test_claims_are_over_all_seeds_and_can_fail():
    def holds(**changed):
        return [claim.holds for claim in claims([made_up(), made_up(**changed)])]

    assert holds() == [True] * 7
    assert holds(end=0.14) == [True, True, True, False, True, True, True]
    assert holds(end=0.06, lost=0.02) == [True, True, True, False, True, False, True]
    assert holds(lost=0.16) == [True, True, True, True, False, True, True]
    assert holds(alignment=0.11) == [True, True, False, True, True, True, False]
    measured = claims([made_up(), made_up(alignment=0.11)])[-1].measured
    assert measured == "+0.0%, the rule never stopped 1 of 2 seeds"
    never = claims([made_up(alignment=0.4)])[-1]
    assert (never.measured, never.holds) == ("the rule never stopped 1 of 1 seeds", False)
    assert claims([made_up()])[3].expected == "at least +5.0%"


@pytest.mark.parametrize(
    ("arm", "step", "change", "failing"),
    [
        ("weight decay", 0, {"train/centroid_alignment": 0.1}, []),
        ("GrokAlign", 0, {"train/centroid_alignment": 0.59}, [1, 6]),  # what has not risen has come to no rest
        ("weight decay", 2000, {"some/explained_variance_ratio": 0.95}, []),
        ("GrokAlign", 2000, {"some/explained_variance_ratio": 0.89}, [0]),
        ("weight decay", 2000, {"train/centroid_alignment": 0.59}, [2]),
        ("GrokAlign", 0, {"test/robust": 0.26}, [3]),
        ("weight decay", 0, {"test/robust": 0.26}, []),
        ("weight decay", 100, {"test/robust": 0.01}, []),
        ("GrokAlign", 1000, {"test/robust": 0.24}, [6]),
        ("GrokAlign", 900, {"test/robust": 0.24}, []),
        ("GrokAlign", 1000, {"test/robust": 0.4}, []),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_each_claim_fails_with_one_seed_of_two(arm, step, change, failing, order):
    records = [r | change if (r["arm"], r["step"]) == (arm, step) else r for r in made_up()]
    found = claims([made_up(), records][::order])
    assert [place for place, claim in enumerate(found) if not claim.holds] == failing


def test_what_guessing_withstands_is_no_robustness_to_lose():
    """The untrained network's 30 % do not count: after the first pass there are 2 % at most, as at the end."""
    guesses = {0: {"test/robust": 0.3}} | {step: {"test/robust": 0.02} for step in range(100, 1000, 100)}
    records = [r | guesses.get(r["step"], {}) if r["arm"] == "weight decay" else r for r in made_up()]
    claim = claims([records])[4]
    assert (claim.measured, claim.holds) == ("+0.0%", False)
    assert claims([made_up()])[4].measured == "-18.0%"


def test_the_rule_may_end_training_with_the_last_reading():
    records = [record for record in made_up() if record["step"] <= 1000]
    assert (stops_at(records), gained(records)) == (1000, 0.0)
    limits = ["0.900", "+0.020", "+0.020", "+5.0%", "-5.0%", "+5.0%", "+5.0%"]
    assert [claim.expected.split()[-1] for claim in claims([made_up()])] == limits


def test_settings_are_checked_together():
    with pytest.raises(RangeError, match=r"train from 8 to 50000, got 0; widths .*, got \(8,\); readings .*, got 10"):
        Config(train=0, widths=(8,), readings=10)


TINY = Config(train=16, test=4, widths=(2, 2, 2), steps=6)


@pytest.mark.data
def test_smallest_variant_resumes_exactly(tmp_path):
    """Stopped in the middle of the second arm, the run ends as an unbroken one."""

    records = resumed(run, TINY, tmp_path, step=4, arm="GrokAlign")
    assert [r["step"] for r in records if "test/robust" in r] == [0, 1, 2, 3, 6] * 2
    assert len({r["some/jacobian_norm"] for r in records if r["step"] == 6}) == 2, "both arms did the same"
    assert len(figures(records)) == 2


@pytest.mark.data
@pytest.mark.parametrize("stopping", [False, True])
def test_plateau_ends_the_second_arm_where_it_is_told_to(tmp_path, monkeypatch, stopping):
    def rule(steps, alignment, pc1, **thresholds):
        return types.SimpleNamespace(reached=steps[-1] >= 4)

    monkeypatch.setattr(delayed_robustness, "plateau", rule)
    run(Config(**vars(TINY) | {"stop_at_plateau": stopping}), Run(tmp_path, 0))
    records = Run(tmp_path, 0).records()
    ends = {
        arm: [r["step"] for r in records if r["arm"] == arm and "test/robust" in r]
        for arm in ("weight decay", "GrokAlign")
    }
    assert ends == {"weight decay": [0, 1, 2, 3, 6], "GrokAlign": [0, 1, 2, 3, 4] + [6] * (not stopping)}
    assert stops_at(records) == 4
