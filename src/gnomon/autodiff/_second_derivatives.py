"""What is wrong with a network that cannot be differentiated twice."""

from gnomon.errors import RangeError, UnsupportedModuleError


class AsymmetryError(UnsupportedModuleError, RangeError):
    """Products with second derivatives are not those of one matrix; once a probe was made, by rounding."""


def asymmetric() -> AsymmetryError:
    """The error for second derivatives that disagree, which torch does not always report."""
    return AsymmetryError(
        "model",
        "layers with a second derivative",
        "one whose derivative is not differentiated, or numbers of which rounding leaves nothing",
        "Replace that layer by one of torch's own operations; if all are, read the network in float64.",
    )


def only_once(got: str) -> UnsupportedModuleError:
    """The error for a layer that cannot be differentiated twice."""
    return UnsupportedModuleError(
        "model",
        "layers with a second derivative",
        got,
        "Replace that layer by one of torch's own operations.",
    )
