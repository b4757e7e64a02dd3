"""The page: how well each set of quantities tells on what is left out, and what stopping by it is worth."""

from collections.abc import Sequence
from typing import Any

from gnomon_lab.figures import Figure, Scatter, ScatterPanel
from gnomon_lab.papers.own._board import Numbers, dots, interval
from gnomon_lab.papers.own.verdict.details import LEFT_OUT, across, base_rate, calibrated, families, told
from gnomon_lab.runs import Cells, Claim, Record, Seeds, by_arm

SOURCE = "docs/experiments/verdict.md"
OURS = "core"
"""The set that the claims are about."""
SHIPS = "core, boosted"
"""What ships, as the protocol's rule has it."""
STRONGEST = "validation alone, boosted"
"""The strongest rival of what ships, with the same model; the table compares each set with it."""
ADDED_RIVALS = (STRONGEST, "weight norm alone, boosted", "training loss alone, boosted")
SHIPS_TOO = "core and validation, boosted"
"""What ships too, since 2026-11-30, for who has a validation split."""
ADDED = (*ADDED_RIVALS, "cheap, boosted", SHIPS_TOO)
"""Judged since 2026-11-30, after the results of the others were known: no claim is about them."""
WITHIN, ACROSS, SURE, HONEST, FALSE, HALF = 0.93, 0.8, (0.85, 0.95), 0.05, 0.05, 0.5
"""What is aimed at: AUROC on networks and on families left out, coverage, calibration error, false stops, waste."""


def probabilities(records: Sequence[Record]) -> dict[tuple[str, str], Record]:
    """The records, by what is left out and by what is used."""
    return {(record["grouping"], record["set"]): record for record in by_arm(records)["probability"]}


def table(records: Sequence[Record]) -> Cells:
    """For moments at which the training data are fitted, unless stated otherwise."""
    columns = (
        "", "left out", "AUROC", "AUROC, over families", "AUROC, one threshold", "above boosted validation",
        "above it, over families", "all moments", "Brier", "below the base rate's", "below it, over families",
        "calibration", "off in a family", "range holds", "range, over families", "answered", "false stops", "wasted",
    )  # fmt: skip
    known, arms = probabilities(records), by_arm(records)
    rows = [row(record, known.get((grouping, STRONGEST))) for (grouping, _), record in known.items()]
    rows += [base_rate(known[grouping, OURS]) for grouping in dict.fromkeys(grouping for grouping, _ in known)]
    rows += [one for name in (SHIPS, SHIPS_TOO) for one in families(known["families", name])]
    rows += [one for record in arms["told"] for one in told(record)]
    rows += [{"": record["rule"], **waste(record)} for record in arms["rules"]]
    return columns, [tuple(cells.get(column, "") for column in columns) for cells in rows]


def marked(name: str) -> str:
    """A set's name, and whether it was added after the results were known."""
    return f"{name} (added later)" if name in ADDED else name


def row(record: Record, rival: Record | None) -> dict[str, str]:
    """The row of one set, by column."""
    fitted, above = record["fitted"], {}
    if rival is not None and rival["set"] != record["set"]:
        above = {
            "above boosted validation": interval(record["beyond"][STRONGEST]["auroc"], 3),
            "above it, over families": interval(over_families(record, rival), 3),
        }
    return {
        "": marked(record["set"]),
        "left out": LEFT_OUT[record["grouping"]].removesuffix(" left out"),
        "AUROC": interval(fitted["auroc"]),
        "AUROC, over families": interval(over_families(record)),
        **above,
        "all moments": number(record["all"]["auroc"]),
        **calibrated(fitted),
        **waste(record),
    }


def over_families(record: Record, other: Record | None = None) -> Numbers:
    """The mean over families of the AUROC, or of by how much it is above another's, and its 95 % interval.

    By Student's t, the family being the unit; the other interval resamples the networks within these families.
    """
    areas = record["fitted"]["families"]
    theirs = dict.fromkeys(areas, 0.0) if other is None else other["fitted"]["families"]
    found = [areas[name] - theirs[name] for name in areas if None not in (areas[name], theirs[name])]
    return across(found)


def number(found: dict[str, Any]) -> str:
    """A value."""
    return "none" if found["value"] is None else f"{found['value']:.2f}"


def waste(record: Record) -> dict[str, str]:
    """The results of stopping."""
    stops = record["stops"]
    return {"false stops": f"{stops['false']['value']:.1%}", "wasted": f"{stops['wasted']['value']:.0%}"}


def summary(records: Sequence[Record]) -> str:
    """How well ours does, what ships, and the validation split."""
    known = probabilities(records)
    areas = (
        f"{name}{what} {interval(known['families', name]['fitted']['auroc'])}"
        for name, what in (
            (OURS, ", of the claims,"),
            (SHIPS, ", which ships,"),
            ("validation alone", ""),
            (STRONGEST, ""),
            (SHIPS_TOO, ", which ships too,"),
        )
        if ("families", name) in known
    )
    return f"AUROC in families left out, asked once the training data are fitted: {'; '.join(areas)}."


def figures(records: Sequence[Record]) -> list[Figure]:
    """The AUROC of each set, by what is left out."""
    known = probabilities(records)
    names = list(dict.fromkeys(name for _, name in known))
    points = (
        dots(words, [known[grouping, name]["fitted"]["auroc"]["value"] for name in names], colour)
        for colour, (grouping, words) in enumerate(LEFT_OUT.items())
    )
    panel = ScatterPanel(
        "Will unseen accuracy rise by five points?",
        "AUROC, mean over families; 0.5 says nothing",
        "",
        tuple(kind for kind in points if kind),
        rows=tuple(map(marked, names)),
    )
    caption = "Asked from the reading on at which the training data are fitted."
    if any(name in ADDED for name in names):
        caption += " Added later: on 2026-11-30, when the results of the others were known."
    return [Scatter("verdict", "What tells whether more training is worth it", caption, (panel,))]


def claims(seeds: Seeds) -> list[Claim]:
    """What is aimed at, for the first finished seed: others only draw other resamples."""
    known = probabilities(seeds[0])
    within, across = known["networks", OURS]["fitted"], known["families", OURS]["fitted"]
    stops, rivals = known["families", OURS]["stops"], known["families", OURS]["beyond"]
    low, high = SURE
    found = [
        aimed("AUROC of networks left out", f"at least {WITHIN}", within["auroc"], within["auroc"]["value"] >= WITHIN),
        aimed("AUROC of families left out", f"at least {ACROSS}", across["auroc"], across["auroc"]["value"] >= ACROSS),
        aimed(
            "the 90 % range of the rise holds, in families left out",
            f"{low:.0%} to {high:.0%}",
            across["covered"],
            low <= across["covered"]["value"] <= high,
        ),
        aimed(
            "calibration error in families left out",
            f"at most {HONEST}",
            across["calibration"],
            across["calibration"]["value"] <= HONEST,
        ),
        Claim(
            f"{OURS}: stopping by it, in families left out",
            SOURCE,
            f"at most {FALSE:.0%} false stops, at most {HALF:.0%} of the wasted steps of never stopping",
            f"false {interval(stops['false'])}, wasted {interval(stops['wasted'])}",
            stops["false"]["value"] <= FALSE and stops["wasted"]["value"] <= HALF,
        ),
    ]
    for rival, differences in rivals.items():
        if rival in (OURS, *ADDED_RIVALS):
            continue
        for score, words in (("auroc", "a higher AUROC than"), ("brier", "a lower Brier score than")):
            difference = differences[score]
            above = "a difference above 0 in the whole interval"
            held = difference["low"] is not None and difference["low"] > 0
            message = f"{OURS}: {words} {rival}, in families left out"
            found.append(Claim(message, SOURCE, above, interval(difference, 3), held))  # which may be near 0
    return found


def aimed(message: str, expected: str, measured: dict[str, Any], holds: bool) -> Claim:
    """One claim, asked once the training data are fitted."""
    return Claim(f"{OURS}: {message}", SOURCE, expected, interval(measured), holds)
