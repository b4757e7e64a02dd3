"""Every public function of gnomon, with arguments that are right, and with such that are not.

`callables` gives the functions, `mutations` makes their arguments wrong, and `verdict` says what came of it: the right
result, a refusal in a sentence, a raw error, or a wrong number without a word. `tests/unit/test_fuzz.py` goes through
all of it once.
"""

import copy
import dataclasses
import inspect
import math
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from beartype.door import is_bearable
from jaxtyping import jaxtyped
from torch import Tensor
from torch.nn import functional

import gnomon
from gnomon import kernels, regions
from gnomon.data import Samples, digits, modular_addition, normalise, standardise, xor_clusters
from gnomon.history import corpus
from gnomon.measure._by_class import check_squares
from gnomon.models import OneLayerTransformer, cnn, mlp, resnet18
from tests.contract import CONTRACTS, Sizes, Source
from tests.values import cast, inference, tensors

Arguments = dict[str, Any]
# A few steps are asked for here.
warnings.filterwarnings("ignore", "local_learning_coefficient: expected burn_in")


SIZES = Sizes()
TABLE: dict[str, tuple[Callable[..., object], Callable[[Source], Arguments]]] = {}


def sampled(function: Callable[..., object], name: str = "") -> Callable[[Callable[[Source], Arguments]], None]:
    """Adds a function to the table, with the decorated source of its arguments."""

    def add(sample: Callable[[Source], Arguments]) -> None:
        TABLE[name or function.__name__] = (function, sample)

    return add


def of_network(**more: Callable[[Source], object]) -> Callable[[Source], Arguments]:
    return lambda s: {"model": s.network(), "x": s.normal("n", "d")} | {name: make(s) for name, make in more.items()}


for row in CONTRACTS.values():
    sampled(row.quantity)(row.sample)
for function in (gnomon.features, gnomon.input_jacobian, regions.boundary_distance):
    sampled(function)(of_network())

sampled(gnomon.aligned_jacobian)(
    lambda s: {"x": s.normal("n", "d"), "labels": s.labels(), "classes": s.sizes.k, "norm": 2.0}
)
sampled(gnomon.circulant_deviation)(lambda s: {"matrix": s.square()})
sampled(gnomon.cka)(lambda s: {"kernel": s.square(), "other": s.square()})
sampled(gnomon.compare)(lambda s: {"first": gnomon.History(), "second": gnomon.History()})
sampled(gnomon.feature_learning_interval)(
    lambda s: {"steps": torch.arange(s.sizes.n), "values": s.normal("n", "p"), "tolerance": 0.1}
)
sampled(gnomon.fourier_norms)(lambda s: {"matrix": s.normal("p", "d")})
sampled(gnomon.gini)(lambda s: {"values": s.normal("n", "p").abs()})
sampled(gnomon.plateau)(
    lambda s: {"steps": torch.arange(s.sizes.n), "alignment": s.normal("n").tanh(), "pc1": s.normal("n").sigmoid()}
)
sampled(gnomon.polar_decomposition)(lambda s: {"matrix": s.normal("k", "p")})
sampled(gnomon.psd_root)(lambda s: {"matrix": s.square()})
sampled(gnomon.verdict)(
    lambda s: (
        {"steps": 2 ** torch.arange(s.sizes.n)}
        | {name: s.normal("n").sigmoid() for name in corpus().quantities}
        | {"log_probability": -s.normal("n").abs()}
    )
)
sampled(gnomon.vector_jacobian)(of_network(v=lambda s: s.normal("k")))


@sampled(gnomon.ClassStatistics.update, "ClassStatistics.update")
def _(s: Source) -> Arguments:
    return {"self": gnomon.ClassStatistics(s.sizes.k), "features": s.normal("n", "p"), "labels": s.labels()}


@sampled(gnomon.AGOP.update, "AGOP.update")
def _(s: Source) -> Arguments:
    return {"self": gnomon.AGOP(["", "2"]), "model": s.network(), "x": s.normal("n", "d")}


@sampled(gnomon.GradientSums.update, "GradientSums.update")
def _(s: Source) -> Arguments:
    return {"self": gnomon.GradientSums(), "model": s.network(), "x": s.normal("n", "d"), "labels": s.labels()}


# Kernels.

for kernel in (kernels.LaplaceKernel(2.0), kernels.GaussianKernel(2.0)):
    for method in ("value", "slope"):
        of_class = type(kernel)
        sampled(getattr(of_class, method), f"{of_class.__name__}.{method}")(
            lambda s, kernel=kernel: {"self": kernel, "squares": s.normal("n", "d").square()}
        )
for feature_map in (kernels.ReLUFeatures(8), kernels.FourierFeatures(8, 2.0)):
    of_class = type(feature_map)
    sampled(of_class.apply, f"{of_class.__name__}.apply")(
        lambda s, feature_map=feature_map: {
            "self": feature_map,
            "x": s.normal("n", "d"),
            "drawn": feature_map.draw(s.sizes.d, s.generator),
        }
    )
sampled(kernels.squared_distances)(lambda s: {"x": s.normal("n", "d"), "z": s.normal(6, "d"), "metric": s.square()})
sampled(kernels.kernel_gram)(
    lambda s: {
        "kernel": kernels.LaplaceKernel(2.0),
        "x": s.normal("n", "d"),
        "z": s.normal(6, "d"),
        "metric": s.square(),
    }
)
sampled(kernels.kernel_agop)(
    lambda s: {
        "kernel": kernels.LaplaceKernel(2.0),
        "x": s.normal("n", "d"),
        "coefficients": s.normal("n", "k"),
        "metric": s.square(),
    }
)


# Dynamics.


def of_one_cluster(s: Source) -> Arguments:
    return {
        "points": s.normal("n", "d"),
        "target": s.normal("d"),
        "beta": s.normal("d"),
        "rotation": s.orthogonal("d"),
    }


sampled(gnomon.bias_flow)(lambda s: of_one_cluster(s) | {"times": s.times()})
sampled(gnomon.truncation_time_bound)(of_one_cluster)
sampled(gnomon.snr_growth)(
    lambda s: {"initial": s.normal("p").abs() + 0.1, "times": s.times(), "classes": s.sizes.k, "samples": 10}
)


def flow_of(make: Callable[[Source], object], *methods: str, **more: Callable[[Source], object]) -> None:
    """The methods of a flow, at three early times: the later, the longer an integration takes."""
    of_class = type(make(Source(SIZES, torch.Generator().manual_seed(0))))
    for method in methods:
        sampled(getattr(of_class, method), f"{of_class.__name__}.{method}")(
            lambda s: {"self": make(s)} | {name: value(s) for name, value in more.items()} | {"times": s.times() / 5}
        )


sampled(gnomon.CentralPath)(lambda s: {"features": s.normal("k", "n", "p")})
sampled(gnomon.CentralPath, "CentralPath with labels")(lambda s: {"features": s.normal("n", "p"), "labels": s.labels()})
flow_of(lambda s: gnomon.CentralPath(s.normal("k", "n", "p")), "flow", "closed_form", "asymptote")
sampled(gnomon.ClusteredFlow)(
    lambda s: {"points": s.normal("n", "d"), "targets": s.normal("n", "k"), "weight": s.normal("k", "d")}
)
flow_of(lambda s: gnomon.ClusteredFlow(s.normal("n", "d"), s.normal("n", "k"), s.normal("k", "d")), "weight", "loss")
sampled(gnomon.CollapsedFlow)(
    lambda s: {"weight": s.normal("k", "k"), "biases": s.normal("k", "k"), "labels": s.normal("k", "k")}
)
flow_of(
    lambda s: gnomon.CollapsedFlow(s.normal("k", "k"), s.normal("k", "k"), s.normal("k", "k")), "flow", "propagators"
)
sampled(gnomon.TruncationFlow)(lambda s: {"points": s.normal("n", "d"), "target": s.normal("d")})
flow_of(
    lambda s: gnomon.TruncationFlow(s.normal("n", "d"), s.normal("d")),
    "flow",
    beta=lambda s: s.normal("d"),
    rotation=lambda s: s.orthogonal("d"),
)


@sampled(gnomon.TruncationFlow.clearance, "TruncationFlow.clearance")
def _(s: Source) -> Arguments:
    flow = gnomon.TruncationFlow(s.normal("n", "d"), s.normal("d"))
    orbit = flow.flow(s.normal("d"), s.orthogonal("d"), s.times() / 5)
    # Collapse at infinity, as it is so early, is no sign of anything.
    return {"self": flow, "others": s.normal("n", "d"), "orbit": dataclasses.replace(orbit, collapse=orbit.times[0])}


sampled(gnomon.GeneralFlow)(
    lambda s: {"points": s.normal("n", "d"), "labels": s.labels(), "targets": s.normal("k", "d")}
)
flow_of(
    lambda s: gnomon.GeneralFlow(s.normal("n", "d"), s.labels(), s.normal("k", "d")),
    "flow",
    beta=lambda s: s.normal(1, "d"),
    rotation=lambda s: s.orthogonal("d")[None],
)


def of_linear_rfm(s: Source) -> Arguments:
    gram = s.square("n") + torch.eye(s.sizes.n)
    return {"gram": gram, "labels": s.labels(), "kernel_ridge": 0.1, "feature_ridge": 1.0}


sampled(gnomon.LinearDeepRFM)(of_linear_rfm)
sampled(gnomon.LinearDeepRFM.run, "LinearDeepRFM.run")(
    lambda s: {"self": gnomon.LinearDeepRFM(**of_linear_rfm(s)), "depth": 3}
)


# Regions, steering, data, networks.

sampled(regions.Plane)(lambda s: {"origin": s.normal("d"), "directions": s.normal(2, "d")})
for method, shape in (("embed", 2), ("project", "d")):
    sampled(getattr(regions.Plane, method), f"Plane.{method}")(
        lambda s, method=method, shape=shape: {
            "self": regions.Plane(s.normal("d"), s.normal(2, "d")),
            "points" if method == "embed" else "x": s.normal("n", shape),
        }
    )
sampled(regions.plane_through)(lambda s: {name: s.normal("d") for name in ("x1", "x2", "x3")})
sampled(regions.slice_regions)(
    lambda s: {
        "model": s.network(),
        "plane": regions.Plane(s.normal("d"), s.normal(2, "d")),
        "box": torch.tensor([[-1.0, -1.0], [1.0, -1.0], [0.0, 1.0]], dtype=torch.float64),
    }
)
sampled(regions.local_complexity)(of_network(radius=lambda s: 0.1, generator=lambda s: s.generator))
sampled(regions.Regions.region_of_points, "Regions.region_of_points")(
    lambda s: {"self": s.slice(), "points": s.normal("n", 2) / 4}
)
sampled(regions.Regions.boundary_distance, "Regions.boundary_distance")(
    lambda s: {"self": s.slice(), "points": s.normal("n", 2) / 4}
)


@sampled(regions.Regions.region_of, "Regions.region_of")
def _(s: Source) -> Arguments:
    cut = s.slice()
    return {"self": cut, "x": cut.plane.embed(s.normal("n", 2) / 4)}


@sampled(regions.migration)
def _(s: Source) -> Arguments:
    cut = s.slice()
    return {"before": cut, "after": cut, "points": s.normal("n", 2) / 4}


sampled(gnomon.noise_level)(lambda s: {"train_accuracy": s.normal("n").sigmoid()})
sampled(gnomon.input_noise)(lambda s: {"x": s.normal("n", "d"), "train_accuracy": 0.5, "generator": s.generator})
sampled(gnomon.stablemax_cross_entropy)(lambda s: {"logits": s.normal("n", "k"), "labels": s.labels()})
for method in (gnomon.GrokAlign.__call__, gnomon.GrokAlign.logits_and_penalty):
    sampled(method, method.__qualname__.removesuffix(".__call__"))(
        lambda s: {
            "self": gnomon.GrokAlign(0.1, generator=s.generator),
            "model": s.network(),
            "x": s.normal("n", "d"),
        }
    )


def operator_of(source: Source) -> gnomon.JacobianOperator:
    return gnomon.JacobianOperator(source.network(), source.normal("n", "d"))


for function in (gnomon.jacobian_norm, gnomon.explained_variance_ratio, gnomon.stable_rank, gnomon.agop):
    sampled(function, f"{function.__name__} of an operator")(
        lambda s: {"jacobian": operator_of(s), "rtol": 0.1, "passes": 64, "seed": 0}
    )
sampled(gnomon.jacobian_alignment, "jacobian_alignment of an operator")(
    lambda s: {
        "x": (x := s.normal("n", "d")),
        "jacobian": gnomon.JacobianOperator(s.network(), x),
        "rtol": 0.1,
    }
)
sampled(standardise)(lambda s: {"train": Samples(s.normal("n", "d"), s.labels())})
sampled(normalise)(lambda s: {"samples": Samples(s.normal("n", "k", 2, 2), s.labels()), "mean": 0.5, "std": 2.0})
sampled(digits)(lambda s: {"train": 5, "generator": s.generator})
sampled(xor_clusters)(lambda s: {"n": 8, "d": 4, "noise": 0.05, "generator": s.generator})
sampled(modular_addition)(lambda s: {"p": 5, "fraction": 0.4, "generator": s.generator})
sampled(mlp)(lambda s: {"widths": (s.sizes.d, 3, s.sizes.k), "scale": 2.0, "generator": s.generator})
sampled(cnn)(lambda s: {"widths": (1, 2, s.sizes.k), "generator": s.generator})
sampled(resnet18)(lambda s: {"channels": 1, "classes": s.sizes.k, "width": 2, "generator": s.generator})


def transformer(s: Source) -> Arguments:
    sizes = {"context": 3, "width": s.sizes.d, "heads": 1, "hidden": s.sizes.p}
    return {"tokens": s.sizes.k, "outputs": s.sizes.k} | sizes | {"generator": s.generator}


sampled(OneLayerTransformer)(transformer)
sampled(OneLayerTransformer.embed, "OneLayerTransformer.embed")(
    lambda s: {"self": OneLayerTransformer(**transformer(s)).double(), "tokens": s.labels()[:, None].expand(-1, 3)}
)
sampled(gnomon.every)(lambda s: {"steps": 3})
sampled(gnomon.log_spaced)(lambda s: {"per_decade": 3})


def callables() -> Iterator[tuple[str, Callable[..., object], Callable[[torch.Generator], Arguments]]]:
    """Each function's name, the function, and what makes arguments that are right, in float64."""
    for name, (function, sample) in TABLE.items():

        def arguments(
            generator: torch.Generator, sizes: Sizes = SIZES, sample: Callable[[Source], Arguments] = sample
        ) -> Arguments:
            return sample(Source(sizes, generator))

        yield name, function, arguments


def missing() -> set[str]:
    """Public functions that are not in the table."""
    functions = [getattr(gnomon, name) for name in gnomon.__all__]
    names = {f.__name__ for f in functions if inspect.isfunction(f)} | {"kernel_agop"}
    return names - set(TABLE) - {"at", "stop_when"}


# What is wrong with arguments, and what comes of it.

Mutation = tuple[str, Arguments]


def mutations(arguments: Arguments, generator: torch.Generator) -> Iterator[Mutation]:
    """Each argument in turn made wrong, or only unusual, in each way there is; and what was done, in words."""
    for name, value in arguments.items():
        if name == "self":
            continue
        for what, changed in altered(value, generator):
            yield f"{name} {what}", arguments | {name: changed}
    for dtype in (torch.float16, torch.bfloat16):
        yield f"all in {dtype}", cast(arguments, dtype)


def altered(value: Any, generator: torch.Generator) -> Iterator[tuple[str, Any]]:
    """One value in other forms."""
    if isinstance(value, Tensor):
        yield from altered_tensor(value, generator)
    elif isinstance(value, gnomon.ClassMoments | Samples):
        fields = value._asdict() if isinstance(value, Samples) else vars(value)
        for name, part in fields.items():
            for what, changed in altered(part, generator):
                if not (name == "counts" and what in ("zero", "negative")):
                    yield f".{name} {what}", Unmade(type(value), fields | {name: changed})
    elif type(value) is tuple:
        for place, part in enumerate(value):
            for what, changed in altered(part, generator):
                yield f"[{place}] {what}", (*value[:place], changed, *value[place + 1 :])
    elif isinstance(value, bool | int | float):
        for other in (math.nan, math.inf, -math.inf, -1, 0, 0.5, 10**30, "1"):
            yield f"= {other!r}", other
    if not isinstance(value, torch.Generator):
        for other in ("text", None, [[1.0, 2.0]], torch.nn.Identity(), object()):
            yield f"= a {type(other).__name__}", other
    if isinstance(value, Tensor):
        yield "as an array", value.numpy()


@dataclasses.dataclass(frozen=True)
class Unmade:
    """What cannot be told to be made from its fields before it is tried."""

    of_class: type
    fields: Arguments

    def made(self) -> object:
        """The object, or an error; moments are held to what `class_moments` holds its own to."""
        made = self.of_class(**self.fields)
        if isinstance(made, gnomon.ClassMoments):
            check_squares(made.within, made.means, made.centred_means)
        return made


def altered_tensor(tensor: Tensor, generator: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    """One tensor of other shapes, dtypes, values and places."""
    for axis in range(tensor.ndim):
        last = tensor.shape[axis] - 1
        yield f"without axis {axis}", tensor.select(axis, 0)
        yield f"less along {axis}", tensor.narrow(axis, 0, last)
        yield f"more along {axis}", torch.cat([tensor, tensor.narrow(axis, 0, 1)], axis)
        yield f"empty along {axis}", tensor.narrow(axis, 0, 0)
        yield f"one along {axis}", tensor.narrow(axis, 0, 1)
        yield f"backwards along {axis}", tensor.flip(axis)
    for axis in range(tensor.ndim + 1):
        yield f"with an axis at {axis}", tensor.unsqueeze(axis)
    yield "transposed", tensor.mT if tensor.ndim > 1 else tensor
    yield "flat", tensor.flatten()
    for dtype in (torch.bool, torch.int8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.complex64):
        if dtype != tensor.dtype:
            yield f"in {dtype}", tensor.to(dtype)
    yield "on meta", tensor.to("meta")
    yield "sparse", tensor.to_sparse()
    yield "zero", torch.zeros_like(tensor)
    if tensor.dtype != torch.bool:
        yield "negative", -tensor - 1
    if tensor.numel() and tensor.is_floating_point():
        for bad in (math.nan, math.inf, -math.inf, 1e200, 1e-200):
            place = int(torch.randint(tensor.numel(), (), generator=generator))
            changed = tensor.clone(memory_format=torch.contiguous_format)
            changed.view(-1)[place] = bad
            yield f"with {bad}", changed
        yield "huge", tensor * 1e300
        yield "tiny", tensor * 1e-300
        yield "with a gradient", tensor.clone().requires_grad_()
        yield "of inference", inference(tensor)


ELEMENTWISE = {TABLE[f"{kind}Kernel.{method}"][0] for kind in ("Laplace", "Gaussian") for method in ("value", "slope")}
"""NaN in place of NaN is right here."""
PASSED_ON = {TABLE[name][0] for name in ("GrokAlign", "GrokAlign.logits_and_penalty", "input_noise", "Plane.embed")}
"""Training goes on from here: what came in as NaN or infinity has to come out."""

UNDEFINED = {
    TABLE[name][0] for name in ("layer_collapse", "local_learning_coefficient", "nc1", "Regions.boundary_distance")
}
"""What they return says where it is NaN for finite numbers."""


def verdict(function: Callable[..., object], arguments: Arguments) -> str:
    """What comes of a call: "right", "refused" as it should be, "raw" error or "wrong" numbers."""
    return judged(function, arguments)[0]


def judged(function: Callable[..., object], arguments: Arguments) -> tuple[str, str]:
    """The verdict, and why."""
    if isinstance(arguments.get("self"), gnomon.ClassStatistics | gnomon.AGOP | gnomon.GradientSums):
        arguments = arguments | {"self": copy.deepcopy(arguments["self"])}
    try:
        arguments = {name: value.made() if isinstance(value, Unmade) else value for name, value in arguments.items()}
    except (gnomon.errors.GnomonError, TypeError) as error:
        return "refused", repr(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return "raw", repr(error)
    given = [*tensors(arguments)]
    versions = [tensor._version for tensor in given if not tensor.is_inference()]
    with jaxtyped("context"):
        fits = all(fit(arguments[name], annotation) for name, annotation in annotations(function, arguments).items())
        try:
            result = function(**arguments)
        except gnomon.errors.GnomonError as error:
            # A sentence names the function that was called.
            return ("refused" if error.where else "raw"), str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            return ("refused" if of_the_network(error) else "raw"), repr(error)
        returned = inspect.signature(function).return_annotation
        if versions != [tensor._version for tensor in given if not tensor.is_inference()] and "self" not in arguments:
            return "wrong", "arguments were changed"
        if any(isinstance(value, float) and not math.isfinite(value) for value in arguments.values()):
            return "wrong", f"a setting without a value taken, and gave {described(result)}"
        if not fits:
            return "wrong", f"taken, and gave {described(result)}"
        passed_on = function in PASSED_ON and not all(map(finite, tensors(result)))
        if function not in ELEMENTWISE and not passed_on and not all(map(finite, given)):
            return "wrong", f"NaN or infinity taken, and gave {described(result)}"
        without = any(tensor.isnan().any() for tensor in tensors(result))
        if function not in UNDEFINED and without and all(map(finite, given)):
            return "wrong", f"NaN of finite numbers: {described(result)}"
        if not (isinstance(function, type) or fit(result, returned)):
            return "wrong", f"expected {returned}, gave {described(result)}"
    return "right", described(result)


def annotations(function: Callable[..., object], arguments: Arguments) -> dict[str, Any]:
    """What the signature says of the arguments, of those by any name too."""
    parameters = inspect.signature(function).parameters
    named = next((parameter for parameter in parameters.values() if parameter.kind is parameter.VAR_KEYWORD), None)
    return {name: parameters.get(name, named).annotation for name in arguments if name != "self"}


def fit(value: Any, annotation: Any) -> bool:
    """Whether a value is as annotated, sizes of one name being one; the fields of a dataclass as well."""
    if isinstance(value, np.ndarray) and "Sequence" in str(annotation):
        return True
    if annotation is inspect.Parameter.empty or not is_bearable(value, annotation):
        return annotation is inspect.Parameter.empty
    if isinstance(value, regions.Polygons):
        # Whose corners are no other's.
        with jaxtyped("context"):
            return all(fit(getattr(value, field.name), field.type) for field in dataclasses.fields(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return all(fit(getattr(value, field.name), field.type) for field in dataclasses.fields(value))
    if isinstance(value, Samples):
        return all(fit(getattr(value, name), kind) for name, kind in Samples.__annotations__.items())
    return True


def finite(tensor: Tensor) -> bool:
    """Whether all its numbers are finite."""
    return tensor.is_meta or bool(torch.isfinite(tensor.to_dense() if tensor.is_sparse else tensor).all())


def of_the_network(error: BaseException) -> bool:
    """Whether it was raised inside a layer of the network, or in the loss: then these say what they take."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(
        "torch/nn/modules" in frame.filename.replace(os.sep, "/") or frame.name == functional.cross_entropy.__name__
        for frame in frames
    )


def described(result: object) -> str:
    """The shapes in a result."""
    parts = [*tensors(result)]
    return ", ".join(f"{tuple(part.shape)} {part.dtype}" for part in parts[:3]) or type(result).__name__
