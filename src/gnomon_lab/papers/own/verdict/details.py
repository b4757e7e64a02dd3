"""Further rows of the page: always the base rate, each family on its own, and what is said in families left out."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import t

from gnomon_lab.papers.own._board import Numbers, interval
from gnomon_lab.runs import Record

Cells = dict[str, str]
"""By column; it is empty elsewhere."""
LEFT_OUT = {"networks": "networks left out", "families": "families left out", "kinds": "data left out"}
OFTEN = {"1": "twice per doubling", "2": "once per doubling", "4": "once per two doublings"}
"""How often one asks, by one in how many readings is asked."""


def across(values: Sequence[float]) -> Numbers:
    """The mean over families, and its 95 % interval by Student's t; none with fewer than two."""
    if len(values) < 2:
        return {"value": None, "low": None, "high": None}
    half = float(t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1)) / math.sqrt(len(values))
    value = float(np.mean(values))
    return {"value": value, "low": value - half, "high": value + half}


def calibrated(fitted: Mapping[str, Any]) -> Cells:
    """How far a set is better than always the base rate of the other groups, and how well it is calibrated."""
    own = fitted["in_family"].values()
    return {
        "AUROC, one threshold": "none" if fitted["auroc_together"] is None else f"{fitted['auroc_together']:.2f}",
        "Brier": f"{fitted['brier']['value']:.3f}",
        "below the base rate's": interval(fitted["base_rate"]["above"], 3),
        "below it, over families": interval(across([one["above"]["value"] for one in own]), 3),
        "calibration": f"{fitted['calibration']['value']:.3f}",
        "off in a family": interval(across([abs(one["off"]["value"]) for one in own]), 3),
        "range holds": f"{fitted['covered']['value']:.0%}",
        "range, over families": interval(across([one["covered"]["value"] for one in own])),
        "answered": f"{fitted['answered']['value']:.0%}",
    }


def base_rate(record: Record) -> Cells:
    """What always the base rate of the other groups would score."""
    fitted = record["fitted"]
    off = [abs(one["base_rate"] - one["came"]) for one in fitted["in_family"].values()]
    return {
        "": "always the base rate",
        "left out": LEFT_OUT[record["grouping"]].removesuffix(" left out"),
        "Brier": f"{fitted['base_rate']['brier']:.3f}",
        "off in a family": interval(across(off), 3),
    }


def families(record: Record) -> Iterator[Cells]:
    """Each family, left out: what was given and what came, and how often the range held."""
    for name, one in record["fitted"]["in_family"].items():
        area = record["fitted"]["families"][name]
        yield {
            "": f"{record['set']}: {name}",
            "left out": "families",
            "AUROC": "none" if area is None else f"{area:.2f}",
            "below the base rate's": interval(one["above"], 3),
            "calibration": f"given {one['given']:.0%}, came {one['came']:.0%}",
            "off in a family": interval(one["off"], 3),
            "range holds": interval(one["covered"]),
        }


def told(record: Record) -> Iterator[Cells]:
    """What is said in families left out, how often a rise came, and how many stops are false."""
    for one in record["words"]:
        said = f"{record['set']} says {one['says']}: {one['moments']} times, {one['networks']} networks"
        given = "" if one["given"] is None else f"given {one['given']:.0%}, came {interval(one['came'])}"
        own = ", ".join(f"{name} {of['came']:.0%} of {of['moments']}" for name, of in one["families"].items())
        yield {"": said, "left out": "families", "calibration": given, "off in a family": own}
    late, stops = record["late"], record["stops"]
    yield {
        "": f"{record['set']} says generalising: {late['told']} of {late['networks']} networks that generalise late",
        "left out": "families",
    }
    below = f"{record['set']}, below {record['below']:g}"
    for every, counted in stops["one in"].items():
        share = f": {interval(stops['false'])}" if every == "1" else ""
        found = f"{', '.join(of_stops(one) for one in counted)}{share}"
        yield {"": f"{below}, asked {OFTEN[every]}, of the stops", "left out": "families", "false stops": found}
    yield {
        "": f"{below}, of the stops with four times the steps to come",
        "left out": "families",
        "false stops": of_stops(stops["followed"]),
    }


def of_stops(found: Mapping[str, int]) -> str:
    """How many of the stops are false."""
    return f"{found['false']} of {found['stopped']}"
