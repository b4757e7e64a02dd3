"""From a run's folder to its figures and its page."""

from functools import partial
from pathlib import Path

from gnomon.errors import EmptyError
from gnomon.plot import Figure
from gnomon.plot.static import save
from gnomon_lab.papers import EXPERIMENTS, experiment
from gnomon_lab.report.cost import cost
from gnomon_lab.report.page import Report, Table, write
from gnomon_lab.runs import Found, all_runs
from gnomon_lab.runs.files import replace_file


def build(found: Found) -> Path:
    """Writes the run's figures (SVG) and its page, both from records alone; returns the page's path.

    Figures over seeds, where an experiment has them, are of all finished runs that differ from this one in it alone.

    Raises:
        EmptyError: if the run has not come far enough to be shown.
        DataError: if its records are damaged.
    """
    records = found.records()
    if not found.finished:
        raise EmptyError(
            f"report({found.folder}): expected a finished run, got {len(records)} records of an unfinished one. "
            f"Call `gnomon run {found.experiment}` with the same options to finish it."
        )
    module = experiment(found.experiment)
    figures = (*figures_across_seeds(found), *module.figures(records))
    (found.folder / "figures").mkdir(exist_ok=True)
    for figure in figures:
        replace_file(found.folder / "figures" / f"{figure.name}.svg", partial(save, figure))
    columns, rows = module.table(records)
    page = Report(
        title=f"{found.experiment}: {EXPERIMENTS[found.experiment].shows}",
        summary=module.summary(records),
        introduction=module.INTRODUCTION.strip(),
        table=Table(columns, tuple(rows)),
        claims=tuple(module.claims([records])) if found.has_one_of(module.SETTINGS) else (),
        figures=figures,
        details={
            "seed": found.seed,
            "configuration": found.config,
            **{f"resumed with, {k}" if k else "made with": here for k, here in enumerate(found.made_with)},
            "what the readings cost": cost(records),
        },
        then=then(found.experiment),
    )
    path = found.folder / "report.html"
    write(page, path)
    return path


def then(name: str) -> str:
    """What to do after a run of the experiment."""
    return (
        f"What next: `gnomon run {name} --seeds 0-4` shows how far it depends on chance, `gnomon list` names the other "
        "experiments, and docs/getting-started.md reads a network of your own while it trains."
    )


def figures_across_seeds(found: Found) -> list[Figure]:
    """The experiment's figures over the finished seeds of a run's configuration; none where there is only one."""
    module = experiment(found.experiment)
    if not hasattr(module, "figures_over_seeds"):
        return []
    runs = all_runs(found.folder.parent.parent, found.experiment)
    seeds = [run.records() for run in runs if run.finished and run.digest == found.digest]
    return module.figures_over_seeds(seeds) if len(seeds) > 1 else []
