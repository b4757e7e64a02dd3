"""An experiment, stopped half way, must end with the records of one that was not."""

import pytest

from gnomon_lab.runs import Run


class StoppedError(Exception):
    """Stands for a kill."""


def resumed(run, config, folder, *, step, arm=None):
    """Runs whole, and again with a stop after the record of a step (of one arm); the records, which must be equal."""

    class Stopping(Run):
        def record(self, at, *readings, **values):
            super().record(at, *readings, **values)
            if at == step and arm in (None, self._arm):
                raise StoppedError

    for name in ("whole", "broken"):
        (folder / name).mkdir()
    run(config, Run(folder / "whole", 0))
    with pytest.raises(StoppedError):
        run(config, Stopping(folder / "broken", 0, checkpoint_seconds=0.0))
    run(config, Run(folder / "broken", 0))
    whole, broken = (timeless(Run(folder / name, 0).records()) for name in ("whole", "broken"))
    assert broken == whole
    return whole


def timeless(records):
    """The records without their wall times."""
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]
