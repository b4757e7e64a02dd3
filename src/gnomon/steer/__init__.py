"""What changes training, built from measure's own functions."""

from gnomon.steer.grokalign import GrokAlign

__all__ = ["GrokAlign"]
