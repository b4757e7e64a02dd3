"""truncation: each layer's sector takes in one cluster and carries it to its target (theorem 3.2, proposition 4.2)."""

from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.effective_flow.truncation import page, run

EXPERIMENT = Experiment(
    EXPERIMENTS["truncation"],
    run.INTRODUCTION,
    run.SMALL,
    run.PAPER,
    run.run,
    page.table,
    page.summary,
    page.figures,
    page.claims,
)
