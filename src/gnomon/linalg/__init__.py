"""Tensors only: directions, spectra and covariances."""

from gnomon.linalg.covariance import Covariance, Dense, Factored, smaller
from gnomon.linalg.directions import cosine, length, unit
from gnomon.linalg.gram_sum import GramSum, Sketch
from gnomon.linalg.roots import psd_root
from gnomon.linalg.spectra import top_share

__all__ = [
    "Covariance",
    "Dense",
    "Factored",
    "GramSum",
    "Sketch",
    "cosine",
    "length",
    "psd_root",
    "smaller",
    "top_share",
    "unit",
]
