"""No wrong input gives a raw error, or a number without a word; `tests.fuzz` has the functions and what is wrong."""

import pytest
import torch

import gnomon
from tests.fuzz import callables, judged, mutations

EVERY = {name: (function, sample) for name, function, sample in callables()}

# Of settings that are numbers or of networks, regions and data sets, whose kinds are not yet checked in one place.
OPEN = {
    "GrokAlign", "Regions.boundary_distance", "Regions.region_of", "Regions.region_of_points", "boundary_distance",
    "centroid_rate", "input_noise", "local_complexity", "migration", "modular_addition", "noise_level", "normalise",
    "Plane", "slice_regions", "standardise", "truncation_sectors", "vector_jacobian", "xor_clusters",
}  # fmt: skip
# These integrate: each call takes long, and to times beyond all bounds for ever.
LONG = {name for name in EVERY if name.endswith((".flow", ".propagators"))}


@pytest.mark.bad_input
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(EVERY) - OPEN - LONG))
def test_wrong_input_is_refused_in_a_sentence(name):
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
    with pytest.raises(gnomon.errors.ShapeError, match=r"\(vectors\): expected two axes, with entries in each"):
        quantity(torch.randn(shape))


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
def test_an_array_in_place_of_a_tensor_is_a_type_error_in_a_sentence():
    with pytest.raises(TypeError, match=r"gini\(values\): expected a floating-point tensor, got ndarray"):
        gnomon.gini(torch.rand(3).numpy())
