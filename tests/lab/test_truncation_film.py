"""Films of truncation maps: what stands in their frames."""

import numpy as np
import pytest

from gnomon_lab.figures import RegionMap, Space
from gnomon_lab.papers.effective_flow._film import EDGE, FACE, film, later, regions, scene


def arm(q=2, s=(0.0, 1.0, 2.0), collapse=(2.0, 1.0)):
    """Two maps with sectors along the axes, the corner of one on its way from -3 to -1 in all coordinates."""
    points = [[[-2.0] * q, [-2.0] + [-4.0] * (q - 1), [-4.0] * q], [[5.0] * q, [4.0] * q, [6.0] * q]]
    records = []
    for at, time in enumerate(s):
        beta = [[3.0 - at] * q, [-4.5] * q]
        rotation = [np.eye(q).tolist(), (-np.eye(q)).tolist()]
        to_go = [(2, 3), (1, 2), (1, 1)][min(at, 2)]
        records.append({"arm": f"{q} collapse", "s": time, "beta": beta, "rotation": rotation, "to_go": to_go})
    records[0] |= {"points": points, "targets": [[-1.0] * q, [3.0] * q], "count": 3, "collapse": list(collapse)}
    return records


@pytest.mark.parametrize("q", [2, 3])
def test_a_scene_holds_points_images_and_ways(q):
    now = scene(arm(q), 1)
    assert now.label == "s = 1.000: 1 + 2 to go"
    np.testing.assert_array_equal(now.corners, [[-2.0] * q, [4.5] * q])
    own = now.images[:3]
    np.testing.assert_array_equal(own, [[-2.0] * q, [-2.0] * q, [-2.0] * q])
    # The second map opens downwards: 5 and 6 lie behind its corner, 4 before it.
    np.testing.assert_array_equal(now.images[3:], [[4.5] * q, [4.0] * q, [4.5] * q])
    assert now.paths == ()
    np.testing.assert_array_equal(now.ways[0], [[-3.0] * q, [-2.0] * q])
    before = scene(arm(q), 0)
    assert before.ways == ()
    (path,) = before.paths
    np.testing.assert_array_equal(path, [[-2.0] + [-4.0] * (q - 1), [-2.0] + [-3.0] * (q - 1)])


def test_the_plane_is_cut_where_the_maps_truncate():
    start = scene(arm(), 0)
    polygons, truncated = regions(start.rotations, start.corners, (-6.0, 6.0, -6.0, 6.0))
    areas = {0.0: 0.0, 1.0: 0.0, 2.0: 0.0}
    for polygon, count in zip(polygons, truncated, strict=True):
        x, y = polygon.T
        areas[count] += abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2
    # Between both corners nothing is truncated; behind each of them, and where each map takes a coordinate, all is.
    assert areas == pytest.approx({0.0: 7.5**2, 1.0: 2 * 7.5 * 4.5, 2.0: 4.5**2}, abs=1e-2)


def test_the_film_in_the_plane():
    drawn = film(arm(), "words")
    assert isinstance(drawn, RegionMap)
    assert [frame.label for frame in drawn.frames] == [
        "s = 0.000: 2 + 3 to go",
        "s = 1.000: 1 + 2 to go",
        "s = 2.000: 1 + 1 to go",
    ]
    points, images, corners, targets = drawn.frames[0].points
    assert (points.label, images.label) == ("points", "their images")
    assert (corners.x, targets.y) == ((-3.0, 4.5), (-1.0, 3.0))
    assert drawn.frames[0].lines[0].shapes[0].tolist() == [[-2.0, -4.0], [-2.0, -3.0]]


def test_the_film_in_space():
    drawn = film(arm(3), "words")
    assert isinstance(drawn, Space)
    *_, edges, faces = drawn.frames[1].marks
    assert (len(edges.shapes), len(faces.shapes)) == (6, 6)
    np.testing.assert_array_equal(faces.shapes[0][0], [-2.0, -2.0, -2.0])
    np.testing.assert_array_equal(faces.shapes[0][2], [-2.0 - FACE, -2.0 - FACE, -2.0])
    np.testing.assert_array_equal(faces.shapes[3][2], [4.5 + FACE, 4.5 + FACE, 4.5])
    np.testing.assert_array_equal(edges.shapes[0][1] - edges.shapes[0][0], [EDGE, 0.0, 0.0])


def test_a_still_shows_the_start_half_way_and_the_last_collapse():
    moments = arm(s=(0.0, 0.5, 1.0, 2.0, 3.0), collapse=(1.5, 1.0))
    for record, left in zip(moments, (3, 2, 1, 0, 0), strict=True):
        record["to_go"] = [left, left]
    assert later(moments) == (1, 3)
    assert film(moments, "").beside == (0, 1, 3)
    moments[0]["collapse"] = [1.5, None]
    assert later(moments)[1] == 4
    assert later(arm(s=(0.0, 1.0))) == (1, 1)
