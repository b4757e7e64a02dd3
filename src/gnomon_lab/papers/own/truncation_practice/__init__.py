"""truncation-practice: ordinary gradient descent beside the effective gradient flow, one difference at a time."""

from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.own.truncation_practice import page, run

EXPERIMENT = Experiment(
    EXPERIMENTS["truncation-practice"],
    run.INTRODUCTION,
    run.SMALL,
    run.PAPER,
    run.run,
    page.table,
    page.summary,
    page.figures,
    page.claims,
)
