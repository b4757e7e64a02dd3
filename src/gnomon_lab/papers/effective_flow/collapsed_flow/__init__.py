"""collapsed-flow: each class is one point; an integral of motion makes the loss decay while the classes stay so."""

from gnomon_lab.papers.effective_flow.collapsed_flow.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
