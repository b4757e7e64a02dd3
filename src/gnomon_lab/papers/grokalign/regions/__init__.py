"""regions: the linear regions around training digits when they are memorised and when they are grokked (figure 1)."""

from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.grokalign.regions import page, run

EXPERIMENT = Experiment(
    EXPERIMENTS["regions"],
    run.INTRODUCTION,
    run.SMALL,
    run.PAPER,
    run.run,
    page.table,
    page.summary,
    page.figures,
    page.claims,
)
