"""One quantity per file: pure functions of tensors, whose argument names say what they look at.

Made by `make exports`: what is public follows from the files.
"""

from gnomon.measure._moments import ClassMoments
from gnomon.measure.collapse._central_path_distance import central_path_distance
from gnomon.measure.collapse._class_moments import class_moments
from gnomon.measure.collapse._classifier_equiangularity import classifier_equiangularity
from gnomon.measure.collapse._classifier_equinorm import classifier_equinorm
from gnomon.measure.collapse._classifier_maximal_equiangularity import classifier_maximal_equiangularity
from gnomon.measure.collapse._equiangularity import equiangularity
from gnomon.measure.collapse._equinorm import equinorm
from gnomon.measure.collapse._layer_collapse import LayerCollapse, layer_collapse
from gnomon.measure.collapse._least_squares_classifier import LinearClassifier, least_squares_classifier
from gnomon.measure.collapse._maximal_equiangularity import maximal_equiangularity
from gnomon.measure.collapse._mse_decomposition import MSEDecomposition, mse_decomposition
from gnomon.measure.collapse._nc1 import nc1
from gnomon.measure.collapse._nc1_trace_ratio import nc1_trace_ratio
from gnomon.measure.collapse._nc2_etf import nc2_etf
from gnomon.measure.collapse._nc2_orthogonal import nc2_orthogonal
from gnomon.measure.collapse._nearest_mean_disagreement import nearest_mean_disagreement
from gnomon.measure.collapse._self_duality import self_duality
from gnomon.measure.collapse._snr import snr
from gnomon.measure.collapse._snr_singular_values import snr_singular_values
from gnomon.measure.collapse._spectral_mse import spectral_mse
from gnomon.measure.curvature._commutator_defect import commutator_defect
from gnomon.measure.curvature._gauss_newton_eigenvalues import gauss_newton_eigenvalues
from gnomon.measure.curvature._gauss_newton_trace import gauss_newton_trace
from gnomon.measure.curvature._gradient_sharpness import gradient_sharpness
from gnomon.measure.curvature._hessian_eigenvalues import hessian_eigenvalues
from gnomon.measure.curvature._hessian_trace import hessian_trace
from gnomon.measure.features._activation_sparsity import activation_sparsity
from gnomon.measure.features._cdnv import cdnv
from gnomon.measure.features._dead_units import dead_units
from gnomon.measure.features._feature_norm import feature_norm
from gnomon.measure.features._intrinsic_dimension import intrinsic_dimension
from gnomon.measure.features._label_cka import label_cka
from gnomon.measure.features._rank_me import rank_me
from gnomon.measure.features._start_cka import start_cka
from gnomon.measure.fourier._fourier_losses import FourierLosses, fourier_losses
from gnomon.measure.gradients._batch_gradients import BatchGradients, batch_gradients
from gnomon.measure.gradients._gradient_disparity import gradient_disparity
from gnomon.measure.gradients._gradient_noise_scale import gradient_noise_scale
from gnomon.measure.gradients._gradient_norm import gradient_norm
from gnomon.measure.gradients._gradient_sums import GradientSums
from gnomon.measure.jacobian._centroid import centroid
from gnomon.measure.jacobian._centroid_alignment import centroid_alignment
from gnomon.measure.jacobian._centroid_influence import centroid_influence
from gnomon.measure.jacobian._centroid_inner_product import centroid_inner_product
from gnomon.measure.jacobian._centroid_rate import centroid_rate
from gnomon.measure.jacobian._explained_variance_ratio import explained_variance_ratio
from gnomon.measure.jacobian._jacobian_alignment import jacobian_alignment
from gnomon.measure.jacobian._jacobian_norm import jacobian_norm
from gnomon.measure.jacobian._layer_centroids import LayerCentroids, layer_centroids
from gnomon.measure.jacobian._row_alignment import row_alignment
from gnomon.measure.jacobian._singular_values import singular_values
from gnomon.measure.jacobian._stable_rank import stable_rank
from gnomon.measure.kernel._ntk import ntk
from gnomon.measure.kernel._ntk_to_point import ntk_to_point
from gnomon.measure.nfa._agop import agop
from gnomon.measure.nfa._effective_rank import effective_rank
from gnomon.measure.nfa._fact_table import FACTTable, fact_table
from gnomon.measure.nfa._nfa_correlation import nfa_correlation
from gnomon.measure.nfa._nfa_table import NFATable, nfa_table
from gnomon.measure.nfa._top_eigenvectors import Eigenvectors, top_eigenvectors
from gnomon.measure.parameters._distance_from_start import distance_from_start
from gnomon.measure.parameters._heavy_tails import HeavyTails, heavy_tails
from gnomon.measure.parameters._layer_spectra import LayerSpectra, layer_spectra
from gnomon.measure.parameters._parameter_norm import parameter_norm
from gnomon.measure.posterior._local_learning_coefficient import LocalLearningCoefficient, local_learning_coefficient
from gnomon.measure.prediction._log_probability import log_probability
from gnomon.measure.prediction._margin import margin
from gnomon.measure.prediction._normalised_margin import normalised_margin
from gnomon.measure.prediction._training_loss import training_loss
from gnomon.measure.robustness._accuracy import accuracy
from gnomon.measure.robustness._deepfool import DeepFool, deepfool
from gnomon.measure.robustness._robust_radius import robust_radius
from gnomon.measure.truncation._activation_misalignment import activation_misalignment
from gnomon.measure.truncation._cumulative_parameters import CumulativeParameters, cumulative_parameters
from gnomon.measure.truncation._truncated_inputs import truncated_inputs
from gnomon.measure.truncation._truncation_map import truncation_map
from gnomon.measure.truncation._truncation_sectors import TruncationSectors, truncation_sectors

__all__ = [
    "BatchGradients",
    "ClassMoments",
    "CumulativeParameters",
    "DeepFool",
    "Eigenvectors",
    "FACTTable",
    "FourierLosses",
    "GradientSums",
    "HeavyTails",
    "LayerCentroids",
    "LayerCollapse",
    "LayerSpectra",
    "LinearClassifier",
    "LocalLearningCoefficient",
    "MSEDecomposition",
    "NFATable",
    "TruncationSectors",
    "accuracy",
    "activation_misalignment",
    "activation_sparsity",
    "agop",
    "batch_gradients",
    "cdnv",
    "central_path_distance",
    "centroid",
    "centroid_alignment",
    "centroid_influence",
    "centroid_inner_product",
    "centroid_rate",
    "class_moments",
    "classifier_equiangularity",
    "classifier_equinorm",
    "classifier_maximal_equiangularity",
    "commutator_defect",
    "cumulative_parameters",
    "dead_units",
    "deepfool",
    "distance_from_start",
    "effective_rank",
    "equiangularity",
    "equinorm",
    "explained_variance_ratio",
    "fact_table",
    "feature_norm",
    "fourier_losses",
    "gauss_newton_eigenvalues",
    "gauss_newton_trace",
    "gradient_disparity",
    "gradient_noise_scale",
    "gradient_norm",
    "gradient_sharpness",
    "heavy_tails",
    "hessian_eigenvalues",
    "hessian_trace",
    "intrinsic_dimension",
    "jacobian_alignment",
    "jacobian_norm",
    "label_cka",
    "layer_centroids",
    "layer_collapse",
    "layer_spectra",
    "least_squares_classifier",
    "local_learning_coefficient",
    "log_probability",
    "margin",
    "maximal_equiangularity",
    "mse_decomposition",
    "nc1",
    "nc1_trace_ratio",
    "nc2_etf",
    "nc2_orthogonal",
    "nearest_mean_disagreement",
    "nfa_correlation",
    "nfa_table",
    "normalised_margin",
    "ntk",
    "ntk_to_point",
    "parameter_norm",
    "rank_me",
    "robust_radius",
    "row_alignment",
    "self_duality",
    "singular_values",
    "snr",
    "snr_singular_values",
    "spectral_mse",
    "stable_rank",
    "start_cka",
    "top_eigenvectors",
    "training_loss",
    "truncated_inputs",
    "truncation_map",
    "truncation_sectors",
]
