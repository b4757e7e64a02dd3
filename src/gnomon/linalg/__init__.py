"""Tensors only: directions, spectra and covariances."""

from gnomon.linalg.covariance import Covariance, Dense, Factored, smaller
from gnomon.linalg.directions import cosine, unit
from gnomon.linalg.spectra import top_share

__all__ = ["Covariance", "Dense", "Factored", "cosine", "smaller", "top_share", "unit"]
