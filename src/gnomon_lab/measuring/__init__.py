"""From a checkpoint, a network's factory and samples to quantities: what `gnomon measure` does."""

from gnomon_lab.measuring.checkpoint import Weights, read_weights
from gnomon_lab.measuring.measure import Measured, left_out, measure
from gnomon_lab.measuring.network import build, device_of, files_of, foreign, load
from gnomon_lab.measuring.quantities import chosen, explanations
from gnomon_lab.measuring.samples import Data, load_data
from gnomon_lab.measuring.shown import COLUMNS, Summary, as_json, as_report, by_reason

__all__ = [
    "COLUMNS",
    "Data",
    "Measured",
    "Summary",
    "Weights",
    "as_json",
    "as_report",
    "build",
    "by_reason",
    "chosen",
    "device_of",
    "explanations",
    "files_of",
    "foreign",
    "left_out",
    "load",
    "load_data",
    "measure",
    "read_weights",
]
