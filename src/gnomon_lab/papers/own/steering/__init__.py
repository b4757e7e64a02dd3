"""steering: methods that are said to make networks generalise sooner, each tuned as long as weight decay is."""

from gnomon_lab.papers.own.steering.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
