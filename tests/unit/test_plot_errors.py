"""What gnomon.plot cannot draw: an error says so, and leaves no figure behind."""

import math

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure

from gnomon import History, Reading, compare, verdict
from gnomon.errors import ArgumentTypeError, EmptyError, RangeError, ShapeError
from gnomon.models import mlp
from gnomon.plot import (
    classes,
    decision_boundary,
    histories,
    images,
    kernel,
    quantities,
    regions,
    similar_runs,
    spectrum,
)
from gnomon.regions import Plane, slice_regions
from tests.unit.test_plot import closed, history  # noqa: F401 - a fixture that all tests use
from tests.unit.test_verdict import STEPS, readings


def partition():
    model = mlp((2, 6, 3), bias=True, generator=torch.Generator().manual_seed(0)).double()
    plane = Plane(torch.zeros(2).double(), torch.eye(2).double())
    return slice_regions(model, plane, (-2.0, 3.0, -1.0, 2.0))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: histories({"a": history(1.0, 2.0)}, ["nc1"]),
            RangeError,
            r"^histories\(names\): expected some of q, got 'nc1'. Ask the probe",
        ),
        (lambda: histories({"a": History()}, ["q"]), EmptyError, r"^histories\(runs\): expected readings of at least"),
        (lambda: spectrum(torch.zeros(3)), RangeError, r"^spectrum\(values\): expected some above 0, got at most 0"),
        (lambda: spectrum(torch.zeros(0)), EmptyError, r"^spectrum\(values\): expected at least one sample"),
        (
            lambda: regions(partition(), torch.ones(2)),
            ShapeError,
            r"^regions\(values\): expected shape \(\d+,\), got \(2,\). Pass one value for each region",
        ),
        (
            lambda: regions(partition(), partition().norms - 9, log_values=True),
            RangeError,
            r"^regions\(values\): expected finite values above 0, got -",
        ),
        (
            lambda: decision_boundary(partition(), pixels=0),
            RangeError,
            r"^decision_boundary\(pixels\): expected a whole",
        ),
        (lambda: decision_boundary(partition(), pixels=2.5), RangeError, r"^decision_boundary\(pixels\): .* got 2.5"),
        (
            lambda: classes(torch.ones(3, 1), torch.ones(3)),
            ShapeError,
            r"^classes\(features\): expected two dimensions",
        ),
        (lambda: spectrum({}), EmptyError, r"^spectrum\(values\): expected some, got none"),
        (
            lambda: spectrum(torch.zeros(3, 0)),
            EmptyError,
            r"^spectrum\(values\): expected entries, got",
        ),
        (
            lambda: regions(partition(), partition().norms * math.nan),
            RangeError,
            r"^regions\(values\): expected finite numbers, got nan at index \(0,\). Look at what produced",
        ),
        (
            lambda: classes(torch.ones(6, 3), torch.zeros(6, 1)),
            ShapeError,
            r"^classes\(labels\): expected one axis, got shape \(6, 1\). Flatten it",
        ),
        (
            lambda: kernel(torch.eye(3), torch.tensor(1)),
            ShapeError,
            r"^kernel\(labels\): expected one for each row, .* got \(\) for \(3, 3\)",
        ),
        (lambda: kernel(torch.ones(2, 3), torch.ones(2)), ShapeError, r"^kernel\(labels\): .* got \(2,\) for \(2, 3\)"),
        (
            lambda: history(1.0).plot(size=(3.3, 0)),
            RangeError,
            r"^histories\(size\): expected a width and a height above 0, in inches, got \(3.3, 0\). Pass such as",
        ),
        (lambda: history(1.0).plot(size=3.3), RangeError, r"^histories\(size\): expected a width and .* got 3.3"),
        (lambda: compare(history(1.0)).plot(size=(3, math.nan)), RangeError, r"expected a width and .* got \(3, nan\)"),
        (
            lambda: history(1.0).plot(size=(3, 2), ax=Figure().add_subplot()),
            RangeError,
            r"^histories\(size\): expected None where ax is given, got \(3, 2\). Pass it to what makes the axes",
        ),
        (
            lambda: quantities({"a": torch.ones(3)}, size=(3, 2), ax=Figure().add_subplot()),
            RangeError,
            r"^quantities\(size\): expected None where ax is given",
        ),
        (lambda: images(torch.ones(2, 3, 4, 5)), ShapeError, r"^images\(images\): expected \(n, h, w\), got \(2, 3, 4"),
    ],
)
@pytest.mark.bad_input
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
    assert not pyplot.get_fignums()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: histories({"a": [1.0]}, ["q"]), r"^histories\(a\): expected a History, got list"),
        (lambda: spectrum([1.0]), r"^spectrum\(values\): expected a tensor, got list"),
        (lambda: kernel(np.eye(3)), r"^kernel\(matrix\): expected a tensor, got ndarray. Convert it to a tensor"),
        (lambda: kernel(torch.eye(2), [0, 1]), r"^kernel\(labels\): expected a tensor, got list"),
        (lambda: classes(torch.ones(2, 3), [0, 1]), r"^classes\(labels\): expected a tensor, got list"),
        (lambda: images(np.ones((1, 2, 2))), r"^images\(images\): expected a tensor, got ndarray"),
        (lambda: quantities({"a": [1]}), r"^quantities\(values\['a'\]\): expected a tensor, got list"),
        (lambda: regions(None), r"^regions\(regions\): expected Regions, got NoneType. Pass what slice_regions"),
        (lambda: regions(partition(), [1.0]), r"^regions\(values\): expected a tensor, got list"),
        (lambda: decision_boundary(None), r"^decision_boundary\(regions\): expected Regions, got NoneType"),
        (lambda: history(1.0).plot(size={}), r"^histories\(size\): expected numbers, or lists"),
        (lambda: similar_runs(None), r"^similar_runs\(verdict\): expected a Verdict, got NoneType"),
    ],
)
@pytest.mark.bad_input
def test_what_cannot_be_drawn_is_refused(call, message):
    with pytest.raises(ArgumentTypeError, match=message):
        call()
    assert not pyplot.get_fignums()


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: history(1.0, 2.0).plot(ax=ax),
        lambda ax: compare(history(1.0, 2.0)).plot(ax=ax),
        lambda ax: Reading(1, {"a": torch.ones(3), "b": torch.ones(3)}, {}).plot(ax=ax),
        lambda ax: partition().plot(ax=ax),
        lambda ax: decision_boundary(partition(), ax=ax),
        lambda ax: kernel(torch.eye(2), ax=ax),
        lambda ax: spectrum(torch.ones(3), ax=ax),
        lambda ax: classes(torch.eye(3), torch.arange(3), ax=ax),
        lambda ax: images(torch.ones(1, 2, 2), ax=ax),
        lambda ax: similar_runs(verdict(STEPS, **readings()), ax=ax),
    ],
)
@pytest.mark.bad_input
def test_what_is_not_one_axes_is_refused(draw):
    for ax in (Figure().subplots(1, 2), Figure()):
        told = rf"\w\(ax\): expected one Axes, got {type(ax).__name__}. Pass one, such as axs\[0\] of fig, axs = plt"
        with pytest.raises(ArgumentTypeError, match=told):
            draw(ax)


@pytest.mark.bad_input
def test_a_figure_that_cannot_be_drawn_is_closed():
    with pytest.raises(ValueError, match="thin"):
        classes(torch.ones(4, 2), torch.tensor([0, 0, 1, 1]), size="thin")
    assert not pyplot.get_fignums()
