"""The samples at which a network is read: tensors, or batches that can be iterated again at any time."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from gnomon import _checks
from gnomon.autodiff import IGNORED, Positions
from gnomon.errors import EmptyError, GnomonError, RangeError
from gnomon.probe._draws import Draws, beside_training, out_of_order, shuffles
from gnomon.probe._process_state import process_state

Data = Tensor | tuple[Tensor, Tensor] | list[Tensor] | Dataset[Any] | Iterable[object]
"""Samples, alone or with labels, or batches of them: a data set, a loader, a list."""
Batch = dict[str, Tensor]
"""`x` and, if there are any, `labels`."""
BATCH = 256
"""How many samples of a data set are taken at once."""
PARTS = ("x", "labels")
LABELS = frozenset({"labels", "label", "y"})
"""What labels are called in a batch, and no split is."""
JOINED = "several inputs go as one tensor, which a wrapper of the network takes apart"


class Samples:
    """The samples of one split.

    Args:
        data: what holds them.
        positions: the positions at which the network is read; if that is one per sample, the labels are those there,
            and samples that have none there are left out.
        is_padding: which places of samples (n t d) are padding, (n t), where the network says so.
        devices: the network's, on which batches may draw random numbers.
    Attributes:
        first: the first batch; all samples if these are tensors.
        tensors: whether the samples are tensors, which are one batch.
        differ: whether batches once began with other labels than at first.
        stay: whether they are left on the device where they are, as tensors are; a data set's are moved.
    """

    def __init__(
        self,
        data: Data,
        positions: Positions | None = None,
        is_padding: Callable[[Tensor], Tensor] | None = None,
        devices: Set[torch.device] = frozenset(),
    ) -> None:
        check_clear(data, positions)
        self._batches = data
        self._positions = positions
        self._is_padding = is_padding
        self.differ = False
        if isinstance(data, TensorDataset) and 1 <= len(data.tensors) <= len(PARTS):
            self._batches = data.tensors
        elif isinstance(data, Dataset):
            self._batches = DataLoader(data, BATCH)
        self.tensors = is_batch(self._batches)
        self.stay = self.tensors and not isinstance(data, Dataset)
        if self.tensors:
            self.first = self._labelled(batch_of(self._batches))
        else:
            self._draws = Draws(self._batches, devices)
            put_back = [*process_state(devices), *self.streams()]
            try:
                check_again(self._batches)
                self.first = next(self._each(), {})
            finally:
                for each in put_back:
                    each()
        if not self.first:
            raise EmptyError("data", "at least one batch", "none", "Pass samples.")
        if len(self.first["x"]) == 0:
            raise EmptyError("labels", "some at the position that is read", f"{IGNORED} at all", "Read another.")

    def batches(self, device: torch.device | None) -> Iterator[Batch]:
        """All samples, batch by batch, on this device unless they `stay`; tensors are one batch."""
        if self.tensors:
            yield self.first_on(device)
            return
        for number, batch in enumerate(self._each()):
            if number == 0:
                self.differ |= "labels" in batch and not torch.equal(batch["labels"], self.first["labels"])
            if batch.keys() != self.first.keys():
                raise RangeError(
                    "data",
                    f"batches with {' and '.join(self.first)} as the first has",
                    f"one with {' and '.join(batch)}",
                    "Pass labels with all samples, or with none.",
                )
            yield {name: part.to(device) for name, part in batch.items()}

    def first_on(self, device: torch.device | None) -> Batch:
        """The first batch as `batches` yields it."""
        return self.first if self.stay else {name: part.to(device) for name, part in self.first.items()}

    def count(self) -> int:
        """How many samples there are, for which batches are iterated."""
        return len(self.first["x"]) if self.tensors else sum(len(batch["x"]) for batch in self._each())

    def joined(self, device: torch.device | None) -> Batch:
        """All samples at once."""
        if self.tensors:
            return self.first_on(device)
        batches = [*self.batches(device)]
        return {name: torch.cat([batch[name] for batch in batches]) for name in self.first}

    def out_of_order(self, quantities: Mapping[str, Callable[..., object]]) -> dict[str, GnomonError]:
        """Which quantities have no value at these samples because of their order, and why."""
        return out_of_order(quantities, self._batches)

    @property
    def shuffled(self) -> bool:
        """Whether a sampler puts the samples into an order that another process need not draw."""
        return not self.tensors and shuffles(self._batches)

    def streams(self) -> list[Callable[[], object]]:
        """What restores the current state of the random number generators that the data hold, in objects of any kind.

        A loader, its sampler, its data set and what collates are among them.
        """
        return [] if self.tensors else self._draws.generators()

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in self.first.items())
        return shapes if self.tensors else f"batches of {shapes}"

    def _each(self) -> Iterator[Batch]:
        batches: Any = self._batches
        for batch in self._draws.batches(lambda: beside_training(batches)):
            if len((labelled := self._labelled(batch_of(batch)))["x"]) > 0:
                yield labelled

    def _labelled(self, batch: Batch) -> Batch:
        """The samples that have a label at the position that is read."""
        if self._positions is not None and self._positions.one and "labels" in batch:
            labels = self._positions.of_labels(batch["labels"])
            there = labels.long() != IGNORED
            batch = batch | {"labels": labels}
            batch = batch if there.all() else {name: value[there.to(value.device)] for name, value in batch.items()}
        self._require_tokens(batch)
        return batch

    def _require_tokens(self, batch: Batch) -> None:
        """Raises RangeError if padding is read: what a network outputs there says nothing of the text."""
        if self._positions is None or self._is_padding is None:
            return
        padding = self._is_padding(batch["x"])
        if (labels := batch.get("labels")) is not None and labels.shape == padding.shape:
            padding = padding & (labels != IGNORED).to(padding.device)
        if padding.ndim > 1 and (read := self._positions.of_places(padding).any(1)).any():
            got = f"padding in {int(read.sum())} of {len(read)}"
            advice = f"Pad on the left to read the last token, or label padding {IGNORED}."
            raise RangeError("positions", "tokens at the positions that are read", got, advice)


@contextmanager
def in_batch(number: int | None) -> Iterator[None]:
    """Adds the batch's number, from 0, to errors about its samples; None if there is one batch."""
    try:
        yield
    except GnomonError as error:
        if number is not None and error.argument in PARTS and error.got is not None:
            error.got += f" of batch {number}"
        raise


def split_samples(model: nn.Module, data: Data | Mapping[str, Data], positions: Positions | None) -> dict[str, Samples]:
    """The samples by the name of their split, which is empty if there are no splits."""
    is_padding, devices = padding_of(model), {parameter.device for parameter in model.parameters()}
    if not isinstance(data, Mapping):
        return {"": Samples(data, positions, is_padding, devices)}
    if wrong := [name for name in data if not isinstance(name, str) or not name]:
        raise RangeError("data", "splits that have a name", repr(wrong[0]), "Name it, such as 'train'.")
    if not data:
        raise EmptyError("data", "at least one split", "none", "Pass samples.")
    if is_one_batch(model, data):
        got = f"the parts of one batch, {', '.join(data)}"
        raise RangeError("data", "samples, or splits by their names", got, advice(data))
    return {name: Samples(part, positions, is_padding, devices) for name, part in data.items()}


def padding_of(model: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """The network's own word on which places are padding, as `TextLogits` has it; its name is only gnomon's."""
    return getattr(model, "gnomon_padding", None)


def doubts(model: nn.Module, samples: Samples, *, kept: bool, resumed: bool) -> Iterator[str]:
    """What to warn of after a reading in training, of which each sample's values may be `kept`, also `resumed` ones."""
    embedding = getattr(model, "gnomon_embedding", None)
    if samples.tensors and embedding is not None and any(each.requires_grad for each in embedding.parameters()):
        yield (
            "Probe(data): expected embeddings as they are at each reading, got a tensor, while the embedding requires "
            "a gradient: once it is trained, what is read is no longer the network on its texts. Pass "
            "EmbeddedTexts(model, labels, **tokens)."
        )
    if kept and (samples.differ or (resumed and samples.shuffled)):
        yield (
            "Probe(data): expected the same samples at each reading, got others, or another order: values that the "
            "history keeps of each sample are not those of the same one. Counters of the data's own, "
            "such as one of epochs, go on counting. Pass a loader that does not shuffle."
        )


def is_one_batch(model: nn.Module, data: Mapping[str, Data]) -> bool:
    """Whether a mapping holds not splits but the parts of a batch, as a tokenizer returns them.

    These are tensors of one length, of which one is called as labels are, or all are called as the network's arguments.
    """
    parts = [part for part in data.values() if isinstance(part, Tensor)]
    if not 1 < len(parts) == len(data) or len({part.shape[:1] for part in parts}) > 1:
        return False
    arguments: Set[str] = frozenset()
    with suppress(ValueError):  # a traced network does not say
        arguments = inspect.signature(model.forward).parameters.keys()
    return not LABELS.isdisjoint(data) or arguments >= data.keys()


def check_clear(data: object, positions: Positions | None) -> None:
    """Raises RangeError if a list of two tensors may be samples with labels as well as two batches of samples."""
    if not (isinstance(data, list) and len(data) == 2 and all(isinstance(part, Tensor) for part in data)):
        return
    one, other = data
    # Tokens and the labels at their positions are alike.
    labels = positions is not None and not one.is_floating_point()
    if not labels and one.ndim > 1 and (one.dtype, one.shape[1:]) == (other.dtype, other.shape[1:]):
        raise RangeError(
            "data",
            "samples with their labels, or batches",
            "two tensors that may be either in a list",
            "Pass a tuple (x, labels), or batches [(x1,), (x2,)].",
        )


def is_batch(data: object) -> bool:
    """Whether these are samples, alone or with labels, and not several batches of them."""
    return isinstance(data, Tensor) or (
        isinstance(data, tuple | list) and any(isinstance(part, Tensor) for part in data)
    )


def batch_of(data: object) -> Batch:
    """The samples, and their labels if there are any, by name.

    Raises:
        RangeError: if one is not a tensor, or there are more.
        ShapeError, EmptyError: if there are no samples, or not as many labels as samples.
    """
    parts = tuple(data) if isinstance(data, tuple | list) else (data,)
    if len(parts) not in (1, 2):
        advice_to_join = f"Pass (x, labels); {JOINED}."
        raise RangeError("data", "samples, alone or with labels", f"{len(parts)} parts", advice_to_join)
    batch: Batch = {}
    for name, part in zip(PARTS, parts, strict=False):
        if not isinstance(part, Tensor):
            raise RangeError("data", "tensors", type(part).__name__, advice(part))
        batch[name] = part
    _checks.samples(1, **batch)
    return batch


def advice(part: object) -> str:
    """How to make a tensor of what is not one."""
    if isinstance(part, Mapping):
        made = f"Pass (x, labels) made of {', '.join(map(str, part))}"
        return f"{made}; {JOINED} (for transformers: gnomon.integrations.transformers_inputs)."
    if isinstance(part, tuple | list) and any(isinstance(one, Tensor) for one in part):
        return f"Pass (x, labels); {JOINED}."
    return "Convert it with torch.as_tensor."


def check_again(data: object) -> None:
    """Raises RangeError unless these are batches that can be iterated more than once; may draw random numbers."""
    if not isinstance(data, Iterable):
        raise RangeError("data", "tensors or batches", type(data).__name__, advice(data))
    if isinstance(data, DataLoader | list | tuple):
        return
    begun = iter(data)
    # A loader that keeps its workers, in a wrapper, keeps their iterator, which begins again; that alone ends.
    if begun is data or (begun is iter(data) and not isinstance(begun, _BaseDataLoaderIter)):
        raise RangeError(
            "data",
            "batches that can be iterated again at each reading",
            f"a {type(data).__name__}, which can be iterated only once",
            "Pass a list of them, or a DataLoader.",
        )
