"""mse-collapse: its data and readings, what it says of its records, and its smallest variant, stopped and resumed."""

import dataclasses
import math

import pytest
import torch

from gnomon import ClassStatistics, deepfool
from gnomon.data import Samples
from gnomon.errors import ConvergenceError, RangeError
from gnomon.models import resnet18
from gnomon_lab.papers.mse_collapse import _shared as collapse
from gnomon_lab.papers.mse_collapse._page import OTHER, chosen_arms, left_over_left, share, terminal
from gnomon_lab.papers.mse_collapse._shared import GRID, Config, balanced, framed, quantities
from gnomon_lab.papers.mse_collapse.mse_collapse import (
    EXPERIMENT,
    FALLING,
    NOTEBOOK,
    PAPER,
    SMALL,
    TABLE_1,
    claims,
    figures,
    run,
    summary,
    table,
)
from gnomon_lab.runs import Run
from tests.lab.resuming import resumed, timeless

TINY = Config(
    cases=("mnist-resnet18",), train=20, test=12, side=12, width=2, epochs=6, early=2, spacing=2,
    attacked=2, attack_spacing=6,
)  # fmt: skip
ARM = "mnist-resnet18 mse 0.1"


def made_images(name, split, *, data_dir=None, limit=None):
    """Four classes, each a bright quarter of noisy 8 x 8 pixels; of the last class there is one image fewer."""
    generator = torch.Generator().manual_seed(int(split == "test"))
    labels = torch.arange(99) % 4
    x = 0.3 * torch.rand(99, 1, 8, 8, generator=generator)
    for label in range(4):
        rows, columns = 4 * (label // 2), 4 * (label % 2)
        x[labels == label, :, rows : rows + 4, columns : columns + 4] += 0.5
    return Samples(x[:limit], labels[:limit])


@pytest.fixture
def made(monkeypatch):
    """Made-up images for real ones, and batches of 32."""
    monkeypatch.setattr(collapse, "load_images", made_images)
    monkeypatch.setattr(collapse, "BATCH", 32)


def test_images_are_balanced_framed_and_normalised(made, tmp_path):
    train, test = collapse.images(dataclasses.replace(TINY, train=None), Run(tmp_path, 0), "mnist")
    assert train.labels.bincount().tolist() == [24] * 4, "as many as the smallest class has"
    assert (train.x.shape, test.x.shape) == ((96, 1, 12, 12), (12, 1, 12, 12))
    inner = train.x[..., 2:10, 2:10]
    torch.testing.assert_close(inner.mean(), torch.tensor(0.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(inner.std(correction=0), torch.tensor(1.0))
    raw = made_images("mnist", "train").x[:96]
    torch.testing.assert_close(train.x[0, 0, 0, 0], -raw.mean() / raw.std(correction=0))
    few = balanced(made_images("mnist", "train"), 2)
    torch.testing.assert_close(few.labels, torch.tensor([0, 1, 2, 3] * 2))
    torch.testing.assert_close(few.x, raw[:8])
    assert framed(raw, 6).shape == raw.shape
    assert framed(torch.ones(1, 1, 2, 3), 4)[0, 0].tolist() == [[0] * 4, [1, 1, 1, 0], [1, 1, 1, 0], [0] * 4]


def test_loss_is_the_paper_s_and_its_lambda_that_of_the_training():
    """A network at rest under SGD with this weight decay has a least-squares classifier: no L_LS⊥ is left."""
    generator = torch.Generator().manual_seed(0)
    features, labels = torch.randn(40, 3, generator=generator).double(), torch.arange(40) % 4
    head = torch.nn.Linear(3, 4).double()
    optimizer = torch.optim.SGD(head.parameters(), 1.0, momentum=0.9, weight_decay=collapse.WEIGHT_DECAY)
    for _ in range(600):
        optimizer.zero_grad()
        collapse.LOSSES["mse"](head(features), labels).backward()
        optimizer.step()
    statistics = ClassStatistics(4)
    statistics.update(features, labels)
    moments = statistics.compute()
    parts = quantities("mse")["loss"](head.weight.detach(), head.bias.detach(), moments, 4)
    errors = head(features).detach() - torch.nn.functional.one_hot(labels, 4)
    decay = 4 * 5e-4 / 2 * sum(parameter.detach().square().sum() for parameter in head.parameters())
    torch.testing.assert_close(parts.total, errors.square().sum(1).mean() / 2 + decay / 2)
    assert parts.deviation < 1e-20 < parts.least_squares


def test_quantities_are_of_means_and_of_classifiers():
    read = quantities("cross-entropy")
    assert {"equinorm.means", "nc1", "train"} <= read.keys()
    assert "loss" not in read
    assert "loss" in quantities("mse")
    weight = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
    assert read["train"]["equinorm.classifiers"](weight) == 0.5


def test_robustness_is_deepfool_s_mean():
    model = resnet18(1, 4, width=2, generator=torch.Generator().manual_seed(0)).eval()
    x = made_images("mnist", "test", limit=3).x
    found, read = deepfool(model, x), collapse.robustness(model, x)
    torch.testing.assert_close(read.mean, found.robustness.mean())
    assert read.found == found.flipped.float().mean()


def made_up(arm=ARM, zero=4, **ends):
    """Records of one arm with readings at epochs 0 to 9: everything halves between zero error and the end, or not."""
    falling = {f"train/{name}": 0.5 for name in (*FALLING, "loss.nc1")}
    falling |= {"train/loss.nc23": 0.25, "train/loss.deviation": 0.4}
    end = falling | {"test/accuracy": 0.9, "robustness.mean": 0.3, "test/nc1": 2.0} | ends
    start = dict.fromkeys(falling, 1.0) | {"test/accuracy": 0.8, "robustness.mean": 0.2, "test/nc1": 4.0}
    records = []
    for epoch in range(10):
        values = {name: end[name] if epoch == 9 else start[name] for name in start}
        values |= {"train/loss.least_squares": 10.0, "train/accuracy": 1.0 if epoch >= zero else 0.5, "epoch": epoch}
        if 1 < epoch < 9:
            values |= {"train/loss.nc23": 0.5, "test/nc1": 3.0}
        if epoch not in (0, zero, 9):
            values.pop("robustness.mean")
        values |= {f"test/{name}": ends.get(f"test/{name}", 2.0) for name in OTHER}
        values |= {f"test/{name}": 1.0 for name in (*FALLING, "loss.nc1", "loss.nc23", "loss.deviation", "accuracy")
                   if f"test/{name}" not in values}  # fmt: skip
        records.append({"arm": arm, "step": 8 * epoch, **values, "seconds": {"trained": 1.0}})
    return records


def test_terminal_phase_starts_at_the_first_zero_error():
    records = made_up()
    records[6]["train/accuracy"] = 0.99
    assert [record["epoch"] for record in terminal(records, ARM)] == [4, 5, 6, 7, 8, 9]
    assert terminal(made_up(zero=10), ARM) == []


def test_arms_are_chosen_by_loss_and_the_search_is_left_out():
    searched = made_up("search mnist-resnet18 mse 0.2")
    other = made_up("svhn-vgg13 mse 0.2")
    entropy = made_up("mnist-resnet18 cross-entropy 0.1")
    arms = chosen_arms([*searched, *made_up(), *other, *entropy], "mse")
    assert arms == {"mnist-resnet18": ARM, "svhn-vgg13": "svhn-vgg13 mse 0.2"}
    assert len(figures([*searched, *made_up(), *other])) == 4
    # Records without a search have an arm for each rate.
    worse = made_up("mnist-resnet18 mse 0.2", **{"test/accuracy": 0.85})
    diverged = made_up("mnist-resnet18 mse 0.3")[:5]
    diverged[-1]["test/accuracy"] = 0.99
    assert chosen_arms([*made_up(), *worse, *diverged], "mse") == {"mnist-resnet18": ARM}


def test_table_and_summary_are_about_the_terminal_phase():
    columns, rows = table(made_up())
    assert len(columns) == len(rows[0])
    assert rows[0] == (ARM, "4", "80.00%", "90.00%", "1", "0.5", "99.16 % to 99.70 %")
    assert table(made_up(zero=10))[1][0][1:4] == ("never", "", "90.00%")
    assert "right at epoch 4. From there to epoch 9 NC1 falls 2.0 times" in summary(made_up())
    assert "never gets all" in summary(made_up(zero=10))


def test_figures_show_both_kinds_of_images_and_nc1_on_a_logarithmic_axis():
    signs, losses = figures(made_up())
    by_title = {panel.title: panel for panel in signs.panels}
    assert len(by_title) == 8
    assert [line.label for line in by_title["NC2: equal norms"].lines][2] == "classifiers"
    assert [line.dashed for line in by_title["NC3: self-duality"].lines] == [False, True]
    assert by_title["NC1: variability within classes"].lines[0].y[-1] == 0.5
    assert [panel.title for panel in (*signs.panels, *losses.panels) if panel.log_y] == [
        "NC1: variability within classes",
        "Training images",
        "Test images",
    ]
    assert by_title["Robustness"].lines[0].x == (4.0, 9.0)
    assert [mark.x for mark in losses.panels[0].marks] == [4.0]
    assert len(losses.panels[0].lines) == 4


def test_claims_are_over_all_seeds_and_can_fail():
    def failing(**changed):
        return [place for place, claim in enumerate(claims([made_up(), made_up(**changed)])) if not claim.holds]

    assert failing() == []
    for place, name in enumerate(FALLING):
        slower = [14] if name == "nc1" else [15] if name in OTHER else []
        assert failing(**{f"train/{name}": 1.0}) == [place, *slower]
    assert failing(**{"train/loss.deviation": 1.1}) == [10]
    assert failing(**{"train/loss.deviation": 0.2}) == [12]
    assert failing(**{"train/nc1": 0.1, "train/self_duality": 0.1}) == [13]
    for name in ("train/nc1", "train/self_duality"):
        assert failing(**{name: 0.1}) == [], "slower than one of them alone"
    assert failing(**{"test/nc1": 1.5}) == [14], "half is left on both"
    assert failing(**{"test/nc1": 0.4}) == [14, 16]
    for name in OTHER:
        assert failing(**{f"test/{name}": 0.5}) == [17]
    assert claims([made_up(**{"train/disagreement": 0.0, "test/self_duality": 0.75})])[17].measured == "1.5"
    assert failing(**{"train/disagreement": 0.0, "test/disagreement": 0.0}) == [15, 17], "equal is no larger"
    assert failing(**{"test/nc1": 2.4}) == [18]
    # The median counts: two networks cannot outvote one another, three can.
    worse = {"test/accuracy": 0.7, "robustness.mean": 0.1}
    assert failing(**worse) == [19, 20]
    assert all(claim.holds for claim in claims([made_up(), made_up(), made_up(**worse)]))
    assert claims([made_up(**{"train/disagreement": 0.0})])[8].measured == "0"
    never = claims([made_up(), made_up(zero=10)])
    assert [place for place, claim in enumerate(never) if claim.holds] == [13, 18], "they need no terminal phase"
    assert never[7].measured == "0.5, no zero training error in 1 of 2"


def test_l_nc23_has_to_lead_at_zero_error_too():
    records = made_up()
    for record in records[2:9]:
        record["train/loss.nc23"] = 1.5
    assert [place for place, claim in enumerate(claims([records])) if not claim.holds] == [11]
    assert claims([records])[11].measured == "1.5"


def test_the_order_is_that_of_the_sign_of_nc2_that_falls_most():
    for name in ("equinorm", "equiangularity", "maximal_equiangularity"):
        ends = {f"train/{name}.means": 0.25, "train/nc1": 0.01}
        slow, fast = (claims([made_up(**ends, **{"train/self_duality": end})])[13] for end in (0.25, 0.04))
        assert (slow.measured, slow.holds) == ("0.5", True)
        assert (fast.measured, fast.holds) == ("1.25", False)


def test_the_rate_on_test_images_is_by_what_is_left_since_zero_error():
    records = made_up(**{"test/nc1": 2.4})
    assert claims([records])[14].measured == "1.6"
    assert left_over_left(terminal(records, ARM), "nc1") == pytest.approx(0.8 / 0.5)
    for name in OTHER:
        falling = made_up()
        falling[-1][f"test/{name}"] = 1.2
        assert (claims([falling])[15].measured, claims([falling])[15].holds) == ("1.2", True)
        falling[-1][f"test/{name}"] = 1.0
        assert [place for place, claim in enumerate(claims([falling])) if not claim.holds] == [15], "larger all along"
    gone = made_up(**{"train/disagreement": 0.0})
    assert left_over_left(terminal(gone, ARM), "disagreement") == math.inf


def test_share_of_nothing():
    assert (share(2.0, 1.0), share(0.0, 0.0), share(0.0, 0.1)) == (0.5, 0.0, math.inf)


def test_settings_are_the_paper_s():
    assert len(EXPERIMENT.settings) == 1 + 3 * 17
    assert {SMALL, PAPER, NOTEBOOK} <= {*EXPERIMENT.settings}
    assert {case.split("-")[0] for case in TABLE_1} == {*collapse.DATA}
    assert {case.split("-")[1] for case in TABLE_1} == {*collapse.NETWORKS}
    assert (GRID[0], f"{GRID[16]:.4f}", f"{GRID[20]:.4f}", GRID[24]) == (1e-4, "0.0184", "0.0679", 0.25)
    match = r"cases one or more DATA-NETWORK of .*, got \('mnist',\); epochs at least 1, got 0; precision with .*"
    with pytest.raises(RangeError, match=match):
        Config(cases=("mnist",), epochs=0, device="cpu", precision="bfloat16")


def test_smallest_variant_resumes_exactly(made, tmp_path):
    """Stopped in the middle of training, and so between two batches, the run ends as an unbroken one."""
    records = resumed(run, TINY, tmp_path, step=12)
    assert [(record["step"], record["epoch"]) for record in records] == [(0, 0), (3, 1), (6, 2), (12, 4), (18, 6)]
    assert [record["epoch"] for record in records if "robustness.mean" in record] == [0, 6]
    assert records[-1]["train/loss.total"] < records[0]["train/loss.total"]
    assert len({record["train/nc1"] for record in records}) == 5
    assert len(figures(records)) == 2
    assert len(claims([records])) == 21


def test_first_epoch_without_training_error_is_attacked(made, tmp_path, monkeypatch):
    seen = []

    def from_the_third_reading_on(logits, labels):
        seen.append(len(labels) == 80)
        return torch.full((len(labels),), float(sum(seen) > 2))

    monkeypatch.setattr(collapse, "accuracy", from_the_third_reading_on)
    run(dataclasses.replace(TINY, attacked=1), Run(tmp_path, 0))
    records = Run(tmp_path, 0).records()
    assert [record["epoch"] for record in records if "robustness.mean" in record] == [0, 2, 6]
    assert [record["epoch"] for record in terminal(records, ARM)] == [2, 4, 6]


RATES = dataclasses.replace(TINY, learning_rates=(1e30, 0.001, 0.1), attacked=1)


def test_a_search_ends_with_the_run_that_the_best_rate_makes_alone(made, tmp_path):
    """A rate that diverges is left out; the others are read at their ends; the best is trained again, and read."""
    records = resumed(run, RATES, tmp_path, step=18, arm="search mnist-resnet18 mse 0.1")
    searched = {record["arm"]: record for record in records if record["arm"].startswith("search")}
    assert [record["step"] for record in searched.values()] == [18, 18]
    low, high = (searched[f"search mnist-resnet18 mse {rate:g}"]["test/accuracy"] for rate in (0.001, 0.1))
    assert low != high
    sizes = [Run(tmp_path, 0).checkpoint_path(arm).stat().st_size for arm in searched]
    assert max(sizes) < 1000, "checkpoints of a finished search keep no network"
    best = RATES.learning_rates[1 if low > high else 2]
    alone = Run(tmp_path / "alone", 0)
    alone.folder.mkdir()
    run(dataclasses.replace(RATES, learning_rates=(best,)), alone)
    assert timeless([record for record in records if record["arm"] not in searched]) == timeless(alone.records())


def test_a_search_in_which_every_rate_diverges_is_no_result(made, tmp_path):
    with pytest.raises(ConvergenceError, match="expected a finite objective at step 2"):
        run(dataclasses.replace(RATES, learning_rates=(1e30,)), Run(tmp_path, 0))
    with pytest.raises(
        ConvergenceError, match=r"a learning rate at which the loss stays finite, got none among 1e\+30"
    ):
        run(dataclasses.replace(RATES, learning_rates=(1e30, 1e31)), Run(tmp_path, 0))


@pytest.mark.parametrize(("rate", "words"), [(10, "features whose squares"), (30, "finite numbers, got nan")])
def test_a_search_leaves_out_a_network_that_diverges_in_eval_mode_alone(made, tmp_path, monkeypatch, rate, words):
    """After two updates the loss is finite, but with BatchNorm's running averages the features are too large."""
    monkeypatch.setattr(collapse, "BATCH", 80)
    config = dataclasses.replace(TINY, epochs=2, learning_rates=(rate,), attacked=1)
    alone, searched = Run(tmp_path / "alone", 0), Run(tmp_path / "searched", 0)
    for each in (alone, searched):
        each.folder.mkdir()
    with pytest.raises(RangeError, match=words):
        run(config, alone)
    run(dataclasses.replace(config, learning_rates=(0.1, rate)), searched)
    assert searched.records()[-1]["arm"] == ARM


def test_learning_rate_falls_at_both_thirds(made, tmp_path, monkeypatch):
    rates = []

    class Watched(torch.optim.SGD):
        def step(self):
            rates.append(self.param_groups[0]["lr"])
            super().step()

    monkeypatch.setattr(torch.optim, "SGD", Watched)
    run(dataclasses.replace(TINY, attacked=1), Run(tmp_path, 0))
    assert rates == pytest.approx([0.1] * 6 + [0.01] * 6 + [0.001] * 6)


def test_each_epoch_is_a_new_order_of_all_images():
    first, second = collapse.order(1, 50), collapse.order(2, 50)
    torch.testing.assert_close(first.sort().values, torch.arange(50))
    assert not torch.equal(first, second)
