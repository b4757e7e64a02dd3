"""Whether the weights and samples of a forward pass are still those that it was made with."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnomon.autodiff._run import Model
from gnomon.autodiff._tape import version_of
from gnomon.errors import RangeError


class Unchanged:
    """Parameters and samples, as torch counts their changes in place: by an optimizer, but not by way of `data`."""

    def __init__(self, model: Model, x: Float[Tensor, "n *d"]) -> None:
        self.model, self.x, self.version = model, x, version_of(x)
        # Changes are counted together with those of all the memory that a tensor is part of: then its numbers tell.
        self.copy = x.detach().clone() if x.untyped_storage().nbytes() > x.nbytes else None
        self.note()

    def note(self) -> None:
        """Takes the parameters as they are now: after a forward pass, which may itself change them."""
        self.parameters = self._now()

    def require(self) -> None:
        """Raises RangeError if parameters or samples are others, or were changed since."""
        now, version = self._now(), version_of(self.x)
        if [(id(each), count) for each, count in now] != [(id(each), count) for each, count in self.parameters]:
            raise others()
        if version != self.version and (self.copy is None or not torch.equal(self.x, self.copy)):
            raise others()
        self.version = version

    def _now(self) -> list[tuple[Tensor, int]]:
        parameters = self.model.parameters() if isinstance(self.model, nn.Module) else ()
        return [(each, version_of(each)) for each in parameters]


def others() -> RangeError:
    """The error for what was changed since."""
    return RangeError(
        "model",
        "unchanged weights and samples",
        "ones that changed since the operator was made",
        "Make it again after a step.",
    )
