"""The board's page: predictors in the order of what they tell of families that they were not judged on."""

from collections.abc import Sequence
from functools import partial

from gnomon_lab.figures import Curves, Figure, Line, Panel, Scatter, ScatterPanel
from gnomon_lab.papers.own._board import dots, interval
from gnomon_lab.runs import Cells, Claim, Record, Seeds

SHOWN = 24
"""Predictors in table and figure: the best, and those that a paper or a baseline stands for."""
CLAIMED = {
    "some/centroid_alignment": ("centroid alignment", "high", "Walker et al., arXiv:2506.12284"),
    "train/nc1": ("NC1", "low", "Papyan, Han, Donoho, arXiv:2008.08186"),
    "train/parameter_norm": ("weight norm", "low", "Liu et al., arXiv:2210.01117"),
    "some/local_learning_coefficient": ("local learning coefficient", "low", "Lau et al., arXiv:2308.12108"),
    "train/heavy_tails.alpha": ("heavy-tail exponent", "low", "Martin, Mahoney, arXiv:1810.01075"),
}
"""What papers say leads, by the number that is read: in words, which way, and whose claim it is."""
BASELINES = ("step", "train/training_loss", "train/parameter_norm", "validation/accuracy", "validation/log_probability")


def ordered(records: Sequence[Record]) -> list[Record]:
    """All predictors, the best first."""
    return sorted(records, key=lambda record: -(record["left_out"]["value"] or 0))


def chosen(records: Sequence[Record]) -> list[Record]:
    """The best, and below them those whose rank is of interest."""
    best = ordered(records)
    known = {*CLAIMED, *BASELINES}
    return [record for place, record in enumerate(best) if place < SHOWN or record["predictor"] in known]


def title(record: Record) -> str:
    """A predictor's name and form."""
    return f"{record['predictor']}, {record['form']}"


def table(records: Sequence[Record]) -> Cells:
    """What each predictor tells on families left out; the figure shows each family separately."""
    columns = ("", "families left out", "rank correlation", "in time", "elsewhere")
    return columns, [(title(record), *row(record)) for record in chosen(records)]


def row(record: Record) -> tuple[str, ...]:
    """The row of one predictor."""
    own, elsewhere = record["own"], record["elsewhere"]
    return (
        interval(record["left_out"]),
        interval(record["left_out"]["correlation"]),
        "" if own["in_time"] is None else f"{own['in_time']:.0%}",
        "" if elsewhere["in_time"] is None else f"{elsewhere['in_time']:.0%}, false {elsewhere['false']:.0%}",
    )


def summary(records: Sequence[Record]) -> str:
    """Which predictor tells most, and what a validation split does in comparison."""
    best = ordered(records)[0]
    split = next(record for record in ordered(records) if record["predictor"] == "validation/accuracy")
    return (
        f"Of {len(records)} predictors {title(best)} tells most of families left out: AUROC "
        f"{interval(best['left_out'])} when the training "
        f"data are fitted; of a validation split {title(split)}: {interval(split['left_out'])}."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """The AUROCs, a row for each predictor; and against time."""
    shown = chosen(records)
    names = list(shown[0]["families"])
    by_name = {"families left out": [record["left_out"]["value"] for record in shown]}
    by_name |= {name: [record["families"][name]["value"] for record in shown] for name in names}
    points = [dots(name, values, colour) for colour, (name, values) in enumerate(by_name.items())]
    panel = ScatterPanel(
        "Who will generalise, asked when the training data are fitted",
        "AUROC; 0.5 says nothing, below it low values say so",
        "",
        tuple(kind for kind in points if kind),
        rows=tuple(title(record) for record in shown),
    )
    caption = "In each family, and over the families, each turned the way that the others point."
    return [Scatter("board", "What tells who will generalise", caption, (panel,)), later(records)]


def later(records: Sequence[Record]) -> Curves:
    """What waiting brings: for each predictor that is best at some moment, and for those that papers speak of."""
    count = len(records[0]["later"])
    best = [max(records, key=partial(area_later, k)) for k in range(count)]
    known = [record for record in records if record["predictor"] in CLAIMED and record["form"] == "level"]
    titled = (("Best at some moment", after(best, dashed=False)), ("Said to lead", after(known, dashed=True)))
    panels = tuple(
        Panel(words, "AUROC, families left out", lines, y_range=(0.2, 1.0)) for words, lines in titled if lines
    )
    caption = "In families left out; of networks that are read at four times as many steps."
    return Curves(
        "later", "Asked again later", caption, "doublings of the steps after the training data are fitted", panels,
        log_x=False,
    )  # fmt: skip


def area_later(doubling: int, record: Record) -> float:
    """The AUROC this many doublings later."""
    found: float = record["later"][doubling]["value"] or 0.0
    return found


def after(records: Sequence[Record], *, dashed: bool) -> tuple[Line, ...]:
    """The AUROC of each against the doublings."""
    lines: list[Line] = []
    for record in {title(record): record for record in records}.values():
        there = [(k, found["value"]) for k, found in enumerate(record["later"]) if found["value"] is not None]
        if there:
            x, y = zip(*there, strict=True)
            lines.append(Line(title(record), x, y, dashed, colour=len(lines)))
    return tuple(lines)


def claims(seeds: Seeds) -> list[Claim]:
    """What papers say leads, for the first finished seed: the others only draw other resamples."""
    records = {(record["predictor"], record["form"]): record for record in seeds[0]}
    found = []
    for name, (words, way, source) in CLAIMED.items():
        found += of_one(records.get((name, "level")), words, way, source)
    return found


def of_one(record: Record | None, words: str, way: str, source: str) -> list[Claim]:
    """That it tells, that it leads, and that it tells more than a validation split."""
    tells = f"{words}, {way} when the training data are fitted, tells who will generalise"
    if record is None or (areas := record["all"])["value"] is None:
        return [Claim(tells, source, "AUROC above 0.5", "has no value where both outcomes are known", False)]
    low, high = (areas["low"], areas["high"]) if way == "high" else (1 - areas["high"], 1 - areas["low"])
    value = areas["value"] if way == "high" else 1 - areas["value"]
    alarms, rivals = record[way], record["beyond_validation"]
    beyond = min((found for found in rivals.values() if found["value"] is not None), key=lambda found: found["value"])
    median = "most never ring" if alarms["median"] is None else f"median {alarms['median']:.1f} doublings"
    return [
        Claim(
            tells,
            source,
            "AUROC above 0.5 in the whole interval",
            f"{value:.2f} ({low:.2f} to {high:.2f})",
            low > 0.5,
        ),
        Claim(
            f"{words} leads: an alarm with at most one false in ten rings before half of the rise of unseen accuracy",
            source,
            "for most networks that generalise",
            f"for {alarms['in_time']:.0%} of {alarms['networks']}; {median}",
            alarms["in_time"] > 0.5,
        ),
        Claim(
            f"{words} tells more than a validation split of a tenth, in its better form, in families left out",
            "docs/experiments/corpus.md",
            "a difference of the AUROC above 0 in the whole interval",
            f"{beyond['value']:+.2f} ({beyond['low']:+.2f} to {beyond['high']:+.2f})",
            beyond["low"] > 0,
        ),
    ]
