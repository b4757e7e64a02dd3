"""Logs readings to Weights & Biases."""

import math
from collections.abc import Callable
from weakref import WeakKeyDictionary

from gnomon._extras import missing
from gnomon.probe import Reading

try:
    import wandb
except Exception as cause:
    raise missing("gnomon.integrations", "wandb", "wandb", cause) from cause


_held: WeakKeyDictionary[wandb.Run, dict[int, dict[str, float]]] = WeakKeyDictionary()
"""For each run, by its number, the last row with a reading, and what readings put into it: all sinks share the rows."""


def wandb_sink(run: wandb.Run) -> Callable[[Reading], None]:
    """Logs each reading's scalars as `gnomon/NAME`, against `gnomon_step`.

    They have their own axis, since W&B's own counts rows, and W&B drops what is logged with a `step` behind the open
    row. A reading goes into the open row and leaves it open, so that whatever else is logged is where it would be
    without the reading. The row is closed first only if it has another reading's values: between two logs of yours,
    each further reading takes a row. A `step` of yours that counts more slowly than that falls behind, and W&B drops
    what is logged with it.
    """
    run.define_metric("gnomon/*", step_metric="gnomon_step")

    def sink(reading: Reading) -> None:
        values = {"gnomon_step": reading.step} | {f"gnomon/{name}": value for name, value in reading.scalars().items()}
        row = run.step
        held = _held.get(run, {}).get(row, {})
        if any(not same(held[name], value) for name, value in values.items() if name in held):
            run.log({}, commit=True)
            row, held = row + 1, {}
        run.log(values, commit=False)
        _held[run] = {row: held | values}

    return sink


def same(one: float, other: float) -> bool:
    """Whether two values are the same; NaN is the same as NaN."""
    return one == other or (math.isnan(one) and math.isnan(other))
