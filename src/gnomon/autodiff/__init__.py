"""The only floor that differentiates."""

from gnomon.autodiff.entrance import projected_norm
from gnomon.autodiff.graph import Graph, forward
from gnomon.autodiff.jacobian import input_jacobian, vector_jacobian
from gnomon.autodiff.memory import DEFAULT_BUDGET, chunk_size
from gnomon.autodiff.observation import OBSERVATIONS, Observed, observe

__all__ = [
    "DEFAULT_BUDGET",
    "OBSERVATIONS",
    "Graph",
    "Observed",
    "chunk_size",
    "forward",
    "input_jacobian",
    "observe",
    "projected_norm",
    "vector_jacobian",
]
