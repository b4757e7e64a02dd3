"""truncation-practice: ordinary gradient descent next to the effective gradient flow, one difference at a time."""

from gnomon_lab.papers.own.truncation_practice.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
