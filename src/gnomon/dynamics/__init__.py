"""Models of training that can be solved, one per file: the flow integrated, together with its closed form."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from gnomon.dynamics._aligned_jacobian import aligned_jacobian
from gnomon.dynamics._bias_flow import BiasFlowRun, bias_flow
from gnomon.dynamics._central_path import CentralPath, CentralPathRun
from gnomon.dynamics._clustered_flow import ClusteredFlow
from gnomon.dynamics._collapsed_flow import CollapsedFlow, CollapsedFlowRun, CollapsedPropagators
from gnomon.dynamics._filippov import Coefficients, State, SwitchingEvents
from gnomon.dynamics._general_flow import GeneralFlow
from gnomon.dynamics._linear_deep_rfm import LinearDeepRFM, LinearDeepRFMRun
from gnomon.dynamics._rfm_layer import Collapse, DeepRFMReading, DeepRFMStage
from gnomon.dynamics._snr_growth import Projection, snr_growth
from gnomon.dynamics._truncation_flow import TruncationFlow
from gnomon.dynamics._truncation_orbit import TruncationOrbit
from gnomon.dynamics._truncation_time import TruncationTimeBound, truncation_time_bound

if TYPE_CHECKING:
    from gnomon.dynamics._deep_rfm import DeepRFM

__all__ = [
    "BiasFlowRun",
    "CentralPath",
    "CentralPathRun",
    "ClusteredFlow",
    "Coefficients",
    "Collapse",
    "CollapsedFlow",
    "CollapsedFlowRun",
    "CollapsedPropagators",
    "DeepRFM",
    "DeepRFMReading",
    "DeepRFMStage",
    "GeneralFlow",
    "LinearDeepRFM",
    "LinearDeepRFMRun",
    "Projection",
    "State",
    "SwitchingEvents",
    "TruncationFlow",
    "TruncationOrbit",
    "TruncationTimeBound",
    "aligned_jacobian",
    "bias_flow",
    "snr_growth",
    "truncation_time_bound",
]
if not TYPE_CHECKING and find_spec("sklearn") is None:
    __all__.remove("DeepRFM")  # as in `gnomon`


def __getattr__(name: str) -> object:
    """`DeepRFM`, which needs scikit-learn, is imported where it is used."""
    if name == "DeepRFM":
        from gnomon.dynamics._deep_rfm import DeepRFM

        return DeepRFM
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
