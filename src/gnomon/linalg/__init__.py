"""Tensors only: directions, spectra and covariances."""

from gnomon.linalg._covariance import Covariance, Dense, Factored, covariance_of, smaller
from gnomon.linalg._directions import cosine, length, unit
from gnomon.linalg._fourier_norms import fourier_norms
from gnomon.linalg._gini import gini
from gnomon.linalg._gram_sum import GramSum, Sketch
from gnomon.linalg._polar_decomposition import PolarDecomposition, polar_decomposition
from gnomon.linalg._roots import SavedTensors, psd_root
from gnomon.linalg._spectra import top_share
from gnomon.linalg._top_eigenvectors import Eigenvectors, top_eigenvectors

__all__ = [
    "Covariance",
    "Dense",
    "Eigenvectors",
    "Factored",
    "GramSum",
    "PolarDecomposition",
    "SavedTensors",
    "Sketch",
    "cosine",
    "covariance_of",
    "fourier_norms",
    "gini",
    "length",
    "polar_decomposition",
    "psd_root",
    "smaller",
    "top_eigenvectors",
    "top_share",
    "unit",
]
