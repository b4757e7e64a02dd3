"""Radial kernels, their random features, and what a fitted kernel machine is sensitive to."""

from gnomon.kernels._agop import kernel_agop
from gnomon.kernels._distances import over_pairs, squared_distances
from gnomon.kernels._features import FeatureMap, FourierFeatures, ReLUFeatures
from gnomon.kernels._radial import GaussianKernel, Kernel, LaplaceKernel, kernel_gram

__all__ = [
    "FeatureMap",
    "FourierFeatures",
    "GaussianKernel",
    "Kernel",
    "LaplaceKernel",
    "ReLUFeatures",
    "kernel_agop",
    "kernel_gram",
    "over_pairs",
    "squared_distances",
]
