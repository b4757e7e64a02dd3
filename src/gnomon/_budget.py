"""How many bytes of tensors a measurement may hold beyond its own result; the allocator may reserve more."""

from gnomon.errors import RangeError

DEFAULT_BUDGET = 512 * 2**20
ENDLESS = 2**62
"""More bytes than there are."""


def budget_of(memory: float | int | None) -> int:
    """The bytes that an argument `memory` allows: a positive number, which may be infinite, or None for the default.

    Raises:
        RangeError: if it is anything else.
    """
    if memory is None:
        return DEFAULT_BUDGET
    try:
        if memory > 0:
            return max(1, int(min(memory, ENDLESS)))
    except TypeError:
        pass
    raise RangeError("memory", "a positive number of bytes", f"{memory!r}", "Allow more memory.")
