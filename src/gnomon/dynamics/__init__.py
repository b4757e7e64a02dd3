"""Models of training that can be solved, one per file: the flow integrated, and its closed form beside it."""

from gnomon.dynamics.central_path import CentralPath, CentralPathFlow
from gnomon.dynamics.snr_growth import snr_growth

__all__ = ["CentralPath", "CentralPathFlow", "snr_growth"]
