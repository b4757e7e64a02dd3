"""Which quantities, when: readings of a network while it trains."""

from gnomon.probe.cost import Cost
from gnomon.probe.probe import Probe
from gnomon.probe.reading import Reading
from gnomon.probe.schedule import Schedule, at, every, log_spaced
from gnomon.probe.stopping import Stop, stop_when

__all__ = ["Cost", "Probe", "Reading", "Schedule", "Stop", "at", "every", "log_spaced", "stop_when"]
