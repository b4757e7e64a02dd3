"""linear-rfm: the recursion in which deep neural collapse can be proved, and the constants of its theorem (4.3)."""

from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.agop_collapse.linear_rfm import page, run

EXPERIMENT = Experiment(
    EXPERIMENTS["linear-rfm"],
    run.INTRODUCTION,
    run.SMALL,
    run.PAPER,
    run.run,
    page.table,
    page.summary,
    page.figures,
    page.claims,
)
