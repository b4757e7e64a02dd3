"""Of labelled features and of the classifier: neural collapse and the MSE."""

import math

import torch
from torch import nn

import gnomon
from gnomon.linalg import Dense
from tests.contract.row import Contract, cosine, rotated, scaled


def moments(s, **more):
    return {name: make(s) for name, make in more.items()} | {"class_moments": s.moments()}


def classifier(s):
    return s.normal("k", "p")


def vectors(name):
    return lambda s: {name: s.normal("k", "p")}


def of_features(change):
    """The moments of changed features: the means moved, and the scatter turned and stretched, by x -> x A + b."""

    def changed(arguments):
        old = arguments["class_moments"]
        matrix, shift = change(old.means.shape[1])
        within = Dense(matrix.mT @ old.within.dense() @ matrix)
        return arguments | {"class_moments": gnomon.ClassMoments(old.counts, old.means @ matrix + shift, within)}

    return changed


def rotation(p):
    return torch.linalg.qr(torch.arange(1.0, p * p + 1).double().view(p, p).sin())[0]


RIGID = {
    "rotation": of_features(lambda p: (rotation(p), 0.0)),
    "shift": of_features(lambda p: (torch.eye(p).double(), 7.0)),
    "scale": of_features(lambda p: (1e3 * torch.eye(p).double(), 0.0)),
}


# Oracles.


def shares(class_moments):
    return [count / sum(class_moments.counts.tolist()) for count in class_moments.counts.tolist()]


def middle(class_moments):
    return sum(share * mean for share, mean in zip(shares(class_moments), class_moments.means, strict=True))


def covariances(class_moments):
    """Within and between, by outer products."""
    apart = [mean - middle(class_moments) for mean in class_moments.means]
    between = sum(share * torch.outer(row, row) for share, row in zip(shares(class_moments), apart, strict=True))
    return class_moments.within.dense() / class_moments.counts.sum(), between


def moments_by_loops(features, labels, classes):
    p = features.shape[1]
    rows = [[row for row, label in zip(features, labels.tolist(), strict=True) if label == c] for c in range(classes)]
    means = [sum(those) / len(those) for those in rows]
    scatter = sum(torch.outer(row - mean, row - mean) for those, mean in zip(rows, means, strict=True) for row in those)
    assert scatter.shape == (p, p)
    return {"counts": torch.tensor([len(those) for those in rows]), "means": torch.stack(means), "within": scatter}


def nc1_by_loops(class_moments):
    within, between = covariances(class_moments)
    inverse = torch.linalg.pinv(between, hermitian=True, rtol=1e-10)
    return (within @ inverse).trace() / len(class_moments.means)


def trace_ratio(class_moments):
    within, between = covariances(class_moments)
    return within.trace() / between.trace()


def deviation(values):
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def number(function):
    """An oracle from one that gives a float."""
    return lambda **arguments: torch.tensor(function(*arguments.values()), dtype=torch.float64)


@number
def lengths_vary(rows):
    lengths = [math.hypot(*row) for row in rows.tolist()]
    return deviation(lengths) / (sum(lengths) / len(lengths))


def pairs(rows):
    return [cosine(a, b) for i, a in enumerate(rows) for j, b in enumerate(rows) if i != j]


@number
def angles_vary(rows):
    return deviation(pairs(rows))


@number
def off_simplex(rows):
    return sum(abs(value + 1 / (len(rows) - 1)) for value in pairs(rows)) / len(pairs(rows))


def frame(wanted, centre):
    """The root of the summed squares of what cosines differ by from those wanted, on the diagonal 0."""

    @number
    def distance(means):
        rows = means - means.mean(0) if centre else means
        return math.sqrt(math.fsum((value - wanted(len(rows))) ** 2 for value in pairs(rows)))

    return distance


@number
def duality(weight, class_moments):
    means = torch.stack([mean - middle(class_moments) for mean in class_moments.means])
    sides = [[v / math.hypot(*m.flatten().tolist()) for v in m.flatten().tolist()] for m in (weight, means)]
    return math.fsum((a - b) ** 2 for a, b in zip(*sides, strict=True))


def nearest(features, logits, class_moments):
    distances = [[math.dist(row, mean) for mean in class_moments.means.tolist()] for row in features.tolist()]
    choices = zip(distances, logits.tolist(), strict=True)
    return torch.tensor([row.index(min(row)) != out.index(max(out)) for row, out in choices], dtype=torch.float64)


def layer_by_layer(model, x, labels):
    """Behind each linear layer, and behind what follows it up to the next."""
    k = int(labels.max()) + 1
    found = {name: [] for name in ("nc1_input", "nc1_right", "nc1_before", "nc1_after")}
    found |= {f"nc2_{kind}_{side}": [] for kind in ("orthogonal", "etf") for side in ("before", "after")}
    places = [place for place, layer in enumerate(model) if isinstance(layer, nn.Linear)]
    for place, following in zip(places, [*places[1:], len(model)], strict=True):
        h = model[:place](x).detach()
        _, values, right = torch.linalg.svd(model[place].weight.detach(), full_matrices=False)
        sides = {"before": model[: place + 1](x).detach(), "after": model[:following](x).detach()}
        seen = {"input": h, "right": h @ (values.unsqueeze(1) * right).mT} | sides
        of = {name: gnomon.class_moments(features, labels, k) for name, features in seen.items()}
        for name, its in of.items():
            found[f"nc1_{name}"].append(trace_ratio(its))
        for side in sides:
            found[f"nc2_orthogonal_{side}"].append(ORTHOGONAL(class_means=of[side].means))
            found[f"nc2_etf_{side}"].append(SIMPLEX(centred_means=of[side].means))
    return {name: torch.stack(values) for name, values in found.items()}


ORTHOGONAL = frame(lambda k: 0.0, centre=False)
SIMPLEX = frame(lambda k: -1 / (k - 1), centre=True)


def lengths(quantity, name):
    maps = {"scale": scaled(**{name: -3.0}), "tiny": scaled(**{name: 1e-200}), "rotation": rotated(name)}
    return Contract(quantity, lengths_vary, vectors(name), (0, math.sqrt(2)), maps)


def angles(quantity, name, oracle, highest):
    stretched = {"lengths": lambda a: {name: a[name] * torch.arange(1, 4).unsqueeze(1)}}
    maps = {"rotation": rotated(name), "tiny": scaled(**{name: 1e-200})} | stretched
    # At 0 no angle is the simplex's.
    return Contract(quantity, oracle, vectors(name), (0, highest), maps, zero=oracle is angles_vary)


ROWS = [
    Contract(
        gnomon.class_moments,
        moments_by_loops,
        lambda s: {"features": s.features(), "labels": s.labels(), "classes": s.sizes.k},
        differentiable=False,
        halves=False,
        unit_free=False,
    ),
    Contract(gnomon.nc1, nc1_by_loops, moments, (0, torch.inf), RIGID),
    Contract(gnomon.nc1_trace_ratio, trace_ratio, moments, (0, torch.inf), RIGID),
    lengths(gnomon.equinorm, "centred_means"),
    lengths(gnomon.classifier_equinorm, "classifier"),
    angles(gnomon.equiangularity, "centred_means", angles_vary, 1),
    angles(gnomon.classifier_equiangularity, "classifier", angles_vary, 1),
    angles(gnomon.maximal_equiangularity, "centred_means", off_simplex, 3 / 2),
    angles(gnomon.classifier_maximal_equiangularity, "classifier", off_simplex, 3 / 2),
    Contract(
        gnomon.nc2_etf,
        SIMPLEX,
        vectors("centred_means"),
        (0, torch.inf),
        {"rotation": rotated("centred_means"), "shift": lambda a: {"centred_means": 3 * a["centred_means"] + 4}},
        zero=False,
    ),
    Contract(
        gnomon.nc2_orthogonal,
        ORTHOGONAL,
        vectors("class_means"),
        (0, 3),
        {
            "rotation": rotated("class_means"),
            "lengths": lambda a: {"class_means": a["class_means"] * torch.arange(1, 4).unsqueeze(1)},
        },
        zero=False,
    ),
    Contract(
        gnomon.self_duality,
        duality,
        lambda s: moments(s, classifier=classifier),
        (0, 4),
        {"scale": scaled(classifier=1e3), "features": RIGID["scale"], "shift": RIGID["shift"]},
    ),
    Contract(
        gnomon.nearest_mean_disagreement,
        nearest,
        lambda s: moments(s, features=lambda s: s.normal("n", "p"), logits=lambda s: s.normal("n", "k")),
        (0, 1),
        {"monotone": lambda a: a | {"logits": a["logits"].exp()}},
        differentiable=False,
    ),
    Contract(
        gnomon.layer_collapse,
        layer_by_layer,
        lambda s: {"model": s.network(), "x": s.normal("n", "d"), "labels": s.labels()},
        differentiable=False,
    ),
]
