"""verdict: how well the geometry of training tells whether more of it is worth it, judged on the corpus."""

from gnomon_lab.papers.own.verdict.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
