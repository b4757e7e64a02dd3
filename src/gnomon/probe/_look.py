"""One look at the samples of a split: batch by batch where a quantity allows it, all at once where it does not."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from gnomon._budget import budget_of
from gnomon.autodiff import IGNORED, JacobianOperator, Positions, observe, timed
from gnomon.errors import ConvergenceError, EmptyError, ShapeError
from gnomon.linalg import Estimate
from gnomon.probe._derived import argument_value
from gnomon.probe._eval_mode import advice_on_gradients
from gnomon.probe._levels import Level, levels, require_room, with_rows
from gnomon.probe._pieces import Pieces
from gnomon.probe._plan import Plan
from gnomon.probe._samples import Batch, Samples, in_batch
from gnomon.probe._second_pass import SecondPass
from gnomon.probe._sequences import by_position, naming_ignored, several
from gnomon.probe._sums import Sum, in_settings_and_samples, sum_of
from gnomon.probe._wrapped import device_of

COPIES = 3
"""How many Jacobians of a chunk are in memory at once, where quantities derive others from them."""

SMALL = 16
"""What class moments use is held for all samples at once if it takes no more than the memory divided by this."""


Keep = Callable[[dict[str, Any], slice], dict[str, Tensor]]
"""A function from the observations of a chunk, and its place in the batch, to what is kept of them."""


class Look:
    """What a plan requests, on the samples of one split.

    A quantity with one row per sample is computed on each chunk, whose observations are then freed, and so is anything
    that adds up, such as class moments; a quantity that needs all samples gets the rows that it uses, joined.

    Args:
        plan: what to compute.
        known: what is known before anything is observed, by name.
        memory: bytes to use for a chunk.
        tolerated: the errors after which a quantity is NaN.
        positions: the positions of a sample that are read, if it has any.

    Attributes:
        known: all that has been found, by name.
        seconds: what each took.
        missing: by quantity, why it has no value.
        held: the names of what is kept for all samples.
    """

    def __init__(
        self,
        plan: Plan,
        known: Mapping[str, object],
        memory: int | None,
        tolerated: tuple[type[Exception], ...],
        positions: Positions | None,
    ) -> None:
        self.known = dict(known)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.missing: dict[str, str] = {}
        self._plan, self._memory, self._tolerated = plan, memory, tolerated
        self.positions = positions
        self._levels = levels(plan, rows=several(positions))
        asked = {key for name in self._at(Level.ALL) for key in plan.arguments[name].values()} | {*plan.reported}
        self._with_rows = with_rows(plan, self._levels)
        self._operator = "jacobian_operator" in asked
        self.held = asked & self._with_rows - {"jacobian_operator"} | ({"x"} if self._operator else set())
        self._pieces: defaultdict[str, Pieces] = defaultdict(Pieces)
        self._sums: dict[str, Sum] = {}
        self._n = 0
        self._second = SecondPass(plan, self._levels, memory)

    def at(self, model: nn.Module, samples: Samples, *, independent: bool) -> None:
        """Reads the network at all these samples, knowing or not knowing that they do not mix."""
        self._x = samples.first["x"]
        self._model, self._samples = model, samples
        self._second.begin(samples)
        self._compute(Level.NETWORK, {}, alone=True)
        for number, batch in enumerate(samples.batches(device_of(model))):
            with in_batch(None if samples.tensors else number):
                self._look(model, batch, alone=samples.tensors, independent=independent or self._n > 0)
        if self._n == 0 and self.positions is None:
            raise EmptyError("data", "batches at each reading", "none", "Pass a list of them, or a DataLoader.")
        if self._n == 0:
            raise EmptyError("labels", "positions that have one", f"{IGNORED} at all", "Pass some that have.")
        rows: dict[str, Any] = {name: pieces.joined() for name, pieces in self._pieces.items()}
        self.known |= rows
        if self._operator:
            self.known["jacobian_operator"] = JacobianOperator(model, rows["x"], memory=self._memory)
        for name in [name for name in self._sums if name not in self.missing]:
            with self._noting(name):
                self.known[name] = self._sums[name].compute()
        self._compute(Level.ALL, {}, alone=True)
        self.known |= dict.fromkeys(self.missing, torch.tensor(math.nan))

    def _look(self, model: nn.Module, batch: Batch, *, alone: bool, independent: bool) -> None:
        """Reads one batch, which is `alone` or one of several."""
        self._x = x = batch["x"]
        if self.positions is not None and several(self.positions):
            self._look_at_rows(model, batch, self.positions, independent=independent)
            return
        self._n += len(x)
        rows: dict[str, Any] = dict(batch)
        self._compute(Level.BATCH, rows, alone=alone)
        self._take_estimates(rows)
        given = batch.keys() if alone else ()  # which need no room, since they are there already

        def keep(seen: dict[str, Any], part: slice) -> dict[str, Tensor]:
            some = {name: value[part] for name, value in rows.items()} | seen
            if part.start == 0:
                if alone:
                    self._keep_small(some, len(x))
                self._release({name: some[name] for name in some.keys() - given}, len(x))
            self._compute(Level.CHUNK, some, alone=alone and part == slice(0, len(x)))
            self._take_estimates(some)
            held = self.held & some.keys()
            require_room(
                self._plan, {name: some[name][0].nbytes for name in held.difference(given)}, self._n, self._memory
            )
            return {name: some[name] for name in held - rows.keys()}

        found: dict[str, Tensor] = {}
        if self._plan.observed:
            found |= self._observe(model, x, keep, independent=independent)
        found |= {name: rows[name] for name in self.held & rows.keys()}
        for name, piece in found.items():
            self._pieces[name].add(piece)

    def _look_at_rows(self, model: nn.Module, batch: Batch, positions: Positions, *, independent: bool) -> None:
        """Reads several positions of each sample of a batch."""
        labels = batch.get("labels")
        self._compute(Level.BATCH, {"x": batch["x"]}, alone=False)  # what is the same for any samples

        def keep(seen: dict[str, Any], part: slice) -> dict[str, Tensor]:
            some = by_position(seen, None if labels is None else labels[part], positions)
            count = len(some["logits"])
            if count > 0:
                self._n += count
                self._compute(Level.CHUNK, some, alone=False)
                self._take_estimates(some)
                self._release(some, count)
                self._hold(some)
            return {}

        self._observe(model, batch["x"], keep, independent=independent)

    def _hold(self, rows: Mapping[str, Any]) -> None:
        """Keeps, for some samples, the rows that are needed for all."""
        held = self.held & rows.keys() - {"x"}
        require_room(self._plan, {name: rows[name][0].nbytes for name in held}, self._n, self._memory)
        for name in held:
            self._pieces[name].add(rows[name])

    def _observe(self, model: nn.Module, x: Tensor, keep: Keep, *, independent: bool) -> dict[str, Tensor]:
        """What `keep` returns for the observations of each chunk."""
        seen = observe(
            model,
            x,
            self._plan.observations,
            features=self._plan.features,
            memory=self._memory,
            independent=independent,
            copies=self.copies,
            first=self._n - len(x),
            positions=self.positions,
            keep=keep,
        )
        for name, took in seen.seconds.items():
            self.seconds[name] += took
        return seen.values

    def _take_estimates(self, rows: dict[str, Any]) -> None:
        """Takes estimates out of the rows that are joined as tensors."""
        for name in [name for name, value in rows.items() if isinstance(value, Estimate)]:
            self._pieces[name].add(rows.pop(name))

    def _release(self, rows: Mapping[str, Any], n: int) -> None:
        """Drops what a second pass will use, if n more rows of it would not fit."""
        rest = set(self._at(Level.ALL)) - self._second.names
        others = {key for name in rest for key in self._plan.arguments[name].values()}
        for name in self._second.take(rows, n, others):
            self.held.discard(name)
            self._pieces.pop(name, None)

    def _look_again(self) -> None:
        """Computes in a second pass what needs one and can be computed by now."""
        self._second.begin_again()
        plan, known = self._second.plan(self.known, self.missing), self._second.without_rows(self.known)
        look = Look(plan, known, self._memory, self._tolerated, self.positions)
        look.at(self._model, self._samples, independent=True)
        self.known |= {name: look.known[name] for name in plan.reported}
        self.missing |= {name: why for name, why in look.missing.items() if name in plan.reported}
        for name, took in look.seconds.items():
            self.seconds[name] += took

    def _keep_small(self, some: Mapping[str, Tensor], n: int) -> None:
        """Lets sums that use few numbers wait for all n samples: their last digits are then those of the functions."""
        room = budget_of(self._memory) // SMALL
        for name in self._at(Level.CHUNK):
            looks = some.keys() & set(self._plan.arguments[name].values())
            if sum_of(self._plan.quantities[name]) and n * sum(some[key][0].nbytes for key in looks) <= room:
                self._levels[name] = Level.ALL
                self.held |= looks

    def _compute(self, level: Level, rows: dict[str, Any], *, alone: bool) -> None:
        """Computes a level's quantities, from `rows` of some samples, or of all if `alone`, and from what is known."""
        for name in self._at(level):
            if name in self.known:  # since it is the same for any samples
                continue
            quantity, keys = self._plan.quantities[name], self._plan.arguments[name]
            if absent := [self.missing[key] for key in (name, *keys.values()) if key in self.missing]:
                self.missing[name] = absent[0]
                continue
            if name in self._second:
                self._look_again()
                continue
            arguments = {
                argument: argument_value(quantity, argument, rows[key] if key in rows else self.known[key])
                for argument, key in keys.items()
            }
            adds = None if alone else sum_of(quantity)
            with self._noting(name):
                if adds:
                    settings, samples = in_settings_and_samples(arguments)
                    if name not in self._sums:
                        self._sums[name] = adds(**settings)
                    self._sums[name].update(**samples)
                elif name in self._with_rows:
                    rows[name] = one_row_each(name, quantity(**arguments), self._count(rows))
                else:
                    self.known[name] = quantity(**arguments)

    @contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        """Times a quantity, and notes why it has no value."""
        try:
            with timed(self.seconds, name, self._x), decomposing(name), naming_ignored(self.positions):
                yield
        except self._tolerated as error:
            self.missing[name] = str(error)
        except RuntimeError as error:
            if advice := advice_on_gradients(name, error):
                error.add_note(advice)
            raise

    def _at(self, level: Level) -> list[str]:
        return [name for name in self._plan.quantities if self._levels[name] == level]

    def _count(self, rows: Mapping[str, Any]) -> int:
        """How many samples these are, or positions of samples."""
        return len(rows["logits" if several(self.positions) else "x"])

    @property
    def copies(self) -> int:
        """How many Jacobians of a chunk are in memory at once."""
        looks = any("jacobian" in self._plan.arguments[name].values() for name in self._at(Level.CHUNK))
        return COPIES if looks else 1


@contextmanager
def decomposing(name: str) -> Iterator[None]:
    """Turns what torch raises about a matrix inside, such as one without an inverse, into an error about a quantity."""
    try:
        yield
    except LinAlgError as error:
        expected, advice = f"matrices in {name} that torch can decompose", "Look at what it is computed from."
        raise ConvergenceError("quantities", expected, str(error).rstrip("."), advice, where="Probe") from error


def one_row_each(name: str, value: object, n: int) -> Tensor | Estimate:
    """A quantity's result for n samples, if it has a row for each.

    Raises:
        ShapeError: if it does not.
    """
    if isinstance(value, Estimate) and len(value.value) == n:
        return value
    if isinstance(value, Tensor) and value.shape[:1] == (n,):
        return value
    got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
    raise ShapeError(
        "quantities",
        f"one row per sample from {name}, as its return annotation says",
        f"{got} of {n} samples",
        "Correct the annotation, or what it returns.",
    )
