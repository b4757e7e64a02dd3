"""In which precision gnomon computes: that of its arguments, whatever is trained around it."""

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """The function with autocast off inside, which would take its products in half precision."""

    @functools.wraps(function)
    def precise(*args: P.args, **kwargs: P.kwargs) -> R:
        kinds = autocasting()
        if not kinds:
            return function(*args, **kwargs)
        with ExitStack() as stack:
            for kind in kinds:
                stack.enter_context(torch.autocast(kind, enabled=False))
            return function(*args, **kwargs)

    return precise


def autocasting() -> list[str]:
    """The kinds of device for which autocast is on."""
    accelerator = torch.accelerator.current_accelerator()
    kinds = ["cpu"] if accelerator is None else ["cpu", accelerator.type]
    return [kind for kind in kinds if torch.is_autocast_enabled(kind)]
