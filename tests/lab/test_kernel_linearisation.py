"""kernel-linearisation: its fit against closed forms, what it says of its records, and its smallest variant."""

import math

import pytest
import torch

from gnomon import LinearDeepRFM
from gnomon.dynamics import DeepRFMStage
from gnomon.errors import DataError
from gnomon.kernels import GaussianKernel, LaplaceKernel, kernel_gram
from gnomon.linalg import unit
from gnomon_lab.papers.agop_collapse._deep_rfm import KERNELS
from gnomon_lab.papers.agop_collapse.kernel_linearisation import run as setting
from gnomon_lab.papers.agop_collapse.kernel_linearisation.linearised import centred, linearised, spectral_norm
from gnomon_lab.papers.agop_collapse.kernel_linearisation.page import claims, figures, summary, table
from gnomon_lab.papers.agop_collapse.kernel_linearisation.run import Config, layers, nc1, run
from tests.drawn import normal
from tests.lab.resuming import resumed

ARMS = ("mnist laplace relu", "mnist gaussian relu")
LAYERS = 4


def arc_cosine(products):
    """The mean of random ReLU features' inner products, for points of unit length."""
    inside = products.clamp(-1, 1)
    return ((1 - inside**2).sqrt() + inside * (math.pi - inside.arccos())) / math.pi


@pytest.mark.parametrize(
    ("kernel", "slope", "level", "ridge"),
    [
        (lambda x: kernel_gram(LaplaceKernel(2.0), x, x), math.exp(-(0.5**0.5)) / 8**0.5, 8**0.5,
         8**0.5 * (math.exp(0.5**0.5) - 1) - 1),
        (lambda x: kernel_gram(GaussianKernel(2.0), x, x), math.exp(-0.25) / 4, 4, 4 * math.exp(0.25) - 5),
        (lambda x: arc_cosine(x @ x.mT), 0.5, 2 / math.pi, 1 - 2 / math.pi),
    ],
    ids=["laplace", "gaussian", "relu"],
)  # fmt: skip
def test_in_many_dimensions_the_fit_is_the_expansion_in_the_inner_product(kernel, slope, level, ridge):
    x = unit(normal(100, 20_000))
    found = linearised(kernel(x), x @ x.mT)
    assert found.slope == pytest.approx(slope, rel=1e-3)
    assert found.level == pytest.approx(level, rel=1e-3)
    assert found.ridge == pytest.approx(ridge, rel=1e-3)
    assert found.rest < 5e-3


def test_at_no_bandwidth_is_the_laplace_kernel_s_ridge_far_below_that_of_relu_features():
    """docs/errata.md; the closed forms against derivatives in the inner product, at 0."""

    def ridge(kernel):
        product = torch.zeros((), dtype=torch.float64, requires_grad=True)
        value = kernel.value(2 - 2 * product)
        (slope,) = torch.autograd.grad(value, product)
        return float(((1 - value) / slope - 1).detach())

    features = 1 / 2 - 1 / math.pi
    assert features / ridge(LaplaceKernel(2.0)) == pytest.approx(0.095, abs=5e-4)
    assert features / ridge(GaussianKernel(2.0)) == pytest.approx(1.33, abs=5e-3)
    for bandwidth in (0.1, 1.0, 5.0, 100.0):
        scaled, inverse = 2**0.5 * bandwidth, bandwidth**-2
        laplace = ridge(LaplaceKernel(bandwidth))
        assert laplace == pytest.approx(scaled * math.expm1(2**0.5 / bandwidth) - 1, rel=1e-6)
        assert laplace > 1
        gaussian = ridge(GaussianKernel(bandwidth))
        assert gaussian == pytest.approx(math.expm1(inverse) / inverse - 1, rel=1e-6, abs=1e-9)
    assert ridge(GaussianKernel(5.3)) < features / 10 < ridge(GaussianKernel(5.2))


def test_a_linear_kernel_is_found_again_and_leaves_nothing():
    x = normal(30, 8)
    gram = x @ x.mT
    found = linearised(0.3 * (1.7 + gram + 0.6 * torch.eye(30, dtype=torch.float64)), gram)
    assert (found.slope, found.level, found.ridge) == pytest.approx((0.3, 1.7, 0.6), rel=1e-12)
    assert max(found.rest, found.rest_over_ridge) < 1e-12


def test_what_is_left_is_measured_by_spectral_norms_without_the_common_part():
    """The fit against numpy's least squares over pairs, the norms against singular values."""
    x = unit(normal(40, 5) + 1)
    kernel, gram = kernel_gram(LaplaceKernel(2.0), x, x), x @ x.mT
    rows, columns = torch.triu_indices(40, 40, 1)
    products = gram[rows, columns]
    design = torch.stack([torch.ones_like(products), products], 1)
    constant, slope = torch.linalg.lstsq(design, kernel[rows, columns, None]).solution[:, 0]
    ridge = (1 - constant - slope) / slope
    middle = torch.eye(40, dtype=torch.float64) - torch.full((40, 40), 1 / 40, dtype=torch.float64)
    left = middle @ (kernel - constant - slope * (gram + ridge * torch.eye(40, dtype=torch.float64))) @ middle
    found = linearised(kernel, gram)
    assert (found.slope, found.ridge) == pytest.approx((float(slope), float(ridge)), rel=1e-9)
    whole = torch.linalg.matrix_norm(middle @ (slope * gram) @ middle, 2)
    assert found.rest == pytest.approx(float(torch.linalg.matrix_norm(left, 2) / whole), rel=1e-9)
    assert found.rest_over_ridge == pytest.approx(float(torch.linalg.matrix_norm(left, 2) / (slope * ridge)), rel=1e-9)
    torch.testing.assert_close(centred(gram), middle @ gram @ middle)
    assert spectral_norm(torch.diag(torch.tensor([1.0, -3.0]))) == 3


def stages_of(points, mapped):
    """What `DeepRFM.stages` yields, of points of unit length and their images."""
    return iter([DeepRFMStage(i, x, z, z) for i, (x, z) in enumerate(zip(points, mapped, strict=True))])


def test_the_recursion_is_theorem_4_3_s_in_the_units_of_the_features():
    """With features that are linear but for a ridge by construction, b, λ_Φ and λ_k/b are known."""
    n, slope, ridge = 40, 0.5, 0.4
    labels = torch.arange(n) % 10
    first, mapped = unit(normal(n, 60)), unit(normal(n, 50, seed=1))
    gram = slope * (mapped @ mapped.mT + ridge * torch.eye(n, dtype=torch.float64))
    second = torch.linalg.cholesky(gram + (1 - slope * (1 + ridge)))
    one, two = layers(KERNELS["laplace"], stages_of([first, second], [mapped, mapped]), labels)
    assert "ratio" not in one
    assert one["alone"] == one["recursion"]
    assert (two["features.slope"], two["features.ridge"]) == pytest.approx((slope, ridge), rel=1e-9)
    assert two["ratio"] == pytest.approx(two["kernel.ridge"] / slope / ridge, rel=1e-9)
    data = first @ first.mT
    start = LinearDeepRFM(data, labels, kernel_ridge=one["kernel.ridge"], feature_ridge=0.0).run(1).factors[0]
    assert one["recursion"] == pytest.approx(nc1(start, labels), rel=1e-9)
    smoother = start @ start.mT + ridge * torch.eye(n, dtype=torch.float64)
    shrunk = smoother @ torch.linalg.inv(smoother + two["kernel.ridge"] / slope * torch.eye(n, dtype=torch.float64))
    expected = shrunk @ torch.nn.functional.one_hot(labels, 10).double()
    assert two["recursion"] == pytest.approx(nc1(expected, labels), rel=1e-9)
    inputs = second @ second.mT
    alone = inputs @ torch.linalg.inv(inputs + two["kernel.ridge"] * torch.eye(n, dtype=torch.float64))
    assert two["alone"] == pytest.approx(
        nc1(alone @ torch.nn.functional.one_hot(labels, 10).double(), labels), rel=1e-9
    )


def test_the_recursion_ends_where_a_ridge_is_not_above_zero():
    n, slope, ridge = 40, 0.5, -0.1
    labels, mapped = torch.arange(n) % 10, unit(normal(n, 400))
    gram = slope * (mapped @ mapped.mT + ridge * torch.eye(n, dtype=torch.float64)) + 1 - slope * (1 + ridge)
    inputs = torch.linalg.cholesky(gram)
    one, two, three = layers(KERNELS["laplace"], stages_of([mapped, inputs, inputs], [mapped, inputs, mapped]), labels)
    assert two["features.ridge"] == pytest.approx(ridge, rel=1e-9)
    assert two["ratio"] < 0
    assert ["recursion" in layer for layer in (one, two, three)] == [True, False, False]
    assert all("alone" in layer for layer in (one, two, three))


def made_up(ratio=0.05, rest=0.02, features_rest=0.03, level=2.0, recursion=0.2, alone=0.1, swapped=False, arm=None):
    """Records in which NC1 falls fivefold per layer, a little slower by the larger ratio, in one arm or all."""
    records = []
    for place, name in enumerate(ARMS):
        mine = arm in (None, name)
        own = (ratio if mine else 0.05) / (1 + place)
        fall = 0.2 * (0.9 if (place == 1) != swapped else 1.0)
        for layer in range(1, LAYERS + 1):
            mapped = 0.5 * fall**layer
            record = {
                "arm": name, "step": layer, "inputs": 10 * mapped, "mapped": mapped,
                "alone": 10 * mapped * (alone if mine else 0.1),
                "recursion": 0.5 * (recursion if mine else 0.2) ** layer,
                "kernel.slope": 0.2, "kernel.level": level if mine else 2.0, "kernel.ridge": own * 0.2,
                "kernel.rest": rest if mine else 0.02, "kernel.rest_over_ridge": 3.0, "least": 0.0,
            }  # fmt: skip
            if layer > 1:
                record |= {"features.slope": 0.5, "features.ridge": 0.4, "features.level": 1.0, "ratio": own,
                           "features.rest": features_rest if mine else 0.03, "features.rest_over_ridge": 3.0,
                           "share": 1234.0}  # fmt: skip
            records.append(record)
    return records


def test_table_summary_and_figures():
    columns, rows = table(made_up())
    assert len(columns) == len(rows[0]) == 11
    assert rows[0] == ("mnist laplace relu", "0.02", "0.4", "0.05", "0.020", "3", "0.030", "1,234", "0.0008", "0.0008",
                       "0.0008")  # fmt: skip
    assert summary(made_up()).startswith(
        "MNIST, Laplace kernel, ReLU features: λ_Φ is 20 to 20 times λ_k; NC1 ends at 8.0e-04, and at 8.0e-04 by"
    )
    ridges, collapse = figures(made_up())
    assert [line.label for line in ridges.panels[0].lines][1] == "MNIST, Gaussian kernel, ReLU features"
    assert ridges.panels[0].lines[0].x == (2, 3, 4)
    assert ridges.panels[1].lines[0].x == (1, 2, 3, 4)
    assert collapse.panels[1].lines[0].y[0] == pytest.approx(0.09)


@pytest.mark.parametrize("arm", [None, *ARMS])
@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, []),
        ({"rest": 0.11}, [0]),
        ({"features_rest": 0.11}, [1]),
        ({"level": -0.1}, [2]),
        ({"recursion": 1.01}, [5, 6]),
        ({"recursion": 0.03}, [6]),
        ({"recursion": 0.6}, [6]),
        ({"alone": 0.4}, [7]),
        ({"alone": 0.001}, [7]),
    ],
    ids=str,
)
def test_each_claim_fails_where_it_does_not_hold(change, failing, arm):
    """In one of two seeds, in one arm or both."""
    found = claims([made_up(), made_up(**change, arm=arm)])
    assert [place for place, claim in enumerate(found) if not claim.holds] == failing
    assert all(name in found[3].measured for name in ARMS)


def test_ridges_must_be_far_apart_and_decide_which_kernel_collapses_sooner():
    assert [place for place, claim in enumerate(claims([made_up(ratio=0.11)])) if not claim.holds] == [3]
    assert [place for place, claim in enumerate(claims([made_up(swapped=True)])) if not claim.holds] == [4]
    found = claims([made_up(), made_up(swapped=True)])[4].measured
    assert (
        found
        == "of 1 pairs of arms that differ in the kernel alone 0 to 1 over 2 seeds; of all 1 pairs 0 to 1 over 2 seeds"
    )


def test_pairs_of_arms_that_differ_in_more_than_the_kernel_are_counted_beside_the_claim():
    """The third arm has the largest λ_Φ/λ_k, and collapses last: both pairs with it contradict."""
    third = [
        record | {"arm": "cifar10 gaussian cosine", "mapped": 0.5 * 0.3 ** record["step"]}
        | ({"ratio": 0.01} if "ratio" in record else {})
        for record in made_up() if record["arm"] == ARMS[0]
    ]  # fmt: skip
    found = claims([made_up() + third])[4]
    assert found.measured == "of 1 pairs of arms that differ in the kernel alone 0; of all 3 pairs 2"
    assert found.holds


def test_that_the_recursion_falls_in_every_layer_is_said_beside_where_it_agrees():
    """Of 3 layers in each of 2 arms and 2 seeds; where the measured NC1 rises, the recursion falls on."""
    rises = [record | ({"mapped": 9.0} if record["step"] == LAYERS else {}) for record in made_up()]
    found = claims([made_up(), rises])[5]
    said = "0 to 2 over 2 seeds; the recursion's falls in 12 of 12, the measured one's in 10 of 12"
    assert (found.measured, found.holds) == (said, False)


def test_a_ridge_below_zero_is_not_far_above_the_other_and_ends_what_is_compared():
    """The recursion's NC1 would rise in the layer that it does not reach."""
    records = made_up()
    broken = next(record for record in records if record["step"] == LAYERS)
    broken |= {"ratio": -0.05, "features.ridge": -0.4, "mapped": 9.0, "alone": 9.0, "inputs": 90.0}
    del broken["recursion"]
    found = claims([records])
    assert [place for place, claim in enumerate(found) if not claim.holds] == [3]
    assert table(records)[1][0][-3:] == ("0.004", "0.004", "0.004")
    ridges, collapse = figures(records)
    assert [len(line.x) for line in ridges.panels[0].lines] == [2, 3]
    assert [len(line.x) for line in collapse.panels[0].lines] == [4, 4, 3]


@pytest.mark.data
def test_smallest_variant_resumes_exactly(tmp_path):
    config = Config(arms=("mnist gaussian relu", "mnist laplace cosine"), samples=12, depth=3, relu_width=48,
                    cosine_width=48)  # fmt: skip
    records = resumed(run, config, tmp_path, step=2, arm="mnist laplace cosine")
    assert [record["step"] for record in records] == [1, 2, 3] * 2
    assert all(record["mapped"] < record["inputs"] for record in records)
    assert all(record["kernel.slope"] * (1 + record["kernel.level"] + record["kernel.ridge"]) == pytest.approx(1)
               for record in records)  # fmt: skip
    assert [("features.ridge" in record) for record in records] == [False, True, True] * 2
    assert records[1]["inputs"] != records[4]["inputs"]


def test_an_arm_that_the_recursion_leaves_after_its_first_layer_is_shown_and_not_compared():
    records = made_up()
    for record in records:
        if record["arm"] == ARMS[1] and record["step"] > 1:
            record |= {"ratio": -0.05, "features.ridge": -0.4}
            del record["recursion"], record["share"]
    _, rows = table(records)
    assert rows[1] == (ARMS[1], "0.01", "-0.4", "-0.05", "0.020", "3", "0.030", "", "0.09", "0.09", "0.1")
    found = claims([records])
    assert [place for place, claim in enumerate(found) if not claim.holds] == [3]
    assert found[4].measured == "of 1 pairs of arms that differ in the kernel alone 0; of all 1 pairs 0"
    assert ARMS[1] not in found[6].measured
    first = [record for record in records if record["arm"] == ARMS[0] or record["step"] == 1]
    assert table(first)[1][1] == (ARMS[1], *[""] * 7, "0.09", "0.09", "0.1")
    assert ARMS[1] not in claims([first])[3].measured
    assert "Gaussian" not in summary(first)


@pytest.mark.bad_input
def test_classes_are_equally_large_or_it_is_said_before_anything_is_fitted(monkeypatch):
    drawn = torch.cat([torch.zeros(5), torch.arange(10).repeat(3)]).long()
    monkeypatch.setattr(setting, "rows", lambda *_: (torch.arange(35.0)[:, None], drawn))
    x, labels = setting.balanced(None, "svhn", 3)
    assert torch.bincount(labels).tolist() == [3] * 10
    torch.testing.assert_close(x[:6, 0], torch.tensor([0.0, 1.0, 2.0, 6.0, 16.0, 26.0]))
    with pytest.raises(DataError, match="at least 4 images of each class of svhn, got 3 of class 1 among 35"):
        setting.balanced(None, "svhn", 4)
