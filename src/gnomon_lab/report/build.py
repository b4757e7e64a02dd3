"""From a run's folder to its figures and its page."""

import os
from functools import partial
from pathlib import Path

from gnomon.errors import EmptyError
from gnomon_lab.experiment import Experiment
from gnomon_lab.report.cost import cost
from gnomon_lab.report.drawing import save
from gnomon_lab.report.page import Report, Table, write
from gnomon_lab.report.setting import DEFAULT, elsewhere, setting
from gnomon_lab.report.worth import by_arms, in_details, in_sight
from gnomon_lab.runs import Found
from gnomon_lab.runs.files import replace_file
from gnomon_lab.settings import Settings


def build(experiment: Experiment[Settings], found: Found) -> Path:
    """Writes the run's figures (SVG) and its page, both from records alone; returns the page's path.

    Raises:
        EmptyError: if the run is not finished.
        DataError: if its records are damaged.
    """
    require_finished(found)
    records = found.records()
    columns, rows = experiment.table(records)
    verdicts = by_arms(records)
    worth = in_sight(verdicts)
    page = Report(
        title=f"{experiment.name}: {experiment.entry.shows}",
        summary=experiment.summary(records),
        introduction=experiment.introduction.strip(),
        table=Table(columns, tuple(rows)),
        worth=worth,
        claims=tuple(experiment.claims([records])) if found.has_one_of(experiment.settings) else (),
        figures=tuple(experiment.figures(records)),
        details={
            "seed": found.seed,
            "configuration": found.config,
            **{f"resumed with, {k}" if k else "made with": here for k, here in enumerate(found.made_with)},
            "what the readings cost": cost(records),
            **({} if worth else in_details(verdicts)),
        },
        then=then(experiment, found),
    )
    return published(page, found.folder)


def require_finished(found: Found) -> None:
    """Raises EmptyError if the run is not finished."""
    if not found.finished:
        raise EmptyError(
            found.folder,
            "a finished run",
            "an unfinished one",
            f"Call `gnomon run {found.experiment}` with the same options to finish it.",
            where="report",
        )


def published(report: Report, folder: Path) -> Path:
    """Writes a report's figures (SVG) and its page into a folder; returns the page's path."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for figure in report.figures:
        replace_file(folder / "figures" / f"{figure.name}.svg", partial(save, figure))
    path = folder / "report.html"
    write(report, path)
    return path


def then(experiment: Experiment[Settings], found: Found) -> str:
    """What to do after a run of the experiment."""
    words = setting(experiment, found)
    # From inside, a run's folder is named by less than what it lies in.
    named = len(found.folder.parts) > 1 and ".." not in found.folder.parts[-2:]
    folder = found.folder if named else Path(os.path.abspath(found.folder))  # noqa: PTH100, as it is named
    options = ("" if words == DEFAULT else f" {words}") + elsewhere(folder.parent.parent)
    return (
        f"What next: `gnomon run {experiment.name}{options} --seeds 0-4` shows how far it depends on chance, `gnomon "
        "list` names the other experiments, and docs/getting-started.md reads a network of your own while it trains."
    )
