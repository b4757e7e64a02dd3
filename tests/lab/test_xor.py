"""xor: what it says of its records, the subspace that it trains in, and its smallest variant, killed half way."""

import copy

import pytest
import torch
from matplotlib.ticker import MaxNLocator
from torch import nn

from gnomon import GrokAlign
from gnomon.data import xor_clusters
from gnomon.errors import RangeError
from gnomon.models import mlp
from gnomon_lab.papers.grokalign.xor import (
    ARMS,
    Config,
    alignment,
    claims,
    figures,
    into_subspace,
    off_signal,
    right,
    run,
    story,
    summary,
    table,
)
from gnomon_lab.report.drawing._layout import Y_TICKS
from tests.lab.resuming import resumed

STEPS = (0, 5, 20, 40, 80, 100)
REACHED = {"train": 5, "test": 20, "noise 0.2": 80, "noise 0.4": 80, "noise 0.6": 100, "noise 0.8": None}
WITH = {"train": 5, "test": 40, "noise 0.2": 40, "noise 0.4": 20, "noise 0.6": 20, "noise 0.8": 40}


def made_up(base=REACHED, ours=WITH, alignment=(0.0, 0.01, 0.05, 0.06, 0.1, 0.1), norm=(0.2, 0.2, 0.4, 0.6, 0.3, 0.3)):
    """Records of both arms; each accuracy is reached at the given step, that under noise 1 never."""
    records = []
    for arm, reached in zip(ARMS, (base, ours), strict=True):
        for place, step in enumerate(STEPS):
            known = {f"{name}/right": 1.0 if at is not None and step >= at else 0.5 for name, at in reached.items()}
            point = {"point/alignment": alignment[place], "point/norm": norm[place]}
            mean = {"train/alignment": alignment[place], "train/norm": norm[place]}
            seconds = {"seconds": {"trained": 1.5}}
            records.append({"arm": arm, "step": step, **known, "noise 1.0/right": 0.5, **point, **mean, **seconds})
    return records


def holds(*seeds):
    return [claim.holds for claim in claims(seeds)]


def test_claims_hold_where_they_should():
    told = story(made_up())
    expected = {"delay": 15, "first rise": 0.03, "second rise": 0.05, "peak": 3.0, "fall": 0.5}
    torch.testing.assert_close(told, expected)
    assert holds(made_up()) == [True] * 5 + [False, True, True, True, False]
    measured = [claim.measured for claim in claims([made_up()])]
    assert measured[5:] == ["2", "4", "5", "2.5", "stage not reached"]
    assert claims([made_up()])[4].expected == "below 1"
    assert claims([made_up()])[5].expected == "above 2"


def test_claims_fail_where_they_should():
    at_once = made_up(base=REACHED | {"train": 20})
    early = made_up(alignment=(0.0, 0.03, 0.05, 0.06, 0.05, 0.1))
    growing = made_up(norm=(0.2, 0.2, 0.2, 0.2, 0.2, 0.2))
    never = made_up(base=dict.fromkeys(REACHED))
    assert holds(at_once)[0] is False
    assert holds(early)[:5] == [True, False, False, True, True]
    assert holds(growing)[3:5] == [False, False]
    assert holds(never)[:6] == [False] * 5 + [True]
    assert claims([made_up(), never])[0].measured == "15, stage not reached by 1 more"
    assert holds(made_up(), made_up(ours=dict.fromkeys(WITH)))[5:] == [False] * 5


def test_the_story_is_of_the_stages_that_were_reached_and_of_the_norm_up_to_robustness():
    moved = made_up(alignment=(0.3, 0.31, 0.35, 0.36, 0.4, 0.4), norm=(0.2, 0.2, 0.4, 0.6, 0.7, 0.9))
    expected = {"delay": 15, "first rise": 0.03, "second rise": 0.05, "peak": 3.5, "fall": 1.0}
    torch.testing.assert_close(story(moved), expected)
    assert holds(moved)[4] is False

    def known(**missing):
        return {name for name, value in story(made_up(base=REACHED | missing)).items() if value is not None}

    assert known(train=None) == {"second rise", "peak", "fall"}
    assert known(test=None) == {"peak", "fall"}
    assert known(**{"noise 0.2": None}) == {"delay", "first rise"}


def test_each_seed_has_to_be_much_sooner_and_who_is_robust_from_the_start_is_not_beaten():
    late = made_up(ours=WITH | {"noise 0.4": 80})
    assert holds(made_up(), late)[6] is False
    assert claims([made_up(), late])[6].measured == "1 to 4 over 2 seeds"
    at_once = made_up(base=REACHED | {"noise 0.4": 0})
    assert (claims([at_once])[6].measured, holds(at_once)[6]) == ("0", False)
    both = made_up(base=REACHED | {"noise 0.4": 80}, ours=WITH | {"noise 0.4": 0})
    assert (claims([both])[6].measured, holds(both)[6]) == ("80", True)


def test_table_summary_and_figures_tell_the_stages():
    columns, rows = table(made_up())
    assert {len(columns)} == {len(row) for row in rows}
    assert rows[0] == ("weight decay", "5", "20", "80", "80", "100", "never", "never", "0.100", "0.300", "2")
    assert summary(made_up()).startswith("With weight decay: memorised from step 5 on, generalised from step 20 on")
    base, ours = figures(made_up())
    marks = ["memorised, step 5", "generalised, step 20", "robust to 0.2, step 80"]
    assert [mark.label for mark in base.panels[0].marks] == marks
    assert [panel.title for panel in ours.panels] == ["Accuracy", "Centroid alignment", "Centroid norm"]
    assert len(ours.panels[0].lines) == 7
    low, high = ours.panels[0].y_range
    assert 1.0 in MaxNLocator(Y_TICKS).tick_values(low, high).round(9), "it had a number at 1.05 and none at 1"
    assert "noise of 5 standard deviations, 0.2 to 1.0, on" in ours.caption


def test_right_is_the_sign():
    logits, labels = torch.tensor([[0.1], [-3.0], [2.0], [0.0]]), torch.tensor([[1.0], [-1.0], [-1.0], [1.0]])
    assert right(logits, labels).tolist() == [1, 1, 0, 0]


def test_alignment_is_along_the_label():
    x = torch.eye(2)
    torch.testing.assert_close(
        alignment(torch.tensor([[2.0, 0.0], [0.0, -3.0]]), x, torch.tensor([[1.0], [-1.0]])), x.sum(1)
    )


def test_noise_spares_the_signal():
    kick = off_signal(torch.ones(50, 400), torch.Generator().manual_seed(0))
    assert not kick[:, :2].any()
    torch.testing.assert_close(kick[:, 2:].std(), torch.tensor(1.0), rtol=0.03, atol=0)


def test_training_in_the_subspace_is_training():
    """The same outputs, on points of any kind, and the same centroids' norms, after steps with loss and penalty."""
    generator = torch.Generator().manual_seed(0)
    x, labels = xor_clusters(8, 90, noise=0.3, generator=generator, dtype=torch.float64)
    elsewhere = torch.randn(5, 90, generator=generator, dtype=torch.float64)
    whole = mlp((90, 6, 1), scale=3.0, generator=generator).double()
    part = copy.deepcopy(whole)
    basis = into_subspace(part, x)
    assert basis.shape == (90, 14)

    def trained(model: nn.Module, x: torch.Tensor) -> nn.Module:
        optimizer = torch.optim.SGD(model.parameters(), 0.1, weight_decay=0.1)
        for _ in range(30):
            logits, penalty = GrokAlign(0.1).logits_and_penalty(model, x)
            loss = nn.functional.mse_loss(logits, 2 * labels[:, None].to(x) - 1) + penalty
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return model

    start = whole(elsewhere)
    torch.testing.assert_close(part(elsewhere @ basis), start)
    trained(whole, x)
    trained(part, x @ basis)
    torch.testing.assert_close(part(elsewhere @ basis), whole(elsewhere))
    torch.testing.assert_close(part[0].weight @ basis.T, whole[0].weight)
    assert (whole(elsewhere) - start).abs().max() > 0.1


def test_settings_are_checked_together():
    with pytest.raises(RangeError, match=r"dimension at least 2, got 1; width at least 1, got 0; coefficient .*got 0"):
        Config(dimension=1, width=0, coefficient=0)


def test_smallest_variant_resumes_exactly(tmp_path):
    """Both arms on a few points; stopped in the middle of one, the run ends as an unbroken one."""
    config = Config(dimension=60, samples=20, width=8, steps=30)

    records = resumed(run, config, tmp_path, step=10, arm="GrokAlign")
    first, other = (next(record for record in records if record["arm"] == arm) for arm in ARMS)
    assert first == other | {"arm": ARMS[0]}, "the arms start apart"
    assert len({record["train/norm"] for record in records if record["step"] == 30}) == 2, "the arms did the same"
    assert claims([records])
