"""kernel-linearisation: whether the kernels of a Deep RFM are the linear ones of theorem 4.3, apart from a ridge."""

from gnomon_lab.papers.agop_collapse.kernel_linearisation.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
