from .autodiff import input_jacobian, vector_jacobian
from .measure import (
    accuracy,
    centroid,
    centroid_alignment,
    centroid_inner_product,
    explained_variance,
    frobenius_norm,
    jacobian_alignment,
    row_alignment,
)
from .probe import Probe, Reading, at, every, log_spaced
from .steer import GrokAlign

__version__: str

__all__ = [
    "GrokAlign",
    "Probe",
    "Reading",
    "accuracy",
    "at",
    "centroid",
    "centroid_alignment",
    "centroid_inner_product",
    "every",
    "explained_variance",
    "frobenius_norm",
    "input_jacobian",
    "jacobian_alignment",
    "log_spaced",
    "row_alignment",
    "vector_jacobian",
]
