"""Random number generators: which there are, and the states that they are in."""

import random
from collections.abc import Callable

import numpy as np
import torch

GENERATORS = (torch.Generator, random.Random, np.random.RandomState, np.random.Generator)
"""Their kinds. `random.SystemRandom` is one without a state, and draws nothing that could be drawn again."""


def generator_as_it_is(value: object) -> Callable[[], object] | None:
    """A function that restores a random number generator to its current state; None if the value is not one."""
    if isinstance(value, torch.Generator):
        drawn = value.get_state()
        return lambda: value.set_state(drawn)
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        state = value.getstate()
        return lambda: value.setstate(state)
    if isinstance(value, np.random.RandomState):
        legacy = value.get_state(legacy=False)
        return lambda: value.set_state(legacy)
    if isinstance(value, np.random.Generator):
        bits = value.bit_generator.state
        return lambda: setattr(value.bit_generator, "state", bits)
    return None


def state_of(value: object) -> str | None:
    """A generator's state, to be compared; None if the value is not one."""
    if isinstance(value, torch.Generator):
        return str(value.get_state().tolist())
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return str(value.getstate())
    if isinstance(value, np.random.RandomState):
        return str(value.get_state())
    return str(value.bit_generator.state) if isinstance(value, np.random.Generator) else None
