"""Tensors only: directions and spectra."""

from gnomon.linalg.directions import cosine, unit
from gnomon.linalg.spectra import top_share

__all__ = ["cosine", "top_share", "unit"]
