"""A network as a list of piecewise affine steps."""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pickle import PickleError

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gnomon.autodiff import outputs_of, recorded, replacing, require_whole
from gnomon.errors import RangeError, ShapeError, UnsupportedModuleError
from gnomon.regions._functions import of_call
from gnomon.regions._operations import Affine, Bend, Operation, Planes, bent, state_at_origin
from gnomon.regions._recording import Call, Data, Recorder, leaves

AGREEMENT = 1e-6
"""Difference between a network and its steps, as a share of an output's range, beyond which they are not the same."""
OTHERS = 3
"""Random inputs at which a network and its steps are compared: decisions on the data that no trace sees show there."""
NOISE = 1e-12
"""How much noise shakes a network: much more than rounding, and little of any number that is more than that."""
WRONG = (RuntimeError, ValueError, TypeError, IndexError, AssertionError)
"""What networks raise for inputs that they do not accept."""
OF_DTYPES = ("dtype", "scalar type", "Input type")
"""What torch's messages about two dtypes that do not go together contain one of."""


@dataclass(frozen=True)
class Step:
    """One operation in the order of the forward pass.

    Attributes:
        name: the name of its result.
        place: where it is in the network, for people to read.
        operation: what it does.
        inputs: the names of the results that it uses.
        shape: the shape of its result, for one sample.
    """

    name: str
    place: str
    operation: Operation
    inputs: tuple[str, ...]
    shape: torch.Size


@dataclass(frozen=True)
class Network:
    """A copy of a network in float64, and what it is made of.

    Attributes:
        model: the copy.
        steps: its operations in their order.
        source: what goes in.
        result: the name of what comes out.
    """

    model: nn.Module
    steps: tuple[Step, ...]
    source: Data
    result: str

    @cached_property
    def needed_after(self) -> tuple[frozenset[str], ...]:
        """For each step, the results that are still needed when it is done."""
        needed = [frozenset({self.result})]
        for step in reversed(self.steps[1:]):
            needed.append(needed[-1] - {step.name} | set(step.inputs))
        return tuple(reversed(needed))

    @cached_property
    def shapes(self) -> dict[str, torch.Size]:
        """The shapes of all results, for one sample."""
        return {self.source.name: self.source.shape} | {step.name: step.shape for step in self.steps}

    def run(self, planes: Planes, bend: Callable[[int, Bend, Planes], Planes]) -> Planes:
        """The planes that come out for planes that go in; a function computes what a bending step makes of its own."""
        held = {self.source.name: planes}
        for place, (step, needed) in enumerate(zip(self.steps, self.needed_after, strict=False)):
            given, operation = [held[name] for name in step.inputs], step.operation
            value = operation.apply(*given) if isinstance(operation, Affine) else bend(place, operation, given[0])
            held = {name: planes for name, planes in (held | {step.name: value}).items() if name in needed}
        return held[self.result]

    def with_noise(self, size: float = NOISE) -> "Network":
        """The same, with noise on what enters affine steps: what it changes by more than itself was rounding."""

        def noisy(step: Step) -> Step:
            if not isinstance(step.operation, Affine):
                return step
            apply = step.operation.apply

            def on_noise(*given: Planes) -> Planes:
                generator = torch.Generator().manual_seed(0)
                draw = partial(torch.randn, generator=generator, device="cpu")
                noise = (draw(at.shape[2:], dtype=at.dtype).to(at.device) for at in given)
                return apply(*(at * (1 + size * by) for at, by in zip(given, noise, strict=True)))

            return replace(step, operation=Affine(on_noise))

        return replace(self, steps=tuple(map(noisy, self.steps)))

    def require_agreement(self, x: Float[Tensor, "n *d"], outputs: Float[Tensor, "n c"], together: int) -> None:
        """Compares the steps' outputs with the network's, so many samples at a time: what no trace can see shows here.

        Raises:
            UnsupportedModuleError: if the network's outputs differ.
        """
        wanted = torch.cat([self.model(part.clone()) for part in torch.split(x, together)])
        if wanted.shape != outputs.shape:
            raise disagreement()
        apart = _apart(wanted, outputs)
        if (apart <= _tolerated(wanted)).all():
            return
        noise = torch.stack([self.moved_by_noise(part) for part in torch.split(x, together)]).amax(0)
        if not (apart <= torch.maximum(noise, _tolerated(wanted))).all():
            raise disagreement()

    def outputs_at(self, x: Float[Tensor, "n *d"]) -> Float[Tensor, "n c"]:
        """The steps' outputs."""
        return self.run(x[:, None, None], lambda _, bend, at: bent(bend, at, state_at_origin(bend, at)))[:, 0, 0]

    def moved_by_noise(self, x: Float[Tensor, "n *d"]) -> Float[Tensor, "c"]:
        """The largest change of each output by noise: where its terms cancel, it is more than the output itself."""
        # Of both signs, since a ReLU lets one of them through.
        noisy = torch.cat([self.with_noise(size).outputs_at(x) for size in (NOISE, -NOISE)])
        return (noisy - self.outputs_at(x).repeat(2, 1)).abs().nan_to_num(0).amax(0)


def _apart(wanted: Float[Tensor, "n c"], outputs: Float[Tensor, "n c"]) -> Float[Tensor, "c"]:
    """The largest difference of each output; one that is masked is -inf in both."""
    return torch.where(wanted == outputs, 0, wanted - outputs).abs().amax(0)


def _tolerated(outputs: Float[Tensor, "n c"]) -> Float[Tensor, "c"]:
    """The difference to allow in each output: a large one, or a large constant in it, hides nothing in the others."""
    finite = outputs.masked_fill(outputs.isinf(), 0)
    return AGREEMENT * (finite.amax(0) - finite.amin(0)) + NOISE * finite.abs().amax(0)


def disagreement() -> UnsupportedModuleError:
    """The error for a network whose outputs are not those of its steps."""
    return UnsupportedModuleError(
        "model",
        "a network that its trace reproduces",
        "one with different outputs",
        "Look for parts in another language, such as torch.jit's, or for weights that are NaN, and write it without.",
    )


def network_of(model: nn.Module, x: Float[Tensor, "1 *d"]) -> Network:
    """The network's steps.

    Args:
        model: the network.
        x: an input, to see what the network does to inputs like it.

    Raises:
        UnsupportedModuleError: naming the first part that is not piecewise affine, with its module and line; or if the
            network makes decisions based on its data, mixes samples, does not run in float64, or does something that
            cannot be followed.
        RangeError: if it is on another device than `x`.
        ShapeError: if it does not accept `x`, or does not return a row of outputs.
    """
    # Tensors created in inference mode have no versions, by which in-place changes are seen.
    with recorded(), torch.no_grad():
        # Clones, for networks that change their input in place.
        exact, x, given = _copied(model).double(), x.double().clone(), x.double().clone()
        for weight in (*exact.parameters(), *exact.buffers()):
            if weight.device != x.device:
                raise RangeError(
                    "model",
                    f"a network on {x.device}, where the inputs or the plane are",
                    f"one on {weight.device}",
                    "Move one of the two.",
                )
            if is_lazy(weight):
                raise UnsupportedModuleError(
                    "model", "parameters that have a shape", "lazy ones", "Run the network once before."
                )
        recorder = Recorder(exact, given)
        try:
            with recorder:
                outputs = exact(given)
        except WRONG as error:
            raise _refused(x, error) from error
        finally:
            recorder.close()
        result = recorder.data(outputs_of(outputs, x))
        if result is None:
            raise disagreement()
        network = Network(exact, _read(recorder.calls, result), recorder.source, result.name)
        both = _require_apart(network, x, outputs)
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randn(OTHERS, *x.shape[1:], generator=generator, dtype=x.dtype, device="cpu")
        several = torch.cat([both, (1 + x.abs().max()) * drawn.to(x.device)])
        network.require_agreement(several, network.outputs_at(several), together=2)
    return network


def _refused(x: Float[Tensor, "1 *d"], error: Exception) -> ShapeError | UnsupportedModuleError:
    """The error for a network that raised this one at an input."""
    got = f"one that does not: {error}"
    if any(word in str(error) for word in OF_DTYPES):
        advice = "Leave out casts, and make constants with dtype=x.dtype."
        return UnsupportedModuleError("model", "a network that runs in float64, as it is run here", got, advice)
    shape = tuple(x.shape[1:])
    return ShapeError("model", f"a network that takes inputs of shape {shape}", got, "Pass inputs of its own shape.")


def _require_apart(network: Network, x: Float[Tensor, "1 *d"], outputs: Float[Tensor, "1 c"]) -> Float[Tensor, "2 *d"]:
    """The sample and another one, together with which it has the same outputs.

    Raises:
        UnsupportedModuleError: if it has other outputs.
    """
    both = torch.cat([x, 1 - x])
    try:
        # Once ahead of the other and once behind it, since a sum over those so far does not change the first.
        ahead, behind = (outputs_of(network.model(pair.clone()), pair) for pair in (both, both.flip(0)))
        apart = _apart(torch.cat([ahead[:1], behind[1:]]), outputs.expand(2, -1))
        mixed = apart > _tolerated(torch.cat([outputs, ahead]))
        mixed = mixed.any() and (mixed & (apart > network.moved_by_noise(x))).any()
        problem = "outputs that change with the samples beside" if mixed else ""
    except (*WRONG, ShapeError) as error:
        problem = f"a network that does not take two samples: {error}"
    if problem:
        raise UnsupportedModuleError(
            "model", "operations on each sample alone", problem, "Leave the axis of samples alone."
        )
    return both


def _copied(model: nn.Module) -> nn.Module:
    """A copy; for a compiled module, of the one that it was made from."""
    original: nn.Module = getattr(model, "_orig_mod", model)
    require_whole(original)
    try:
        with replacing({Tensor.__deepcopy__: _copied_tensor}):
            return copy.deepcopy(original)
    except (TypeError, PickleError) as error:
        raise UnsupportedModuleError(
            "model", "a network that Python can copy", f"one that it cannot: {error}", "Keep that outside of it."
        ) from error


def _copied_tensor(tensor: Tensor, memo: dict[int, object]) -> Tensor:
    """A copy; what was computed, weights by a hook or features that are kept, is copied without its graph."""
    return copy.deepcopy(tensor, memo) if tensor.is_leaf else tensor.detach().clone()


def _read(calls: Sequence[Call], result: Data) -> tuple[Step, ...]:
    """The steps that lead to a result.

    Raises:
        UnsupportedModuleError: naming the first that is not piecewise affine.
    """
    needed = {result.name}
    for call in reversed(calls):
        if any(part is not None and part.name in needed for part in call.results):
            needed |= {data.name for data in _inputs(call)}
    steps: list[Step] = []
    times: Counter[str] = Counter()
    for call in calls:
        for part, made in enumerate(call.results):
            if made is None or made.name not in needed:
                continue
            operation = of_call(call, part)
            if operation is None:
                raise call.place.unsupported(call.name)
            place = call.place.named(call.name)
            times[place] += 1
            # A module that is used twice appears in two places.
            place = f"{place}, time {times[place]}" if times[place] > 1 else place
            steps.append(Step(made.name, place, operation, tuple(data.name for data in _inputs(call)), made.shape))
    return tuple(steps)


def _inputs(call: Call) -> list[Data]:
    """The data that a call uses, as often as it occurs there."""
    return [part for part in leaves((call.arguments, call.named)) if isinstance(part, Data)]
