"""Ticks of gnomon.plot: enough of them, told apart, and as numbers are written."""

import math
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure

from gnomon import History, Reading, compare, plot
from gnomon.plot.scales import Plain


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def filled(values, steps=None, name="jacobian_norm"):
    history = History()
    for step, value in zip(steps or range(1, len(values) + 1), values, strict=True):
        history.append(Reading(step, {name: torch.tensor(value, dtype=torch.float64)}, {}))
    return history


def ticks(axis):
    """What is written along an axis, by place, as far as the axis goes."""
    axis.axes.figure.canvas.draw()
    low, high = sorted(axis.get_view_interval())
    words = [label.get_text() for label in axis.get_ticklabels()]
    return {place: word for place, word in zip(axis.get_ticklocs(), words, strict=True) if low <= place <= high}


@pytest.mark.parametrize("value", [1e-7, 0.3, 1.0, 7.0, 5e6])
@pytest.mark.parametrize("count", [1, 3])
def test_equal_values_lie_between_ticks_of_a_logarithmic_axis(value, count):
    of_history = filled([value] * count).plot()[1].yaxis
    of_spectrum = plot.spectrum(torch.full((count,), value))[1].yaxis
    for axis in (of_history, of_spectrum):
        found = [*ticks(axis)]
        assert len(found) >= 3
        assert min(found) <= 1.000001 * value
        assert max(found) >= 0.999999 * value
    low, high = of_history.get_view_interval()
    np.testing.assert_allclose(low * high, value**2)  # in the middle
    assert 4 <= high / low <= 5


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.36, 1.79, ["0.5", "1", "1.5"]),
        (4.15, 12.6, ["5", "7.5", "10", "12.5"]),
        (0.0011, 0.0027, ["0.0015", "0.002", "0.0025"]),
        (6.0, 90.0, ["10", "20", "50", "100"]),
        (1.2, 88.0, ["1", "2", "5", "10", "20", "50", "100"]),
        (1.3, 700.0, ["1", "10", "100"]),
    ],
)
def test_a_logarithmic_axis_has_three_ticks_by_which_it_can_be_told(low, high, words):
    """With two of them, as at 0.5 and 1, it looked like a linear one."""
    for _, axes in (filled([low, high]).plot(), plot.spectrum(torch.tensor([high, low], dtype=torch.float64))):
        assert [*ticks(axes.yaxis).values()] == words


def test_a_logarithmic_axis_of_any_length_has_three_ticks():
    axes = Figure().add_subplot()
    for start, length in product(np.geomspace(1, 8, 3), np.geomspace(1.05, 2e4, 15)):
        axes.clear()
        axes.plot([start, start * length])
        plot.scales.values(axes, 5, log=True)
        low, high = axes.get_ylim()
        assert 3 <= sum(low <= place <= high for place in axes.yaxis.get_majorticklocs()) <= 9


@pytest.mark.parametrize(("step", "words"), [(0, ["0"]), (1, ["1"]), (100, ["95", "100", "105"])])
def test_steps_and_places_are_whole(step, words):
    assert [*ticks(filled([1.0], [step]).plot()[1].xaxis).values()] == words
    if step:
        found = ticks(filled([1.0, 2.0], [step, step + 1]).plot()[1].xaxis)
        assert [*found] == [step, step + 1]
    assert [*ticks(plot.spectrum(torch.tensor([2.0]))[1].xaxis).values()] == ["1"]


def test_a_band_from_zero_ends_where_the_axis_does_and_leaves_the_ticks():
    """It ended at the line: where the upper quartile is below the mean there was none, and room for it."""
    samples = torch.tensor([[0.0, 0.0, step, 2 * step] for step in (9.0, 5.0, 3.0)])
    rare = torch.tensor([[0.0, 0.0, 0.0, step, 40 * step] for step in (9.0, 5.0, 3.0)])
    for values in (samples, rare):
        means, high = values.mean(1), values.quantile(0.75, 1)
        low, most = min(means.min(), high.min()), max(means.max(), high.max())
        end = low / (most / low) ** 0.05  # with the margin of what is above 0
        for _, axes in (
            filled(values.tolist(), (3, 5, 9)).plot(),
            plot.spectrum(values.T, ax=Figure().add_subplot()),
            plot.quantities({"values": values.T}),
        ):
            corners = axes.collections[0].get_paths()[0].vertices
            assert axes.get_ylim()[0] == corners[:, 1].min() == pytest.approx(end)
            assert corners[:, 1].max() == pytest.approx(high.max())
            assert values is rare or [*ticks(axes.yaxis)] == [2.5, 5, 7.5, 10]
            axes.autoscale_view()
            assert axes.get_ylim()[0] == corners[:, 1].min()


def test_where_all_samples_are_zero_the_band_has_a_gap():
    values = [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]
    _, axes = filled(values).plot()
    assert axes.dataLim.y0 > 0
    assert [*ticks(axes.yaxis)] == [1.5, 2, 2.5, 3, 3.5]


def test_ticks_have_as_many_digits_as_tell_them_apart():
    _, axes = filled([1.0000001, 1.0000002, 1.0000003, 1.0000004], name="accuracy").plot()
    assert [*ticks(axes.yaxis).values()] == ["1.0000001", "1.0000002", "1.0000003", "1.0000004"]
    _, axes = filled([1.0, 2.0, 3.0, 4.0], [12_345_000, 12_345_100, 12_345_200, 12_345_300]).plot()
    assert [*ticks(axes.xaxis).values()] == ["12,345,000", "12,345,100", "12,345,200", "12,345,300"]
    _, axes = filled([1.0, 2.0], [9_000_000, 17_000_000]).plot()
    assert [*ticks(axes.xaxis).values()] == ["10,000,000", "12,000,000", "14,000,000", "16,000,000"]


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([0.0, 5e6, 1e7], ["0", "5,000,000", "10,000,000"]),
        ([0.1, 0.2, 0.1 + 0.2], ["0.1", "0.2", "0.3"]),
        ([-0.0, 12345.25, 12345.5], ["0", "12,345.25", "12,345.5"]),
        ([1e-12, 1e-6, 1.0, 1e12], ["1e-12", "1e-06", "1", "1e+12"]),
        ([0.3], ["0.3"]),
    ],
)
def test_numbers_are_as_they_are_written(places, words):
    assert Plain().format_ticks(places) == words


def test_powers_of_ten_have_room_on_a_logarithmic_axis():
    _, axes = filled([1.0, 10.0, 1e9]).plot()
    assert [*ticks(axes.yaxis).values()][-1] in ("1e+07", "1e+08", "1e+09")
    assert Plain(1e6).format_ticks([1e5, 1e6, 1e7]) == ["100,000", "1e+06", "1e+07"]
    assert [Plain()(value) for value in (0.5, math.inf, math.nan)] == ["0.5", "inf", "nan"]  # under the mouse


def gaps(axes):
    """Between the labels along the horizontal axis, in font sizes, as it is drawn."""
    words = [*ticks(axes.xaxis).values()]
    boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text() in words]
    assert len(boxes) == len(words) >= 2
    size = axes.get_xticklabels()[0].get_fontsize() / 72 * axes.figure.dpi
    return [(right.x0 - left.x1) / size for left, right in pairwise(boxes)]


@pytest.mark.parametrize("size", [None, (3.3, 2.1)])
@pytest.mark.parametrize(
    "steps",
    [
        range(0, 1_000_001, 50_000),
        range(100, 2001, 100),
        [0, *(10**power for power in range(9))],
        [0, 1, 10, 100, 1000],
        [1000, 10_000, 100_000],
        [30, 50, 3000],
    ],
)
def test_labels_of_steps_do_not_run_into_each_other(steps, size):
    history = History()
    for step in steps:
        history.append(Reading(step, {name: torch.tensor(1.0 + step) for name in "abc"}, {}))
    names = "ab" if size else "abc"
    for axes in compare(x=history, y=history).plot(*names, size=size)[1]:
        assert min(gaps(axes)) > 0.6


def test_where_one_label_of_even_steps_has_room_two_that_stand_further_apart_are_taken():
    history = History()
    for step in range(100, 2001, 100):
        history.append(Reading(step, {name: torch.tensor(1.0 + step) for name in "ab"}, {}))
    for axes in compare(x=history, y=history).plot("a", "b", size=(3.0, 2.1))[1]:
        assert [*ticks(axes.xaxis)] == [500, 2000]
        assert min(gaps(axes)) > 0.6


@pytest.mark.parametrize("values", [[999.998, 1000.0, 1000.002], [-2e5, -6e5, -3e5], [1e3, 2e5], [1e5, 9e5]])
@pytest.mark.parametrize("size", [None, (3.3, 2.1)])
@pytest.mark.parametrize("log", [False, True])
def test_labels_of_values_do_not_run_into_each_other(values, size, log):
    held = {"a/q": torch.tensor(values * 5, dtype=torch.float64), "w": torch.tensor(values[0])}
    for axes in plot.quantities(held, size=size, logarithmic=[*held] if log else ())[1]:
        assert min(gaps(axes)) > 0.6


def test_as_many_labels_are_drawn_as_there_is_room_for_then():
    figure, axes = filled([1.0, 2.0], [0, 1_000_000]).plot()
    wide = ticks(axes.xaxis)
    figure.set_size_inches(1.8, 2)
    assert 2 <= len(ticks(axes.xaxis)) < len(wide)
    assert min(gaps(axes)) > 0.6
    axes.xaxis.set_tick_params(labelsize=3)
    assert len(ticks(axes.xaxis)) == len(wide)
