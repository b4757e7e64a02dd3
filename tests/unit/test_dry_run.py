"""The few samples that are tried before training, and which of their errors count."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from gnomon import Probe, accuracy, centroid, input_jacobian
from gnomon.errors import ConvergenceError, DataError, EmptyError, RangeError, ShapeError
from gnomon.probe._dry_run import CLASSES, few, is_permanent, look
from tests.passes import sizes_of_passes


@pytest.mark.parametrize(
    ("labels", "most", "rows", "every_class"),
    [
        ([2, 0, 2, 1, 0], 3, [1, 3, 0], True),
        ([2, 0, 2, 1, 0], 2, [1, 0], False),
        ([1, 0, 0, 1], 0, [1, 0], True),
        (range(CLASSES), 1000, [*range(CLASSES)], True),
        (range(CLASSES + 1), 1000, [0, CLASSES], False),
    ],
)
def test_a_sample_of_each_class_is_tried_or_two(labels, most, rows, every_class):
    found, each = few(len(labels), torch.tensor([*labels]), most)
    assert (found.tolist(), each) == (rows, every_class)


@pytest.mark.parametrize("fit", [3, 4])
def test_as_many_samples_are_tried_as_take_a_sixteenth_of_the_memory(fit):
    """One of each of four classes or two; that these do not mix is checked with one more."""
    model, x = nn.Linear(3, 3), torch.ones(8, 3)
    sizes = sizes_of_passes(model)
    Probe(model, (x, torch.arange(8) // 2), [centroid], memory=16 * 12 * fit)
    assert (max(sizes) >= 4) == (fit >= 4)


def test_without_a_label_each_the_first_two_are_tried():
    assert [few(n, None, 9)[0].tolist() for n in (1, 2, 5)] == [[0], [0, 1], [0, 1]]
    found, each = few(3, torch.zeros(3, 4, dtype=torch.long), 9)
    assert (found.tolist(), each) == ([0, 1], False)


@pytest.mark.parametrize(("memory", "rows"), [(None, 4), (4 * 48 * 4, 4), (4 * 48 * 3, 3), (1, 1)])
def test_the_jacobian_in_brief_has_the_centroid_and_no_more_rows_than_fit(memory, rows):
    """A quarter of the memory for the rows of two samples of 24 bytes each."""
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh()).double(), torch.ones(2, 3).double()
    found = look(model, x, "jacobian", {}, memory)
    assert found.shape == (2, rows, 3)
    assert_close(found, (input_jacobian(model, x).sum(1) / 4).unsqueeze(1).expand(2, rows, 3))


@pytest.mark.bad_input
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_samples_in_another_precision_than_the_network_are_to_be_converted(dtype):
    model, x = nn.Linear(3, 4).to(dtype), torch.ones(4, 3)
    with pytest.raises(DataError, match=rf"RuntimeError: mat1 .*\. The network is in {dtype}: convert the samples\."):
        Probe(model, (x, torch.arange(4)), [accuracy])
    Probe(model, (x.to(dtype), torch.arange(4)), [accuracy]).read()
    with pytest.raises(DataError, match=r"got RuntimeError: .*\. Pass network and samples as they are in training"):
        Probe(model, (x[:, 1:].to(dtype), torch.arange(4)), [accuracy])


@pytest.mark.parametrize(
    ("error", "every_class", "fewer", "permanent"),
    [
        (RangeError("weight", "finite", "nan"), True, True, False),
        (RangeError("labels", "classes", "-1"), False, False, True),
        (RangeError(None, "rtol above 0", "-1"), False, False, True),
        (RangeError("class_moments", "a full rank", "1"), False, True, True),
        (RangeError("class_moments", "a full rank", "1"), True, False, False),
        (EmptyError("labels", "two classes", "one"), True, False, True),
        (EmptyError("labels", "two classes", "one"), False, False, False),
        (EmptyError("x", "entries", "none"), False, False, True),
        (ShapeError("weight", "(c, p)", "(p,)"), False, False, True),
        (ConvergenceError("passes", "fewer", "more"), True, True, False),
    ],
)
def test_errors_count_that_neither_training_nor_more_samples_would_mend(error, every_class, fewer, permanent):
    assert is_permanent(error, every_class, fewer) is permanent
