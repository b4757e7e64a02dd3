"""Which quantities, when: readings of a network while it trains."""

from gnomon.probe._about import About, about
from gnomon.probe._comparison import Comparison, compare
from gnomon.probe._cost import Cost
from gnomon.probe._eval_mode import in_eval_mode
from gnomon.probe._expected import ExpectedCost
from gnomon.probe._history import History, from_records
from gnomon.probe._outputs import normalised, of_classes
from gnomon.probe._plan import plan
from gnomon.probe._probe import Probe
from gnomon.probe._reading import Reading
from gnomon.probe._rows import as_record
from gnomon.probe._schedule import Schedule, at, every, log_spaced
from gnomon.probe._sharding import whole
from gnomon.probe._stopping import Stop, stop_when
from gnomon.probe._unavailable import unavailable
from gnomon.probe._verdict_of import unfit

__all__ = [
    "About",
    "Comparison",
    "Cost",
    "ExpectedCost",
    "History",
    "Probe",
    "Reading",
    "Schedule",
    "Stop",
    "about",
    "as_record",
    "at",
    "compare",
    "every",
    "from_records",
    "in_eval_mode",
    "log_spaced",
    "normalised",
    "of_classes",
    "plan",
    "stop_when",
    "unavailable",
    "unfit",
    "whole",
]
