"""The only floor that differentiates."""

from gnomon.autodiff._entrance import Passage, gram, linear_entrance, passage, projected_norm, without_second_derivative
from gnomon.autodiff._features import features
from gnomon.autodiff._gram_products import gradient_kernel
from gnomon.autodiff._graph import Graph, Model, forward, outputs_of, run
from gnomon.autodiff._head import linear_head
from gnomon.autodiff._independence import (
    require_independent_samples,
    require_no_batch_statistics,
    require_samples_in_order,
)
from gnomon.autodiff._jacobian import input_jacobian, vector_jacobian
from gnomon.autodiff._layer_factors import nodes_of
from gnomon.autodiff._layer_gradients import add_gradients, gradient_products, named_weights
from gnomon.autodiff._layers import layer_named, same, weight_of
from gnomon.autodiff._memory import DEFAULT_BUDGET, chunk_size
from gnomon.autodiff._observation import OBSERVATIONS, Observed, map_graphs, observe, timed
from gnomon.autodiff._parameter_jacobian import differentiable, trainable, vector_parameter_jacobian
from gnomon.autodiff._single_steps import in_single_steps

__all__ = [
    "DEFAULT_BUDGET",
    "OBSERVATIONS",
    "Graph",
    "Model",
    "Observed",
    "Passage",
    "add_gradients",
    "chunk_size",
    "differentiable",
    "features",
    "forward",
    "gradient_kernel",
    "gradient_products",
    "gram",
    "in_single_steps",
    "input_jacobian",
    "layer_named",
    "linear_entrance",
    "linear_head",
    "map_graphs",
    "named_weights",
    "nodes_of",
    "observe",
    "outputs_of",
    "passage",
    "projected_norm",
    "require_independent_samples",
    "require_no_batch_statistics",
    "require_samples_in_order",
    "run",
    "same",
    "timed",
    "trainable",
    "vector_jacobian",
    "vector_parameter_jacobian",
    "weight_of",
    "without_second_derivative",
]
