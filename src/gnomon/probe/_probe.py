"""The probe: looks at a network while it trains."""

import math
import operator
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.linalg import LinAlgError  # type: ignore[attr-defined]
from torch.utils.data import DataLoader, Dataset

from gnomon import _checks
from gnomon.autodiff import layer_named, observe, timed
from gnomon.errors import ConvergenceError, RangeError
from gnomon.probe._cost import Cost, Meter
from gnomon.probe._derived import as_asked, require_one_layer
from gnomon.probe._dry_run import ready, rehearse
from gnomon.probe._eval_mode import check_thread, evaluated
from gnomon.probe._plan import Quantity, plan, presentable
from gnomon.probe._reading import Reading, apart, place
from gnomon.probe._schedule import Schedule, every
from gnomon.probe._wrapped import check_shapes, check_whole, unwrapped


class Probe:
    """Reads quantities off a network at given samples, when a schedule says so.

    A quantity is a function, and its argument names say what it looks at: `model`, `x`, `labels`, `parameters` (by
    name), `logits` (n c), `jacobian` (n c *d), `centroid` (n *d), `features` (n *p), which are the input of the linear
    layer at the end or of `layer`, the number of `classes`, the `class_means` and `centred_means` of the features, the
    `classifier`, which is the final linear layer's weight (k p), and its `bias`, the `agop` at the network's input and
    the `layer_weight` that goes with it, the `memory` budget, or the name of another quantity: one here or any of
    gnomon's, such as `class_moments`. Each of these is computed once a reading, from one graph, in chunks that fit the
    budget. Other settings are given by `functools.partial`.

    The network is in eval mode while it is read, by its own `eval`, and then as it was, bit for bit: parameters and
    buffers, what its modules hold in attributes, modes, and the streams of random numbers of Python, NumPy and torch.
    State that a forward pass keeps elsewhere cannot be put back; what of it is found is said here. A network is read in
    one thread, that of its training.

    What the network or the samples lack is said here, of all quantities in one error, and not when a reading is due:
    one sample of each class, or two where there are no classes or more than 128, is looked at, and gnomon's own
    functions are called. Yours are not called before they are due. What training may mend, such as a weight without an
    inverse, is no error here. A network that has lazy layers, or is not yet on the samples' device, is not looked at.

        probe = Probe(model, (x, labels), [accuracy, centroid_alignment], every(100))
        for step in range(steps):
            if reading := probe(step):
                print(step, reading.scalars())

    Args:
        model: the network, from (n *d) to (n c); of one wrapped by DataParallel, DistributedDataParallel or
            torch.compile, what is inside.
        data: the samples, alone or with their labels.
        quantities: functions, or a mapping from names to functions.
        schedule: from a step to whether to read; every step unless told.
        layer: the name of the layer whose input the features are, if it is not the linear one at the end.
        memory: bytes to use beyond the observations themselves; 512 MiB unless told.
        max_overhead: seconds of reading allowed for each second of training, such as 0.05. Readings that are due are
            left out, and counted in `cost`, until there is room for one that takes as long as those before it. The
            first is always taken, and so are those that `read` asks for.

    Raises:
        EmptyError: if there are no quantities, or none of the samples is of some class, and a quantity needs all.
        RangeError: if the model is no module, the schedule no function, or the data are no tensors; if a quantity asks
            for what is not there, or has an observation's name; if the samples are not of floating point, or labels not
            classes, and a quantity needs these; if max_overhead is not above 0.
        ShapeError: if there are not as many labels as samples, the outputs are not (n, c), or a quantity needs others.
        UnsupportedModuleError: if a quantity needs a network of another kind, such as one that ends in a linear layer;
            if parameters are sharded over processes; if one looks at the weight at the end and at another layer's
            features; if the forward pass makes layers or parameters.
        DataError: if the network does not take the samples.
    Cost: of making one, a forward and a backward pass over a sample of each class, and what a quantity takes whatever
        the number of samples.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Tensor | tuple[Tensor, Tensor] | list[Tensor],
        quantities: Sequence[Quantity] | Mapping[str, Quantity],
        schedule: Schedule | None = None,
        *,
        layer: str | None = None,
        memory: int | None = None,
        max_overhead: float | None = None,
    ) -> None:
        _checks.settings(
            "Probe",
            ("model", model, "an nn.Module", isinstance(model, nn.Module)),
            (
                "schedule",
                schedule,
                "a function of the step, such as every(100)",
                schedule is None or callable(schedule),
            ),
            ("max_overhead", max_overhead, "above 0", max_overhead is None or 0 < max_overhead < math.inf),
        )
        model = unwrapped(model)
        check_whole(model)
        self.model = model
        self.layer = layer
        self.schedule = every(1) if schedule is None else schedule
        self.memory = memory
        self._meter = Meter(max_overhead)
        self._warned: set[str] = set()
        self._given = given(data)
        _checks.samples("Probe", 1, **self._given)
        self._plan = plan(quantities, tuple(self._start()))
        if layer is not None:
            layer_named("Probe", model, layer)
        self._written = rehearse(self._plan, model, self._start(), layer=layer, memory=memory)
        # The rehearsal has looked whether samples mix, if it took place; else the first reading does.
        self._independent = ready(model, self._given["x"])

    def __call__(self, step: int) -> Reading | None:
        """The reading at this step, or None if none is due.

        Training goes on where a quantity has no value, as after a step that made the network NaN: it is NaN then, which
        `Reading.missing` explains, and the first time a warning.
        """
        step = operator.index(step)  # of NumPy and torch too
        if not (self.schedule(step) and self._meter.allows()):
            return None
        reading = self._read(step, tolerant=True)
        for name in reading.missing.keys() - self._warned:
            self._warned.add(name)
            warnings.warn(f"Probe: {name} is NaN at step {step}: {reading.missing[name]}", stacklevel=2)
        return reading

    def read(self, step: int = 0) -> Reading:
        """A reading now, whatever the schedule and the budget say.

        Raises:
            GnomonError: if a quantity has no value.
        """
        return self._read(operator.index(step), tolerant=False)

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names of what is read."""
        return self._plan.reported

    @property
    def cost(self) -> Cost:
        """What the readings have cost so far, beside training."""
        return self._meter.cost()

    def __repr__(self) -> str:
        given = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in self._given.items())
        return f"Probe({type(self.model).__name__}, {given}, quantities {', '.join(self.quantities)})"

    def _read(self, step: int, *, tolerant: bool) -> Reading:
        check_whole(self.model)
        check_shapes(self.model)
        check_thread(self.model)
        with self._meter.reading():
            return evaluated(self.model, lambda: self._look(step, tolerant=tolerant), self._written)[0]

    def _look(self, step: int, *, tolerant: bool) -> Reading:
        seconds: defaultdict[str, float] = defaultdict(float)
        x, known = self._given["x"], self._start()
        require_one_layer(self.model, x, self.layer, self._plan.torn)
        if self._plan.observations:
            seen = observe(
                "Probe",
                self.model,
                x,
                self._plan.observations - {"features"},
                features={"features": self.layer} if "features" in self._plan.observations else {},
                memory=self.memory,
                independent=self._independent,
            )
            self._independent = True
            known |= seen.values
            seconds |= seen.seconds
        missing = self._compute(known, seconds, (RangeError, ConvergenceError, LinAlgError) if tolerant else ())
        live = {place(tensor) for tensor in (*self.model.parameters(), *self.model.buffers(), *self._given.values())}
        values = {name: apart(presentable(name, known[name]), live) for name in self._plan.reported}
        return Reading(step, values, dict(seconds), {name: missing[name] for name in values if name in missing})

    def _compute(
        self, known: dict[str, object], seconds: defaultdict[str, float], tolerated: tuple[type[Exception], ...]
    ) -> dict[str, str]:
        """Adds the quantities to what is known; of those without a value NaN, and why to what is returned."""
        missing: dict[str, str] = {}
        for name, quantity in self._plan.quantities.items():
            arguments = {
                argument: as_asked(quantity, argument, known[argument]) for argument in self._plan.arguments[name]
            }
            absent = next((missing[argument] for argument in arguments if argument in missing), None)
            if absent is None:
                try:
                    with timed(seconds, name, self._given["x"]):
                        known[name] = quantity(**arguments)
                except tolerated as error:
                    absent = str(error)
            if absent is not None:
                known[name], missing[name] = torch.tensor(math.nan), absent
        return missing

    def _start(self) -> dict[str, object]:
        """What is there before anything is looked at."""
        parameters = dict(self.model.named_parameters())
        return {**self._given, "model": self.model, "parameters": parameters, "memory": self.memory}


def given(data: Tensor | tuple[Tensor, Tensor] | list[Tensor]) -> dict[str, Tensor]:
    """The samples, and their labels if there are any, by name; RangeError if one is no tensor, or there are more."""
    parts = tuple(data) if isinstance(data, tuple | list) else (data,)
    if len(parts) not in (1, 2):
        raise RangeError(
            "data", "samples, alone or with labels", f"{len(parts)} parts", "Pass (x, labels).", where="Probe"
        )
    for part in parts:
        if not isinstance(part, Tensor):
            raise RangeError("data", "tensors", type(part).__name__, f"{advice(part)}", where="Probe")
    return dict(zip(("x", "labels")[: len(parts)], parts, strict=True))


def advice(part: object) -> str:
    """How tensors are made of what is none."""
    if isinstance(part, DataLoader):
        return "Pass a batch of it, x, labels = next(iter(loader)), or several joined by torch.cat."
    if isinstance(part, Dataset):
        return "Pass samples of it, such as torch.utils.data.default_collate([dataset[i] for i in range(100)])."
    if isinstance(part, Mapping):
        return f"Pass one of {', '.join(map(str, part))}, as the network takes it."
    return "Convert it with torch.as_tensor."
