"""Writes readings to a file, one line each."""

import json
import math
from collections.abc import Callable
from pathlib import Path

from gnomon._lines import append_line, not_written
from gnomon.errors import DataError, public, within
from gnomon.probe import Reading


@public
def jsonlines_sink(path: str | Path) -> Callable[[Reading], None]:
    """Appends each reading to a file as one line of JSON: `step`, the scalars by name, and `seconds` by name.

    A scalar that is NaN or infinite is null, since JSON has neither. The line is handed to the operating system at
    once, so that a killed process loses none.

    Raises:
        DataError: by the sink, if a scalar has the name `step` or `seconds`, or the line cannot be written; then
            nothing of it remains in the file.

    Example:
        >>> import tempfile, torch
        >>> from gnomon import Probe, jacobian_norm
        >>> probe = Probe(torch.nn.Identity(), torch.ones(1, 4), [jacobian_norm])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "records.jsonl"
        ...     sink = jsonlines_sink(path)
        ...     sink(probe.read(7))
        ...     record = json.loads(path.read_text())
        >>> record["step"], record["jacobian_norm"]
        (7, 2.0)
    """
    file = Path(path)

    @within("jsonlines_sink")
    def sink(reading: Reading) -> None:
        scalars = {name: value if math.isfinite(value) else None for name, value in reading.scalars().items()}
        if taken := sorted(scalars.keys() & {"step", "seconds"}):
            raise DataError("reading", "names other than step and seconds", taken, "Rename one.")
        record = {"step": reading.step, **scalars, "seconds": reading.seconds}
        try:
            append_line(file, json.dumps(record, separators=(",", ":")).encode())
        except OSError as error:
            raise not_written("path", error, "the lines before are whole") from error

    return sink
