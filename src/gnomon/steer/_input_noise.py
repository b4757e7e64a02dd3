"""Input noise: Gaussian noise on the inputs that shrinks as the training set is learned."""

import math
import numbers
from dataclasses import dataclass
from typing import Any, overload

import torch
from jaxtyping import Float, Real
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision, single
from gnomon.errors import ShapeError, public
from gnomon.linalg import drawn
from gnomon.steer._parameters import not_the_state, require_entries


@overload
def noise_level(train_accuracy: float, largest: float = 0.06, least: float = 0.03) -> float: ...
@overload
def noise_level(train_accuracy: Tensor, largest: float = 0.06, least: float = 0.03) -> Tensor: ...
@full_precision
def noise_level(
    train_accuracy: float | int | Real[Tensor, "*a"], largest: float | int = 0.06, least: float | int = 0.03
) -> float | Float[Tensor, "*a"]:
    r"""The standard deviation of the input noise at a train accuracy.

    $\sigma = \max(\sigma_{\max}(1 - a),\, \sigma_{\min})$

    Source:
        Tan and Huang, arXiv:2311.06597; the defaults are those of the code of Walker et al., arXiv:2506.12284.
    Args:
        train_accuracy: a in [0, 1]; a number, or a tensor of several, such as one per seed.
        largest: σ_max, the level while nothing is learned.
        least: σ_min ≤ σ_max, where it stops shrinking; with the defaults, from an accuracy of one half on.

    Returns:
        At least σ_min, decreasing in a, of the shape of a; in the unit of the inputs.

    Raises:
        RangeError: listing what is out of range.
    Example:
        >>> import gnomon
        >>> gnomon.noise_level(0.0), gnomon.noise_level(1.0)
        (0.06, 0.03)
    """
    within = (train_accuracy >= 0) & (train_accuracy <= 1)
    _checks.settings(
        ("train_accuracy", train_accuracy, "in [0, 1]", bool(torch.as_tensor(within).all())),
        _checks.at_least_0("largest", largest),
        _checks.at_least_0("least", least),
        ("least", least, f"at most largest, {largest!r}", not 0 <= largest < least < math.inf),
    )
    level = largest * (1 - train_accuracy)
    return level.clamp(min=least) if isinstance(level, Tensor) else max(level, least)


@public
def input_noise(
    x: Float[Tensor, "*n"],
    train_accuracy: float | int | Tensor,
    largest: float | int = 0.06,
    least: float | int = 0.03,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*n"]:
    r"""The inputs with added Gaussian noise, which shrinks as more of the training set is learned.

    $x + \sigma\varepsilon$, $\varepsilon \sim N(0, 1)$ for each entry, $\sigma$ = `noise_level(train_accuracy)`

    Train on the result in place of x: `loss = cross_entropy(model(input_noise(x, accuracy)), labels)`.

    Source:
        Tan and Huang, arXiv:2311.06597, who tie the delay of grokking to robustness. Walker et al., arXiv:2506.12284,
        call it adversarial training; nothing in it is worst-case.
    Args:
        x: the batch.
        train_accuracy: in [0, 1]; a tensor must broadcast against x, one value per seed as (s, 1, 1) against (s, n, d).
        largest: the level at accuracy 0, in the unit of x; the default is meant for standardised inputs.
        least: the level that it never falls below, at most `largest`: equal to it, the noise is constant.
        generator: where the noise comes from; default: torch's global one.

    Returns:
        A new tensor like x, with a graph to it; NaN where x is NaN.

    Raises:
        RangeError: if x is not of floating point; listing what else is out of range.
        ShapeError: if train_accuracy has axes that x does not have.
    Example:
        >>> import torch, gnomon
        >>> gnomon.input_noise(torch.ones(2), 1.0, least=0.0)
        tensor([1., 1.])
    """
    _checks.floating(x=x)
    _checks.dense(x=x)
    level = noise_level(train_accuracy, largest, least)
    # In half precision, older versions of torch draw from few numbers, with tails that are too short (kurtosis 2.85).
    noise = drawn(torch.randn, x.shape, generator=generator, device=x.device, dtype=single(x.dtype)).to(x)
    if isinstance(level, Tensor):
        axes = zip(reversed(level.shape), reversed(x.shape), strict=False)
        if level.ndim > x.ndim or any(size not in (1, along) for size, along in axes):
            raise ShapeError(
                "train_accuracy",
                f"a shape that broadcasts against x, {_checks.shape_of(x)}",
                _checks.shape_of(level),
                "Give x the axis of the seeds, or pass a number.",
            )
        level = level.to(x)
    return x + level * noise


@dataclass
class InputNoise:
    """Input noise that remembers the train accuracy between steps.

        noise = InputNoise(generator=generator)
        loss = cross_entropy(model(noise(x)), labels)
        ...
        noise.train_accuracy = accuracy(model(x_train), labels_train).mean()

    Measure the accuracy on clean inputs, as often as you like: the level is constant from `1 - least / largest` on.
    A checkpoint needs this object and its generator; a resumed run is then bit for bit the uninterrupted one.

    Source:
        Tan and Huang, arXiv:2311.06597; see `input_noise`.
    Args:
        largest: the level at accuracy 0, in the unit of the inputs.
        least: the level that it never falls below, at most `largest`: equal to it, the noise is constant.
        generator: where the noise comes from; default: torch's global one.
        train_accuracy: the last one known.
    Raises:
        RangeError: listing every setting that is out of range.
    Example:
        >>> import torch, gnomon
        >>> noise = gnomon.InputNoise(least=0.0)
        >>> noise.train_accuracy = 1.0
        >>> noise(torch.ones(2))
        tensor([1., 1.])
    """

    largest: float | int = 0.06
    least: float | int = 0.03
    generator: torch.Generator | None = None
    train_accuracy: float | int | Tensor = 0.0

    def __post_init__(self) -> None:
        noise_level(self.train_accuracy, self.largest, self.least)

    def __call__(self, x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        """The batch with added noise, as from `input_noise`."""
        return input_noise(x, self.train_accuracy, self.largest, self.least, self.generator)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to resume, except the generator's state, because others may draw from it too."""
        return {"train_accuracy": self.train_accuracy}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resumes from this state.

        Raises:
            CheckpointError: if it is a state of something else.
        """
        require_entries(state_dict, "InputNoise", train_accuracy=numbers.Real | Tensor)
        found = state_dict["train_accuracy"]
        if not torch.as_tensor((found >= 0) & (found <= 1)).all():
            raise not_the_state("a train_accuracy in [0, 1]", found, "InputNoise")
        self.train_accuracy = found
