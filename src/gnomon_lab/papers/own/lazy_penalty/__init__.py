"""lazy-penalty: GrokAlign at some batches, or on a part of each: the steps and the time to a goal, for each λ."""

from gnomon_lab.papers.own.lazy_penalty.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
