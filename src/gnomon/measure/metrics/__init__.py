"""Quantities that accumulate over batches and processes: torchmetrics metrics, imported only where they are used."""

from gnomon.measure.metrics._agop import AGOP
from gnomon.measure.metrics._class_statistics import ClassStatistics

__all__ = ["AGOP", "ClassStatistics"]
