"""The function that a callback is given, and the probe that it makes."""

from collections.abc import Callable
from typing import Any

from gnomon.errors import ArgumentTypeError
from gnomon.probe import Probe


def require_function(build: object) -> None:
    """Raises TypeError if it is no function, or a probe, which can be called too, but with a step."""
    if isinstance(build, Probe) or not callable(build):
        expected, advice = "a function from the network to a Probe", "Pass lambda network: probe."
        raise ArgumentTypeError("build", expected, type(build).__name__, advice)


def built(build: Callable[[Any], Probe], network: object) -> Probe:
    """The probe of this network.

    Raises:
        TypeError: if what the function returns is none.
    """
    probe = build(network)
    if not isinstance(probe, Probe):
        got = f"one that returns {type(probe).__name__}"
        raise ArgumentTypeError("build", "a function that returns a Probe", got, "Return it.")
    return probe
