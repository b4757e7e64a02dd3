"""elsewhere: training runs of kinds that the corpus lacks, and what the verdict said of them before they went on."""

from gnomon_lab.papers.own.elsewhere.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
