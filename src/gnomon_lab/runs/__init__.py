"""Runs: folders that hold a configuration, its records and its checkpoints, and survive being killed."""

from gnomon_lab.runs.claims import Claim, at_most, over_seeds
from gnomon_lab.runs.duration import duration
from gnomon_lab.runs.find import all_runs, find_run, load_run, open_run, run_at
from gnomon_lab.runs.found import Found
from gnomon_lab.runs.records import Arm, Cells, Record, Seeds, read_records
from gnomon_lab.runs.run import Run
from gnomon_lab.runs.series import by_arm, last, series, settled_at

__all__ = [
    "Arm",
    "Cells",
    "Claim",
    "Found",
    "Record",
    "Run",
    "Seeds",
    "all_runs",
    "at_most",
    "by_arm",
    "duration",
    "find_run",
    "last",
    "load_run",
    "open_run",
    "over_seeds",
    "read_records",
    "run_at",
    "series",
    "settled_at",
]
