from .autodiff import input_jacobian, vector_jacobian
from .measure import (
    accuracy,
    aligned_jacobian,
    centroid,
    centroid_alignment,
    centroid_inner_product,
    centroid_rate,
    explained_variance,
    feature_learning_interval,
    fourier_norms,
    frobenius_norm,
    gini,
    jacobian_alignment,
    layer_centroids,
    ntk,
    ntk_to_point,
    plateau,
    robust_radius,
    row_alignment,
    singular_values,
)
from .measure.feature_learning_interval import FeatureLearningInterval
from .measure.layer_centroids import LayerCentroids
from .measure.plateau import Plateau
from .probe import Probe, Reading, at, every, log_spaced
from .steer import GrokAlign, GrokfastEMA, GrokfastMA, InputNoise, input_noise, noise_level

__version__: str

__all__ = [
    "FeatureLearningInterval",
    "GrokAlign",
    "GrokfastEMA",
    "GrokfastMA",
    "InputNoise",
    "LayerCentroids",
    "Plateau",
    "Probe",
    "Reading",
    "accuracy",
    "aligned_jacobian",
    "at",
    "centroid",
    "centroid_alignment",
    "centroid_inner_product",
    "centroid_rate",
    "every",
    "explained_variance",
    "feature_learning_interval",
    "fourier_norms",
    "frobenius_norm",
    "gini",
    "input_jacobian",
    "input_noise",
    "jacobian_alignment",
    "layer_centroids",
    "log_spaced",
    "noise_level",
    "ntk",
    "ntk_to_point",
    "plateau",
    "robust_radius",
    "row_alignment",
    "singular_values",
    "vector_jacobian",
]
