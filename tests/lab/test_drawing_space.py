"""Films in space: what the data says is what both renderers draw."""

import math

import numpy as np
import pytest
from matplotlib.colors import to_hex

from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.plot import style
from gnomon_lab.figures import Polylines, Space, SpaceFaces, SpaceFrame, SpacePoints
from gnomon_lab.report.drawing import _space_layout, draw, interactive, save

POINTS = SpacePoints("points", (np.array([[0.0, 0.0, 0.0], [2.0, 1.0, 4.0]]),), colour=2)
MOVED = SpacePoints("points", (np.array([[-2.0, 1.0, 3.0]]),), colour=2)
EDGES = Polylines(
    "edges", (np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 0.0], [0.0, 2.0, 3.0]])), 1, True
)
TRIANGLE = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
SQUARE = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
FACES = SpaceFaces("faces", (TRIANGLE, SQUARE), colour=4)


def standing(mark):
    return SpaceFrame("now", (mark,))


def space(frames=None, **options):
    frames = frames or (SpaceFrame("early", (POINTS, EDGES, FACES)), SpaceFrame("late", (MOVED,)))
    return Space("film", "Film & legend", "What it shows.", "east", "north", "up", frames, **options)


def places(trace):
    """The places that a trace goes through, without the gaps."""
    return np.array([place for place in zip(trace.x, trace.y, trace.z, strict=True) if None not in place])


def triangles(trace):
    """The corners of a mesh's triangles, of shape (t, 3, 3)."""
    corners = np.array(list(zip(trace.x, trace.y, trace.z, strict=True)), dtype=float)
    return corners[np.transpose([trace.i, trace.j, trace.k])]


def test_interactive_draws_points_lines_and_faces():
    points, edges, faces = interactive(space()).data
    np.testing.assert_array_equal(places(points), POINTS.shapes[0])
    assert (points.mode, points.marker.color, points.marker.symbol) == ("markers", style.colour(2), "diamond")
    np.testing.assert_array_equal(places(edges), np.concatenate(EDGES.shapes))
    assert edges.x == (0.0, 1.0, None, 0.0, 0.0, None)
    assert (edges.mode, edges.line.color, edges.line.dash) == ("lines", style.colour(1), "dash")
    np.testing.assert_array_equal(triangles(faces), [TRIANGLE, SQUARE[[0, 1, 2]], SQUARE[[0, 2, 3]]])
    assert (faces.color, faces.opacity) == (style.colour(4), _space_layout.FACE_OPACITY)
    assert [trace.name for trace in (points, edges, faces)] == ["points", "edges", "faces"]


def test_marks_come_and_go_with_their_frames_and_stay_in_the_legend():
    drawing = interactive(space())
    early, late = drawing.frames
    assert [trace.type for trace in late.data] == ["scatter3d", "scatter3d", "mesh3d"]
    np.testing.assert_array_equal(places(early.data[0]), POINTS.shapes[0])
    np.testing.assert_array_equal(places(late.data[0]), MOVED.shapes[0])
    assert [trace.x for trace in late.data[1:]] == [(None,), (None,)]
    assert len(triangles(early.data[2])) == 3
    assert late.data[2].i == ()
    assert all(trace.showlegend for trace in drawing.data)
    assert [step.label for step in drawing.layout.sliders[0].steps] == ["early", "late"]
    assert draw(space()).legends[0].get_texts()[2].get_text() == "faces"


def test_what_comes_later_is_drawn_from_the_start():
    backwards = space((SpaceFrame("late", (MOVED,)), SpaceFrame("early", (POINTS, EDGES, FACES))))
    drawing = interactive(backwards)
    assert [trace.x for trace in drawing.data] == [(-2.0, None), (None,), (None,)]
    np.testing.assert_array_equal(triangles(drawing.frames[1].data[2])[0], TRIANGLE)


def test_static_draws_the_frames_side_by_side():
    early, late = draw(space()).axes
    points, *edges = early.get_lines()
    np.testing.assert_array_equal(points.get_data_3d(), POINTS.shapes[0].T)
    assert (points.get_marker(), points.get_markerfacecolor()) == ("D", style.colour(2))
    for drawn, line in zip(edges, EDGES.shapes, strict=True):
        np.testing.assert_array_equal(drawn.get_data_3d(), line.T)
        assert (drawn.get_color(), drawn.is_dashed()) == (style.colour(1), True)
    (faces,) = early.collections
    assert to_hex(faces.get_facecolor()[0]) == style.colour(4)
    assert faces.get_facecolor()[0][3] == _space_layout.FACE_OPACITY
    assert [len(axes.collections) for axes in (early, late)] == [1, 0]
    assert [axes.get_title("left") for axes in (early, late)] == ["early", "late"]
    assert (early.get_xlabel(), early.get_ylabel(), early.get_zlabel()) == ("east", "north", "up")


def test_all_frames_have_one_box_with_one_scale():
    figure = space()
    low, high = figure.box
    np.testing.assert_allclose(low, [-2.2, -0.1, -0.2])
    np.testing.assert_allclose(high, [2.2, 2.1, 4.2])
    scene = interactive(figure).layout.scene
    for axis, *ends in zip((scene.xaxis, scene.yaxis, scene.zaxis), low, high, strict=True):
        assert axis.range == tuple(ends)
    ratio = np.array([scene.aspectratio.x, scene.aspectratio.y, scene.aspectratio.z])
    np.testing.assert_allclose(ratio / ratio[0], (high - low) / (high - low)[0])
    assert np.linalg.norm(ratio) == pytest.approx(math.sqrt(3))
    for axes in draw(figure).axes:
        assert axes.get_xlim() + axes.get_ylim() + axes.get_zlim() == pytest.approx([-2.2, 2.2, -0.1, 2.1, -0.2, 4.2])
        sides = axes.get_w_lims()[1::2] - np.array(axes.get_w_lims()[::2])
        np.testing.assert_allclose(axes._box_aspect / axes._box_aspect[0], sides / sides[0])


def test_the_box_of_a_plane_or_a_point_has_depth():
    low, high = space((SpaceFrame("flat", (SpaceFaces("flat", (10 * TRIANGLE,)),)),)).box
    np.testing.assert_allclose(high - low, [11.0, 11.0, 2.2])
    low, high = space((SpaceFrame("point", (MOVED,)),)).box
    np.testing.assert_allclose((low, high), (MOVED.shapes[0][0] - 0.5, MOVED.shapes[0][0] + 0.5))


def test_both_drawings_are_seen_from_the_same_side_and_the_slider_keeps_it():
    figure = space(view=(30.0, 90.0))
    scene = interactive(figure).layout.scene
    eye = np.array([scene.camera.eye.x, scene.camera.eye.y, scene.camera.eye.z])
    np.testing.assert_allclose(eye / np.linalg.norm(eye), [0.0, math.sqrt(3) / 2, 0.5], atol=1e-12)
    assert (draw(figure).axes[0].elev, draw(figure).axes[0].azim) == (30.0, 90.0)
    assert scene.uirevision
    assert all(frame.layout.scene.camera.eye.x is None for frame in interactive(figure).frames)


def test_numbers_are_written_as_finely_as_can_be_seen():
    for size in (1e-6, 1.0, 1e6):
        figure = space(
            (SpaceFrame("now", (SpacePoints("p", (size * np.array([[0.0, 0.0, 0.0], [1 / 3, 2 / 3, 1.0]]),)),)),)
        )
        written = places(interactive(figure).data[0])[1]
        np.testing.assert_allclose(written, size * np.array([1 / 3, 2 / 3, 1.0]), atol=1e-4 * size)
        assert max(len(f"{number:.15g}") for number in written) <= 11


def test_one_frame_has_no_slider():
    drawing = interactive(space((SpaceFrame("now", (POINTS,)),)))
    assert (len(drawing.frames), len(drawing.layout.sliders)) == (0, 0)


def test_marks_of_one_label_and_colour_share_an_entry_and_a_kind_has_its_own():
    lines = Polylines("points", EDGES.shapes, colour=2)
    drawing = interactive(space((SpaceFrame("now", (POINTS, MOVED, lines)),)))
    assert [trace.mode for trace in drawing.data] == ["markers", "lines"]
    np.testing.assert_array_equal(places(drawing.data[0]), [*POINTS.shapes[0], *MOVED.shapes[0]])


def test_frames_side_by_side_are_chosen():
    frames = tuple(SpaceFrame(str(i), (POINTS,)) for i in range(6))
    assert [f.label for f in space(frames).still] == ["0", "2", "5"]
    assert len(draw(space(frames, beside=(3,))).axes) == 1


def test_svg_is_deterministic_and_words_are_not_interpreted(tmp_path):
    hostile = '<a href="https://example.org">$x^2$ & _y</a>'
    shown = SpaceFrame(hostile, (SpacePoints(hostile, MOVED.shapes), SpaceFaces(hostile, (TRIANGLE,))))
    figure = Space("x", hostile, hostile, hostile, hostile, hostile, (shown, shown))
    for name in ("one", "two"):
        save(figure, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert "<a" not in interactive(figure).to_json()
    assert [words.get_text() for words in draw(figure).legends[0].get_texts()] == [hostile, hostile]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: standing(SpacePoints("a", (SQUARE[:, :2],))),
            ShapeError,
            r"SpaceFrame\(marks\): expected shape \(v, 3\), v >= 1, got \(4, 2\) at index 0 of 'a'",
        ),
        (lambda: standing(SpacePoints("a", (SQUARE[:0],))), ShapeError, r"SpaceFrame\(marks\): .* v >= 1, got \(0,"),
        (lambda: SpacePoints("a", (SQUARE,), -1), RangeError, r"SpacePoints\(colour\): .* got -1"),
        (
            lambda: standing(Polylines("a", (SQUARE, SQUARE[:1]))),
            ShapeError,
            r"SpaceFrame\(marks\): .* v >= 2, got \(1, 3\) at index 1 of 'a'",
        ),
        (lambda: Polylines("a", (SQUARE,), colour=-1), RangeError, r"Polylines\(colour\): .* got -1"),
        (lambda: standing(SpaceFaces("a", (SQUARE[:2],))), ShapeError, r"SpaceFrame\(marks\): .* v >= 3, got \(2, 3\)"),
        (
            lambda: standing(SpaceFaces("a", (SQUARE + math.inf,))),
            RangeError,
            r"SpaceFrame\(marks\): expected finite coordinates, got .*inf.* at index 0 of 'a'",
        ),
        (lambda: SpaceFaces("a", (SQUARE,), -1), RangeError, r"SpaceFaces\(colour\): .* got -1"),
        (lambda: SpaceFrame("a", ()), EmptyError, r"SpaceFrame\(marks\): expected points, .* got none in 'a'"),
        (lambda: SpaceFrame("a", (Polylines("l", ()),)), EmptyError, r"SpaceFrame\(marks\): .* got none in 'a'"),
        (lambda: Space("f", "", "", "", "", "", ()), EmptyError, r"Space\(frames\): .* got none in 'f'"),
        (
            lambda: space(beside=(0, 2)),
            RangeError,
            r"Space\(beside\): expected one to three places of frames from 0 to 1, got \(0, 2\) in 'film'",
        ),
        (lambda: space(view=(90.0, 0.0)), RangeError, r"Space\(view\): .* from 0 to below 90, got 90 in 'film'"),
        (lambda: space(view=(0.0, math.nan)), RangeError, r"Space\(view\): expected finite numbers, got nan"),
    ],
)  # fmt: skip
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
