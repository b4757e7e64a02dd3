"""Errors carry their parts, and say one sentence of them."""

import math
import pickle

import pytest

from gnomon import _checks
from gnomon.errors import GnomonError, MissingExtraError, RangeError, ShapeError, public


@public
def outer(value):
    return inner(value)


@public
def inner(value):
    raise RangeError("value", "a number above 0", value, "Raise it.")


class Thing:
    @public
    def __init__(self):
        helper()


def helper():
    raise ShapeError(None, "x above 0, got -1; y above 0, got 0", None, "Change these.")


def test_the_parts_make_the_sentence():
    error = RangeError("value", "a number above 0", -1, "Raise it.", where="f")
    assert (error.where, error.argument, error.expected, error.got) == ("f", "value", "a number above 0", "-1")
    assert str(error) == "f(value): expected a number above 0, got -1. Raise it."
    assert str(RangeError(None, "one", "a question?", where="f")) == "f: expected one, got a question?"


def test_the_public_function_that_was_called_last_is_named():
    with pytest.raises(RangeError, match=r"^inner\(value\): expected a number above 0, got -1\. Raise it\.$"):
        outer(-1)
    with pytest.raises(ShapeError, match=r"^Thing: expected x above 0, got -1; y above 0, got 0\. Change these\.$"):
        Thing()


@pytest.mark.parametrize(
    "error",
    [RangeError("value", "a number", None, where="f"), MissingExtraError("plotly", "lab", "OSError: x", where="page")],
)
def test_another_process_reads_the_same(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert isinstance(again, GnomonError)
    assert vars(again) == vars(error)


@pytest.mark.bad_input
@pytest.mark.parametrize("wrong", [math.inf, math.nan, -1.0, None])
def test_a_size_that_is_not_finite_is_refused_by_a_range_that_says_so(wrong):
    says = f"a finite and at least 0, got {wrong}; b finite and above 0, got {wrong}; c finite and above 0, got 0.0"
    with pytest.raises(RangeError, match=says):
        _checks.settings(_checks.at_least_0("a", wrong), _checks.above_0("b", wrong), _checks.above_0("c", 0.0))


def test_a_size_that_is_optional_may_be_none():
    free = _checks.at_least_0("a", None, optional=True), _checks.above_0("b", None, optional=True)
    _checks.settings(*free, _checks.at_least_0("c", 0), _checks.above_0("d", 1e-300))
