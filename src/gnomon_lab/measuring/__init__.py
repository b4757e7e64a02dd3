"""From a checkpoint, a network's factory and samples to quantities: what `gnomon measure` does."""

from gnomon_lab.measuring.checkpoint import files_at, read_weights
from gnomon_lab.measuring.filling import Taken, load
from gnomon_lab.measuring.hugging_face import CONFIG, of_folder
from gnomon_lab.measuring.measure import Measured, left_out, measure
from gnomon_lab.measuring.network import build, device_of, files_of, foreign
from gnomon_lab.measuring.outputs import take_outputs
from gnomon_lab.measuring.places import Weights
from gnomon_lab.measuring.quantities import chosen, explanations
from gnomon_lab.measuring.samples import Data, load_data
from gnomon_lab.measuring.shown import COLUMNS, Summary, as_json, as_report, by_reason

__all__ = [
    "COLUMNS",
    "CONFIG",
    "Data",
    "Measured",
    "Summary",
    "Taken",
    "Weights",
    "as_json",
    "as_report",
    "build",
    "by_reason",
    "chosen",
    "device_of",
    "explanations",
    "files_at",
    "files_of",
    "foreign",
    "left_out",
    "load",
    "load_data",
    "measure",
    "of_folder",
    "read_weights",
    "take_outputs",
]
