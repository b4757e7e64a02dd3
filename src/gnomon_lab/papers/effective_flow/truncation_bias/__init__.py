"""truncation-bias: the cumulative bias at a fixed rotation, event by event as points are cut away (section 4.3)."""

from gnomon_lab.papers.effective_flow.truncation_bias.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
