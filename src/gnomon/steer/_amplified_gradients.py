"""Gradients amplified by their own running mean between `backward()` and the optimizer's step."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from gnomon import _checks
from gnomon._precision import in_single
from gnomon.errors import ShapeError
from gnomon.steer._changed_gradients import ChangedGradients
from gnomon.steer._parameters import norm_of, not_the_state, require_entries


class AmplifiedGradients(ChangedGradients):
    """Adds λ times a running mean of the gradients to them; the subclass defines the mean.

    Where a parameter has no gradient, its mean stays unchanged.
    """

    becomes = "amplified gradient"
    advice = "Lower the lamb or the learning rate"

    def __init__(self, parameters: Iterable[Tensor | tuple[str, Tensor]], lamb: float, skip_nonfinite: bool) -> None:
        super().__init__(parameters, skip_nonfinite)
        self.lamb = lamb
        self._memory: dict[int, Tensor] = {}
        self._taken: dict[int, int] = {}

    @abstractmethod
    def _start(self, gradient: Tensor) -> Tensor:
        """The memory before the first gradient, this one, is added to it."""

    @abstractmethod
    def _mean(self, memory: Tensor, taken: int, gradient: Tensor) -> Tensor | None:
        """Adds the gradient, after `taken` others, to the memory: the running mean, or None while there is none."""

    @abstractmethod
    def _shape(self, parameter: Tensor) -> tuple[int, ...]:
        """The shape of the memory of a parameter."""

    def _change(self, i: int, gradient: Tensor) -> None:
        # In float32 at least: in half precision, a step of 1 - α is soon too small to have an effect.
        exact = in_single(gradient)
        taken = self._taken.get(i, 0)
        memory = self._memory[i].to(exact) if taken else self._start(exact)
        mean = self._mean(memory, taken, exact)
        self._memory[i], self._taken[i] = memory, taken + 1
        if mean is not None:
            gradient.add_(mean, alpha=self.lamb)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to resume: the steps and, by parameter index, the memory and the number of its gradients.

        The tensors are the live ones, as in torch's optimizers: save or copy them before the next step.
        """
        return {"steps": self.steps, "taken": dict(self._taken), "memory": dict(self._memory)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resumes from this state; the memory follows the gradients to their device.

        Raises:
            CheckpointError: if it is a state of something else.
            ShapeError: if the memory is not that of this method, with this window, for these parameters.
        """
        require_entries(state_dict, self._where, steps=int, taken=dict, memory=dict)
        taken, memory = state_dict["taken"], state_dict["memory"]
        for i in taken.keys() ^ memory.keys():
            raise not_the_state("taken and memory of the same parameters", f"{i} in one of the two", self._where)
        for i in memory:
            self._require_memory(i, taken[i], memory[i])
        self.steps = int(state_dict["steps"])
        self._taken = {i: int(count) for i, count in taken.items()}
        self._memory = {i: each.clone() for i, each in memory.items()}

    def _require_memory(self, i: Any, taken: object, memory: object) -> None:  # noqa: ANN401 - a key of any kind
        if not (_checks.whole(taken, 0) and isinstance(memory, Tensor)):
            found = f"{taken!r} and {type(memory).__name__}"
            raise not_the_state(f"a number of gradients and their memory for parameter {i}", found, self._where)
        known = _checks.whole(i) and i in range(len(self._parameters))
        wanted = self._shape(self._parameters[i][1]) if known else "nothing"
        if tuple(memory.shape) != wanted:
            raise ShapeError(
                "state_dict",
                f"{wanted} for parameter {i}",
                f"shape {_checks.shape_of(memory)}",
                "Load a state of the same method, window and parameters.",
                where=self._where,
            )

    def _known(self, i: int) -> str:
        taken = self._taken.get(i, 0)
        return f"; the memory of its {taken} gradients is " + (
            f"of norm {norm_of(self._memory[i])}" if taken else "empty"
        )
