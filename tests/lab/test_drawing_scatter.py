"""Scatter plots: what the data says is what both renderers draw."""

import math

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.plot import style
from gnomon_lab.figures import Points, Scatter, ScatterPanel
from gnomon_lab.report.drawing import _scatter_layout, draw, interactive, save
from gnomon_lab.report.drawing._plotly import text

ONE = Points("one", (1.0, 10.0, 100.0), (0.5, 0.2, 4.0), values=(0.0, 0.5, 1.0))
OTHER = Points("other", (2.0, 20.0), (1.0, 2.0), values=(0.25, 0.75), colour=1)
JOINED = Points("other", (1.0, 2.0, 3.0), (-1.0, 1.0, 0.0), joined=True, colour=1)


def scatter(log=True):
    """Coloured points on logarithmic or plain axes, and below them a line through points."""
    above = ScatterPanel("Cloud", "length", "speed", (ONE, OTHER), log_x=log, log_y=log)
    below = ScatterPanel("Line", "scale", "cosine", (JOINED,))
    return Scatter("cloud", "Cloud & line", "What it shows.", (above, below), "warmth")


@pytest.mark.parametrize("log", [True, False])
def test_static_draws_the_data(log):
    above, below, bar = draw(scatter(log)).axes
    for points, drawn in zip((ONE, OTHER), above.collections, strict=True):
        np.testing.assert_array_equal(drawn.get_offsets(), np.transpose([points.x, points.y]))
        np.testing.assert_array_equal(drawn.get_array(), points.values)
        assert drawn.get_clim() == (0.0, 1.0)
    assert {above.get_xscale(), above.get_yscale()} == {"log" if log else "linear"}
    (line,) = below.get_lines()
    assert (tuple(line.get_xdata()), tuple(line.get_ydata())) == (JOINED.x, JOINED.y)
    assert line.get_color() == style.colour(1)
    assert tuple(below.collections[0].get_facecolor()[0]) == to_rgba(style.colour(1))
    assert (bar.get_title("left"), bar.get_xlim()) == ("warmth", (0.0, 1.0))
    assert (below.get_xlabel(), below.get_ylabel(), below.get_xscale()) == ("scale", "cosine", "linear")


@pytest.mark.parametrize("log", [True, False])
def test_interactive_draws_the_data(log):
    drawing = interactive(scatter(log))
    *traces, first, second = drawing.data
    for points, trace in zip((ONE, OTHER, JOINED), traces, strict=True):
        assert (trace.x, trace.y, trace.showlegend) == (points.x, points.y, False)
        assert trace.mode == ("lines+markers" if points.joined else "markers")
        assert trace.marker.color == (points.values or style.colour(1))
        assert trace.marker.coloraxis == ("coloraxis" if points.values else None)
    assert [trace.yaxis for trace in traces] == ["y", "y", "y2"]
    assert [(entry.name, entry.x) for entry in (first, second)] == [("one", (None,)), ("other", (None,))]
    layout = drawing.layout
    assert (layout.coloraxis.cmin, layout.coloraxis.cmax, layout.coloraxis.colorbar.title.text) == (0.0, 1.0, "warmth")
    assert {layout.xaxis.type, layout.yaxis.type} == {"log" if log else "linear"}
    assert layout.xaxis2.type == "linear"


def test_the_bar_stands_below_the_last_panel_with_values_and_needs_no_spread():
    height, (first, second), bar = _scatter_layout.stack(scatter())
    assert first + _scatter_layout.PLOT < bar < second < height
    alike = Points("alike", (1.0,), (1.0,), values=(3.0,))
    one = Scatter("one", "One", "", (ScatterPanel("p", "x", "y", (alike,)),), "warmth")
    assert one.value_span == (3.0, 3.0)
    colours = interactive(one).layout.coloraxis
    assert draw(one).axes[1].get_xlim() == (colours.cmin, colours.cmax) == (2.5, 3.5)


def test_rows_stand_by_their_names_from_the_top_down():
    points = Points("when", (1.0, 10.0, 20.0), (0.0, 1.0, 2.15), joined=True)
    names = ("first $x^2$", "then", "<b>last</b>, a name that is much longer than numbers are")
    rows = Scatter("rows", "Rows", "", (ScatterPanel("p", "step", "", (points,), log_x=True, rows=names),))
    (axes,) = draw(rows).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(names)
    assert list(axes.get_yticks()) == [0, 1, 2]
    assert axes.get_ylim() == (2.5, -0.5)
    drawing = interactive(rows)
    axis = drawing.layout.yaxis
    assert (axis.tickvals, axis.range) == ((0, 1, 2), (2.5, -0.5))
    assert axis.ticktext == ("first $x^2$", "then", text(names[2]))
    assert drawing.data[0].text == axis.ticktext
    assert "%{text}" in drawing.data[0].hovertemplate
    plain = scatter()
    assert drawing.layout.margin.l > interactive(plain).layout.margin.l
    assert axes.get_position().x0 > draw(plain).axes[0].get_position().x0
    (top,) = _scatter_layout.stack(rows)[1]
    assert _scatter_layout.stack(rows)[0] == top + 3 * _scatter_layout.ROW


@pytest.mark.parametrize("log", [True, False])
def test_a_point_lies_on_its_bar_and_the_axis_shows_all_of_it(log):
    points = Points("p", (1.0, 4.0), (0.0, 1.0), colour=1, low=(0.5, 4.0), high=(1.0, 40.0))
    bars = Scatter("bars", "Bars", "", (ScatterPanel("p", "x", "", (points,), log_x=log, rows=("a", "b")),))
    (axes,) = draw(bars).axes
    *drawn, _ = axes.collections
    np.testing.assert_array_equal([bar.get_segments()[0] for bar in drawn], [[[0.5, 0], [1, 0]], [[4, 1], [40, 1]]])
    assert tuple(drawn[0].get_colors()[0]) == to_rgba(style.colour(1))
    low, high = axes.get_xlim()
    assert low < 0.5 < 40 < high
    trace, legend = interactive(bars).data
    np.testing.assert_array_equal(trace.error_x.arrayminus, [0.5, 0])
    np.testing.assert_array_equal(trace.error_x.array, [0, 36])
    np.testing.assert_array_equal(trace.customdata, [[0.5, 1], [4, 40]])
    assert trace.error_x.symmetric is False
    assert legend.error_x.array is None


def test_without_values_there_is_no_bar():
    plain = Scatter("plain", "Plain", "", (ScatterPanel("p", "x", "y", (JOINED,)),))
    assert plain.value_span is None
    assert len(draw(plain).axes) == 1
    assert interactive(plain).layout.coloraxis.cmin is None


def test_hollow_points_are_white_with_an_edge_of_their_colour():
    points = Points("late", (1.0, 2.0), (0.0, 1.0), colour=1, hollow=True)
    one = Scatter("one", "One", "", (ScatterPanel("p", "x", "y", (points,)),))
    drawn = draw(one).axes[0].collections[0]
    assert tuple(drawn.get_facecolor()[0]) == to_rgba("white")
    assert tuple(drawn.get_edgecolor()[0]) == to_rgba(style.colour(1))
    for trace in interactive(one).data:  # the points, and their entry in the legend
        assert (trace.marker.color, trace.marker.line.color) == ("white", style.colour(1))


def test_svg_is_deterministic_and_undated(tmp_path):
    save(scatter(), tmp_path / "one.svg")
    save(scatter(), tmp_path / "two.svg")
    one = (tmp_path / "one.svg").read_bytes()
    assert one == (tmp_path / "two.svg").read_bytes()
    assert b"dc:date" not in one


def test_outside_words_are_shown_not_interpreted(tmp_path):
    hostile = '<a href="https://example.org">$x^2$ & _y</a>'
    points = Points(hostile, (1.0, 2.0), (0.0, 1.0), values=(0.0, 1.0))
    figure = Scatter("x", hostile, hostile, (ScatterPanel(hostile, hostile, hostile, (points,)),), hostile)
    assert "<a" not in interactive(figure).to_json()
    save(figure, tmp_path / "x.svg")
    drawing = draw(figure)
    assert hostile in [words.get_text() for words in drawing.legends[0].get_texts()]
    assert (drawing.axes[0].get_ylabel(), drawing.axes[1].get_title("left")) == (hostile, hostile)


def panel(**options):
    return ScatterPanel("p", "x", "y", (Points("a", (0.0, 1.0), (1.0, -1.0)),), **options)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Points("a", (), ()), EmptyError, r"Points\(x\): expected at least one point, got none in 'a'"),
        (lambda: Points("a", (1.0, 2.0), (1.0,)), ShapeError, r"Points\(y\): expected as many as x has, 2, got 1"),
        (lambda: Points("a", (1.0,), (1.0,), ()), ShapeError, r"Points\(values\): expected as many as x has, 1, got 0"),
        (lambda: Points("a", (1.0,), (math.nan,)), RangeError, r"Points\(y\): expected finite numbers, got nan"),
        (
            lambda: Points("a", (1.0,), (1.0,), (math.inf,)),
            RangeError,
            r"Points\(values\): expected finite numbers, got inf at index 0 of 'a'",
        ),
        (lambda: Points("a", (1.0,), (1.0,), colour=-1), RangeError, r"Points\(colour\): expected .* got -1"),
        (
            lambda: Points("a", (1.0,), (1.0,), low=()),
            ShapeError,
            r"Points\(low\): expected as many as x has, 1, got 0",
        ),
        (
            lambda: Points("a", (1.0, 3.0), (1.0, 1.0), low=(1.0, 1.0), high=(2.0, 2.0)),
            RangeError,
            r"Points\(low, high\): expected bars on which their points are, got 3 on a bar from 1 to 2 in 'a'",
        ),
        (
            lambda: ScatterPanel("p", "x", "y", (Points("a", (1.0,), (1.0,), low=(0.0,)),), log_x=True),
            RangeError,
            r"ScatterPanel\(log_x\): expected x above 0 everywhere, got 0 in 'p'",
        ),
        (
            lambda: ScatterPanel("p", "x", "y", ()),
            EmptyError,
            r"ScatterPanel\(points\): expected at least one .* in 'p'",
        ),
        (lambda: panel(log_x=True), RangeError, r"ScatterPanel\(log_x\): expected x above 0 everywhere, got 0 in 'p'"),
        (lambda: panel(log_y=True), RangeError, r"ScatterPanel\(log_y\): expected y above 0 everywhere, got -1 in 'p'"),
        (
            lambda: panel(rows=("a", "b")),
            RangeError,
            r"ScatterPanel\(rows\): expected .* from -0.5 to 1.5, got -1 to 1",
        ),
        (
            lambda: ScatterPanel("p", "x", "y", (JOINED,), log_y=False, rows=("a",)),
            RangeError,
            r"ScatterPanel\(rows\): expected .* from -0.5 to 0.5, got -1 to 1 in 'p'",
        ),
        (
            lambda: ScatterPanel("p", "x", "y", (Points("a", (1.0,), (1.0,)),), log_y=True, rows=("a", "b")),
            RangeError,
            r"ScatterPanel\(rows\): expected a linear axis .* got a logarithmic one in 'p'",
        ),
        (
            lambda: Scatter("s", "", "", ()),
            EmptyError,
            r"Scatter\(panels\): expected at least one panel, got none in 's'",
        ),
        (
            lambda: Scatter("s", "", "", (ScatterPanel("p", "x", "y", (ONE,)),)),
            EmptyError,
            r"Scatter\(value_label\): expected words for the colour bar, got none in 's'",
        ),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
