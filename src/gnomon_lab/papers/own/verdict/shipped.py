"""What ships: the model fitted to the whole corpus, and the runs that it shows, as plain numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from gnomon_lab.papers.own._watched import Watched
from gnomon_lab.papers.own.verdict.models import BOOSTED, Predict, Traits, booster
from gnomon_lab.papers.own.verdict.moments import Moments
from gnomon_lab.papers.own.verdict.nested import Ranges, chosen, limit, odds, standard
from gnomon_lab.papers.own.verdict.stopping import threshold

DIGITS = 4
"""Decimal places that are kept."""
Json = dict[str, Any]


def shipped(
    quantities: Sequence[str],
    validation: Sequence[str],
    networks: Sequence[Watched],
    data: Moments,
    group: Int[np.ndarray, "m"],
) -> Json:
    """All that `gnomon.verdict` needs, each thing learnt as in the judgement, with nothing left out.

    Similar runs, and the distance to them, are by the quantities of the training data alone.
    """
    alone, of_group = whole(data.of(quantities), group)
    known = alone.only(alone.known)
    fitted = standard(known.traits)
    lowest, next_to_it = fitted(np.array([[0.0], [1.0]]) + np.zeros(len(alone.names)))
    return {
        "quantities": list(quantities),
        **model(networks, alone, of_group),
        "width": rounded(1 / (next_to_it - lowest)),
        "limit": round(limit(known, of_group[alone.known]), DIGITS),
        "with_validation": model(networks, *whole(data.of((*quantities, *validation)), group)),
        "runs": [
            one(networks[which], known.only(known.network == which), fitted) for which in np.unique(known.network)
        ],
    }


def whole(data: Moments, group: Int[np.ndarray, "m"]) -> tuple[Moments, Int[np.ndarray, "m"]]:
    """The moments that have all traits, and their groups."""
    return data.only(data.whole), group[data.whole]


def model(networks: Sequence[Watched], data: Moments, group: Int[np.ndarray, "m"]) -> Json:
    """One model, its calibration, and what came at each probability."""
    known = data.only(data.known)
    name, scores, calibrate = chosen(data, data.rises, group, BOOSTED)
    predicted = calibrate(scores[name])
    ranges = Ranges.of(predicted[data.known], known.rise)
    return {
        "traits": list(data.names),
        "middle": rounded(known.traits.mean(0)),
        **boosted(known),
        "calibration": calibration(calibrate),
        "ranges": {
            "edges": rounded(ranges.edges),
            "low": rounded(ranges.low),
            "high": rounded(ranges.high),
            "doublings": doublings(ranges.edges, predicted[data.known], known),
        },
        "stop": threshold(data, predicted, networks, np.unique(data.network)),
    }


def boosted(known: Moments) -> Json:
    """The trees, node by node; a node without branches leads to itself."""
    fitted = booster().fit(known.traits, known.rises)
    trees = []
    for (grown,) in fitted._predictors:  # private in scikit-learn
        nodes = grown.nodes
        here = np.arange(len(nodes))
        trees.append({
            "trait": nodes["feature_idx"].tolist(),
            # Not rounded: many equal a value of the corpus, which has to stay on its side.
            "threshold": np.where(nodes["is_leaf"], 0.0, nodes["num_threshold"]).tolist(),
            "left": np.where(nodes["is_leaf"], here, nodes["left"]).tolist(),
            "right": np.where(nodes["is_leaf"], here, nodes["right"]).tolist(),
            "value": rounded(nodes["value"]),
        })  # fmt: skip
    return {"start": round(float(fitted._baseline_prediction[0, 0]), 6), "trees": trees}


def calibration(calibrate: Predict) -> list[float]:
    """Platt's slope and shift of the logarithm of the odds."""
    shift, both = odds(calibrate(np.array([0.5, 1 / (1 + np.exp(-1))])))[:, 0]
    return rounded(np.array([both - shift, shift]))


def doublings(edges: NDArray[Any], predicted: NDArray[Any], data: Moments) -> list[float | None]:
    """In each bin the median time to a rise of those that have one; None where fewer than ten do."""
    bins = np.searchsorted(edges, predicted, side="right")
    found = [data.soon[(bins == each) & data.rises] for each in range(len(edges) + 1)]
    return [round(float(np.median(soon)), 2) if len(soon) >= 10 else None for soon in found]


def one(network: Watched, moments: Moments, fitted: Callable[[Traits], Traits]) -> Json:
    """A network as it is shown."""
    return {
        "family": network.family,
        "seed": network.seed,
        "steps": network.steps.tolist(),
        "unseen": rounded(network.unseen),
        "places": moments.place.tolist(),
        "rises": moments.rises.tolist(),
        "traits": [rounded(row, 3) for row in fitted(moments.traits)],
    }


def rounded(values: NDArray[Any], digits: int = 6) -> list[float]:
    """Rounded to this many decimal places."""
    return [round(float(value), digits) for value in values]
