"""Every quantity keeps its contract: oracle, range, invariances, dtype, purity, gradients, any partition."""

import dataclasses
import inspect
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import Tensor

import gnomon
from gnomon import linalg, measure
from gnomon._kinds import MADE
from gnomon.autodiff import OBSERVATIONS
from gnomon.errors import EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.linalg import Dense, Factored
from gnomon.probe._derived import DERIVED
from tests.contract import CONTRACTS, Sizes, Source
from tests.contract.row import of_tensors
from tests.values import cast, tensors
from tests.zoo import BUILDERS, zoo

FUNCTIONS = [name for name in measure.__all__ if inspect.isfunction(getattr(measure, name))]
NOT_TWICE = dict.fromkeys(("nfa_correlation", "snr", "snr_singular_values"), UnsupportedModuleError)
if torch.__version__ < torch.torch_version.TorchVersion("2.14"):
    NOT_TWICE["cdnv"] = NotImplementedError  # torch's own, of its cdist
every_contract = pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS.keys())


def named(test):
    """The contracts for which this holds."""
    return pytest.mark.parametrize("name", [name for name, contract in CONTRACTS.items() if test(contract)])


def arguments_of(contract, n=12, seed=0):
    return contract.sample(Source(Sizes(n=n), torch.Generator().manual_seed(seed)))


def only_tensors(contract):
    return of_tensors(arguments_of(contract))


def same(result, expected, **tolerances):
    """Whether a result is the oracle's: of a dataclass, in all fields that the oracle has."""
    if isinstance(expected, dict):
        result = {name: getattr(result, name) for name in expected}
        result = {name: part.dense() if isinstance(part, Dense | Factored) else part for name, part in result.items()}
    torch.testing.assert_close(detached(result), detached(expected), **tolerances)


def detached(value):
    if isinstance(value, dict):
        return {name: detached(part) for name, part in value.items()}
    return tuple(part.detach() for part in value) if isinstance(value, tuple) else value.detach()


def test_every_quantity_has_a_row():
    assert set(FUNCTIONS) == set(CONTRACTS)
    assert set(measure.__all__) <= set(gnomon.__all__)


def test_what_a_probe_has_is_looked_at_by_quantities_alone():
    """A function of such an argument is one, and lies in `gnomon.measure`, where a probe finds it by its name."""
    probes = {"x", "labels", "model", "parameters", *OBSERVATIONS, *DERIVED}
    beside = [getattr(linalg, name) for name in linalg.__all__ if name in gnomon.__all__ and name.islower()]
    assert linalg.gini in beside
    assert [of.__name__ for of in beside if probes & inspect.signature(of).parameters.keys()] == []


def test_what_a_probe_makes_for_quantities_is_named_where_something_else_is_given():
    asked = {name for contract in CONTRACTS.values() for name in inspect.signature(contract.quantity).parameters}
    assert (asked & {*OBSERVATIONS, *DERIVED}) - {"classes"} <= MADE.keys()


@every_contract
def test_settings_are_passed_by_name(contract):
    parameters = inspect.signature(contract.quantity).parameters.values()
    named = {part.name for part in parameters if part.default is not part.empty} - {"x2"}  # of `ntk`: more samples
    assert named <= {part.name for part in parameters if part.kind is part.KEYWORD_ONLY}


def test_shapes_are_checked_at_run_time_where_that_is_asked_for(pytestconfig):
    asked = pytestconfig.getoption("jaxtyping_packages", None)
    kind, message = (TypeCheckError, "margin") if asked else (ShapeError, r"margin\(logits\): expected at least 2 axes")
    with pytest.raises(kind, match=message):
        gnomon.margin(torch.zeros(3), torch.tensor([0, 1, 2]))


@every_contract
@pytest.mark.parametrize("seed", range(5))
def test_equals_the_plain_loop(contract, seed):
    arguments = arguments_of(contract, seed=seed)
    same(contract.quantity(**arguments), contract.oracle(**arguments))


@named(lambda contract: contract.range != (-torch.inf, torch.inf))
def test_stays_in_range(name):
    low, high = CONTRACTS[name].range
    for seed in range(3):
        values = CONTRACTS[name].quantity(**arguments_of(CONTRACTS[name], 100, seed)).detach()
        assert low - 1e-12 <= values.min()
        assert values.max() <= high + 1e-12


@pytest.mark.parametrize(
    ("name", "map_name"), [(name, m) for name, contract in CONTRACTS.items() for m in contract.invariances]
)
def test_invariance(name, map_name):
    contract = CONTRACTS[name]
    arguments = arguments_of(contract)
    changed = contract.invariances[map_name](arguments)
    before, after = tensors(list(arguments.values())), tensors([changed[name] for name in arguments])
    assert any(not torch.equal(one, other) for one, other in zip(before, after, strict=True))
    expected, found = (list(tensors(contract.quantity(**given))) for given in (arguments, changed))
    torch.testing.assert_close(found, expected)


@every_contract
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_is_kept_and_float32_is_close(contract, dtype):
    expected, result = (
        contract.quantity(**arguments) for arguments in (arguments_of(contract), cast(arguments_of(contract), dtype))
    )
    if isinstance(result, gnomon.ClassMoments):
        # Nothing is rounded off in float64, which is what sums of products are kept in.
        result = dataclasses.replace(result, rounded_off=None, within=result.within.to(dtype))
    expected, result = list(tensors(expected)), list(tensors(result))
    for one, other in zip(result, expected, strict=True):
        assert one.dtype == (contract.dtype or dtype if other.is_floating_point() else other.dtype)
        torch.testing.assert_close(one.to(other.dtype), other, rtol=contract.single, atol=contract.single)


@every_contract
def test_inputs_are_untouched(contract):
    given = list(tensors(arguments := arguments_of(contract)))
    before = [value.clone() for value in given]
    contract.quantity(**arguments)
    torch.testing.assert_close(given, before, rtol=0, atol=0)


def differentiated(contract):
    """A function of tensors, and these: the floating ones, or the rows that moments and Gram matrices are of."""
    arguments = arguments_of(contract)
    leaves = {key: value for key, value in arguments.items() if isinstance(value, Tensor) and value.is_floating_point()}
    source = Source(Sizes(), torch.Generator().manual_seed(0))
    leaves |= {key: source.features() for key in arguments if key == "class_moments"}
    leaves |= {key: source.normal("n", "d") for key in arguments if key == "agop"}

    def value(*given):
        changed = dict(zip(leaves, given, strict=True))
        if "class_moments" in changed:
            features, k = changed["class_moments"], source.sizes.k
            changed["class_moments"] = gnomon.class_moments(features, source.labels(), k)
        if "agop" in changed:
            changed["agop"] = changed["agop"].mT @ changed["agop"]
        return tuple(tensors(contract.quantity(**arguments | changed)))

    return value, tuple(leaf.requires_grad_() for leaf in leaves.values())


@pytest.mark.unchecked
@named(lambda contract: contract.differentiable)
def test_gradient(name):
    assert torch.autograd.gradcheck(*differentiated(CONTRACTS[name]))


@pytest.mark.unchecked
@named(lambda contract: contract.differentiable)
def test_second_derivatives_are_right_or_refused(name):
    says = "to be differentiated once|the derivative for '_cdist_backward' is not implemented"
    with pytest.raises(NOT_TWICE[name], match=says) if name in NOT_TWICE else nullcontext():
        assert torch.autograd.gradgradcheck(*differentiated(CONTRACTS[name]), fast_mode=True)


@named(lambda contract: contract.of_samples)
@pytest.mark.parametrize("sizes", [[7], [1, 6], [2, 2, 3], [1] * 7])
def test_any_partition_gives_the_same(name, sizes):
    """What is annotated as one value a sample can be computed batch by batch."""
    contract = CONTRACTS[name]
    arguments = arguments_of(contract, 7)
    whole = contract.quantity(**arguments)
    split = contract.by_sample(arguments)
    parts = zip(*(arguments[key].split(sizes) for key in split), strict=True)
    joined = torch.cat([contract.quantity(**arguments | dict(zip(split, part, strict=True))) for part in parts])
    torch.testing.assert_close(joined, whole)


@named(lambda contract: contract.differentiable and contract.zero and only_tensors(contract))
def test_zero_is_a_value_with_a_zero_gradient(name):
    """Dead samples have zero Jacobians, dead units zero means: zero, not NaN, forwards and backwards."""
    contract = CONTRACTS[name]
    arguments = {key: torch.zeros_like(value).requires_grad_() for key, value in arguments_of(contract, 2).items()}
    result = contract.quantity(**arguments)
    torch.testing.assert_close(result, torch.zeros_like(result))
    for grad in torch.autograd.grad(result.sum(), list(arguments.values()), allow_unused=True):
        if grad is not None:
            torch.testing.assert_close(grad, torch.zeros_like(grad))


@pytest.mark.parametrize("name", ["centroid_alignment", "jacobian_alignment", "robust_radius", "row_alignment"])
def test_a_zero_beside_what_is_not_is_a_value_with_a_zero_gradient(name):
    """Where both are zero, one may hide the other's gradient."""
    contract = CONTRACTS[name]
    for key in (arguments := arguments_of(contract, 2)):
        zero = torch.zeros_like(arguments[key]).requires_grad_()
        result = contract.quantity(**arguments | {key: zero})
        torch.testing.assert_close(result, torch.zeros_like(result))
        torch.testing.assert_close(torch.autograd.grad(result.sum(), zero)[0], torch.zeros_like(zero))


@pytest.mark.bad_input
@every_contract
def test_bad_input_is_named(contract):
    name, arguments = contract.quantity.__name__, arguments_of(contract)
    floating = [key for key, value in arguments.items() if isinstance(value, Tensor) and value.is_floating_point()]
    for key in floating:
        bad = arguments[key].clone()
        bad[2].flatten()[:1].fill_(torch.inf)
        with pytest.raises(
            RangeError, match=rf"{name}\({key}\): expected finite numbers, got inf at index \(2(, 0|,)*\)"
        ):
            contract.quantity(**arguments | {key: bad})
    samples = contract.by_sample(arguments)
    if not samples:
        return
    first = samples[0]
    with pytest.raises(EmptyError, match=rf"{name}\({first}\): expected at least one sample, got none"):
        contract.quantity(**arguments | {key: arguments[key][:0] for key in samples})
    with pytest.raises(ShapeError, match=rf"{name}\(\w+\): expected .*, got"):
        contract.quantity(**arguments | {first: arguments[first][0, 0]})
    for key in samples if len(samples) > 1 else ():
        with pytest.raises(ShapeError, match=rf"{name}\(\w+\): expected .*, got"):
            contract.quantity(**arguments | {key: arguments[key][:-1]})


@pytest.mark.parametrize("name", BUILDERS)
def test_quantities_read_the_whole_zoo(name):
    model, x = zoo(name)
    labels = torch.zeros(len(x), dtype=torch.long)
    jacobian = torch.stack([torch.autograd.functional.jacobian(lambda s: model(s[None])[0], sample) for sample in x])
    known = {"x": x, "labels": labels, "logits": model(x).detach(), "jacobian": jacobian, "centroid": jacobian.sum(1)}
    contracts = [contract for contract in CONTRACTS.values() if known.keys() >= arguments_of(contract).keys()]
    reading = gnomon.Probe(model, (x, labels), [contract.quantity for contract in contracts]).read()
    for contract in contracts:
        arguments = {key: known[key] for key in arguments_of(contract)}
        torch.testing.assert_close(reading.values[contract.quantity.__name__], contract.oracle(**arguments))


@every_contract
def test_every_quantity_is_read_in_a_probe(contract):
    """By the names of its arguments, settings aside, and with the value that the function itself has."""
    source = Source(Sizes(n=16, k=4), torch.Generator().manual_seed(0))  # all pairs of four residues
    model, x, labels = source.network(), source.normal("n", "d"), source.labels()
    jacobian, head = gnomon.input_jacobian(model, x).detach(), model[-1]
    moments = gnomon.class_moments(gnomon.features(model, x).detach(), labels, source.sizes.k)
    known = {
        "model": model,
        "x": x,
        "labels": labels,
        "logits": model(x).detach(),
        "parameters": dict(model.named_parameters()),
        "features": gnomon.features(model, x).detach(),
        "jacobian": jacobian,
        "centroid": jacobian.sum(1),
        "agop": gnomon.agop(jacobian),
        "batch_gradients": gnomon.batch_gradients(model, x, labels),
        "classes": source.sizes.k,
        "class_moments": moments,
        "class_means": moments.means,
        "centred_means": moments.centred_means,
        "classifier": head.weight.detach(),
        "bias": head.bias.detach(),
        "layer_weight": model[0].weight.detach(),
        "cumulative_parameters": gnomon.cumulative_parameters(model),
        "snr_singular_values": gnomon.snr_singular_values(moments),
    }
    arguments = contract.sample(source)
    settings = {name: arguments[name] for name in contract.settings}
    asked = partial(contract.quantity, **settings) if settings else contract.quantity
    name = contract.quantity.__name__
    found = gnomon.Probe(model, (x, labels), [asked]).read().values[name]
    expected = contract.quantity(
        **{argument: known[argument] for argument in arguments if argument in known} | settings
    )
    if dataclasses.is_dataclass(expected):
        assert type(found) is type(expected)
    torch.testing.assert_close(list(tensors(found)), list(tensors(expected)))


def test_alignment_is_one_exactly_for_aligned_jacobians():
    x, c = torch.randn(5, 6, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64)
    aligned = torch.einsum("nc,nd->ncd", c, x)
    one = torch.ones(5, dtype=torch.float64)
    torch.testing.assert_close(gnomon.jacobian_alignment(aligned, x), one)
    torch.testing.assert_close(gnomon.row_alignment(aligned, x), c.sign())
    torch.testing.assert_close(gnomon.explained_variance_ratio(aligned), one)
    torch.testing.assert_close(gnomon.centroid_alignment(aligned.sum(1), x), c.sum(1).sign())
    across = x - 2 * x.roll(1, 0)
    assert (gnomon.jacobian_alignment(torch.einsum("nc,nd->ncd", c, across), x) < 0.999).all()


SIZES = [1e25, 1e-30]


@pytest.mark.parametrize("size", SIZES)
@named(lambda contract: contract.unit_free and contract.of_samples and only_tensors(contract))
def test_float32_neither_overflows_nor_underflows(name, size):
    """Where the result can be held, the squares on the way to it cost nothing."""
    contract = CONTRACTS[name]
    arguments = {
        key: (size * value).float() if value.is_floating_point() else value
        for key, value in arguments_of(contract).items()
    }
    exact = {key: value.double() if value.is_floating_point() else value for key, value in arguments.items()}
    expected = contract.oracle(**exact)
    unit = expected.abs().max()
    torch.testing.assert_close(contract.quantity(**arguments) / unit, (expected / unit).float(), rtol=0, atol=2e-5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("quantity", "degree"),
    [
        (gnomon.equinorm, 0),
        (gnomon.equiangularity, 0),
        (gnomon.maximal_equiangularity, 0),
        (gnomon.nc2_etf, 0),
        (gnomon.nc2_orthogonal, 0),
        (gnomon.fourier_norms, 1),
        (lambda rows: gnomon.gini(rows.abs()), 0),
        (lambda rows: gnomon.polar_decomposition(rows).rotation, 0),
        (lambda rows: gnomon.polar_decomposition(rows).modulus, 1),
        (lambda rows: gnomon.effective_rank(Factored(rows)), 0),
        (lambda rows: gnomon.nfa_correlation(rows, torch.diag(torch.arange(1.0, 7.0, dtype=rows.dtype))), 0),
        (lambda rows: gnomon.aligned_jacobian(rows, torch.arange(4), 4, 1e35, loss="mse"), -1),
        (lambda rows: gnomon.spectral_mse(rows.abs(), 9).least_squares, None),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_other_quantities_neither_overflow_nor_underflow(quantity, degree, size):
    rows = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    single = (size * rows).float()
    expected = quantity(single.double())
    scale = 1.0 if degree is None else size**degree
    torch.testing.assert_close(quantity(single).double() / scale, expected / scale, rtol=1e-4, atol=1e-5)
