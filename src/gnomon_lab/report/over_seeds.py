"""One page for several seeds of a setting: their spread instead of one run's numbers."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, ImageSlider, Panel, RegionMap, Space
from gnomon_lab.report.build import published
from gnomon_lab.report.page import Report, Table
from gnomon_lab.report.setting import setting
from gnomon_lab.report.spread import spread
from gnomon_lab.report.worth import by_arms, in_details
from gnomon_lab.runs import Found, Seeds
from gnomon_lab.settings import Settings


def build_over_seeds(experiment: Experiment[Settings], runs: Sequence[Found]) -> Path:
    """Writes the figures and the page of finished runs that differ only in the seed, next to their folders.

    Returns:
        The page's path.

    Raises:
        DataError: if the records of one are damaged.
    """
    runs = sorted(runs, key=lambda run: run.seed)
    first, seeds = runs[0], [run.records() for run in runs]
    if experiment.table_over_seeds is None:
        table = Table(*spread([experiment.table(records) for records in seeds]))
        note = "The table shows their mean and, in brackets, the lowest and the highest."
    else:
        columns, rows = experiment.table_over_seeds(seeds)
        table = Table(columns, tuple(rows))
        note = "The table is over all of them."
    figures = figures_over_seeds(experiment, seeds)
    elsewhere = left_out(experiment.figures(seeds[0]), figures)
    page = Report(
        title=f"{beginning(runs)}{experiment.entry.shows}",
        summary=f"{len(runs)} runs that differ in the seed alone ({setting(experiment, first)}). {note}",
        introduction=f"{experiment.introduction.strip()}\n\n{elsewhere}".strip(),
        table=table,
        claims=tuple(experiment.claims(seeds)) if first.has_one_of(experiment.settings) else (),
        figures=figures,
        details={
            "configuration": first.config,
            "each run": {
                f"seed {run.seed}": experiment.summary(records) for run, records in zip(runs, seeds, strict=True)
            },
            **in_details(
                {
                    f"seed {run.seed}, {arm}": found
                    for run, records in zip(runs, seeds, strict=True)
                    for arm, found in by_arms(records).items()
                }
            ),
        },
    )
    return published(page, folder_over_seeds(first))


def figures_over_seeds(experiment: Experiment[Settings], seeds: Seeds) -> tuple[Figure, ...]:
    """The figures of the page over the records of several seeds."""
    drawn = [experiment.figures(records) for records in seeds]
    return (*experiment.figures_over_seeds(seeds), *together(drawn))


def left_out(of_one: Sequence[Figure], shown: Sequence[Figure]) -> str:
    """Where the figures are that the page of one seed has, and that over several has not; empty if there are none."""
    names = {figure.name for figure in shown}
    others = [figure for figure in of_one if _over_seeds(figure.name) not in names]
    films = [figure for figure in others if isinstance(figure, ImageSlider | RegionMap | Space)]
    what = " and ".join(["films"] * bool(films) + ["other figures"] * (len(films) < len(others)))
    return f"{what.capitalize()} are on each seed's own page (gnomon report RUN)." if others else ""


def beginning(runs: Sequence[Found]) -> str:
    """How the title of the page over these runs begins."""
    return f"{runs[0].experiment}, {len(runs)} seeds: "


def folder_over_seeds(run: Found) -> Path:
    """The folder of the page over all seeds of a run's setting."""
    return run.folder.parent / f"{run.digest}-seeds"


def together(by_seed: Sequence[Sequence[Figure]]) -> list[Curves]:
    """The curves that every run has, with a line for each seed; words that differ between the runs are left out."""
    named = [{figure.name: figure for figure in figures if isinstance(figure, Curves)} for figures in by_seed]
    drawn = []
    for name in named[0]:
        curves = [figures[name] for figures in named if name in figures]
        titles = [[panel.title for panel in figure.panels] for figure in curves]
        if len(curves) < len(by_seed) or any(found != titles[0] for found in titles):
            continue
        panels = tuple(_panel(same) for same in zip(*(figure.panels for figure in curves), strict=True))
        title = curves[0].title if len({figure.title for figure in curves}) == 1 else name
        marked = any(panel.marks for figure in curves for panel in figure.panels)
        what = f"One line for each of {len(curves)} seeds."
        what += " The steps marked on each seed's own page are left out." if marked else ""
        caption = " ".join((what, *_common(curves, marked)))
        drawn.append(replace(curves[0], name=_over_seeds(name), title=title, caption=caption, panels=panels))
    return drawn


def _over_seeds(name: str) -> str:
    """What the figure of that name is called over several seeds."""
    return f"{name}-seeds"


def _common(curves: Sequence[Curves], marked: bool) -> Iterator[str]:
    """The sentences that all captions have; where marks were left out, without those about them."""
    first, *others = (re.split(r"(?<=\.) ", figure.caption) for figure in curves)
    for sentence in first:
        about_marks = marked and re.search(r"\bmarks?\b", sentence, re.IGNORECASE)
        if not about_marks and all(sentence in other for other in others):
            yield sentence


def _panel(panels: Sequence[Panel]) -> Panel:
    """One panel's lines over all runs, without the marks, whose places differ between runs."""
    ranges = {panel.y_range for panel in panels}
    return replace(
        panels[0],
        lines=tuple(line for panel in panels for line in panel.lines),
        marks=(),
        y_range=panels[0].y_range if len(ranges) == 1 else None,
        log_y=all(panel.log_y for panel in panels),
    )
