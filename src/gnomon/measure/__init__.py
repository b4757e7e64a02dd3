"""One quantity per file: pure functions of tensors, whose argument names say what they look at."""

from gnomon.measure.accuracy import accuracy
from gnomon.measure.activation_misalignment import activation_misalignment
from gnomon.measure.agop import agop
from gnomon.measure.aligned_jacobian import aligned_jacobian
from gnomon.measure.central_path_distance import central_path_distance
from gnomon.measure.centroid import centroid
from gnomon.measure.centroid_alignment import centroid_alignment
from gnomon.measure.centroid_inner_product import centroid_inner_product
from gnomon.measure.centroid_rate import centroid_rate
from gnomon.measure.class_moments import class_moments
from gnomon.measure.cumulative_parameters import cumulative_parameters
from gnomon.measure.deepfool import deepfool
from gnomon.measure.effective_rank import effective_rank
from gnomon.measure.equiangularity import equiangularity
from gnomon.measure.equinorm import equinorm
from gnomon.measure.explained_variance import explained_variance
from gnomon.measure.feature_learning_interval import feature_learning_interval
from gnomon.measure.fourier_norms import fourier_norms
from gnomon.measure.frobenius_norm import frobenius_norm
from gnomon.measure.gini import gini
from gnomon.measure.jacobian_alignment import jacobian_alignment
from gnomon.measure.layer_centroids import layer_centroids
from gnomon.measure.layer_collapse import layer_collapse
from gnomon.measure.least_squares_classifier import least_squares_classifier
from gnomon.measure.maximal_equiangularity import maximal_equiangularity
from gnomon.measure.mse_decomposition import mse_decomposition
from gnomon.measure.nc1 import nc1
from gnomon.measure.nc1_trace_ratio import nc1_trace_ratio
from gnomon.measure.nc2 import nc2_etf, nc2_orthogonal
from gnomon.measure.nearest_mean_disagreement import nearest_mean_disagreement
from gnomon.measure.nfa_correlation import nfa_correlation
from gnomon.measure.nfa_table import nfa_table
from gnomon.measure.ntk import ntk, ntk_to_point
from gnomon.measure.plateau import plateau
from gnomon.measure.polar_decomposition import polar_decomposition
from gnomon.measure.robust_radius import robust_radius
from gnomon.measure.row_alignment import row_alignment
from gnomon.measure.self_duality import self_duality
from gnomon.measure.singular_values import singular_values
from gnomon.measure.snr import snr
from gnomon.measure.snr_singular_values import snr_singular_values
from gnomon.measure.spectral_mse import spectral_mse
from gnomon.measure.top_eigenvectors import top_eigenvectors
from gnomon.measure.truncated_inputs import truncated_inputs
from gnomon.measure.truncation_map import truncation_map
from gnomon.measure.truncation_sectors import truncation_sectors

__all__ = [
    "accuracy",
    "activation_misalignment",
    "agop",
    "aligned_jacobian",
    "central_path_distance",
    "centroid",
    "centroid_alignment",
    "centroid_inner_product",
    "centroid_rate",
    "class_moments",
    "cumulative_parameters",
    "deepfool",
    "effective_rank",
    "equiangularity",
    "equinorm",
    "explained_variance",
    "feature_learning_interval",
    "fourier_norms",
    "frobenius_norm",
    "gini",
    "jacobian_alignment",
    "layer_centroids",
    "layer_collapse",
    "least_squares_classifier",
    "maximal_equiangularity",
    "mse_decomposition",
    "nc1",
    "nc1_trace_ratio",
    "nc2_etf",
    "nc2_orthogonal",
    "nearest_mean_disagreement",
    "nfa_correlation",
    "nfa_table",
    "ntk",
    "ntk_to_point",
    "plateau",
    "polar_decomposition",
    "robust_radius",
    "row_alignment",
    "self_duality",
    "singular_values",
    "snr",
    "snr_singular_values",
    "spectral_mse",
    "top_eigenvectors",
    "truncated_inputs",
    "truncation_map",
    "truncation_sectors",
]
