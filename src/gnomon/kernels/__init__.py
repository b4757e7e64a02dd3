"""Radial kernels, their random features, and what a fitted kernel machine is sensitive to."""

from gnomon.kernels.agop import kernel_agop
from gnomon.kernels.distances import squared_distances
from gnomon.kernels.features import FeatureMap, FourierFeatures, ReLUFeatures
from gnomon.kernels.radial import GaussianKernel, Kernel, LaplaceKernel, kernel_gram

__all__ = [
    "FeatureMap",
    "FourierFeatures",
    "GaussianKernel",
    "Kernel",
    "LaplaceKernel",
    "ReLUFeatures",
    "kernel_agop",
    "kernel_gram",
    "squared_distances",
]
