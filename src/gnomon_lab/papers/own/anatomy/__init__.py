"""anatomy: one training run watched by every quantity that fits it, on one time axis, and the order of the changes."""

from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.own.anatomy import order, page, run

EXPERIMENT = Experiment(
    EXPERIMENTS["anatomy"],
    run.INTRODUCTION,
    run.SMALL,
    run.PAPER,
    run.run,
    page.table,
    page.summary,
    page.figures,
    order.claims,
    (),
    page.figures_over_seeds,
)
