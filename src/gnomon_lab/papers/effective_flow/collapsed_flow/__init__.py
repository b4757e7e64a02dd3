"""collapsed-flow: each class is one point; an integral of motion makes the loss decay, while the classes stay so."""

from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.effective_flow.collapsed_flow import page, run

EXPERIMENT = Experiment(
    EXPERIMENTS["collapsed-flow"],
    run.INTRODUCTION,
    run.SMALL,
    run.PAPER,
    run.run,
    page.table,
    page.summary,
    page.figures,
    page.claims,
)
