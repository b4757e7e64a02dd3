"""Orbits of two truncation maps as films: clusters, images, sectors and corners, in the plane and in space."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from gnomon.regions import Plane, slice_regions
from gnomon_lab.figures import (
    Points,
    Polylines,
    RegionFrame,
    RegionMap,
    Space,
    SpaceFaces,
    SpaceFrame,
    SpacePoints,
)
from gnomon_lab.runs import Record

Places = Float[np.ndarray, "_ _"]
SECTORS = ("untruncated", "truncated in part", "truncated")
DATA, IMAGES, CORNERS, TARGETS = ("points", 0), ("their images", 3), ("corners, -β", 2), ("targets", 1)
WAY, PART = ("ways of the corners", 2), ("truncated in part", 6)
FACE, EDGE, MARGIN = 6.5, 3.5, (1.2, 3.0)
"""How far faces and edges are drawn in space, and the margins around everything in the plane, all in spreads."""
DIGITS = 4
"""Decimal places; films are large."""
CAPTION = (
    "Two clusters and the maps of two layers. In blue the points, in pink where the maps take them; to go are those of "
    "each cluster that are not truncated in all coordinates yet. Half of the moments lie where points cross faces. "
)


@dataclass(frozen=True)
class Scene:
    """What is shown at one moment.

    Attributes:
        label: the moment.
        points: of both clusters.
        images: where both maps take them.
        paths: from each point that its map truncates in part to its image.
        targets: of the clusters.
        corners: of the maps.
        ways: paths of the corners up to now.
        rotations: R of each map.
    """

    label: str
    points: Float[np.ndarray, "n q"]
    images: Float[np.ndarray, "n q"]
    paths: tuple[Places, ...]
    targets: Float[np.ndarray, "2 q"]
    corners: Float[np.ndarray, "2 q"]
    ways: tuple[Places, ...]
    rotations: Float[np.ndarray, "2 q q"]


def film(arm: Sequence[Record], words: str) -> RegionMap | Space:
    """The orbit of an arm with Q = 2 or 3.

    A still figure shows the start, the moment at which half of the points that were to go have gone, and the collapse
    of the last cluster or, without a collapse, the end.
    """
    scenes = tuple(scene(arm, at) for at in range(len(arm)))
    name, beside = f"film-{arm[0]['arm'].replace(' ', '-')}", (0, *later(arm))
    if len(arm[0]["targets"][0]) == 2:
        return RegionMap(
            name, f"Two truncation maps in the plane: {words}",
            CAPTION + "The colours say what the maps do to a point of the plane.",
            "first input, spreads", "second input, spreads", "a point here is", plane_frames(scenes),
            classes=SECTORS, beside=beside,
        )  # fmt: skip
    return Space(
        name, f"Two truncation maps in space: {words}",
        CAPTION + "The green faces bound the negative sectors, which go to their corners; the grey edges are those of "
        "the positive ones, which stay.",
        "first input, spreads", "second", "third", tuple(map(space_frame, scenes)), beside=beside, view=(18.0, -70.0),
    )  # fmt: skip


def later(arm: Sequence[Record]) -> tuple[int, int]:
    """The indices of two moments: half way, by the number of points to go, and the collapse of the last cluster."""
    collapses, last = arm[0]["collapse"], len(arm) - 1
    end = last if None in collapses else min(last, sum(record["s"] < max(collapses) for record in arm))
    counts = [sum(record["to_go"]) for record in arm[: end + 1]]
    half = (counts[0] + counts[end]) / 2
    return min(range(1, end), key=lambda at: abs(counts[at] - half), default=end), end


def scene(arm: Sequence[Record], at: int) -> Scene:
    """The contents of a record, and the images."""
    first, record = arm[0], arm[at]
    ways = -np.array([past["beta"] for past in arm[: at + 1]]).swapaxes(0, 1)
    rotations, points = np.array(record["rotation"]), np.concatenate(first["points"])
    images, part = points, []
    for own, corner, rotation in zip(first["points"], ways[:, -1], rotations, strict=True):
        images = np.maximum((images - corner) @ rotation.T, 0) @ rotation + corner
        above = ((np.array(own) - corner) @ rotation.T > 0).sum(1)
        part.append((above > 0) & (above < len(rotation)))
    paths = np.stack([points, images], 1)[np.concatenate(part)].round(DIGITS)
    label = "s = {:.3f}: {} + {} to go".format(record["s"], *record["to_go"])
    points, images = points.round(DIGITS), images.round(DIGITS)
    seen = tuple(way.round(DIGITS) for way in ways) if at else ()
    return Scene(label, points, images, tuple(paths), np.array(first["targets"]), ways[:, -1], seen, rotations)


def plane_frames(scenes: Sequence[Scene]) -> tuple[RegionFrame, ...]:
    """The linear regions of both maps together, and everything else on top of them."""
    shown = np.concatenate([x for each in scenes for x in (each.points, each.images, each.targets, each.corners)])
    (left, bottom), (right, top) = (shown.min(0) - MARGIN).tolist(), (shown.max(0) + MARGIN).tolist()
    frames = []
    for each in scenes:
        polygons, values = regions(each.rotations, each.corners, (left, right, bottom, top))
        lines = (Polylines(PART[0], each.paths, PART[1], dashed=True), Polylines(WAY[0], each.ways, colour=WAY[1]))
        kinds = ((DATA, each.points), (IMAGES, each.images), (CORNERS, each.corners), (TARGETS, each.targets))
        points = tuple(Points(label, tuple(at[:, 0]), tuple(at[:, 1]), colour=c) for (label, c), at in kinds)
        frames.append(RegionFrame(each.label, polygons, values, lines, points))
    return tuple(frames)


def regions(
    rotations: Float[np.ndarray, "l 2 2"], corners: Float[np.ndarray, "l 2"], box: tuple[float, float, float, float]
) -> tuple[tuple[Places, ...], Float[np.ndarray, "_"]]:
    """The linear regions of all maps, taken as one network, and the index of each in SECTORS."""
    layers: list[nn.Module] = []
    for rotation, corner in zip(torch.from_numpy(rotations), torch.from_numpy(corners), strict=True):
        layers += [affine(rotation, -rotation @ corner), nn.ReLU(), affine(rotation.mT, corner)]
    plane = Plane(torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64))
    found = slice_regions(nn.Sequential(*layers).eval(), plane, box)
    shapes = zip(found.polygons.vertices, found.polygons.count.tolist(), strict=True)
    # A map's slope is the identity, a projection to a face, or zero.
    truncated = 2 - torch.linalg.matrix_rank(found.slopes, atol=1e-6)
    return tuple(corners[:count].numpy().round(DIGITS) for corners, count in shapes), truncated.double().numpy()


def affine(weight: Float[torch.Tensor, "q q"], bias: Float[torch.Tensor, "q"]) -> nn.Linear:
    """The map from x to Wx + b."""
    layer = nn.Linear(len(weight), len(weight), dtype=weight.dtype)
    layer.weight.data, layer.bias.data = weight, bias
    return layer


def space_frame(scene: Scene) -> SpaceFrame:
    """The sectors' faces and edges, and everything else between them."""
    faces, edges = [], []
    for at, rotation in zip(scene.corners, scene.rotations, strict=True):
        edges += [np.stack([at, at + EDGE * row]) for row in rotation]
        faces += [np.stack([at, at - a, at - a - b, at - b]) for a, b in itertools.combinations(FACE * rotation, 2)]
    kinds = ((DATA, scene.points), (IMAGES, scene.images), (CORNERS, scene.corners), (TARGETS, scene.targets))
    points = (SpacePoints(label, (at,), colour) for (label, colour), at in kinds)
    lines = (Polylines(PART[0], scene.paths, PART[1], dashed=True), Polylines(WAY[0], scene.ways, colour=WAY[1]))
    sectors = (
        Polylines("edges of the positive sectors", tuple(edges), colour=6),
        SpaceFaces("faces of the negative sectors", tuple(faces), colour=2),
    )
    return SpaceFrame(scene.label, (*points, *lines, *sectors))
