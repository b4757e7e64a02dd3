"""clustered-flow: nothing is cut, so that the network is linear in its data and its flow is solved for all times."""

from gnomon_lab.papers.effective_flow.clustered_flow.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
