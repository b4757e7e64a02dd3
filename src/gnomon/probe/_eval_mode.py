"""How a network is read: in eval mode, exactly, and so that nothing of the reading stays behind."""

import threading
import traceback
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

from gnomon.errors import RangeError
from gnomon.probe._kept import Kept
from gnomon.probe._surroundings import plain, surroundings

T = TypeVar("T")

ONE_AT_A_TIME = threading.RLock()
"""Readings wait for each other: what they put back of the process is there only once."""
READERS: WeakKeyDictionary[nn.Module, threading.Thread] = WeakKeyDictionary()
"""By network the thread that reads it, which is that of its training."""


def in_eval_mode(
    model: nn.Module,
    look: Callable[[], T],
    written: Collection[str] | None = (),
    streams: Sequence[Callable[[], object]] = (),
) -> tuple[T, set[str]]:
    """What `look` returns, called in eval mode and without gradients; afterwards all is what it was.

    That is modes, parameters, buffers, the modules' attributes, grad mode, autocast, and the streams of random numbers
    of Python, NumPy and torch, also if an interrupt comes at any moment. A function, since between a context's entering
    and its block there is room for an interrupt.

    Args:
        model: the network.
        look: what to do.
        written: the names of parameters that passes write to, which are then kept by value; all for None.
        streams: what puts back random numbers of others, such as those of a loader.

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
    """Lets the next reading begin; not by a `with`, at whose end there is room for an interrupt."""
    with suppress(RuntimeError):  # This thread does not have the lock: the interrupt came before it got it.
        ONE_AT_A_TIME.release()


def _in_eval_mode(
    model: nn.Module,
    look: Callable[[], T],
    written: Collection[str] | None,
    streams: Sequence[Callable[[], object]],
) -> tuple[T, set[str]]:
    devices = {parameter.device for parameter in model.parameters()}
    process, kept = [*surroundings(devices), *streams], Kept(model, written)

    def put_back() -> None:
        for each in process:
            each()
        kept.put_back()
        for each in process:  # A network's own `train` may draw numbers too.
            each()

    try:
        try:
            kept.enter_eval()
            with plain(devices), torch.no_grad():
                result = look()
        except KeyboardInterrupt as interrupt:
            end_contexts(interrupt)
            raise
        finally:
            put_back()
    finally:
        put_back()  # Once more: an interrupt may have come before it was done.
    return result, kept.written


def end_contexts(interrupt: BaseException) -> None:
    """Ends what an interrupt left open, the last first: now, and not with the traceback, after all is put back."""
    for frame, _ in reversed([*traceback.walk_tb(interrupt.__traceback__)]):
        with suppress(RuntimeError):  # It still runs.
            frame.clear()


def check_thread(model: nn.Module) -> None:
    """Raises RangeError if the network is read by another thread than before: one that does not train it, perhaps."""
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
