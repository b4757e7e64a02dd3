"""gnomon.plot: what is drawn is what was measured, into the axes that are given."""

import io
import math
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from torch import nn

from gnomon import History, compare
from gnomon.models import mlp
from gnomon.plot import (
    classes,
    decision_boundary,
    images,
    mosaic,
    regions,
    scales,
    spectrum,
)
from gnomon.plot._classes import in_plane
from gnomon.probe import Reading
from gnomon.regions import Plane, slice_regions


@pytest.fixture(autouse=True)
def closed():
    pyplot.close("all")
    yield
    pyplot.close("all")


def history(*values, name="q"):
    """Readings at steps 1, 2, 3, ..."""
    found = History()
    for step, value in enumerate(values, 1):
        found.append(Reading(step, {name: torch.tensor(value).double()}, {}))
    return found


def ax():
    return Figure().add_subplot()


def lines_of(axes):
    return {line.get_label(): np.array(line.get_data()) for line in axes.get_lines() if line.get_label() != "_"}


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def partition():
    model = mlp((2, 6, 3), bias=True, generator=torch.Generator().manual_seed(0)).double()
    plane = Plane(torch.zeros(2).double(), torch.eye(2).double())
    return slice_regions(model, plane, (-2.0, 3.0, -1.0, 2.0))


def test_the_band_holds_the_middle_half_of_the_samples():
    samples = torch.arange(9.0).tolist()
    _, axes = history(samples, samples).plot("q", ax=ax())
    close(axes.collections[0].get_paths()[0].get_extents().intervaly, [2, 6])
    right_or_wrong = history([0.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0])
    one_missing = history([0.0, 1.0], float("nan"), [1.0, 1.0])
    for own in (right_or_wrong, one_missing):
        _, axes = own.plot("q", ax=ax())
        assert len(axes.collections) == 0
    _, axes = compare(**{f"run {place}": history(samples, samples) for place in range(6)}).plot("q", ax=ax())
    assert len(axes.collections) == 6
    _, axes = compare(**{f"run {place}": history(samples, samples) for place in range(7)}).plot("q", ax=ax())
    assert len(axes.collections) == 0, "seven would hide the lines"


def test_a_point_without_neighbours_is_a_dot():
    nan = math.nan
    _, axes = history(1.0, nan, 3.0, nan, 5.0, 6.0).plot("q", ax=ax())
    (line,) = axes.get_lines()
    assert (line.get_marker(), list(line.get_markevery())) == ("o", [0, 2])
    _, axes = history(1.0, 3.0).plot("q", ax=ax())
    assert axes.get_lines()[0].get_marker() in ("", "None")
    _, axes = spectrum(torch.tensor([3.0, -1.0, 2.0, 1.0]), ax=ax())
    assert list(axes.get_lines()[0].get_markevery()) == [0]


def test_a_spectrum_is_drawn_from_the_first_place_on():
    rows = torch.tensor([[4.0, 2.0, 1.0], [8.0, 4.0, 0.5]])
    _, axes = spectrum({"samples": rows, "one": rows[0]}, ax=ax())
    close(lines_of(axes)["samples"], [[1, 2, 3], [6, 3, 0.75]])
    close(lines_of(axes)["one"], [[1, 2, 3], [4, 2, 1]])
    assert axes.get_yscale() == "log"
    _, axes = spectrum(torch.tensor([2.0, 1.0, 0.0, -1.0]), ax=ax())
    close(lines_of(axes).popitem()[1][1], [2, 1, np.nan, np.nan])
    (mark,) = (line for line in axes.get_lines() if line.get_label() == "_")
    close(mark.get_xdata(), [3, 4])  # at the lower end of the axis
    _, axes = spectrum(torch.tensor([2.0, 1.0, 0.0]), ax=ax(), log_y=False)
    close(lines_of(axes).popitem()[1][1], [2, 1, 0])


def test_regions_are_the_polygons_in_the_colours_of_their_values():
    found = partition()
    figure, axes = regions(found, found.areas, ax=ax(), label="area", log_values=True)
    (drawn,) = (part for part in axes.collections if isinstance(part, PolyCollection))
    assert len(drawn.get_paths()) == len(found)
    area = sum(abs(polygon_area(path.vertices)) for path in drawn.get_paths())
    assert area == pytest.approx(15)
    shades = drawn.get_facecolor()
    order = found.areas.argsort()
    assert np.allclose(shades[order[0]], (0x44 / 255, 0x01 / 255, 0x54 / 255, 1), atol=0.01)
    assert np.allclose(shades[order[-1]], (0xFD / 255, 0xE7 / 255, 0x25 / 255, 1), atol=0.01)
    assert (axes.get_xlim(), axes.get_ylim()) == ((-2, 3), (-1, 2))
    assert figure.axes[1].get_ylabel() == "area"
    _, axes = regions(found, ax=ax())
    assert len(axes.figure.axes) == 1


def test_a_logarithmic_bar_has_three_numbers():
    found = partition()
    values = torch.linspace(0.8, 2.4, len(found), dtype=torch.float64)
    figure, _ = regions(found, 10**values, ax=ax(), log_values=True)
    figure.canvas.draw()
    shown = [tick for tick in figure.axes[1].get_yticks() if 10**0.8 <= tick <= 10**2.4]
    assert shown == pytest.approx([10, 20, 50, 100, 200])


@pytest.mark.parametrize("log_values", [False, True])
def test_equal_values_have_the_colour_that_the_bar_shows_for_them(log_values):
    found = partition()
    for value in (2.0, 1e6) if log_values else (2.0, -1e6, 0.0):
        values = torch.full_like(found.areas, value)
        values[0] *= 1 + 1e-15  # equal up to rounding
        figure, axes = regions(found, values, ax=ax(), log_values=log_values)
        (drawn,) = (part for part in axes.collections if isinstance(part, PolyCollection))
        figure.canvas.draw()
        low, high = figure.axes[1].get_ylim()
        assert low < value < high
        bar = figure.axes[1]._colorbar
        np.testing.assert_allclose(drawn.get_facecolor()[0], bar.cmap(bar.norm(value)), atol=0.01)
        assert np.allclose(drawn.get_facecolor()[0], (0x21 / 255, 0x91 / 255, 0x8C / 255, 1), atol=0.01)  # its middle


def polygon_area(corners):
    x, y = corners[:-1].T if (corners[0] == corners[-1]).all() else corners.T
    return 0.5 * (x * np.roll(y, -1) - y * np.roll(x, -1)).sum()


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_decision_boundary_parts_the_classes_that_the_network_predicts(outputs):
    found = partition()
    if outputs == 1:
        torch.manual_seed(0)
        model = nn.Sequential(*found.model[:-1], nn.Linear(6, 1)).double()
        found = slice_regions(model, found.plane, (-2.0, 3.0, -1.0, 2.0))
    _, axes = decision_boundary(found, ax=ax(), pixels=40)
    (image,) = (part for part in axes.get_children() if isinstance(part, AxesImage))
    shown = image.get_array().data
    u, v = np.meshgrid(-2 + 5 * (np.arange(40) + 0.5) / 40, -1 + 3 * (np.arange(40) + 0.5) / 40)
    with torch.no_grad():
        logits = found.model(torch.tensor(np.stack([u, v], -1).reshape(-1, 2)))
    predicted = (logits[:, 0] > 0) if outputs == 1 else logits.argmax(1)
    np.testing.assert_array_equal(shown.reshape(-1), predicted.numpy())
    (line,) = axes.get_lines()
    corners = line.get_xydata()[np.isfinite(line.get_xydata()).all(1)]
    assert (len(corners) > 0) == (predicted.unique().numel() > 1)
    with torch.no_grad():
        outputs = found.model(torch.tensor(corners))
    first = outputs.sort(1, descending=True).values if outputs.shape[1] > 1 else torch.cat([outputs, 0 * outputs], 1)
    torch.testing.assert_close(first[:, 0], first[:, 1], rtol=0, atol=1e-9)


def test_around_a_triangle_there_are_no_classes():
    whole = partition()
    triangle = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]).double()
    _, axes = decision_boundary(slice_regions(whole.model, whole.plane, triangle), ax=ax(), pixels=40)
    (image,) = axes.get_images()
    u, v = np.meshgrid((np.arange(40) + 0.5) / 20, (np.arange(40) + 0.5) / 20)
    with torch.no_grad():
        predicted = whole.model(torch.tensor(np.stack([u, v], -1))).argmax(-1).numpy()
    outside, shown = u + v > 2 + 1e-9, image.get_array()
    assert outside.any()
    np.testing.assert_array_equal(shown.mask, outside)
    np.testing.assert_array_equal(shown[~outside], predicted[~outside])
    assert image.cmap(shown)[outside][:, 3].max() == 0


def test_classes_of_the_plane_are_drawn_where_they_are_and_others_where_their_means_differ_most():
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    flat = torch.tensor([[0.0, 1], [1, 0], [5, 5], [6, 6], [9, 0], [9, 1]])
    _, axes = classes(flat, labels, ax=ax())
    drawn = [line.get_data() for line in axes.get_lines()]
    close(np.array(drawn[0]), flat[:2].T)
    close(np.ravel(drawn[1]), flat[:2].mean(0))
    turn = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(0)))[0]
    noise = torch.tensor([[1.0], [-1]]).repeat(3, 1) * torch.tensor([0.0, 40])
    _, axes = classes(torch.cat([flat, noise], 1) @ turn, labels, ax=ax())
    means = np.stack([np.ravel(line.get_data()) for line in axes.get_lines()[1::2]])
    spread = flat.reshape(3, 2, 2).mean(1).numpy()
    np.testing.assert_allclose(distances(means), distances(spread), rtol=1e-5)  # turned in the plane, and no more


def test_classes_and_regions_have_a_key():
    def texts(axes):
        return [text.get_text() for text in axes.get_legend().get_texts()]

    labels = torch.arange(50) % 25
    features = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    for count, title in ((12, ""), (25, "20 of 25")):
        _, axes = classes(features[labels < count], labels[labels < count])
        assert texts(axes) == [str(kind) for kind in range(min(count, 20))]
        assert axes.get_legend().get_title().get_text() == title
        assert len({(line.get_color(), line.get_marker()) for line in axes.get_lines()[::2]}) == count
    _, axes = decision_boundary(partition(), pixels=40)
    (image,) = axes.get_images()
    there = np.unique(image.get_array())
    assert texts(axes) == [f"{kind:.0f}" for kind in there]
    colours = [patch.get_facecolor() for patch in axes.get_legend().get_patches()]
    close(colours, image.cmap(image.norm(there)))


def distances(points):
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


def test_features_of_many_dimensions_take_memory_for_their_means_alone():
    features = np.random.default_rng(0).normal(size=(6, 2000))
    for kinds in (3, 2, 1):
        tracemalloc.start()
        points, means = in_plane(features, np.arange(6) % kinds, kinds)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (points.shape, means.shape) == ((6, 2), (kinds, 2))
        assert peak < 2e6  # a square of the dimensions takes 32 MB


def test_slender_images_can_be_seen():
    for shape in ((3, 1, 784), (3, 784, 1)):
        figure, axes = images(torch.randn(shape, generator=torch.Generator().manual_seed(0)))
        figure.savefig(io.BytesIO())
        width, height = axes.bbox.width / figure.dpi, axes.bbox.height / figure.dpi
        assert 0.05 < height < 8
        assert 1 < width < 4
    assert images(torch.ones(1, 8, 8), ax=ax())[1].get_aspect() == 1


def test_images_are_scaled_one_by_one_and_apart():
    pixels = torch.tensor([[[0.0, 2.0], [4.0, 1.0]], [[0.0, -1.0], [0.5, 1.0]]])
    _, axes = images(pixels, ax=ax())
    (image,) = axes.get_images()
    shown = image.get_array()
    close(shown[:, :2].filled(np.nan), pixels[0] / 4)
    close(shown[:, 3:].filled(np.nan), pixels[1])
    assert image.get_clim() == (-1, 1)
    assert np.isnan(mosaic(pixels.numpy())[:, 2]).all()
    _, axes = images(pixels[:1], ax=ax())
    assert axes.get_images()[0].get_clim() == (0, 1)


@pytest.mark.unchecked
def test_a_new_figure_can_be_shown_and_leaves_the_settings_as_they_are():
    code = (
        "import matplotlib; matplotlib.use('Agg'); before = dict(matplotlib.rcParams); import torch, gnomon.plot; "
        "figure, axes = gnomon.plot.spectrum(torch.ones(3)); from matplotlib import pyplot; "
        "assert pyplot.gcf() is figure; figure.canvas.draw(); assert dict(matplotlib.rcParams) == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(
    ("ends", "labels"),
    [
        ((1.0, 1000.0), ["1", "10", "100", "1,000"]),
        ((0.4, 4.0), ["0.5", "1", "2"]),
        ((1.1, 2.1), ["1.5", "2"]),
        ((13.0, 403.0), ["20", "50", "100", "200"]),
        ((8.0, 403.0), ["10", "100"]),
    ],
)
def test_logarithmic_axes_have_plain_numbers_enough(ends, labels):
    axes = ax()
    axes.plot([1, 2], ends)
    scales.logarithmic(axes, "y", *ends)
    low, high = axes.get_ylim()
    ticks = zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
    assert [label.get_text() for place, label in ticks if low < place < high] == labels
