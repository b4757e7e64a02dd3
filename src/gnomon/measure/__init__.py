"""One quantity per file: pure functions of tensors, whose argument names say what they look at."""

from gnomon.measure.accuracy import accuracy
from gnomon.measure.centroid import centroid
from gnomon.measure.centroid_alignment import centroid_alignment
from gnomon.measure.centroid_inner_product import centroid_inner_product
from gnomon.measure.explained_variance import explained_variance
from gnomon.measure.frobenius_norm import frobenius_norm
from gnomon.measure.jacobian_alignment import jacobian_alignment
from gnomon.measure.row_alignment import row_alignment

__all__ = [
    "accuracy",
    "centroid",
    "centroid_alignment",
    "centroid_inner_product",
    "explained_variance",
    "frobenius_norm",
    "jacobian_alignment",
    "row_alignment",
]
