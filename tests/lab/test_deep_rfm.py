"""deep-rfm: what it says of its records, and its smallest variant on real digits, stopped half way."""

import itertools
import math

import numpy as np
import pytest
import torch

from gnomon import DeepRFM
from gnomon.dynamics import _deep_rfm as deep_rfm
from gnomon.dynamics._rfm_layer import fit_layer
from gnomon.errors import RangeError
from gnomon.kernels import FourierFeatures, LaplaceKernel, ReLUFeatures
from gnomon_lab.papers.agop_collapse._deep_rfm import by_class, feature_map
from gnomon_lab.papers.agop_collapse.deep_rfm.page import (
    claims,
    described,
    figures,
    from_collapsed,
    others,
    raised,
    straight,
    summary,
    table,
)
from gnomon_lab.papers.agop_collapse.deep_rfm.run import PAPER, Config, gram, run
from tests.lab.resuming import resumed

ARMS = ("mnist gaussian relu", "mnist laplace cosine")
DEPTH = 6


def collapsed(amount=0.0):
    """A Gram matrix of two images of each of ten classes, all entries off by some amount."""
    same = np.eye(10).repeat(2, 0).repeat(2, 1)
    return (same * 10 / 9 - 1 / 9 + amount).tolist()


def made_up(fall=0.2, rise=1.25, off=0.0, nc2=0.5, bend=0.0, arm=None):
    """Records in which M^½ multiplies NC1 by `fall` and Φ by `rise`, in one arm or all; in the others all holds."""
    records = []
    for name in ARMS:
        down, up, away, second, bent = (
            (fall, rise, off, nc2, bend) if arm in (None, name) else (0.2, 1.25, 0.0, 0.5, 0.0)
        )
        start = {"train": 0.9, "test": 0.5, "last_jitter": 0.0, "seconds": {"trained": 0.0}}
        records.append({"arm": name, "step": 0, "gram": collapsed(away), **start})
        nc1 = 4.0
        for layer in range(1, DEPTH + 1):
            stages = (nc1, nc1 * down, nc1 * down * up)
            nc1 = stages[-1] * (10 if layer == 4 and bent else 1)
            values = {
                f"{stage}.nc1": value for stage, value in zip(("inputs", "mapped", "features"), stages, strict=True)
            }
            values |= {f"{stage}.nc2_etf": second**layer for stage in ("inputs", "mapped", "features")}
            records.append({"arm": name, "step": layer, **values, "jitter": 1e-12 * layer, "misfit": 1e-9, "train": 1.0,
                            "test": 0.8, "gram": collapsed(away), "seconds": {"trained": 2.0 * layer}})  # fmt: skip
    return records


def test_the_collapsed_gram_matrix_is_of_centred_points_and_hardly_tests_the_simplex():
    """What docs/experiments/deep-rfm.md says of the claim."""

    def distance(products):
        return from_collapsed([{"arm": ARMS[0], "step": 0, "gram": products.tolist()}], ARMS[0])

    same = np.eye(10).repeat(6, 0).repeat(6, 1)
    centred = same - same.mean(0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    assert distance(centred @ centred.T) == pytest.approx(0, abs=1e-12), "an orthogonal frame, centred"
    assert distance(same) == pytest.approx(0.9**0.5 / 9)
    assert distance(np.eye(60)) == pytest.approx(0.307, abs=5e-4)


def test_table_summary_and_figures():
    columns, rows = table(made_up())
    assert len(columns) == len(rows[0]) == 9
    assert rows[0] == ("mnist gaussian relu", "4", "7.8e-04", "10^-4.2", "10^+0.6", "0.016", "6e-12", "80.0%", "12")
    said = summary(made_up())
    assert said.startswith("MNIST, Gaussian kernel, ReLU features: NC1 falls from 4 to 7.8e-04 after M^½ of layer 6;")
    assert said.endswith("MNIST, Laplace kernel, cosine features: NC1 falls from 4 to 7.8e-04 after M^½ of layer 6; "
                         "each Φ multiplies it by 1.2 on average.")  # fmt: skip
    first, _, slider = figures(made_up())
    assert first.name == "mnist-gaussian-relu"
    assert [line.label for line in first.panels[0].lines] == ["X", "M^½ X", "Φ(M^½ X)"]
    assert first.panels[0].log_y
    assert first.panels[0].lines[1].y[:2] == (0.8, pytest.approx(0.2))
    assert first.panels[2].lines[1].x == tuple(range(7))
    assert [frame.label for frame in slider.frames][:2] == ["the data", "layer 1"]
    assert slider.frames[0].rows[0].images.shape == (2, 20, 20)


def test_measures():
    records = made_up()
    assert straight(records, ARMS[0], "nc1") == pytest.approx(-1)
    assert raised(records, ARMS[0]) == pytest.approx(1.25)
    assert others(records, ARMS[0]) == pytest.approx(DEPTH * math.log10(1.25))
    assert from_collapsed(made_up(off=0.2), ARMS[0]) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, []),
        ({"bend": 1.0}, [0, 1]),
        ({"nc2": 1.1}, [2]),
        ({"rise": 0.9}, [3]),
        ({"off": 0.11}, [4]),
        ({"rise": 2.1}, [5]),
        ({"rise": 2.1, "arm": ARMS[1]}, []),
        ({"rise": 0.9, "arm": ARMS[1]}, [3]),
    ],
    ids=str,
)
def test_each_claim_fails_where_it_does_not_hold(change, failing):
    """In one of two seeds; ReLU features alone are said to change NC1 only marginally."""
    found = claims([made_up(), made_up(**change)])
    assert [place for place, claim in enumerate(found) if not claim.holds] == failing
    assert all(arm in claim.measured for claim in found[:5] for arm in ARMS)
    assert ARMS[1] not in found[5].measured


def test_arms_are_the_paper_s():
    """Figures 3 and 4 have three data sets each; the Gaussian kernel goes with ReLU features on MNIST alone."""
    arms = {
        f"{data} {'gaussian' if (data, features) == ('mnist', 'relu') else 'laplace'} {features}"
        for data in ("cifar10", "mnist", "svhn")
        for features in ("relu", "cosine")
    }
    assert {*PAPER.arms} == arms
    assert len(PAPER.arms) == len(arms)
    assert described("svhn laplace relu") == "SVHN, Laplace kernel, ReLU features"
    assert len({*map(described, PAPER.arms)}) == len(arms)


def test_features_are_the_paper_s():
    assert feature_map("cosine", PAPER.relu_width, PAPER.cosine_width) == FourierFeatures(4096, 20.0, "l1")
    assert feature_map("relu", PAPER.relu_width, PAPER.cosine_width) == ReLUFeatures(1024)


def test_images_are_in_the_order_of_their_classes():
    labels = torch.tensor([9, 0, 1, 0, 9, 0])
    assert by_class(labels, 2).tolist() == [1, 3, 2, 0, 4]


def test_the_gram_matrix_is_that_of_centred_directions_after_the_last_root():
    x = torch.randn(20, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels, chosen = torch.arange(20) % 2, torch.tensor([4, 1, 7])
    for depth in (0, 2):
        model = DeepRFM(LaplaceKernel(2.0), ReLUFeatures(8), depth).fit(x.numpy(), labels.numpy())
        stages = list(model.stages(x.numpy()))
        points = stages[-1].mapped if depth else torch.from_numpy(model.transform(x.numpy()))
        points = (points - points.mean(0))[chosen]
        points = points / points.norm(dim=1, keepdim=True)
        torch.testing.assert_close(
            torch.tensor(gram(model, x, chosen)).double(), points @ points.mT, atol=5.001e-3, rtol=0
        )


def test_settings_are_checked_together():
    with pytest.raises(
        RangeError, match=r"arms one or more among \('mnist laplace relu', .* got \('mnist',\); depth at"
    ):
        Config(arms=("mnist",), depth=2)


@pytest.mark.data
def test_a_stopped_run_loses_one_layer_and_fits_no_other_twice(tmp_path, monkeypatch):
    fitted = []

    def counted(*args, **kwargs):
        fitted.append(args)
        return fit_layer(*args, **kwargs)

    monkeypatch.setattr(deep_rfm, "fit_layer", counted)
    config = Config(arms=ARMS[:1], samples=100, test=50, depth=4, relu_width=24, shown=2)
    resumed(run, config, tmp_path, step=3)
    assert len(fitted) == 4 + 5, "four layers unbroken; stopped in the third, that one twice"


@pytest.mark.data
def test_smallest_variant_resumes_exactly(tmp_path):
    config = Config(arms=ARMS, samples=100, test=50, depth=4, relu_width=24, cosine_width=24, shown=2)
    records = resumed(run, config, tmp_path, step=2, arm=ARMS[1])
    assert [record["step"] for record in records] == [*range(5)] * 2
    assert len({record["mapped.nc1"] for record in records if record["step"] > 0}) == 8, "two arms did the same"
    digits = [record for record in records if record["arm"] == ARMS[0]]
    assert digits[4]["mapped.nc1"] < 0.5 * digits[1]["inputs.nc1"]
    assert all(record["train"] == 1 for record in records)
    for earlier, later in itertools.pairwise(digits[1:]):
        # Scaled to unit length in between, which changes the spread of lengths alone.
        assert later["inputs.nc1"] == pytest.approx(earlier["features.nc1"], rel=0.3)
