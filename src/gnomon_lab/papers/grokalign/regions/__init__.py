"""regions: the linear regions around training digits when they are memorised and when they are grokked (figure 1)."""

from gnomon_lab.papers.grokalign.regions.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
