"""A duration in words."""


def duration(seconds: float) -> str:
    """A duration, in a unit in which it is a small number."""
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
