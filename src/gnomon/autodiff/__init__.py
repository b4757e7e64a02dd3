"""The only floor that differentiates."""

from gnomon.autodiff.entrance import Passage, passage, projected_norm, without_second_derivative
from gnomon.autodiff.features import features
from gnomon.autodiff.graph import Graph, forward, outputs_of
from gnomon.autodiff.head import linear_head
from gnomon.autodiff.jacobian import input_jacobian, vector_jacobian
from gnomon.autodiff.memory import DEFAULT_BUDGET, chunk_size
from gnomon.autodiff.observation import OBSERVATIONS, Observed, observe

__all__ = [
    "DEFAULT_BUDGET",
    "OBSERVATIONS",
    "Graph",
    "Observed",
    "Passage",
    "chunk_size",
    "features",
    "forward",
    "input_jacobian",
    "linear_head",
    "observe",
    "outputs_of",
    "passage",
    "projected_norm",
    "vector_jacobian",
    "without_second_derivative",
]
