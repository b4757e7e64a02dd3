"""Random number generators: which there are, and the states that they are in."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

GENERATORS = (torch.Generator, random.Random, np.random.RandomState, np.random.Generator)
"""Their kinds. `random.SystemRandom` is one without a state, and draws nothing that could be drawn again."""


def generator_as_it_is(value: object) -> Callable[[], object] | None:
    """What restores a random number generator to its current state; None if the value is not one.

    It can be pickled, and its copy restores the generator's copy.
    """
    if isinstance(value, torch.Generator):
        return partial(_restore, value, "set_state", value.get_state())
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return partial(_restore, value, "setstate", value.getstate())
    if isinstance(value, np.random.RandomState):
        return partial(_restore, value, "set_state", value.get_state(legacy=False))
    if isinstance(value, np.random.Generator):
        return partial(_restore_bits, value, value.bit_generator.state)
    return None


def _restore(generator: object, method: str, state: object) -> None:
    getattr(generator, method)(state)


def _restore_bits(generator: np.random.Generator, state: Any) -> None:  # noqa: ANN401 as NumPy's own
    generator.bit_generator.state = state


def state_of(value: object) -> str | None:
    """A generator's state, to be compared; None if the value is not one."""
    if isinstance(value, torch.Generator):
        return str(value.get_state().tolist())
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return str(value.getstate())
    if isinstance(value, np.random.RandomState):
        return str(value.get_state())
    return str(value.bit_generator.state) if isinstance(value, np.random.Generator) else None
