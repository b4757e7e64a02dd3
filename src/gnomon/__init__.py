"""The geometry of neural-network training: measure it, steer it, solve it."""

from importlib import import_module
from importlib.util import find_spec

import lazy_loader as lazy

_attribute, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
if find_spec("sklearn") is None:
    __all__.remove("DeepRFM")  # so that `from gnomon import *` works; `gnomon.DeepRFM` says what it needs

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """What is public, imported when it is first used; so too the modules, as type checkers see them."""
    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    return _attribute(name)
