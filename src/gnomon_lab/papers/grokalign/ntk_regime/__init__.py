"""ntk-regime: a sample's inner product with its centroid, and the neural tangent kernel that moves it (figure 3)."""

from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.grokalign.ntk_regime import page, run

EXPERIMENT = Experiment(
    EXPERIMENTS["ntk-regime"],
    run.INTRODUCTION,
    run.SMALL,
    run.PAPER,
    run.run,
    page.table,
    page.summary,
    page.figures,
    page.claims,
)
