"""Models of training that can be solved, one per file: the flow integrated, and its closed form beside it."""

from gnomon.dynamics.central_path import CentralPath, CentralPathFlow
from gnomon.dynamics.deep_rfm import DeepRFM
from gnomon.dynamics.linear_deep_rfm import LinearDeepRFM, LinearDeepRFMRun
from gnomon.dynamics.rfm_layer import Collapse, DeepRFMReading, DeepRFMStage
from gnomon.dynamics.snr_growth import snr_growth

__all__ = [
    "CentralPath",
    "CentralPathFlow",
    "Collapse",
    "DeepRFM",
    "DeepRFMReading",
    "DeepRFMStage",
    "LinearDeepRFM",
    "LinearDeepRFMRun",
    "snr_growth",
]
