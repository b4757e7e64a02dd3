"""Every quantity keeps its contract: oracle, range, invariances, dtype, purity, gradients, any partition."""

import inspect

import pytest
import torch

import gnomon
from gnomon import measure
from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.linalg import Factored
from tests.contract import CONTRACTS
from tests.zoo import BUILDERS, zoo

every_contract = pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS.keys())


def arguments_of(contract, n=7, seed=0):
    return contract.sample(n, torch.Generator().manual_seed(seed))


def test_every_quantity_has_a_row():
    """Those that look at a model through autodiff are tested with it; all others stand in the table."""
    # Of a whole series, of labels or of a matrix, not of samples: each has a test file of its own.
    others = {
        "activation_misalignment",
        "agop",
        "central_path_distance",
        "class_moments",
        "classifier_equiangularity",
        "classifier_equinorm",
        "classifier_maximal_equiangularity",
        "effective_rank",
        "equiangularity",
        "equinorm",
        "least_squares_classifier",
        "maximal_equiangularity",
        "mse_decomposition",
        "nc1",
        "nc1_trace_ratio",
        "nc2_etf",
        "nc2_orthogonal",
        "nearest_mean_disagreement",
        "nfa_correlation",
        "self_duality",
        "snr",
        "snr_singular_values",
        "spectral_mse",
        "truncated_inputs",
        "truncation_map",
    }
    quantities = {name: getattr(measure, name) for name in measure.__all__}
    functions = {
        name
        for name, quantity in quantities.items()
        if inspect.isfunction(quantity) and "model" not in inspect.signature(quantity).parameters
    }
    assert functions - others == set(CONTRACTS)
    assert set(measure.__all__) <= set(gnomon.__all__)


@every_contract
@pytest.mark.parametrize("seed", range(5))
def test_equals_the_plain_loop(contract, seed):
    arguments = arguments_of(contract, seed=seed)
    torch.testing.assert_close(contract.quantity(**arguments), contract.oracle(**arguments))


@every_contract
def test_stays_in_range(contract):
    low, high = contract.range
    values = contract.quantity(**arguments_of(contract, 200))
    assert low - 1e-12 <= values.min()
    assert values.max() <= high + 1e-12


@pytest.mark.parametrize(
    ("name", "map_name"), [(name, m) for name, contract in CONTRACTS.items() for m in contract.invariances]
)
def test_invariance(name, map_name):
    contract = CONTRACTS[name]
    arguments = arguments_of(contract)
    changed = contract.invariances[map_name](arguments)
    assert any(not torch.equal(changed[key], arguments[key]) for key in arguments)
    torch.testing.assert_close(contract.quantity(**changed), contract.quantity(**arguments))


@every_contract
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_is_kept_and_float32_is_close(contract, dtype):
    arguments = arguments_of(contract)
    expected = contract.quantity(**arguments)
    cast = {key: value.to(dtype) if value.is_floating_point() else value for key, value in arguments.items()}
    result = contract.quantity(**cast)
    assert result.dtype == dtype
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)


@every_contract
def test_inputs_are_untouched(contract):
    arguments = arguments_of(contract)
    before = {key: value.clone() for key, value in arguments.items()}
    contract.quantity(**arguments)
    for key, value in arguments.items():
        torch.testing.assert_close(value, before[key], rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name, contract in CONTRACTS.items() if contract.differentiable])
def test_gradient(name):
    contract = CONTRACTS[name]
    arguments = {key: value.requires_grad_() for key, value in arguments_of(contract, 3).items()}
    assert torch.autograd.gradcheck(
        lambda *values: contract.quantity(**dict(zip(arguments, values, strict=True))), tuple(arguments.values())
    )


@every_contract
@pytest.mark.parametrize("sizes", [[7], [1, 6], [2, 2, 3], [1] * 7])
def test_any_partition_gives_the_same(contract, sizes):
    arguments = arguments_of(contract, 7)
    whole = contract.quantity(**arguments)
    parts = zip(*(value.split(sizes) for value in arguments.values()), strict=True)
    joined = torch.cat([contract.quantity(**dict(zip(arguments, part, strict=True))) for part in parts])
    torch.testing.assert_close(joined, whole)


@pytest.mark.parametrize("name", [name for name, contract in CONTRACTS.items() if contract.differentiable])
def test_zero_is_a_value_with_a_zero_gradient(name):
    """Dead samples have zero Jacobians: zero, not NaN, forwards and backwards."""
    contract = CONTRACTS[name]
    arguments = {key: torch.zeros_like(value).requires_grad_() for key, value in arguments_of(contract, 2).items()}
    result = contract.quantity(**arguments)
    torch.testing.assert_close(result, torch.zeros_like(result))
    for grad in torch.autograd.grad(result.sum(), list(arguments.values()), allow_unused=True):
        if grad is not None:
            torch.testing.assert_close(grad, torch.zeros_like(grad))


@pytest.mark.bad_input
@every_contract
def test_bad_input_is_named(contract):
    name, arguments = contract.quantity.__name__, arguments_of(contract)
    first = next(iter(arguments))
    with pytest.raises(EmptyError, match=rf"{name}\({first}\): expected at least one sample, got none"):
        contract.quantity(**{key: value[:0] for key, value in arguments.items()})
    for key, value in arguments.items():
        if value.is_floating_point():
            bad = value.clone()
            bad[2].flatten()[:1].fill_(torch.inf)
            with pytest.raises(RangeError, match=rf"{name}\({key}\): expected finite numbers, got inf at index \(2, 0"):
                contract.quantity(**arguments | {key: bad})
        if len(arguments) > 1:
            with pytest.raises(ShapeError, match=rf"{name}\(\w+\): expected .*, got"):
                contract.quantity(**arguments | {key: value[:-1]})
    with pytest.raises(ShapeError, match=rf"{name}\(\w+\): expected .*, got"):
        contract.quantity(**arguments | {first: arguments[first][0, 0]})


@pytest.mark.parametrize("name", BUILDERS)
def test_quantities_read_the_whole_zoo(name):
    model, x = zoo(name)
    labels = torch.zeros(len(x), dtype=torch.long)
    quantities = [contract.quantity for contract in CONTRACTS.values()]
    reading = gnomon.Probe(model, (x, labels), quantities).read()
    jacobian = torch.stack([torch.autograd.functional.jacobian(lambda s: model(s[None])[0], sample) for sample in x])
    known = {"x": x, "labels": labels, "logits": model(x).detach(), "jacobian": jacobian, "centroid": jacobian.sum(1)}
    for contract in CONTRACTS.values():
        arguments = {key: known[key] for key in arguments_of(contract)}
        torch.testing.assert_close(reading.values[contract.quantity.__name__], contract.oracle(**arguments))


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
BILINEAR = {"centroid_inner_product"}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", sorted(set(CONTRACTS) - BILINEAR))
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
        (lambda rows: gnomon.aligned_jacobian(rows, torch.arange(4), 4, 1e35, "mse"), -1),
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
