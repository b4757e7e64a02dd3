"""When the networks of corpus and elsewhere are read, and what of a reading is recorded."""

import numpy as np

from gnomon import Reading

FIRST = 8
"""The first step that is read, apart from step 0."""
JACOBIANS = 256
"""Training samples, at most, at which Jacobians are computed."""
LEFT_OUT = (".min", ".max", ".error", ".passes")
"""Endings of the names of those numbers, apart from means, that are not recorded."""


def read_at(step: int) -> bool:
    """Twice in each doubling of the steps, from the first on, and before training."""
    return step == 0 or step in {round(FIRST * 2 ** (half / 2)) for half in range(2 * step.bit_length())}


def numbers(reading: Reading) -> dict[str, float | None]:
    """The mean of each quantity, to seven digits; None where it has no finite value."""
    return {
        name: float(np.float32(value)) if abs(value) < np.finfo(np.float32).max else None
        for name, value in reading.scalars().items()
        if not name.endswith(LEFT_OUT) and "/batch_gradients" not in name
    }
