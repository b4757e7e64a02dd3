"""The only floor that differentiates."""

from gnomon.autodiff.entrance import fused_attention, projected_norm, reaches
from gnomon.autodiff.graph import Graph, forward, outputs_of
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
    "fused_attention",
    "input_jacobian",
    "observe",
    "outputs_of",
    "projected_norm",
    "reaches",
    "vector_jacobian",
]
