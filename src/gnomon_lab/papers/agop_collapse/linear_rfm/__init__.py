"""linear-rfm: the recursion in which deep neural collapse can be proved, and the constants of its theorem (4.3)."""

from gnomon_lab.papers.agop_collapse.linear_rfm.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
