"""The only layer of gnomon that differentiates."""

from gnomon.autodiff._descent import centroid_influence, centroid_velocity
from gnomon.autodiff._entrance import entrance_weight, jacobian_gram, projected_norm
from gnomon.autodiff._features import features
from gnomon.autodiff._gauss_newton_operator import GaussNewtonOperator
from gnomon.autodiff._gram_products import gradient_kernel
from gnomon.autodiff._head import linear_head
from gnomon.autodiff._independence import no_batch_statistics, require_any_number, require_one_function
from gnomon.autodiff._jacobian import input_jacobian, vector_jacobian
from gnomon.autodiff._jacobian_operator import FEW_OUTPUTS, RTOL, JacobianOperator, TapeProducts
from gnomon.autodiff._layer_gradients import add_gradients, gradient_products
from gnomon.autodiff._layers import layer_named, named_layers, named_weights, same, weight_of
from gnomon.autodiff._loss_gradients import loss_gradient, scale_of_sum
from gnomon.autodiff._loss_operator import LossOperator
from gnomon.autodiff._memory import chunk_size, require_whole, storage_of
from gnomon.autodiff._observation import OBSERVATIONS, Layer, map_tapes, observation_bytes, observe, timed
from gnomon.autodiff._parameter_jacobian import trainable
from gnomon.autodiff._positions import IGNORED, Places, Positions, at_positions
from gnomon.autodiff._randomness import differ, forked
from gnomon.autodiff._replacing import replacing
from gnomon.autodiff._replicas import Replicas
from gnomon.autodiff._run import Model, compiling, outputs_of, recorded
from gnomon.autodiff._second_derivatives import require_second_derivative
from gnomon.autodiff._tape import Call, Tape, forward, uses_of
from gnomon.autodiff._weight_path import by_patches, show_layers, weight_path, with_weight
from gnomon.autodiff._zeros import spare_zeros

__all__ = [
    "FEW_OUTPUTS",
    "IGNORED",
    "OBSERVATIONS",
    "RTOL",
    "Call",
    "GaussNewtonOperator",
    "JacobianOperator",
    "Layer",
    "LossOperator",
    "Model",
    "Places",
    "Positions",
    "Replicas",
    "Tape",
    "TapeProducts",
    "add_gradients",
    "at_positions",
    "by_patches",
    "centroid_influence",
    "centroid_velocity",
    "chunk_size",
    "compiling",
    "differ",
    "entrance_weight",
    "features",
    "forked",
    "forward",
    "gradient_kernel",
    "gradient_products",
    "input_jacobian",
    "jacobian_gram",
    "layer_named",
    "linear_head",
    "loss_gradient",
    "map_tapes",
    "named_layers",
    "named_weights",
    "no_batch_statistics",
    "observation_bytes",
    "observe",
    "outputs_of",
    "projected_norm",
    "recorded",
    "replacing",
    "require_any_number",
    "require_one_function",
    "require_second_derivative",
    "require_whole",
    "same",
    "scale_of_sum",
    "show_layers",
    "spare_zeros",
    "storage_of",
    "timed",
    "trainable",
    "uses_of",
    "vector_jacobian",
    "weight_of",
    "weight_path",
    "with_weight",
]
