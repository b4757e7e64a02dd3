"""truncation-bias: the cumulative bias at a fixed rotation, event by event as points are cut away (section 4.3)."""

from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.effective_flow.truncation_bias import page, run

EXPERIMENT = Experiment(
    EXPERIMENTS["truncation-bias"],
    run.INTRODUCTION,
    run.SMALL,
    run.PAPER,
    run.run,
    page.table,
    page.summary,
    page.figures,
    page.claims,
)
