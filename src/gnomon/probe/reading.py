"""What a probe read at one step."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Reading:
    """The quantities at one step.

    Attributes:
        step: the training step.
        values: each quantity's result, as the function returned it.
        seconds: what each observation and each quantity cost, wall time; an observation that several quantities
            share counts once, under its own name (`logits` is the forward pass).
    """

    step: int
    values: dict[str, Tensor]
    seconds: dict[str, float]

    def scalars(self) -> dict[str, float]:
        """Plain numbers for a log: the mean, and where there are several values also `.min` and `.max`."""
        numbers: dict[str, float] = {}
        for name, value in self.values.items():
            value = value.detach().double()
            numbers[name] = value.mean().item()
            if value.numel() > 1:
                numbers |= {f"{name}.min": value.min().item(), f"{name}.max": value.max().item()}
        return numbers
