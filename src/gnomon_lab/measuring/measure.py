"""The measurement: one reading of the network at the samples, batch by batch."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypedDict, Unpack

from torch import Tensor, nn

from gnomon import Probe, classifier_equiangularity
from gnomon.autodiff import RTOL
from gnomon.errors import GnomonError
from gnomon.probe import unavailable
from gnomon_lab.measuring.network import foreign
from gnomon_lab.measuring.quantities import Quantity
from gnomon_lab.measuring.samples import Data, Position

BATCH = 256
"""Samples per batch, so few that there is progress to show."""
COMPARED, SIBLING = "classifier_equinorm", "classifier_equiangularity"
"""Both compare rows. Of a single one, as of a regression with one output, the first is 0, which looks like collapse."""


class How(TypedDict, total=False):
    """How to measure.

    Attributes:
        layer: the layer whose input is taken as the features; default: the final linear layer.
        head: the names of the final linear layers; default: found by a forward pass.
        position: which is measured, if the network outputs rows for several positions; "all" for each.
        memory: bytes to use for the samples that are processed together; default: 512 MiB.
        rtol: as in `Probe`.
        passes: as in `Probe`.
    """

    layer: str | None
    head: Sequence[str]
    position: Position
    memory: int | None
    rtol: float
    passes: int | None


class Measured(NamedTuple):
    """The values, and what they cost.

    Attributes:
        values: by quantity, or by the parts of its result; one number, or several, such as one or more per sample.
        seconds: the wall time, by quantity or by what it uses.
    """

    values: dict[str, Tensor]
    seconds: dict[str, float]


@dataclass
class Batches:
    """The samples in batches; `show` is called with how many parts are done, and how many there are."""

    data: Data
    show: Callable[[int, int], None] = lambda done, total: None

    @property
    def parts(self) -> int:
        """How many batches there are, and one part for what is computed from all samples."""
        return -(-len(self.data.x) // BATCH) + 1

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        for done, start in enumerate(range(0, len(self.data.x), BATCH), 1):
            part = slice(start, start + BATCH)
            yield tuple(tensor[part] for tensor in tensors(self.data))
            self.show(done, self.parts)


def tensors(data: Data) -> tuple[Tensor] | tuple[Tensor, Tensor]:
    """The samples, and their labels if there are any."""
    return (data.x,) if data.labels is None else (data.x, data.labels)


def left_out(
    model: nn.Module,
    data: Data,
    quantities: Mapping[str, Quantity],
    *,
    layer: str | None = None,
    head: Sequence[str] = (),
    position: Position = None,
) -> dict[str, str]:
    """The reason for each quantity that cannot be measured.

    Raises:
        RangeError: if the network has no layer of this name.
    """
    unlabelled = no_classes(data.labels, position)
    some = tensors(data._replace(labels=None) if unlabelled else data)
    asked = {**quantities, **({SIBLING: classifier_equiangularity} if COMPARED in quantities else {})}
    with running(data.x), unwarned():
        why = unavailable(model, some, asked, layers=layer, head=head, positions=position)
    if SIBLING in why:
        why.setdefault(COMPARED, why[SIBLING])
    return {
        name: unlabelled if unlabelled and why[name].argument == "data" else reason(why[name])
        for name in quantities
        if name in why
    }


@contextmanager
def unwarned() -> Iterator[None]:
    """Without the warning of outputs that are not logits, of which `take_outputs` says more."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Probe\(model\): expected logits")
        yield


def no_classes(labels: Tensor | None, position: Position) -> str | None:
    """What the labels lack to be classes, which all that is measured of labels needs; None if nothing."""
    if labels is None:
        return "expected labels, got samples alone. --data takes both: an .npz file with x and labels"
    if labels.is_floating_point() or (labels.ndim != 1 and position is None):
        return (
            f"expected one class per sample in whole numbers, got labels {tuple(labels.shape)} in {labels.dtype}. "
            "Save classes so for --data; of targets, as a regression has, nothing is measured"
        )
    return None


def reason(error: GnomonError) -> str:
    """What an error says, without where it was raised."""
    got = "" if error.got is None else f", got {error.got}"
    return f"expected {error.expected}{got}. {error.advice}".rstrip(". ")


def probing(
    model: nn.Module,
    data: Data,
    quantities: Mapping[str, Quantity],
    *,
    say: Callable[[str], None] = lambda words: None,
    **how: Unpack[How],
) -> tuple[Probe, Batches]:
    """The probe that reads the quantities of the network at the samples, and the batches that it gets.

    Args:
        model: the network.
        data: the samples, on its device and in its dtype.
        quantities: by name, in the order in which they are to be shown.
        say: called with what a reading will cost.
        how: see `How`.

    Raises:
        DataError: if the network raises what is no GnomonError.
    """
    batches = Batches(data)
    with running(data.x), unwarned():
        probe = Probe(
            model,
            batches,
            quantities,
            layers=how.get("layer"),
            head=how.get("head", ()),
            positions=how.get("position"),
            memory=how.get("memory"),
            rtol=how.get("rtol", RTOL),
            passes=how.get("passes"),
        )
        say(f"reading {probe.expected_cost()}")
    return probe, batches


def measure(
    model: nn.Module,
    data: Data,
    quantities: Mapping[str, Quantity],
    *,
    say: Callable[[str], None] = lambda words: None,
    show: Callable[[int, int], None] = lambda done, total: None,
    **how: Unpack[How],
) -> Measured:
    """The quantities of the network at the samples, in eval mode.

    Args:
        model: the network.
        data: the samples, on its device and in its dtype.
        quantities: by name, in the order in which they are to be shown.
        say: called with what the work will cost, before it starts.
        show: called with how many parts are done, and how many there are.
        how: see `How`.

    Raises:
        DataError: if the network raises what is no GnomonError.
    """
    probe, batches = probing(model, data, quantities, say=say, **how)
    batches.show = show
    with running(data.x):
        reading = probe.read()
    show(batches.parts, batches.parts)
    return Measured({name: value.cpu() for name, value in reading.tensors().items()}, reading.seconds)


def running(x: Tensor) -> AbstractContextManager[None]:
    """Turns what the network raises inside into one sentence."""
    return foreign(
        f"a network that takes samples of shape {tuple(x.shape[1:])} in {x.dtype} on {x.device}",
        "Name the samples as the network gets them (--data), or the network that gets these (--model).",
    )
