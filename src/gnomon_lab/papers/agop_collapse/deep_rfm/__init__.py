"""deep-rfm: an untrained network collapses layer by layer, by the AGOP of kernel machines (figures 1, 3 to 6)."""

from gnomon_lab.papers.agop_collapse.deep_rfm.run import EXPERIMENT

__all__ = ["EXPERIMENT"]
