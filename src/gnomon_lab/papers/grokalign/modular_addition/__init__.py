"""modular-addition: where GrokAlign does not help a transformer to grok, and where it does (figures 8 and 9)."""

from gnomon_lab.papers.grokalign.modular_addition.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
