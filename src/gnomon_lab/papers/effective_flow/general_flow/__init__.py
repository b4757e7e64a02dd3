"""general-flow: truncation maps one after the other, on clusters that are not separated (theorem 5.1)."""

from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.effective_flow.general_flow import page, run

EXPERIMENT = Experiment(
    EXPERIMENTS["general-flow"],
    run.INTRODUCTION,
    run.SMALL,
    run.PAPER,
    run.run,
    page.table,
    page.summary,
    page.figures,
    page.claims,
)
