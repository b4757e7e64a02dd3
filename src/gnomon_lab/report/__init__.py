"""Reports: records and figures as one self-contained HTML page."""

from gnomon_lab.report.page import ClaimRow, Report, Table, render, write

__all__ = ["ClaimRow", "Report", "Table", "render", "write"]
