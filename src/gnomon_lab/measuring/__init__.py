"""From checkpoints, a network's factory and samples to quantities: what `gnomon measure` does."""

from gnomon_lab.measuring.about import Checkpoint, contents, look
from gnomon_lab.measuring.each import Reader, measure_each
from gnomon_lab.measuring.found import checkpoints_at
from gnomon_lab.measuring.kept import Kept, Record, setting_in
from gnomon_lab.measuring.measure import How, Measured, measure
from gnomon_lab.measuring.moved import Moved, as_columns, as_page, assuming, bars, no_verdict, some
from gnomon_lab.measuring.network import device_of, files_of
from gnomon_lab.measuring.preprocessing import preprocessed
from gnomon_lab.measuring.quantities import also, chosen, explanations
from gnomon_lab.measuring.ready import ready
from gnomon_lab.measuring.refilled import Refilled
from gnomon_lab.measuring.samples import Data, load_data
from gnomon_lab.measuring.shown import COLUMNS, Summary, as_json, as_report, shown
from gnomon_lab.measuring.steps import LASTING, SOURCES, Steps, by_step

__all__ = [
    "COLUMNS",
    "LASTING",
    "SOURCES",
    "Checkpoint",
    "Data",
    "How",
    "Kept",
    "Measured",
    "Moved",
    "Reader",
    "Record",
    "Refilled",
    "Steps",
    "Summary",
    "also",
    "as_columns",
    "as_json",
    "as_page",
    "as_report",
    "assuming",
    "bars",
    "by_step",
    "checkpoints_at",
    "chosen",
    "contents",
    "device_of",
    "explanations",
    "files_of",
    "load_data",
    "look",
    "measure",
    "measure_each",
    "no_verdict",
    "preprocessed",
    "ready",
    "setting_in",
    "shown",
    "some",
]
