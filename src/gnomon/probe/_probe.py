"""The probe: reads a network while it trains."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from torch import nn

from gnomon import _checks
from gnomon._kinds import checked
from gnomon._warn import warn
from gnomon.autodiff import RTOL, Places, Positions, at_positions, named_layers
from gnomon.errors import ConvergenceError, EmptyError, GnomonError, RangeError, within
from gnomon.probe._cost import Cost, Meter
from gnomon.probe._derived import require_layers, require_one_layer
from gnomon.probe._dry_run import dry_run, raise_together, ready
from gnomon.probe._eval_mode import check_thread, in_eval_mode
from gnomon.probe._expected import ExpectedCost, expected, joint_cost
from gnomon.probe._history import History
from gnomon.probe._look import Look
from gnomon.probe._operators import by_products
from gnomon.probe._plan import plan, presentable, provided
from gnomon.probe._reading import Reading, address, apart
from gnomon.probe._samples import Data, doubts, split_samples
from gnomon.probe._schedule import Schedule, every, whole_step
from gnomon.probe._sequences import of_several, several
from gnomon.probe._sharding import agreed, whole
from gnomon.probe._splits import QuantitiesBySplit, at_split, by_split, check_names, docstrings_of, names_of, of_splits
from gnomon.probe._wrapped import check_shapes, device_of, take_from_training, unwrapped

T = TypeVar("T")


class Probe:
    """Reads quantities off a network at given samples, when a schedule says so.

    A quantity is a function whose argument names say what it uses: `model`, `x`, `labels`, `parameters` (by name),
    `logits` (n c), `jacobian` (n c *d) or products with it as `jacobian_operator`, `centroid` (n *d), `features`
    (n *p), which are the inputs of the final linear layer or of `layers`, the number of `classes`, the `class_means`
    and `centred_means` of the features, for the classes that have samples, the `classifier`, which is the weight of the
    final linear layer (k p), and its `bias`, the `agop` at the network's input and the `layer_weight` that goes with
    it, the `memory` budget, or the name of another quantity: one passed here or any of gnomon's, such as
    `class_moments`. Each of these is computed once per reading, from one graph, in chunks that fit the budget. Other
    settings are bound with `functools.partial`, or have defaults: in a function of your own `margin=1.0` is a setting,
    `margin` the quantity.

    With many outputs the Jacobian is not built if products with it suffice for all quantities that use it: they then
    return a `gnomon.Estimate`, to the accuracy `rtol`.

    While it is read, the network is in eval mode, set by its own `eval`; afterwards it is restored bit for bit:
    parameters and buffers, what its modules hold in attributes, modes, and the random number streams of Python, NumPy
    and torch, whatever a function of yours does to a `model` or to `parameters` that it is given, which are copied
    before the reading; other quantities of the same reading see what it did. It gets weights such as the `classifier`
    as copies, samples as views of their memory. State that a forward pass keeps elsewhere cannot be restored; what is
    found of it is reported when the probe is made. A network is read in one thread, the one that trains it.

    What the network or the samples lack is also reported then, for all quantities in one error, and not when a reading
    is due: the network is run on one sample of each class, or on two samples if there are no classes or more than 128,
    and gnomon's own functions are called. Your functions are not called before they are due. What training may fix,
    such as a weight without an inverse, is not an error at this point. A network that has lazy layers, or is not yet on
    the samples' device, is not checked.

        probe = Probe(model, (x, labels), [accuracy, centroid_alignment], every(100))
        for step in range(steps):
            probe(step)  # a Reading, or None if none is due; its numbers stay in the history
        probe.history["centroid_alignment"], probe.history.steps

    If a network outputs logits at several positions of a sample, `positions` says which are read. Each is then a row of
    logits, features and labels. All positions of a sample share its input: the Jacobian at one of them is that of its
    logits with respect to the entire input, such as the embeddings of a complete text, and is available for one
    position per sample only.

    Samples may be given in splits: one reading then covers all of them, `train/accuracy` as well as `test/accuracy`,
    each split from one forward pass, and a quantity on one split may use another's samples: `train_x`, `train_labels`.
    With several `layers`, quantities that use features are read at each: `test/LAYER/nc1`.

        Probe(model, {"train": loader, "test": (x, labels)}, {"train": [nc1], "test": [accuracy]}, layers=["2", "4"])

    A network that is sharded over processes, by `fully_shard` or `parallelize_module`, is gathered for a reading: each
    process then reads on its own, at its own samples, and holds the complete network meanwhile. All processes have to
    make the probe, and to call it at the same steps; if one does not, the others raise an error within half a minute.
    With `max_overhead` they read if all have room.

    A quantity whose return annotation begins with n and has no other, as in `-> Float[Tensor, "n"]`, is computed for
    some samples at a time, whose observations are then freed; class moments and the AGOP are accumulated. So memory
    does not grow with the number of samples. A function without an annotation gets all samples at once, if what it uses
    fits `memory`.

    Args:
        model: the network, from (n *d) to (n c); if it is wrapped by DataParallel, DistributedDataParallel or
            torch.compile, the network inside is used.
        data: the samples, alone or with their labels: tensors, a data set, a loader, or any iterable of batches that
            can be iterated again; or a mapping from the names of splits to these. What batches draw begins at each
            reading where the random numbers were when the probe was made, so that a loader that shuffles or augments
            gives the same samples in one process, and training's random numbers are restored; but not what data count
            themselves, such as their passes. Batches and data sets are moved to the network's device.
        quantities: functions, or a mapping from names to functions; in a mapping, the entry under a split's name holds
            what is read on that split alone, one function or several.
        schedule: a function from a step to whether to read; default: every step.
        layers: the name of the layer whose input, at its last call, the features are, or a list of names; default: the
            final linear layer.
        head: the name of the final linear layer, or a list of the layers whose outputs are added up or averaged, and
            whose inputs are then concatenated as features; default: found from what a forward pass does. The outputs of
            a layer that is named may be processed further, as by SqueezeNet's ReLU and mean: this is then ignored. A
            module that computes a linear map by several weights, as with a LoRA adapter, is a layer with their sum.
        positions: for a network that outputs logits at several positions of a sample, (n t c) as language models do or
            (n c h w) as image segmentation models do, which of them are read: "all", "last", a number, or several.
            Labels are then (n t), or (n h w), and a position with label -100 does not count as a sample.
            A layer that is named is read there too; with as many channels as positions, only if it is a linear layer,
            whose channels come last, or a convolution, whose channels come first.
        memory: bytes to use for the samples that are processed together; default: 512 MiB.
        rtol: with more than 128 outputs, the relative error at which an estimate stops; default: 0.05. 0 uses the
            Jacobian itself.
        passes: how many products with a Jacobian an estimate may use; at least 16; default: 256.
        max_overhead: seconds of reading allowed per second of training, such as 0.05. Readings that are due are
            skipped, and counted in `cost`, until there is room for one that takes as long as those before it. The first
            is always taken, and so are those requested with `read`.
        history: where readings that were due are kept as numbers, such as `History("run.jsonl")`; default: in memory.

    Raises:
        EmptyError: if there are no quantities, or all samples are of one class and a quantity needs more.
        TypeError: if the model is not a module, the schedule not a function, or a setting not of its kind, such as a
            name where a number belongs.
        RangeError: if the data are not samples; if a quantity requests what is not there, or has an observation's name
            or, without a split before it, one that a history uses; if the samples are not floating-point, or the labels
            not classes, and a quantity needs this; listing every setting that is out of range.
        ShapeError: if there are not as many labels as samples, the outputs are not (n, c), or a quantity needs other
            shapes.
        UnsupportedModuleError: if a quantity needs a network of another kind, such as one that ends in a linear layer;
            if FullyShardedDataParallel shards the network, or not all processes that hold a part of it take part; if a
            quantity uses the final layer's weight and another layer's features; if the forward pass creates layers or
            parameters.
        DataError: if the network does not accept the samples.
    Cost: making a probe takes a forward and a backward pass over one sample of each class, and what a quantity costs
        irrespective of the number of samples. A network with a `train` or `eval` of its own, which may change weights,
        is copied in each reading, as are its gradients.
    """

    @checked
    def __init__(
        self,
        model: nn.Module,
        data: Data | Mapping[str, Data],
        quantities: QuantitiesBySplit,
        schedule: Schedule | None = None,
        *,
        layers: str | Sequence[str] | None = None,
        head: str | Sequence[str] | None = None,
        positions: Places | None = None,
        memory: int | None = None,
        rtol: float | int = RTOL,
        passes: int | None = None,
        max_overhead: float | None = None,
        history: History | None = None,
    ) -> None:
        named = [names is None or isinstance(names, Iterable) for names in (layers, head)]
        _checks.settings(
            _checks.at_least_0("rtol", rtol),
            _checks.whole_number("passes", passes, 16, optional=True),
            ("layers", layers, "a name or a list of names", named[0]),
            ("head", head, "a name or a list of names", named[1]),
            _checks.above_0("max_overhead", max_overhead, optional=True),
        )
        self.model = model = unwrapped(model)
        self.layers = layers = layers if layers is None or isinstance(layers, str) else tuple(layers)
        if layers == ():
            raise EmptyError("layers", "at least one layer", "none", "Name one, or leave it out.")
        self.head = named_layers(head, "head")
        self.schedule = every(1) if schedule is None else schedule
        self.memory = memory
        self.rtol, self.passes = rtol, passes
        self.history = History() if history is None else history
        self._resumed = len(self.history) > 0
        self._meter = Meter(max_overhead)
        self._warned: set[str] = set()
        self.positions = None if positions is None else Positions(positions)
        self._samples = split_samples(model, data, self.positions)
        self._plans = {
            split: plan(asked, {*self._provided(), *names_of(self._samples, split)}, layers, self.head)
            for split, asked in by_split(quantities, tuple(self._samples)).items()
        }
        check_names(self.quantities)
        self._docstrings = docstrings_of(self._plans)
        require_layers(model, layers=layers, head=head)
        self._written: set[str] = set()
        self._settled: set[str] = set()
        whole(model, self._dry_run)

    def __call__(self, step: int, *, since: int | None = None) -> Reading | None:
        """The reading at this step, or None if none is due.

        Training continues if a quantity has no value, as after a step that made the network NaN: the quantity is then
        NaN, which `Reading.missing` and, the first time, a warning explain.

        Args:
            step: how many steps the network has been trained for.
            since: the step of the call before, if training makes several between calls: a reading is due if one is at
                any step after that; default: at this step alone.
        """
        step = whole_step(step)
        if not (self.is_due(step, since=since) and self._has_room()):
            return None
        reading = self._read(step, tolerant=True)
        if new := [name for name in reading.missing if name not in self._warned]:
            self._warned.update(new)
            others = f"{'So are' if new[2:] else 'So is'} {', '.join(new[1:])}"
            also = f" {others}: `Reading.missing` says why." if new[1:] else ""
            warn(f"Probe: {new[0]} is NaN at step {step}: {reading.missing[new[0]]}{also}", UserWarning)
        for samples in self._samples.values():
            found = doubts(self.model, samples, kept=self.history._samples, resumed=self._resumed)
            for words in set(found) - self._warned:
                self._warned.add(words)
                warn(words, UserWarning)
        with self._meter.keeping():
            self.history.append(reading)
        return reading

    def is_due(self, step: int, *, since: int | None = None) -> bool:
        """Whether the schedule holds at this step, or at any after `since` up to it; whatever the budget says."""
        return any(map(self.schedule, [step] if since is None else range(since + 1, step + 1)))

    def read(self, step: int = 0) -> Reading:
        """A reading now, whatever the schedule and the budget say; `history.append` would keep it.

        Raises:
            GnomonError: if a quantity has no value.
        """
        return self._read(whole_step(step), tolerant=False)

    @within("Probe")
    def expected_cost(self) -> ExpectedCost:
        """What a reading will cost, before it is made, estimated from few samples: mostly within a factor of two."""
        check_shapes(self.model)
        check_thread(self.model)
        return self._in_eval_mode(lambda: joint_cost(self._expected(split) for split in self._plans))

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names of what is read."""
        return tuple(at_split(split, name) for split, each in self._plans.items() for name in each.reported)

    @property
    def cost(self) -> Cost:
        """What the readings have cost so far, compared with training."""
        return self._meter.cost()

    def __repr__(self) -> str:
        given = ", ".join(f"{split} {samples}".strip() for split, samples in self._samples.items())
        return f"Probe({type(self.model).__name__}, {given}, quantities {', '.join(self.quantities)})"

    def _dry_run(self) -> None:
        why: dict[str, GnomonError] = {}
        for split, each in self._plans.items():
            start = self._start(split, few=True)
            lacking, written = dry_run(
                each, self.model, self._samples[split], start, memory=self.memory, positions=self.positions
            )
            why |= {at_split(split, name): error for name, error in lacking.items()}
            self._written |= dict(self.model.named_parameters()).keys() if each.hands_out_network else written
        raise_together(why)
        if several(self.positions):
            self._plans = {split: of_several(each) for split, each in self._plans.items()}
        # The dry run has checked whether samples mix, if it took place; otherwise the first reading does.
        self._independent = {split: ready(self.model, self._samples[split]) for split in self._plans}

    @within("Probe")
    def _has_room(self) -> bool:
        return self._meter.allows(lambda room: agreed(self.model, room))

    @within("Probe")
    def _read(self, step: int, *, tolerant: bool) -> Reading:
        tolerated = (RangeError, ConvergenceError) if tolerant else ()
        check_shapes(self.model)
        check_thread(self.model)
        with self._meter.reading():
            return self._in_eval_mode(lambda: self._look(step, tolerated))

    def _in_eval_mode(self, look: Callable[[], T]) -> T:
        """What `look` returns, called as for a reading: with the complete network, which outputs what is read of it."""
        positions = at_positions(self.model, self.positions)

        def alone() -> T:
            if any(each.hands_out_network for each in self._plans.values()):
                take_from_training(self.model)
            return look()

        def looked() -> T:
            if self.rtol > 0 and self._settled < self._plans.keys():
                in_eval_mode(self.model, positions(self._settle), self._written)
            streams = [put_back for samples in self._samples.values() for put_back in samples.streams()]
            return in_eval_mode(self.model, positions(alone), self._written, streams)[0]

        return whole(self.model, looked)

    def _expected(self, split: str) -> ExpectedCost:
        look = partial(Look, self._plans[split], self._start(split), self.memory, positions=self.positions)
        return expected(look, self.model, self._samples[split], self._plans[split], self.memory)

    def _look(self, step: int, tolerated: tuple[type[Exception], ...]) -> Reading:
        given = [tensor for samples in self._samples.values() for tensor in samples.first.values()]
        live = {address(tensor) for tensor in (*self.model.parameters(), *self.model.buffers(), *given)}
        reading = Reading(step, {}, {}, docstrings=self._docstrings)
        for split, each in self._plans.items():
            samples = self._samples[split]
            if each.across_layers:
                x = samples.first_on(device_of(self.model))["x"]
                require_one_layer(self.model, x, each.features.values(), self.head, self.positions)
            look = Look(each, self._start(split), self.memory, tolerated, self.positions)
            look.at(self.model, samples, independent=self._independent[split])
            self._independent[split] = True
            for name in each.reported:
                key = at_split(split, name)
                reading.values[key] = apart(presentable(name, look.known[name]), live)
                if name in look.missing:
                    reading.missing[key] = look.missing[name]
            reading.seconds.update({at_split(split, name): took for name, took in look.seconds.items()})
        return reading

    def _settle(self) -> None:
        """Finds on which splits products with the Jacobian suffice, in a pass that leaves no trace in the reading."""
        for split in self._plans.keys() - self._settled:
            samples = self._samples[split]
            x = samples.first_on(device_of(self.model))["x"]
            with suppress(RangeError):  # from a network that is NaN, which its quantities report
                self._plans[split] = by_products(self._plans[split], self.model, x, held=samples.tensors)
                self._settled.add(split)

    def _start(self, split: str, *, few: bool = False) -> dict[str, object]:
        """What is known before anything is observed; of other splits' samples a `few`, or all."""
        accuracy = {"rtol": self.rtol, "passes": self.passes}  # for estimates alone: see `by_products`
        asked = {key for keys in self._plans[split].arguments.values() for key in keys.values()}
        return self._provided() | accuracy | of_splits(self._samples, asked, device_of(self.model), few=few)

    def _provided(self) -> dict[str, object]:
        return provided(self.model, memory=self.memory, head=self.head, positions=self.positions)
