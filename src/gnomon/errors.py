"""Every error that gnomon raises on purpose; each says `where(argument): expected X, got Y. Do Z.`."""

import re


class GnomonError(Exception):
    """The root of all of them: `except GnomonError` catches whatever gnomon found wrong."""

    @property
    def argument(self) -> str | None:
        """What the message is about: the words in brackets at its beginning; None if there are none."""
        found = re.match(r"[\w.]+\(([^)]*)\)", str(self))
        return found[1] if found else None


class ShapeError(GnomonError, ValueError):
    """A tensor has the wrong shape, or two tensors disagree."""


class EmptyError(GnomonError, ValueError):
    """There is nothing to measure: no samples, no records, no quantities."""


class RangeError(GnomonError, ValueError):
    """A number lies outside the range in which the result has a meaning; NaN and infinity among them."""


class DataError(GnomonError):
    """A data set, a records file or a configuration cannot be read as what it should be."""


class UnsupportedModuleError(GnomonError):
    """The network has a part for which the quantity is not defined or not computable."""


class ConvergenceError(GnomonError):
    """An iteration ended without reaching its tolerance."""


class CheckpointError(GnomonError):
    """A checkpoint is missing, damaged or of another run."""


class MissingExtraError(GnomonError, ImportError):
    """An optional package is missing or broken; the message names the extra and, if broken, the cause."""
