"""The geometry of neural-network training: measure it, steer it."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)

__version__ = "0.1.0"
