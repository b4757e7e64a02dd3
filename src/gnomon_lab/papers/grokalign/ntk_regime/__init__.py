"""ntk-regime: a sample's inner product with its centroid, and the neural tangent kernel that moves it (figure 3)."""

from gnomon_lab.papers.grokalign.ntk_regime.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
