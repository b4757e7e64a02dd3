"""Models of training that can be solved, one per file: the flow integrated, and its closed form beside it."""

from gnomon.dynamics.bias_flow import BiasFlow, bias_flow
from gnomon.dynamics.central_path import CentralPath, CentralPathFlow
from gnomon.dynamics.clustered_flow import ClusteredFlow
from gnomon.dynamics.collapsed_flow import CollapsedFlow, CollapsedFlowRun, CollapsedPropagators
from gnomon.dynamics.deep_rfm import DeepRFM
from gnomon.dynamics.general_flow import GeneralFlow, GeneralOrbit
from gnomon.dynamics.linear_deep_rfm import LinearDeepRFM, LinearDeepRFMRun
from gnomon.dynamics.piecewise import Crossings
from gnomon.dynamics.rfm_layer import Collapse, DeepRFMReading, DeepRFMStage
from gnomon.dynamics.snr_growth import snr_growth
from gnomon.dynamics.truncation_flow import TruncationFlow, TruncationOrbit
from gnomon.dynamics.truncation_time import TruncationTimeBound, truncation_time_bound

__all__ = [
    "BiasFlow",
    "CentralPath",
    "CentralPathFlow",
    "ClusteredFlow",
    "Collapse",
    "CollapsedFlow",
    "CollapsedFlowRun",
    "CollapsedPropagators",
    "Crossings",
    "DeepRFM",
    "DeepRFMReading",
    "DeepRFMStage",
    "GeneralFlow",
    "GeneralOrbit",
    "LinearDeepRFM",
    "LinearDeepRFMRun",
    "TruncationFlow",
    "TruncationOrbit",
    "TruncationTimeBound",
    "bias_flow",
    "snr_growth",
    "truncation_time_bound",
]
