"""An experiment, stopped half way, must end with the records of one that was not."""

import pytest

from gnomon_lab.runs import Run


class StoppedError(Exception):
    """Stands for a kill."""


def resumed(run, config, folder, *, step, arm=None):
    """Runs whole, then again from the start of an arm, with a stop after the record of a step; the records, which must
    be equal. Earlier arms are restored from what they left; without an arm all run again.
    """

    class Stopping(Run):
        def record(self, at, *readings, **values):
            super().record(at, *readings, **values)
            if at == step and arm in (None, self._arm):
                raise StoppedError

    run(config, Run(folder, 0))
    whole = records_of(folder)
    arms = list(dict.fromkeys(record["arm"] for record in whole))
    for again in arms[arms.index(arm or arms[0]) :]:
        Run(folder, 0).checkpoint_path(again).unlink()
    with pytest.raises(StoppedError):
        run(config, Stopping(folder, 0, checkpoint_seconds=0.0))
    assert len(records_of(folder)) < len(whole)
    run(config, Run(folder, 0))
    assert records_of(folder) == whole
    return whole


def records_of(folder):
    return timeless(Run(folder, 0).records())


def timeless(records):
    """The records without their wall times."""
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]
