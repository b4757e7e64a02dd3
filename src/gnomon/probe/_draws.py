"""The random numbers of data: the same at each reading, whatever training and quantities draw in the meantime."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from gnomon.errors import GnomonError, RangeError
from gnomon.measure import fourier_losses, start_cka
from gnomon.probe._derived import unbound
from gnomon.probe._held import generators_in
from gnomon.probe._process_state import PutBack, random_numbers

SHUFFLING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
IN_ORDER = ((start_cka, "start"), (fourier_losses, "trained"))
"""What compares samples with a setting that has a row for each, and that setting."""


class Draws:
    """What data draw while they are iterated: each time, they begin where the generators are now.

    Args:
        data: batches, which may hold generators.
        devices: those whose random numbers count, beside the processor's.
    """

    def __init__(self, data: object, devices: Set[torch.device]) -> None:
        self._data, self._devices = data, devices
        self._process = random_numbers(devices)
        self._generators: list[PutBack] = []
        self._generators = self.generators()

    def generators(self) -> list[PutBack]:
        """What restores the generators that the data hold, or held at first, as they are now."""
        # A function that restores one leads to it.
        return generators_in([self._data, *self._generators], through_objects=True)

    def batches(self, begin: Callable[[], Iterable[Any]]) -> Iterator[Any]:
        """The batches of an iterable that is made and iterated with these draws; the process keeps its own stream."""
        stream = Stream(self._process, self._devices)
        for each in self._generators:
            each()
        end = object()
        with stream.drawn():
            batches = iter(begin())
        while True:
            with stream.drawn():
                batch = next(batches, end)
            if batch is end:
                return
            yield batch


class Stream:
    """Random numbers of Python, NumPy and torch beside those of the process.

    Args:
        state: what sets the process's generators to where this begins.
        devices: those that have some.
    """

    def __init__(self, state: list[PutBack], devices: Set[torch.device]) -> None:
        self._state, self._devices = state, devices

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Inside, the process draws from here."""
        outside = random_numbers(self._devices)
        try:
            for each in self._state:
                each()
            yield
            self._state = random_numbers(self._devices)
        finally:
            for each in outside:
                each()


def shuffles(data: object) -> bool:
    """Whether a loader's sampler puts samples into random order."""
    while data is not None:
        sampler = getattr(data, "sampler", None)
        if isinstance(sampler, SHUFFLING) or getattr(sampler, "shuffle", False) is True:
            return True
        data = getattr(data, "batch_sampler", None)
    return False


def out_of_order(quantities: Mapping[str, Callable[..., object]], data: object) -> dict[str, GnomonError]:
    """Why quantities that compare samples with what stands in their order have no value, if a loader shuffles."""
    found: dict[str, GnomonError] = {}
    for name, quantity in quantities.items() if shuffles(data) else ():
        for setting in (setting for known, setting in IN_ORDER if known is unbound(quantity)):
            expected, advice = f"samples in the order of `{setting}`", "Pass one with shuffle=False."
            found[name] = RangeError("data", expected, "a loader that shuffles", advice, where="Probe")
    return found


class NoGradientState:
    """Takes the place of what Accelerate tells where training is in its loader."""

    def _add_dataloader(self, loader: object) -> None:
        """Notes nothing."""

    def _remove_dataloader(self, loader: object) -> None:
        """Notes nothing."""


def beside_training(batches: Iterable[Any]) -> Iterable[Any]:
    """The same batches, which may be iterated while training is in the middle of them, and by one process alone.

    Raises:
        RangeError: if one process hands each batch out to all.
    """
    if hasattr(batches, "gradient_state") and hasattr(batches, "base_dataloader"):  # that Accelerate has prepared
        if hasattr(batches, "slice_fn") and hasattr(batches, "state") and batches.state.num_processes > 1:
            expected, got = "batches that each process makes", f"a {type(batches).__name__}, which hands them out"
            raise RangeError("data", expected, got, "Pass the loader as it was before Accelerate prepared it.")
        own = object.__new__(type(batches))
        base = beside_training(batches.base_dataloader)
        # The first process tells the others the state of the generators named in `rng_types`.
        apart = {"gradient_state": NoGradientState(), "base_dataloader": base, "rng_types": None}
        vars(own).update(vars(batches) | apart)
        return own
    if isinstance(batches, DataLoader) and batches.persistent_workers:
        own = copy.copy(batches)
        vars(own).update(persistent_workers=False, _iterator=None)  # training's workers are left alone
        return own
    return batches
