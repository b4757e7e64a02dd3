"""How a network is read: in eval mode, exactly, and so that the reading leaves no trace."""

import threading
import traceback
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

from gnomon.errors import RangeError
from gnomon.probe._process_state import plain, process_state
from gnomon.probe._snapshot import Snapshot

T = TypeVar("T")

ONE_AT_A_TIME = threading.RLock()
"""Readings wait for each other: the state of the process that they restore exists only once."""
READERS: WeakKeyDictionary[nn.Module, threading.Thread] = WeakKeyDictionary()
"""By network, the thread that reads it, which is the one that trains it."""


def in_eval_mode(
    model: nn.Module,
    look: Callable[[], T],
    written: Collection[str] | None = (),
    streams: Sequence[Callable[[], object]] = (),
) -> tuple[T, set[str]]:
    """What `look` returns, called in eval mode and without gradients; afterwards everything is as it was.

    This covers modes, parameters, buffers, the modules' attributes, grad mode, autocast, and the random number streams
    of Python, NumPy and torch, even if an interrupt comes at any moment. It is a function, since an interrupt may come
    between entering a context and its block.

    Args:
        model: the network.
        look: what to do.
        written: the names of parameters that passes write to, which are then kept by value; None for all.
        streams: functions that restore other random numbers, such as those of a loader.

    Returns:
        The result, and the names of the parameters that a pass wrote to.
    """
    given_back = False
    try:
        try:
            ONE_AT_A_TIME.acquire()
            return _in_eval_mode(model, look, written, streams)
        finally:
            give_back()
            given_back = True
    finally:
        if not given_back:  # An interrupt may have come before it was done.
            give_back()


def give_back() -> None:
    """Lets the next reading begin; not by a `with`, at the end of which an interrupt may come."""
    with suppress(RuntimeError):  # This thread does not hold the lock: the interrupt came before it acquired it.
        ONE_AT_A_TIME.release()


def _in_eval_mode(
    model: nn.Module,
    look: Callable[[], T],
    written: Collection[str] | None,
    streams: Sequence[Callable[[], object]],
) -> tuple[T, set[str]]:
    devices = {parameter.device for parameter in model.parameters()}
    process, snapshot = [*process_state(devices), *streams], Snapshot(model, written)

    def put_back() -> None:
        for each in process:
            each()
        snapshot.put_back()
        for each in process:  # A network's own `train` may draw random numbers too.
            each()

    try:
        try:
            snapshot.enter_eval()
            with plain(model, devices), torch.no_grad():
                result = look()
        except KeyboardInterrupt as interrupt:
            end_contexts(interrupt)
            raise
        finally:
            put_back()
    finally:
        put_back()  # Once more: an interrupt may have come before it was done.
    return result, snapshot.written


def advice_on_gradients(name: str, error: Exception) -> str | None:
    """What to change in a quantity that differentiates what was computed without gradients; None of other errors."""
    if "does not require grad" not in str(error):
        return None
    inside = "inside `with torch.enable_grad():`"
    return f"{name} runs without gradients: compute what it differentiates, from `model`, {inside}."


def end_contexts(interrupt: BaseException) -> None:
    """Ends what an interrupt left open, last first: now, and not with the traceback, after everything is restored."""
    for frame, _ in reversed([*traceback.walk_tb(interrupt.__traceback__)]):
        with suppress(RuntimeError):  # It is still running.
            frame.clear()


def check_thread(model: nn.Module) -> None:
    """Raises RangeError if the network is read in another thread than before: perhaps one that does not train it."""
    now = threading.current_thread()
    reader = READERS.setdefault(model, now)
    if reader is not now and not reader.is_alive():
        READERS[model] = reader = now
    if reader is not now:
        raise RangeError(
            "model",
            f"readings in {reader.name}, the thread of the first",
            f"one in {now.name}",
            "Read where the network is trained, between two steps: a reading sets it to eval mode for a while.",
        )
