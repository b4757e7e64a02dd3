"""clustered-flow: nothing is cut, so that the network is linear in its data and its flow is solved for all times."""

from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.effective_flow.clustered_flow import page, run

EXPERIMENT = Experiment(
    EXPERIMENTS["clustered-flow"],
    run.INTRODUCTION,
    run.SMALL,
    run.PAPER,
    run.run,
    page.table,
    page.summary,
    page.figures,
    page.claims,
)
