"""One quantity per file: pure functions of tensors, whose argument names say what they look at."""

from gnomon.measure.accuracy import accuracy
from gnomon.measure.aligned_jacobian import aligned_jacobian
from gnomon.measure.centroid import centroid
from gnomon.measure.centroid_alignment import centroid_alignment
from gnomon.measure.centroid_inner_product import centroid_inner_product
from gnomon.measure.centroid_rate import centroid_rate
from gnomon.measure.explained_variance import explained_variance
from gnomon.measure.feature_learning_interval import feature_learning_interval
from gnomon.measure.fourier_norms import fourier_norms
from gnomon.measure.frobenius_norm import frobenius_norm
from gnomon.measure.gini import gini
from gnomon.measure.jacobian_alignment import jacobian_alignment
from gnomon.measure.layer_centroids import layer_centroids
from gnomon.measure.ntk import ntk, ntk_to_point
from gnomon.measure.plateau import plateau
from gnomon.measure.robust_radius import robust_radius
from gnomon.measure.row_alignment import row_alignment
from gnomon.measure.singular_values import singular_values

__all__ = [
    "accuracy",
    "aligned_jacobian",
    "centroid",
    "centroid_alignment",
    "centroid_inner_product",
    "centroid_rate",
    "explained_variance",
    "feature_learning_interval",
    "fourier_norms",
    "frobenius_norm",
    "gini",
    "jacobian_alignment",
    "layer_centroids",
    "ntk",
    "ntk_to_point",
    "plateau",
    "robust_radius",
    "row_alignment",
    "singular_values",
]
