"""Figures: what the data says is what both renderers draw."""

import dataclasses
import math

import numpy as np
import pytest

from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.plot import style
from gnomon_lab.figures import Curves, ImageFrame, ImageRow, ImageSlider, Line, Mark, Panel
from gnomon_lab.report.drawing import _layout, draw, interactive, save
from tests.children import printed

STEPS = (0.0, 1.0, 10.0, 100.0)


MARKS = (Mark("memorised, step 10", 10.0), Mark("at the start", 0.0))


def curves(log_x=True, marks=MARKS):
    train = Line("train", STEPS, (0.1, 0.4, 0.9, 1.0), dashed=True)
    test = Line("test", STEPS, (0.1, 0.1, 0.2, 0.95), colour=1)
    norm = Line("train", STEPS, (1.0, 4.0, 9.0, 2.0), dashed=True)
    panels = (Panel("Accuracy", "fraction", (train, test), marks, (0.0, 1.05)), Panel("Norm", "‖J‖", (norm,), marks))
    return Curves("acc", "Accuracy & norm", "What it shows.", "step", panels, log_x)


def slider(n_frames=7, n=3, h=4, w=5, seed=0):
    rng = np.random.default_rng(seed)
    still = ImageRow("inputs", rng.random((n, h, w)))
    frames = [ImageFrame(f"step {k}", (still, ImageRow("net", rng.normal(size=(n, h, w))))) for k in range(n_frames)]
    return ImageSlider("images", "Images", "What it shows.", tuple(frames))


def tiles(mosaic, n, w):
    gap = (mosaic.shape[1] - n * w) // (n - 1)
    return np.stack([mosaic[:, i * (w + gap) : i * (w + gap) + w] for i in range(n)])


def scaled(images):
    return images / np.abs(images).max(axis=(1, 2), keepdims=True)


@pytest.mark.parametrize("log_x", [True, False])
def test_static_draws_the_data(log_x):
    figure = curves(log_x)
    start = 1 if log_x else 0
    for panel, axes in zip(figure.panels, draw(figure).axes, strict=True):
        drawn = axes.get_lines()
        assert axes.get_xscale() == ("log" if log_x else "linear")
        for line, got in zip(panel.lines, drawn, strict=False):
            assert tuple(got.get_xdata()) == line.x[start:]
            assert tuple(got.get_ydata()) == line.y[start:]
            assert got.get_color() == style.colour(line.colour)
            assert (got.get_linestyle() == "--") == line.dashed
        poles = sorted(got.get_xdata()[0] for got in drawn[len(panel.lines) :])
        assert poles == ([10.0] if log_x else [0.0, 10.0])
    assert draw(figure).axes[0].get_ylim() == (0.0, 1.05)


@pytest.mark.parametrize(
    ("ys", "labels"),
    [
        ((14.0, 49.0), ["20", "30", "40", "50"]),
        ((0.4, 4.0), ["0.5", "1", "2"]),
        ((1.0, 1e3), ["1", "10", "100", "1,000"]),
    ],
)
def test_a_short_logarithmic_axis_has_numbers_too(ys, labels):
    panel = Panel("Norm", "‖J‖", (Line("a", (1.0, 2.0), ys),), log_y=True)
    figure = Curves("c", "C", "", "step", (panel,))
    (axes,) = draw(figure).axes
    low, high = axes.get_ylim()
    shown = [
        label.get_text() for label, y in zip(axes.get_yticklabels(), axes.get_yticks(), strict=True) if low < y < high
    ]
    assert shown == labels
    axis = interactive(figure).layout.yaxis
    assert (axis.dtick, axis.tickformat) == ((1, None) if "1,000" in labels else ("D2", "~g"))


def test_a_logarithmic_axis_over_two_decades_has_three_numbers():
    panel = Panel("Norm", "‖J‖", (Line("a", (1.0, 2.0), (0.24, 31.0)),), log_y=True)
    (axes,) = draw(Curves("c", "C", "", "step", (panel,))).axes
    low, high = axes.get_ylim()
    assert [y for y in axes.get_yticks() if low < y < high] == pytest.approx([0.2, 0.5, 1, 2, 5, 10, 20])


def test_panels_are_as_high_as_told():
    usual = curves()
    low = dataclasses.replace(usual, panel_height=96)
    saved = len(usual.panels) * (usual.panel_height - 96)
    assert _layout.stack(usual)[0] - _layout.stack(low)[0] == saved
    assert interactive(usual).layout.height - interactive(low).layout.height == saved
    assert (draw(usual).get_figheight() - draw(low).get_figheight()) * 96 == pytest.approx(saved)
    boxes = [axes.get_position().height * draw(low).get_figheight() * 96 for axes in draw(low).axes]
    assert boxes == pytest.approx([96, 96])
    with pytest.raises(RangeError, match=r"Curves\(panel_height\): expected at least 1 pixel, got 0 in 'acc'"):
        dataclasses.replace(usual, panel_height=0)


@pytest.mark.bad_input
@pytest.mark.parametrize("place", [0.0, -1.0, float("nan"), float("inf")])
def test_zero_is_drawn_above_0(place):
    panels = (Panel("a", "", (Line("a", (1.0,), (1.0,)),)),)
    with pytest.raises(RangeError, match=r"Curves\(zero\): expected a place above 0, got \S+ in 'acc'"):
        Curves("acc", "", "", "step", panels, zero=place)


@pytest.mark.parametrize("log_x", [True, False])
def test_interactive_draws_the_data(log_x):
    figure = curves(log_x)
    drawing = interactive(figure)
    start = 1 if log_x else 0
    lines = [line for panel in figure.panels for line in panel.lines]
    for line, trace in zip(lines, drawing.data, strict=True):
        assert tuple(trace.x) == line.x[start:]
        assert tuple(trace.y) == line.y[start:]
        assert trace.line.color == style.colour(line.colour)
    assert [trace.showlegend for trace in drawing.data] == [True, True, False]
    assert [trace.yaxis for trace in drawing.data] == ["y", "y", "y2"]
    assert {shape.x0 for shape in drawing.layout.shapes} == ({10.0} if log_x else {0.0, 10.0})
    labels = {words.text: words.x for words in drawing.layout.annotations if words.name == "flag"}
    assert labels == ({"memorised, step 10": 1.0} if log_x else {"memorised, step 10": 10.0, "at the start": 0.0})
    assert drawing.layout.xaxis2.matches == "x"


def test_lines_whose_colours_come_again_have_other_dashes():
    looks = [(colour, dashed) for colour in range(2 * len(style.PALETTE)) for dashed in (False, True)]
    lines = tuple(Line(f"{look}", (1.0, 2.0), (0.0, 1.0), look[1], look[0]) for look in looks)
    figure = Curves("many", "Many", "", "step", (Panel("p", "y", lines),))
    assert len({(trace.line.color, trace.line.dash) for trace in interactive(figure).data}) == len(lines)
    drawn = draw(figure).axes[0].get_lines()
    assert len({(line.get_color(), str(line._unscaled_dash_pattern)) for line in drawn}) == len(lines)


@pytest.mark.parametrize(
    ("ys", "numbers"),
    [
        ((0.9999, 0.99998), ["0.9999", "0.99992", "0.99994", "0.99996", "0.99998"]),
        ((0.0, -1.2e-6), ["-1.2e-06", "-9e-07", "-6e-07", "-3e-07", "0"]),
        ((0.0, 2e7), ["0", "5e+06", "1e+07", "1.5e+07", "2e+07"]),
    ],
)
def test_numbers_at_a_linear_y_axis_are_whole_and_have_room(ys, numbers):
    """matplotlib would put a factor above the axis, plotly a prefix such as µ."""
    usual = Curves("c", "C", "", "step", (Panel("p", "y", (Line("a", (1.0, 2.0), (0.0, 1.0)),)),))
    figure = dataclasses.replace(usual, panels=(Panel("p", "y", (Line("a", (1.0, 2.0), ys),)),))
    drawing = draw(figure)
    (axes,) = drawing.axes
    drawing.canvas.draw()
    low, high = axes.get_ylim()
    shown = [label for label in axes.get_yticklabels() if low <= label.get_position()[1] <= high]
    assert [label.get_text() for label in shown] == numbers
    assert axes.yaxis.get_offset_text().get_text() == ""
    words = axes.yaxis.label.get_window_extent()
    assert words.x0 >= 0
    assert all(words.x1 < label.get_window_extent().x0 for label in shown)
    assert interactive(figure).layout.yaxis.exponentformat == "e"
    assert interactive(figure).layout.margin.l > interactive(usual).layout.margin.l


def test_the_legend_names_a_line_where_it_has_points():
    hidden, shown = Line("a", (0.0,), (1.0,)), Line("a", STEPS, (0.0, 1.0, 2.0, 3.0))
    panels = (Panel("p", "y", (hidden, Line("b", STEPS, (0.0, 1.0, 2.0, 3.0), colour=1))), Panel("q", "y", (shown,)))
    figure = Curves("c", "C", "", "step", (*panels, Panel("r", "y", (Line("only at 0", (0.0,), (1.0,)),))))
    named = [(trace.name, trace.x) for trace in interactive(figure).data if trace.showlegend]
    assert named == [("b", STEPS[1:]), ("a", STEPS[1:])]
    assert [words.get_text() for words in draw(figure).legends[0].get_texts()] == ["b", "a"]


def test_a_logarithmic_y_axis_shows_the_data_as_they_are():
    line = Line("collapse", STEPS, (1.0, 1e-3, 1e-6, 1e-9))
    panels = (Panel("NC1", "ratio", (line,), log_y=True), Panel("NC2", "norm", (line,), (), (1e-12, 10.0), log_y=True))
    figure = Curves("collapse", "Collapse", "", "layer", panels, log_x=False)
    for axes in draw(figure).axes:
        assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")
        assert tuple(axes.get_lines()[0].get_ydata()) == line.y
    assert axes.get_ylim() == (1e-12, 10.0)
    drawing = interactive(figure)
    assert (drawing.layout.yaxis.type, drawing.layout.yaxis.range) == ("log", None)
    assert drawing.layout.yaxis2.range == (-12.0, 1.0)
    assert tuple(drawing.data[1].y) == line.y


def test_a_shared_mark_is_labelled_once_and_each_label_has_its_own_row():
    marks = (Mark("c", 12.0), Mark("a", 10.0), Mark("b", 11.0))
    first, second = _layout.flags(curves(marks=marks))
    assert [(flag.mark.label, flag.level) for flag in first] == [("a", 2), ("b", 1), ("c", 0)]
    assert [flag.level for flag in second] == [-1, -1, -1]


def test_a_label_without_room_is_moved_back_into_the_figure():
    figure = curves(marks=(Mark("far to the right", 100.0),))
    inner = 300
    back = _layout.overhang(figure, figure.panels[0].marks[0], inner, inner)
    low, high = _layout.x_span(figure)
    left = math.log(100 / low) / math.log(high / low) * inner + 4 - back
    assert left + _layout.LABEL_CHARACTER * len("far to the right") <= inner + 1
    assert _layout.overhang(figure, Mark("left", 1.0), inner, inner) == 0


def test_static_images_are_the_data_scaled_one_by_one():
    figure = slider()
    arrays = [axes.get_images()[0].get_array() for axes in draw(figure).axes]
    assert len(arrays) == 1 + 5  # the row that never changes once, then five moments of the other
    shown = [figure.frames[0].rows[0], *(figure.frames[k].rows[1] for k in (0, 2, 3, 4, 6))]
    for array, row in zip(arrays, shown, strict=True):
        np.testing.assert_allclose(tiles(array, 3, 5), scaled(row.images), rtol=1e-12)


def test_interactive_images_are_the_data_to_a_thousandth():
    figure = slider()
    drawing = interactive(figure)
    for trace, row in zip(drawing.data, figure.frames[-1].rows, strict=True):  # it opens at the end
        np.testing.assert_allclose(tiles(np.array(trace.z, float), 3, 5), scaled(row.images), atol=5.01e-4)
    assert len(drawing.frames) == 7
    for moment, frame in zip(drawing.frames, figure.frames, strict=True):
        assert moment.traces == (1,)  # the row that never changes is not sent again
        np.testing.assert_allclose(
            tiles(np.array(moment.data[0].z, float), 3, 5), scaled(frame.rows[1].images), atol=5.01e-4
        )
    assert [step.label for step in drawing.layout.sliders[0].steps] == [frame.label for frame in figure.frames]
    assert [step.args[0] for step in drawing.layout.sliders[0].steps] == [(moment.name,) for moment in drawing.frames]
    assert drawing.layout.sliders[0].active == 6


def test_one_frame_needs_no_slider():
    drawing = interactive(slider(n_frames=1))
    assert not drawing.layout.sliders
    assert len(draw(slider(n_frames=1)).axes) == 2


def test_a_black_image_stays_black():
    row = ImageRow("nothing", np.zeros((1, 2, 2)))
    figure = ImageSlider("zeros", "Zeros", "", (ImageFrame("step 0", (row,)),), diverging=False)
    assert (np.array(interactive(figure).data[0].z) == 0).all()


@pytest.mark.parametrize("figure", [curves(), curves(log_x=False), slider()], ids=["log", "linear", "images"])
def test_svg_is_deterministic_and_undated(figure, tmp_path):
    save(figure, tmp_path / "one.svg")
    save(figure, tmp_path / "two.svg")
    one = (tmp_path / "one.svg").read_bytes()
    assert one == (tmp_path / "two.svg").read_bytes()
    assert b"dc:date" not in one


def test_svg_is_the_same_in_another_process(tmp_path):
    save(slider(), tmp_path / "here.svg")
    printed(
        "import sys; from tests.lab import test_drawing as t; t.save(t.slider(), sys.argv[1]); "
        "from matplotlib import pyplot; assert not pyplot.get_fignums()",
        tmp_path / "there.svg",
    )
    assert (tmp_path / "here.svg").read_bytes() == (tmp_path / "there.svg").read_bytes()


def test_outside_words_are_shown_not_interpreted(tmp_path):
    hostile = '<a href="https://example.org">$x^2$ & _y</a>'
    line = Line(hostile, (1.0, 2.0), (0.0, 1.0))
    figure = Curves("x", hostile, hostile, hostile, (Panel(hostile, hostile, (line,), (Mark(hostile, 1.5),)),))
    assert "<a" not in interactive(figure).to_json()
    save(figure, tmp_path / "x.svg")
    assert hostile in [text.get_text() for text in draw(figure).legends[0].get_texts()]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Line("a", (1.0, 2.0), (1.0,)), ShapeError, r"Line\(y\): expected as many as x has, 2, got 1"),
        (lambda: Line("a", (), ()), EmptyError, r"Line\(x\): expected at least one point, got none in 'a'"),
        (lambda: Line("a", (1.0,), (math.nan,)), RangeError, r"Line\(y\): expected finite numbers, got nan at index 0"),
        (lambda: Line("a", (math.inf,), (1.0,)), RangeError, r"Line\(x\): expected finite numbers, got inf at index 0"),
        (lambda: Line("a", (1.0,), (1.0,), colour=-1), RangeError, r"Line\(colour\): expected .* got -1"),
        (lambda: Mark("a", math.nan), RangeError, r"Mark\(x\): expected finite numbers, got nan"),
        (lambda: Panel("p", "y", ()), EmptyError, r"Panel\(lines\): expected at least one line, got none in 'p'"),
        (
            lambda: Panel("p", "y", (Line("a", (1.0,), (1.0,)),), y_range=(1.0, 0.0)),
            RangeError,
            r"Panel\(y_range\): expected \(lower, upper\), got \(1.0, 0.0\)",
        ),
        (
            lambda: Panel("p", "y", (Line("a", (1.0, 2.0), (1.0, 0.0)),), log_y=True),
            RangeError,
            r"Panel\(log_y\): expected y above 0 everywhere, got 0 in 'p'. Set log_y=False",
        ),
        (
            lambda: Panel("p", "y", (Line("a", (1.0,), (1.0,)),), y_range=(-1.0, 1.0), log_y=True),
            RangeError,
            r"Panel\(log_y\): expected y above 0 everywhere, got -1 in 'p'",
        ),
        (lambda: Curves("c", "", "", "", ()), EmptyError, r"Curves\(panels\): expected at least one panel, got none"),
        (
            lambda: Curves("c", "", "", "", (Panel("p", "y", (Line("a", (0.0,), (1.0,)),)),)),
            EmptyError,
            r"Curves\(panels\): expected a point at x > 0 for a logarithmic axis, got none in 'c'. Set log_x=False",
        ),
        (lambda: ImageRow("r", np.ones((2, 2))), ShapeError, r"ImageRow\(images\): expected shape \(n, h, w\), got"),
        (lambda: ImageRow("r", np.ones((0, 2, 2))), EmptyError, r"ImageRow\(images\): expected at least one pixel"),
        (
            lambda: ImageRow("r", np.array([[[1.0, math.nan]]])),
            RangeError,
            r"ImageRow\(images\): expected finite pixels, got nan at \(0, 0, 1\) of 'r'",
        ),
        (lambda: ImageFrame("f", ()), EmptyError, r"ImageFrame\(rows\): expected at least one row, got none in 'f'"),
        (lambda: ImageSlider("s", "", "", ()), EmptyError, r"ImageSlider\(frames\): expected at least one frame"),
        (
            lambda: ImageSlider("s", "", "", (_frame("a", 2), _frame("b", 2))),
            ShapeError,
            r"ImageSlider\(frames\): expected the rows \['a'\] in every frame, got \['b'\] at 'step'",
        ),
        (
            lambda: ImageSlider("s", "", "", (_frame("a", 2), _frame("a", 3))),
            ShapeError,
            r"ImageSlider\(frames\): expected images of shape \(2, 2, 2\) in every row, got \(3, 2, 2\)",
        ),
        (
            lambda: ImageSlider("s", "", "", (_frame("a", 2, -1.0),), diverging=False),
            RangeError,
            r"ImageSlider\(diverging\): expected no negative pixel, got -1 for 'a'",
        ),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()


def _frame(label, n, value=1.0):
    return ImageFrame("step", (ImageRow(label, np.full((n, 2, 2), value)),))
