"""truncation: each layer's sector takes in one cluster and carries it to its target (theorem 3.2, proposition 4.2)."""

from gnomon_lab.papers.effective_flow.truncation.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
