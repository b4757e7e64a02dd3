"""Gradients changed between `backward()` and the optimizer's step."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from gnomon._precision import full_precision
from gnomon.errors import RangeError, within
from gnomon.steer._attach import attach, detach
from gnomon.steer._parameters import first_nonfinite, gradients_of, named, norm_of, not_the_state, require_entries


class ChangedGradients(ABC):
    """Changes each parameter's gradient in place; the subclass defines how."""

    becomes = "changed gradient"
    """What an error calls the gradient after the change."""
    advice = "Lower the learning rate"
    """The advice where a gradient is not finite."""

    def __init__(self, parameters: Iterable[Tensor | tuple[str, Tensor]], skip_nonfinite: bool) -> None:
        self.skip_nonfinite = skip_nonfinite
        self.steps = 0
        self._where = type(self).__name__
        self._parameters = named(parameters)

    @abstractmethod
    def _change(self, i: int, gradient: Tensor) -> None:
        """Changes the gradient of the i-th parameter."""

    @full_precision
    @torch.no_grad()
    def __call__(self) -> None:
        """Changes the gradients in place. A parameter without one is left out.

        Raises:
            EmptyError: if no parameter has a gradient.
            RangeError: naming step, parameter and norm, if a gradient is NaN or infinite (then nothing has been
                changed) or becomes so by the change; if a gradient is sparse.
        """
        self.steps += 1
        with within(self._where):
            gradients = gradients_of(self._parameters)
            if (bad := first_nonfinite(gradients)) is not None:
                if self.skip_nonfinite:
                    return
                raise self._diverged("gradient", bad, gradients[bad])
            for i, gradient in gradients.items():
                self._change(i, gradient)
            if (bad := first_nonfinite(gradients)) is not None:
                raise self._diverged(self.becomes, bad, gradients[bad])

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Changes the gradients before each step of the optimizer from now on, and is saved in its `state_dict`.

        Gradients are then accumulated, unscaled and clipped. With a closure, which is the first argument of `step` or
        the one named `closure`, they are changed after it. LBFGS is refused: it compares gradients at several points,
        as those of one loss, which changed ones are not, and diverges. To resume, attach before the optimizer's
        `load_state_dict`, which otherwise leaves the method's state out without a word; a copy of the optimizer, or a
        pickle, has nothing attached. `torch.distributed.checkpoint` saves only a part of an optimizer's `state_dict`,
        and omits this: save the method's own separately, load both, and attach then.

        Raises:
            TypeError: if it is not an optimizer.
            RangeError: if the optimizer is LBFGS, lacks one of the parameters, or has a method already. At a step: if
                it is fused and would unscale the gradients itself.
            CheckpointError: on loading, if the optimizer's state has no method's state in it.
        """
        with within(f"{self._where}.attach"):
            attach(self, optimizer, self._parameters)

    def detach(self) -> None:
        """Leaves the optimizer, whose steps and `state_dict` are plain from now on; nothing if it is not attached.

        The method keeps its state: attached again, it continues. What is saved in between has none, and is loaded
        before attaching.
        """
        detach(self)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to resume."""
        return {"steps": self.steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resumes from this state.

        Raises:
            CheckpointError: if it is a state of something else.
        """
        require_entries(state_dict, self._where, steps=int)
        if len(state_dict) > 1:  # Grokfast's has steps too
            raise not_the_state("one with steps alone", ", ".join(map(str, state_dict)), self._where)
        self.steps = int(state_dict["steps"])

    def _known(self, i: int) -> str:
        """What an error adds about the i-th parameter."""
        return ""

    def _diverged(self, what: str, i: int, gradient: Tensor) -> RangeError:
        return RangeError(
            None,
            f"a finite {what}",
            f"norm {norm_of(gradient)} ({gradient.dtype}) in {self._parameters[i][0]} at step {self.steps}"
            f"{self._known(i)}",
            f"{self.advice}; under a GradScaler unscale_ first and set skip_nonfinite.",
        )
