"""general-flow: truncation maps one after the other, on clusters that are not separated (theorem 5.1)."""

from gnomon_lab.papers.effective_flow.general_flow.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
