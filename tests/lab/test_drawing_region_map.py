"""Region maps: what the data says is what both renderers draw."""

import itertools
import math

import numpy as np
import pytest
from matplotlib.colors import to_hex

from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.plot import style
from gnomon_lab.figures import Points, Polylines, RegionFrame, RegionMap
from gnomon_lab.report.drawing import _region_layout, draw, interactive, save

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
CORNER = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 1.0]])
REST = np.array([[2.0, 0.0], [2.0, 1.0], [1.0, 1.0]])
EDGE = Polylines("edge", (np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[2.0, 0.0], [1.0, 1.0]])), colour=1)
POINTS = Points("points", (0.5, 1.5), (0.5, 0.2), colour=2)


def frame(label="early", values=(1.0, 100.0, 1.0), marks=True):
    drawn = ((EDGE,), (POINTS,)) if marks else ((), ())
    return RegionFrame(label, (SQUARE, CORNER, REST), np.array(values), *drawn)


def region_map(frames=None, **options):
    frames = frames or (frame(), frame("late", (100.0, 10.0, 1.0), marks=False))
    return RegionMap("map", "Map & legend", "What it shows.", "east", "north", "height", frames, **options)


def closed(*polygons):
    """The corners that one path goes through, None behind each polygon."""
    return tuple(x for polygon in polygons for x in (*polygon[:, 0], polygon[0, 0], None))


@pytest.mark.parametrize("log", [True, False])
def test_interactive_draws_a_path_for_each_colour(log):
    figure = region_map(log_values=log)
    drawing = interactive(figure)
    levels = _region_layout.LEVELS
    paths = drawing.data[:levels]
    assert {trace.fill for trace in paths} == {"toself"}
    assert len({trace.fillcolor for trace in paths}) == levels
    assert (paths[0].x, paths[-1].x) == (closed(SQUARE, REST), closed(CORNER))
    early, late = drawing.frames
    assert early.data[0].x == paths[0].x
    assert late.data[levels - 1].x == closed(SQUARE)
    assert late.data[levels // 2 if log else int(9 / 99 * levels)].x == closed(CORNER)
    assert [step.label for step in drawing.layout.sliders[0].steps] == ["early", "late"]


def test_lines_and_points_come_and_go_with_their_frames_and_stay_in_the_legend():
    drawing = interactive(region_map())
    early, late = ([trace.x for trace in part.data[_region_layout.LEVELS :]] for part in drawing.frames)
    assert early == [(1.0, 1.0, None, 2.0, 1.0, None), POINTS.x]
    assert not any(late)
    assert [trace.name for trace in drawing.data if trace.showlegend is None] == ["edge", "points"]
    axes = draw(region_map()).axes[0]
    assert [line.get_xdata().tolist() for line in axes.get_lines()[:2]] == [[1.0, 1.0], [2.0, 1.0]]
    assert axes.get_lines()[2].get_markerfacecolor() == style.colour(2)


def test_static_draws_a_path_for_each_colour_with_the_frames_side_by_side():
    early, late, bar = draw(region_map(log_values=True)).axes
    low, high = early.patches
    assert low.get_path().codes.tolist() == [1, 2, 2, 2, 79, 1, 2, 2, 79]  # each closed before the next begins
    np.testing.assert_array_equal(high.get_path().vertices, [*CORNER, CORNER[0]])
    assert to_hex(low.get_facecolor()) == _region_layout.level_colours(region_map())[0]
    assert [axes.get_title("left") for axes in (early, late)] == ["early", "late"]
    assert (early.get_xlim(), early.get_ylim(), early.get_aspect()) == ((0.0, 2.0), (0.0, 1.0), 1.0)
    assert [words.get_text() for words in bar.get_xticklabels()] == ["1", "2", "5", "10", "20", "50", "100"]
    assert (early.get_xlabel(), early.get_ylabel(), bar.get_title("left")) == ("east", "north", "height")


def test_both_axes_have_one_scale_in_both_drawings():
    axes = draw(region_map()).axes[0]
    box = axes.get_window_extent()
    assert box.width / box.height == pytest.approx(2.0, rel=0.01)
    assert interactive(region_map()).layout.yaxis.scaleanchor == "x"


def test_more_classes_have_colours_and_few_have_greys_that_differ_in_lightness():
    classes = tuple("abcde")
    more = _region_layout.level_colours(region_map((frame(values=(0.0, 1.0, 4.0)),), classes=classes))
    assert more == list(style.CLASSES[:5])
    greys = [sum(_region_layout.channels(grey)) / 3 for grey in _region_layout.GREYS]
    assert min(lighter - darker for lighter, darker in itertools.pairwise(greys)) > 30


def test_classes_have_colours_of_their_own():
    figure = region_map((frame(values=(0.0, 2.0, 0.0)),), classes=("cat", "dog", "<b>"))
    drawing = interactive(figure)
    assert [trace.fillcolor for trace in drawing.data[:3]] == list(_region_layout.GREYS)
    assert [trace.x for trace in drawing.data[:3]] == [closed(SQUARE, REST), (), closed(CORNER)]
    colours = drawing.layout.coloraxis
    assert (colours.cmin, colours.cmax, colours.colorbar.ticktext) == (-0.5, 2.5, ("cat", "dog", "&lt;b&gt;"))
    assert len(drawing.frames) == 0
    axes, bar = draw(figure).axes
    assert [to_hex(patch.get_facecolor()) for patch in axes.patches] == [_region_layout.GREYS[i] for i in (0, 2)]
    assert [words.get_text() for words in bar.get_xticklabels()] == ["cat", "dog", "<b>"]


def test_values_beyond_the_bar_have_the_colours_of_its_ends():
    figure = region_map((frame(values=(1.0, 5.0, 1000.0)),), value_range=(2.0, 8.0))
    levels = _region_layout.levels(figure, figure.frames[0])
    assert (levels[0].polygons, levels[-1].polygons) == ((SQUARE,), (REST,))
    assert levels[_region_layout.LEVELS // 2].polygons == (CORNER,)
    assert figure.value_span == (2.0, 8.0)


@pytest.mark.parametrize("log", [True, False])
def test_values_need_no_spread(log):
    figure = region_map((frame(values=(3.0, 3.0, 3.0)),), log_values=log)
    low, high = _region_layout.bar_ends(figure)
    assert high - low == pytest.approx(1.0)
    assert len(draw(figure).axes) == 2


def test_the_bar_has_a_few_round_ticks():
    for values in ((1e-6, 1.0, 1e3), (0.3, 0.31, 0.32), (2.0, 3.0, 900.0), (-7.0, 0.0, 1e5)):
        for log in {False, min(values) > 0}:
            figure = region_map((frame(values=values),), log_values=log)
            places, _ = _region_layout.bar_ticks(figure)
            low, high = _region_layout.bar_ends(figure)
            assert 2 <= len(places) <= 10
            assert all(low <= place <= high for place in places)


def test_frames_side_by_side_are_chosen():
    frames = tuple(frame(str(i)) for i in range(6))
    assert [f.label for f in region_map(frames).still] == ["0", "2", "5"]
    assert [f.label for f in region_map(frames, beside=(1, 4)).still] == ["1", "4"]
    assert len(draw(region_map(frames, beside=(3,))).axes) == 2


def test_svg_is_deterministic_and_words_are_not_interpreted(tmp_path):
    hostile = '<a href="https://example.org">$x^2$ & _y</a>'
    points = Points(hostile, (0.5,), (0.5,))
    shown = RegionFrame(hostile, (SQUARE,), np.zeros(1), points=(points,))
    figure = RegionMap("x", hostile, hostile, hostile, hostile, hostile, (shown, shown), (hostile,))
    for name in ("one", "two"):
        save(figure, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert "<a" not in interactive(figure).to_json()
    drawing = draw(figure)
    assert [words.get_text() for words in drawing.legends[0].get_texts()] == [hostile]
    assert [words.get_text() for words in drawing.axes[2].get_xticklabels()] == [hostile]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: RegionFrame("b", (SQUARE,), np.zeros(1), (Polylines("a", (SQUARE[:1],)),)),
            ShapeError,
            r"RegionFrame\(lines\): expected shape \(v, 2\), v >= 2, got \(1, 2\) at index 0 of 'a'",
        ),
        (lambda: Polylines("a", (SQUARE,), colour=-1), RangeError, r"Polylines\(colour\): .* got -1"),
        (lambda: RegionFrame("a", (), np.zeros(0)), EmptyError, r"RegionFrame\(polygons\): .* got none in 'a'"),
        (
            lambda: RegionFrame("a", (SQUARE, SQUARE[:2]), np.zeros(2)),
            ShapeError,
            r"RegionFrame\(polygons\): expected shape \(v, 2\), v >= 3, got \(2, 2\) at index 1 of 'a'",
        ),
        (
            lambda: RegionFrame("a", (SQUARE * math.nan,), np.zeros(1)),
            RangeError,
            r"RegionFrame\(polygons\): expected finite coordinates, got .*nan.* at index 0 of 'a'",
        ),
        (lambda: frame(values=(1.0,)), ShapeError, r"RegionFrame\(values\): expected shape \(3,\), got \(1,\)"),
        (lambda: frame(values=(1.0, math.inf, 1.0)), RangeError, r"RegionFrame\(values\): .* got inf at index 1"),
        (
            lambda: RegionFrame("a", (SQUARE,), np.zeros(1), points=(Points("p", (1.0,), (1.0,), joined=True),)),
            RangeError,
            r"RegionFrame\(points\): expected points without values or bars, unjoined, got others in 'p'",
        ),
        (
            lambda: RegionFrame("a", (SQUARE,), np.zeros(1), points=(Points("p", (1.0,), (1.0,), low=(0.0,)),)),
            RangeError,
            r"RegionFrame\(points\): expected points without values or bars, unjoined, got others in 'p'",
        ),
        (lambda: RegionMap("m", "", "", "", "", "", ()), EmptyError, r"RegionMap\(frames\): .* got none in 'm'"),
        (
            lambda: region_map(classes=("a", "b")),
            RangeError,
            r"RegionMap\(classes\): expected values among the places 0 to 1, got 100 in 'map'",
        ),
        (
            lambda: region_map((frame(values=(0.0, 1.0, 2.0)),), log_values=True),
            RangeError,
            r"RegionMap\(log_values\): expected values above 0 everywhere, got 0 in 'map'",
        ),
        (
            lambda: region_map(value_range=(2.0, 1.0)),
            RangeError,
            r"RegionMap\(value_range\): expected \(lower, upper\), got \(2.0, 1.0\)",
        ),
        (
            lambda: region_map(beside=(0, 2)),
            RangeError,
            r"RegionMap\(beside\): expected one to three places of frames from 0 to 1, got \(0, 2\)",
        ),
    ],
)  # fmt: skip
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
