"""Reports: records and figures as one self-contained HTML page."""

from gnomon_lab.report.page import Report, Table, render, write

__all__ = ["Report", "Table", "render", "write"]
