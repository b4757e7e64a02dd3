"""What is computed does not depend on what training is done in."""

import pytest
import torch

from tests.fuzz import callables, cast, missing, tensors

EVERY = {name: (function, arguments) for name, function, arguments in callables()}


def computed(name, dtype, *, autocast):
    function, arguments = EVERY[name]
    given = cast(arguments(torch.Generator().manual_seed(0)), dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        result = function(**given)
        return list(tensors([result, given.get("self")]))


def test_the_table_has_every_function():
    assert not missing()


# Of float64 alone, which autocast leaves as it is.
DOUBLE = {"CentralPath", "CollapsedFlow", "GeneralFlow", "TruncationFlow"}


# GrokAlign is part of a training step, and runs the network as that does.
@pytest.mark.parametrize("name", sorted(set(EVERY) - {"GrokAlign"}))
def test_autocast_around_a_call_changes_no_bit(name):
    dtype = torch.float64 if name.partition(".")[0] in DOUBLE else torch.float32
    plain, mixed = (computed(name, dtype, autocast=autocast) for autocast in (False, True))
    assert len(plain) == len(mixed)
    for one, other in zip(plain, mixed, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
