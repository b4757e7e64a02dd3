"""truncation-practice's page: its table, figures and claims, from its records."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from gnomon.regions import Plane, slice_regions
from gnomon_lab.figures import Curves, Figure, Line, Panel, Points, Polylines, RegionFrame, RegionMap
from gnomon_lab.papers.own.truncation_practice.descents import (
    ADAPTED,
    EFFECTIVE,
    LAYERS,
    RUNGS,
    TRAINING,
)
from gnomon_lab.runs import Cells, Claim, Record, Seeds, at_most, over_seeds

FOLLOWED = ("clusters", "digits")
"""Starts that are followed in time."""
EXACT, CLOSE, NOTHING = 1e-10, 0.01, 1e-6
"""Shares of the first value that count as agreement to rounding, as following closely, and as zero."""
APART = 0.1
"""From this distance on, as a share of the effective flow's way, two orbits are apart."""
NONE = 1e-12
"""Smaller values are drawn as this, on logarithmic axes."""
NEAR = 1e-5
"""Distances from the flow below it are drawn as this."""
BOX = 3.0
"""Half the side length of the square that the film shows."""
SOURCE = "Chen, arXiv:2501.07400, "


def of(records: Sequence[Record], name: str, rung: str) -> list[Record]:
    """The records of one arm."""
    return [record for record in records if record["arm"] == f"{name} {rung}"]


def share(record: Record) -> float:
    """The share of all coordinates that are truncated; classes and layers count equally."""
    return float(np.mean(record["truncated"]))


def velocity(record: Record, name: str) -> Float[np.ndarray, "_"]:
    """The velocity of "beta", "weight", or "rotation": how the polar factors turn, the weights' antisymmetric part."""
    found = np.array(record["beta_velocity" if name == "beta" else "weight_velocity"])
    return ((found - found.swapaxes(1, 2)) / 2 if name == "rotation" else found).ravel()


def beside(record: Record, flow: Record, name: str) -> str:
    """A velocity compared with the effective flow's: the ratio of lengths, and the cosine."""
    here, there = velocity(record, name), velocity(flow, name)
    size, other = np.linalg.norm(here), np.linalg.norm(there)
    return f"{size / other:.1f} x, cos {here @ there / (size * other):.2f}"


def leaves(arm: Sequence[Record]) -> str:
    """When the cumulative biases are first further apart than `APART`, by linear interpolation between readings."""
    for one, other in itertools.pairwise(arm):
        if other["beta_apart"] > APART:
            part = (APART - one["beta_apart"]) / (other["beta_apart"] - one["beta_apart"])
            return f"{one['s'] + part * (other['s'] - one['s']):.2g}"
    return "never"


def table(records: Sequence[Record]) -> Cells:
    """Every rung compared with the effective flow: how it sets out, how long it stays, and where it ends."""
    columns = ("descent", "β sets out", "R", "β 10 % off", "same sides", "truncated", "loss")
    rows: list[tuple[str, ...]] = []
    for name in FOLLOWED:
        flow = of(records, name, EFFECTIVE)[0]
        for rung in RUNGS:
            arm = of(records, name, rung)
            first, end = arm[0], arm[-1]
            ways = (beside(first, flow, "beta"), beside(first, flow, "rotation"), leaves(arm), f"{end['same']:.0%}")
            gained = f"{share(first):.0%} to {share(end):.0%}"
            rows.append((f"{name}: {rung}", *ways, gained, f"{end['loss']:.2g}"))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in a sentence for each start."""
    sentences = []
    for name in FOLLOWED:
        flow, training = of(records, name, EFFECTIVE), of(records, name, TRAINING)
        sentences.append(
            f"{name.capitalize()}: the effective flow brings the truncated share of the coordinates from "
            f"{share(flow[0]):.0%} to {share(flow[-1]):.0%} and the loss to {flow[-1]['loss']:.2g}, training to "
            f"{share(training[-1]):.0%} and {training[-1]['loss']:.2g}."
        )
    return " ".join(sentences)


def figures(records: Sequence[Record]) -> list[Figure]:
    """All rungs over time, for each start; and the plane of the clusters as a film."""
    return [*(curves(records, name) for name in FOLLOWED), film(records)]


def curves(records: Sequence[Record], name: str) -> Curves:
    """Losses, what is truncated, and how far from the effective flow."""

    def panel(title: str, unit: str, value: Callable[[Record], float], least: float | None = None) -> Panel:
        """Logarithmic from `least` on, if there is one."""
        lines = []
        for colour, rung in enumerate(RUNGS):
            arm = of(records, name, rung)
            y = tuple(value(record) if least is None else max(value(record), least) for record in arm)
            # The second lies on the first.
            lines.append(Line(rung, tuple(record["s"] for record in arm), y, rung == ADAPTED, colour))
        return Panel(title, unit, tuple(lines), log_y=least is not None)

    return Curves(
        name,
        f"From the effective flow to training: {name}",
        "Each descent differs from the one before it in the legend in one thing; all start from one network. By "
        f"the theory the first two lie on each other. Losses and spreads below {NONE:g} are drawn there, and so are "
        f"the cumulative biases' distances from the flow's below {NEAR:g}.",
        "s, time of gradient flow: step size times steps",
        (
            panel("Standard loss", "loss", lambda r: r["loss"], NONE),
            panel("Spread of the classes behind the last map", "half the mean square", lambda r: r["spread"], NONE),
            panel("Truncated coordinates", "share", share),
            panel("Cumulative biases: distance from the flow's", "share of its path", lambda r: r["beta_apart"], NEAR),
            panel("Polar factors: distance from R", "spectral norm", lambda r: r["rotation_apart"]),
            panel("Largest singular value of W⁽ˡ⁾", "", lambda r: max(map(max, r["singular_values"]))),
            panel("Smallest singular value of W⁽ˡ⁾", "", lambda r: min(map(min, r["singular_values"]))),
            panel("Misalignment with the activation", "share", lambda r: max(r["misalignment"])),
        ),
        log_x=False,
    )


def film(records: Sequence[Record]) -> RegionMap:
    """The negative sectors of both flows' maps in the plane of the clusters, and where each takes the points."""
    pairs = zip(of(records, "clusters", EFFECTIVE), of(records, "clusters", TRAINING), strict=True)
    return RegionMap(
        "plane",
        "Two clusters, under the effective flow and under training",
        "Coloured, the negative sectors of the effective flow's maps; dashed, those of the trained network. Points are "
        "where the maps together take the data, and the labels' preimages, to which they should come.",
        *("x₁", "x₂", "truncated to a point by"),
        tuple(frame(flow, training) for flow, training in pairs),
        classes=("no map", "the first", "the second", "both"),
    )


def frame(flow: Record, training: Record) -> RegionFrame:
    """One moment."""
    weight, beta = (torch.tensor(flow[name], dtype=torch.float64) for name in ("weight", "beta"))
    faces = nn.Linear(2, 2 * LAYERS, dtype=torch.float64).requires_grad_(False)
    faces.weight.copy_(weight.flatten(0, 1))
    faces.bias.copy_(torch.einsum("lij,lj->li", weight, beta).flatten())
    regions = slice_regions(
        nn.Sequential(faces, nn.ReLU()), Plane(torch.zeros(2), torch.eye(2)), (-BOX, BOX, -BOX, BOX)
    )
    negative = (faces(regions.centroids) <= 0).unflatten(1, (LAYERS, 2)).all(2).double()
    corners = zip(regions.polygons.vertices, regions.polygons.count.tolist(), strict=True)
    points = []
    for place, (of_what, what) in enumerate(itertools.product((flow, training), ("images", "preimages"))):
        x, y = zip(*of_what[what], strict=True)
        label = "points" if what == "images" else "labels"
        points.append(Points(f"{EFFECTIVE if of_what is flow else TRAINING}: {label}", x, y, colour=place))
    return RegionFrame(
        f"s = {flow['s']:.1f}",
        tuple(polygon[:count].numpy() for polygon, count in corners),
        (negative @ torch.tensor([1.0, 2.0], dtype=torch.float64)).numpy(),
        (Polylines("training: negative sectors", sectors(training), dashed=True, colour=2),),
        tuple(points),
    )


def sectors(record: Record) -> tuple[Float[np.ndarray, "3 2"], ...]:
    """The edge of each map's negative sector: from beyond the box to the apex, and back."""
    edges = []
    for weight, beta in zip(record["weight"], record["beta"], strict=True):
        along = -np.linalg.inv(weight).T
        one, other = 4 * BOX * along / np.linalg.norm(along, axis=1, keepdims=True) - beta
        edges.append(np.stack([one, -np.array(beta), other]))
    return tuple(edges)


def claims(seeds: Seeds) -> list[Claim]:
    """What the paper says about the two losses and flows, for the worst of all finished seeds."""

    def claim(message: str, where: str, limit: float, value: Callable[[Sequence[Record]], float]) -> Claim:
        return at_most(message, SOURCE + where, limit, [value(records) for records in seeds])

    return [
        claim("every descent: the standard loss is the loss pulled back to the input: difference over the first loss",
              "(2.22), pulled back as in docs/errata.md", EXACT, differs(RUNGS, "pulled_back")),
        claim("the effective flow's loss is the standard loss of its networks, the outputs' map a rotation: difference",
              "(2.22) and (2.26)", EXACT, differs([EFFECTIVE], "effective_loss")),
        claim("the effective flow is steepest descent of the standard loss in adapted weights: difference at s = 0",
              "theorem 5.1", EXACT, sets_out),
        claim("small steps of that descent follow the effective flow: distance of the biases, share of the flow's way",
              "theorem 5.1", CLOSE, stays),
        *(rises(seeds, rung, name) for rung in (EFFECTIVE, TRAINING) for name in FOLLOWED),
        *(claim(f"{rung}: separated clusters contract to points, the loss to zero: what is left of either",
                "abstract and section 1", NOTHING, left(rung)) for rung in (EFFECTIVE, TRAINING)),
        claim("training, nothing truncated: the cumulative weights and biases rest: fastest entry at s = 0",
              "(9.6), of the standard loss", EXACT, moves("untruncated", "weight", "beta")),
        claim("training of two layers, clusters collapsed: the cumulative weights rest: fastest entry at s = 0",
              "(8.4), of the standard loss", EXACT, moves("collapsed", "weight")),
    ]  # fmt: skip


def rises(seeds: Seeds, rung: str, name: str) -> Claim:
    """More coordinates are truncated in the end than at the start."""
    gained = [share(of(records, name, rung)[-1]) - share(of(records, name, rung)[0]) for records in seeds]
    message = f"{rung}, {name}: clusters are progressively truncated: gain in the share of all coordinates"
    return Claim(message, SOURCE + "abstract and section 1", "above 0", over_seeds(gained, "+.1%"), min(gained) > 0)


def left(rung: str) -> Callable[[Sequence[Record]], float]:
    """What is left in the end of the clusters' spread or of the loss, whichever is more."""

    def value(records: Sequence[Record]) -> float:
        arm = of(records, "clusters", rung)
        return max(arm[-1][name] / arm[0][name] for name in ("spread", "loss"))

    return value


def differs(rungs: Sequence[str], loss: str) -> Callable[[Sequence[Record]], float]:
    """How far another loss is from the standard one, of that at the start."""

    def value(records: Sequence[Record]) -> float:
        arms = [of(records, name, rung) for name in FOLLOWED for rung in rungs]
        return max(abs(record["loss"] - record[loss]) / arm[0]["loss"] for arm in arms for record in arm)

    return value


def sets_out(records: Sequence[Record]) -> float:
    """How far the descent in adapted weights sets out from the effective flow, of its speed."""
    pairs = [(of(records, name, ADAPTED)[0], of(records, name, EFFECTIVE)[0]) for name in FOLLOWED]
    both = [[np.concatenate([velocity(r, what) for what in ("beta", "weight")]) for r in pair] for pair in pairs]
    return max(float(np.linalg.norm(one - flow) / np.linalg.norm(flow)) for one, flow in both)


def stays(records: Sequence[Record]) -> float:
    """How far the biases of the descent in adapted weights are from the effective flow's, of their way."""
    return max(record["beta_apart"] for name in FOLLOWED for record in of(records, name, ADAPTED))


def moves(name: str, *what: str) -> Callable[[Sequence[Record]], float]:
    """The fastest entry of these parameters under training, at the start."""
    return lambda records: max(float(np.abs(velocity(of(records, name, TRAINING)[0], of_)).max()) for of_ in what)
