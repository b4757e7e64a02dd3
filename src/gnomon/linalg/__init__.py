"""Tensors only: directions, spectra and covariances."""

from gnomon.linalg._circulant_deviation import circulant_deviation
from gnomon.linalg._cka import cka
from gnomon.linalg._covariance import (
    Covariance,
    Dense,
    Factored,
    covariance,
    covariance_of,
    identity,
    pseudo_inverse,
    smaller,
)
from gnomon.linalg._cross_entropies import cross_entropies
from gnomon.linalg._directions import cosine, largest, length, norm, power_of_two, root, scaled, unit
from gnomon.linalg._estimate import Estimate, joined
from gnomon.linalg._fourier_norms import fourier_norms
from gnomon.linalg._gini import gini
from gnomon.linalg._gram_sum import GramSum, Sketch
from gnomon.linalg._krylov import Krylov, krylov, size_of
from gnomon.linalg._lanczos import Lanczos, lanczos
from gnomon.linalg._normal import drawn, generator_of, normal
from gnomon.linalg._once import marker, once
from gnomon.linalg._polar_decomposition import PolarDecomposition, polar_decomposition
from gnomon.linalg._products import Products
from gnomon.linalg._roots import SavedTensors, psd_root
from gnomon.linalg._spectra import gram_eigenvalues, gram_eigenvectors, over_largest, scaled_gram, top_share
from gnomon.linalg._squared_norm import BLOCK, HELD, SquaredNorm, interval, share_of, squared_norm, student

__all__ = [
    "BLOCK",
    "HELD",
    "Covariance",
    "Dense",
    "Estimate",
    "Factored",
    "GramSum",
    "Krylov",
    "Lanczos",
    "PolarDecomposition",
    "Products",
    "SavedTensors",
    "Sketch",
    "SquaredNorm",
    "circulant_deviation",
    "cka",
    "cosine",
    "covariance",
    "covariance_of",
    "cross_entropies",
    "drawn",
    "fourier_norms",
    "generator_of",
    "gini",
    "gram_eigenvalues",
    "gram_eigenvectors",
    "identity",
    "interval",
    "joined",
    "krylov",
    "lanczos",
    "largest",
    "length",
    "marker",
    "norm",
    "normal",
    "once",
    "over_largest",
    "polar_decomposition",
    "power_of_two",
    "psd_root",
    "pseudo_inverse",
    "root",
    "scaled",
    "scaled_gram",
    "share_of",
    "size_of",
    "smaller",
    "squared_norm",
    "student",
    "top_share",
    "unit",
]
