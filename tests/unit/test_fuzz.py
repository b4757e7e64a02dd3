"""No wrong input gives a raw error, or a number without a word; `tests.fuzz` has the functions and what is wrong."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import gnomon
from gnomon import kernels, regions
from gnomon.data import Samples, normalise, standardise
from gnomon.dynamics import _integration as integration
from gnomon.models import mlp
from tests.fuzz import callables, judged, mutations

EVERY = {name: (function, sample) for name, function, sample in callables()}


@pytest.mark.bad_input
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(EVERY))
def test_wrong_input_is_refused_in_a_sentence(name, monkeypatch):
    # Times beyond all bounds are integrated up to here.
    monkeypatch.setattr(integration, "EVALUATIONS", 1_000)
    function, sample = EVERY[name]
    generator = torch.Generator().manual_seed(0)
    arguments = sample(generator)
    assert judged(function, arguments)[0] == "right"
    found = {what: judged(function, changed) for what, changed in mutations(arguments, generator)}
    assert not {what: verdict for what, verdict in found.items() if verdict[0] not in ("right", "refused")}


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("quantity", "shape"),
    [
        (gnomon.equiangularity, (3, 5, 1)),
        (gnomon.maximal_equiangularity, (3, 5, 1)),
        (gnomon.equinorm, (1, 3, 5)),
    ],
)
def test_vectors_are_two_axes(quantity, shape):
    with pytest.raises(gnomon.errors.ShapeError, match=r"\(centred_means\): expected two axes"):
        quantity(torch.randn(shape))


@pytest.mark.bad_input
def test_samples_have_entries():
    empty = torch.ones(3, 0)
    with pytest.raises(gnomon.errors.EmptyError, match=r"^centroid_alignment\(centroid\): expected entries, got"):
        gnomon.centroid_alignment(empty, empty)
    with pytest.raises(
        gnomon.errors.ShapeError, match=r"^psd_root\(matrix\): expected a square matrix, got shape \(0, 0\)"
    ):
        gnomon.psd_root(torch.ones(0, 0))
    for origin in (torch.tensor(1.0), torch.ones(1), torch.ones(0)):
        with pytest.raises(gnomon.errors.ShapeError, match=r"^Plane\(origin\): expected inputs of two entries or more"):
            regions.Plane(origin, torch.stack([origin, origin]))


@pytest.mark.bad_input
def test_logits_with_an_axis_more_are_no_square_of_the_samples():
    moments = gnomon.class_moments(torch.randn(12, 5), torch.arange(12) % 3, 3)
    with pytest.raises(gnomon.errors.ShapeError, match=r"nearest_mean_disagreement\(logits\): expected two axes"):
        gnomon.nearest_mean_disagreement(torch.randn(12, 5), torch.randn(12, 3, 1), moments)


@pytest.mark.bad_input
def test_labels_that_are_no_numbers_are_no_classes():
    labels = torch.tensor([0.0, torch.nan, 0.0, torch.nan])
    with pytest.raises(gnomon.errors.RangeError, match=r"LinearDeepRFM\(labels\): expected"):
        gnomon.LinearDeepRFM(torch.eye(4), labels, kernel_ridge=0.1, feature_ridge=1.0)


@pytest.mark.bad_input
@pytest.mark.parametrize("schedule", [gnomon.every, gnomon.log_spaced])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_schedule_that_never_reads_is_refused(schedule, number):
    with pytest.raises(gnomon.errors.RangeError, match=r"expected at least 1, got (nan|inf)"):
        schedule(number)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            partial(gnomon.input_jacobian, None, torch.rand(2, 3)),
            r"input_jacobian\(model\): expected a Module or a func",
        ),
        (partial(gnomon.every, "3"), r"every\(steps\): expected a number, got str\. Pass one\."),
        (partial(mlp, None), r"mlp\(widths\): expected a sequence, got NoneType\. Pass one\."),
        (partial(mlp, "345"), r"mlp\(widths\): expected a sequence, got str"),
        (partial(mlp, torch.tensor(3)), r"mlp\(widths\): expected a sequence, got Tensor"),
        (partial(mlp, np.array(3)), r"mlp\(widths\): expected a sequence, got ndarray"),
        (
            partial(gnomon.layer_collapse, mlp((2, 3, 2)), torch.rand(4, 2), torch.arange(4) % 2, layers=0),
            r"layer_collapse\(layers\): expected a name or a list of names, got int",
        ),
        (
            partial(gnomon.nfa_table, mlp((2, 3, 2)), torch.rand(4, 2), layers=0),
            r"nfa_table\(layers\): expected a name or a",
        ),
        (
            partial(kernels.ReLUFeatures(3).apply, torch.rand(4, 2), [torch.rand(3, 2)]),
            r"ReLUFeatures\.apply\(drawn\): expected a mapping, got list",
        ),
    ],
)
def test_functions_sequences_and_mappings_are_named(call, sentence):
    with pytest.raises(gnomon.errors.ArgumentTypeError, match="^" + sentence):
        call()


MOMENTS = gnomon.class_moments(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0, 0, 1]), 2)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (partial(gnomon.activation_misalignment, "x", torch.ones(1, 2)), "Pass cumulative_parameters(model), or give"),
        (partial(gnomon.centroid_alignment, gnomon.centroid, torch.ones(1, 2)), "Pass centroid(model, x), or give"),
        (partial(gnomon.jacobian_norm, mlp((3, 2))), "Pass input_jacobian(model, x), or give the function to a Probe."),
        (partial(gnomon.rank_me, mlp((3, 2))), "Pass features(model, x), or give"),
        (partial(gnomon.accuracy, mlp((3, 2)), torch.arange(2)), "Pass model(x), or give"),
        (partial(gnomon.effective_rank, mlp((3, 2))), "Pass agop(input_jacobian(model, x)), or give"),
        (partial(gnomon.nc1, torch.rand(2, 3)), "Pass class_moments(features, labels, classes), or give"),
        (partial(gnomon.equinorm, MOMENTS), "Pass class_moments(features, labels, classes).centred_means, or give"),
        (partial(gnomon.nc2_etf, mlp((3, 2))), "Pass class_moments(features, labels, classes).centred_means, or"),
        (partial(gnomon.nc2_orthogonal, MOMENTS), "Pass class_moments(features, labels, classes).means, or give"),
        (partial(gnomon.accuracy, torch.relu, torch.arange(2)), "Pass model(x), or give"),
        (partial(gnomon.classifier_equinorm, nn.Linear(2, 2)), "Pass the weight of the final linear layer, or give"),
        (partial(gnomon.self_duality, nn.Linear(2, 2), MOMENTS), "Pass the weight of the final linear layer, or"),
        (partial(gnomon.parameter_norm, mlp((3, 2))), "Pass dict(model.named_parameters()), or give"),
        (partial(gnomon.heavy_tails, mlp((3, 2)).parameters()), "Pass dict(model.named_parameters()), or give"),
        (partial(gnomon.distance_from_start, {}, mlp((3, 2))), "Pass a detached copy from the start, of features or"),
        (partial(gnomon.start_cka, torch.rand(2, 3), mlp((3, 2))), "Pass a detached copy from the start, of feat"),
        (partial(gnomon.gradient_norm, mlp((3, 2))), "Pass batch_gradients(model, x, labels), or give"),
        (partial(gnomon.jacobian_norm, np.ones((2, 3, 2))), "Convert it to a tensor."),
        (partial(gnomon.equinorm, [[1.0, 2.0]]), "Convert it to a tensor."),
    ],
)
def test_what_an_argument_is_made_by_is_said(call, advice):
    """Where a network, a function, a tensor or a result is given for it; what converts is to be converted."""
    with pytest.raises(gnomon.errors.ArgumentTypeError) as said:
        call()
    assert advice in str(said.value)


@pytest.mark.bad_input
def test_an_array_in_place_of_a_tensor_is_a_type_error_in_a_sentence():
    with pytest.raises(TypeError, match=r"gini\(values\): expected a floating-point tensor, got ndarray"):
        gnomon.gini(torch.rand(3).numpy())


@pytest.mark.bad_input
def test_regions_look_at_the_shape_of_points_and_inputs():
    plane = regions.Plane(torch.zeros(3), torch.eye(3)[:2])
    cut = regions.slice_regions(mlp((3, 4, 2)).eval(), plane, (-1, 1, -1, 1))
    for look in (cut.region_of_points, cut.boundary_distance, partial(regions.migration, cut, cut)):
        with pytest.raises(
            gnomon.errors.ShapeError, match=r"\(points\): expected two coordinates per row, shape \(n, 2\)"
        ):
            look(torch.rand(4, 3))
        with pytest.raises(gnomon.errors.RangeError, match=r"\(points\): expected finite numbers, got nan"):
            look(torch.full((4, 2), torch.nan))
    for look in (cut.region_of, plane.project):
        with pytest.raises(gnomon.errors.ShapeError, match=r"\(x\): expected inputs of shape \(n, 3\), as the plane's"):
            look(torch.rand(4, 1))
    with pytest.raises(gnomon.errors.ShapeError, match=r"local_complexity\(x\): expected two numbers per sample or"):
        regions.local_complexity(mlp((1, 4, 2)).eval(), torch.rand(4, 1), 0.1)
    with pytest.raises(TypeError, match=r"slice_regions\(model\): expected a Module, got str"):
        regions.slice_regions("text", plane, (-1, 1, -1, 1))


@pytest.mark.bad_input
@pytest.mark.parametrize("squared", [True, False])
def test_inputs_without_a_number_reach_the_penalty(squared):
    x = torch.rand(4, 3)
    penalty = gnomon.GrokAlign(0.1, estimator="exact", squared=squared)
    assert penalty(mlp((3, 4, 2)), x).isfinite()
    # The Jacobian of a ReLU does not know its input's size.
    x[1, 2] = torch.inf
    assert penalty(mlp((3, 4, 2)), x).isnan()


@pytest.mark.bad_input
@pytest.mark.parametrize("labels", [torch.arange(3), torch.zeros(4), torch.zeros(4, 1, dtype=torch.long)])
def test_samples_have_a_whole_number_each(labels):
    for rescale in (standardise, partial(normalise, mean=0.5, std=2)):
        with pytest.raises(gnomon.errors.GnomonError, match=r"\.labels\): expected (one class index per sample|whole)"):
            rescale(Samples(torch.rand(4, 2), labels))


def test_sectors_of_samples_and_networks_of_two_dtypes():
    model, x = mlp((3, 4, 2)).double(), torch.rand(6, 3)
    labels = torch.arange(6) % 2
    found, wanted = (gnomon.truncation_sectors(model, points, labels) for points in (x, x.double()))
    assert found.untruncated.equal(wanted.untruncated)
    assert found.full.equal(wanted.full)


@pytest.mark.bad_input
@pytest.mark.parametrize("scale", [1e25, 1e-30])
def test_squares_beyond_float32_are_refused(scale):
    labels = torch.arange(12) % 3
    features = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
    statistics = gnomon.ClassStatistics(3)
    statistics.update(features * scale, labels)
    for look in (statistics.compute, partial(gnomon.class_moments, features * scale, labels, 3)):
        with pytest.raises(
            gnomon.errors.RangeError, match=r"\(features\): expected features whose squares torch.float"
        ):
            look()
    # float64 holds them, and what is measured has no unit; features of 0 are no matter.
    exact = gnomon.nc1(gnomon.class_moments(features.double() * scale, labels, 3))
    torch.testing.assert_close(exact, gnomon.nc1(gnomon.class_moments(features.double(), labels, 3)))
    assert gnomon.class_moments(features * 0, labels, 3).within.trace() == 0


def test_a_flow_says_how_far_it_got(monkeypatch):
    monkeypatch.setattr(integration, "EVALUATIONS", 1_000)
    one = torch.eye(2, dtype=torch.float64)
    flow = gnomon.CollapsedFlow(one, 2 * one, one)
    with pytest.raises(
        gnomon.errors.ConvergenceError, match=r"at 1e\+09 within 1,000 evaluations, got to \d\d"
    ) as found:
        flow.flow(torch.tensor([1e9], dtype=torch.float64))
    there = float(str(found.value).partition("got to ")[2].partition(". Ask")[0])
    assert flow.flow(torch.tensor([there / 2], dtype=torch.float64)).loss < 1e-16


@pytest.mark.bad_input
@pytest.mark.parametrize("number", [2**63, 10**30, -(10**30)])
def test_whole_numbers_that_no_tensor_holds_are_out_of_range(number):
    with pytest.raises(gnomon.errors.RangeError, match=rf"classes .*, got {number}"):
        gnomon.class_moments(torch.rand(4, 2), torch.zeros(4, dtype=torch.long), number)
