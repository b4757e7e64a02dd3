"""The random number generators from which data are drawn: those of samplers, data sets and what collates."""

from collections.abc import Callable

from gnomon.probe._generators import generator_as_it_is
from gnomon.probe._held import reached


def generators_in(data: object) -> list[Callable[[], object]]:
    """What restores the generators that are reached from there, those next to it first, as they are now."""
    found = map(generator_as_it_is, reached([data], through_objects=True))
    return [put_back for put_back in found if put_back]
