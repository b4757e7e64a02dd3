"""anatomy: one training run watched by every quantity that fits it, on one time axis, and the order of the changes."""

from gnomon_lab.papers.own.anatomy.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
