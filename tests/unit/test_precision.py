"""What is computed does not depend on what training is done in."""

import copy
import inspect
import re

import pytest
import torch

import gnomon
from gnomon.errors import RangeError
from tests.contract import CONTRACTS
from tests.fuzz import callables, missing
from tests.values import cast, inference, tensors

EVERY = {name: (function, arguments) for name, function, arguments in callables()}


def computed(name, dtype, *, autocast):
    function, arguments = EVERY[name]
    given = cast(arguments(torch.Generator().manual_seed(0)), dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        result = function(**given)
        return list(tensors([result, given.get("self")]))


def test_the_table_has_every_function():
    assert not missing()


# Of float64 alone, which autocast leaves as it is.
DOUBLE = {"CentralPath", "CollapsedFlow", "GeneralFlow", "TruncationFlow"}


# GrokAlign is part of a training step, and runs the network as that does.
@pytest.mark.unchecked
@pytest.mark.parametrize("name", sorted(set(EVERY) - {"GrokAlign", "GrokAlign.logits_and_penalty"}))
def test_autocast_around_a_call_changes_no_bit(name):
    dtype = torch.float64 if name.partition(".")[0].partition(" ")[0] in DOUBLE else torch.float32
    plain, mixed = (computed(name, dtype, autocast=autocast) for autocast in (False, True))
    assert len(plain) == len(mixed)
    # LAPACK's least squares round by where their memory lies; bfloat16 would be a thousand times as far off.
    apart = 1e-5 if name == "Plane.project" else 0
    for one, other in zip(plain, mixed, strict=True):
        torch.testing.assert_close(one, other, rtol=apart, atol=apart, equal_nan=True)


# Those of networks compute as the network does.
HALVES = [
    *(name for name, row in CONTRACTS.items() if row.keeps_halves),
    *("aligned_jacobian", "fourier_norms", "gini", "kernel_agop", "kernel_gram", "polar_decomposition", "psd_root"),
    *("singular_values", "snr_growth", "squared_distances"),
]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", HALVES)
def test_half_precision_keeps_its_digits_and_its_dtype(name, dtype):
    """The value is that of the same rounded numbers, computed in float64."""
    function, arguments = EVERY[name]
    given = cast(arguments(torch.Generator().manual_seed(0)), dtype)
    exact = cast(copy.deepcopy(given), torch.float64)
    few = 8 * torch.finfo(dtype).eps
    for result, expected in zip(tensors(function(**given)), tensors(function(**exact)), strict=True):
        assert result.dtype == dtype
        torch.testing.assert_close(
            result.double(), expected, rtol=few, atol=few * float(expected.detach().abs().amax())
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", CONTRACTS)
def test_a_section_says_which_dtype_comes_back_if_not_the_arguments(name, dtype):
    function, arguments = EVERY[name]
    result = function(**cast(arguments(torch.Generator().manual_seed(0)), dtype))
    back = {part.dtype for part in tensors(result) if part.is_floating_point()} - {dtype}
    returns = re.search(r"^Returns:\n((?: .+\n)+)", inspect.getdoc(function), re.MULTILINE)[1]
    assert [other for other in back if str(other).removeprefix("torch.") not in returns] == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_operators_of_networks_in_half_precision(dtype):
    """Of its Jacobian, rounded to half precision, all is computed in single precision."""
    torch.manual_seed(0)
    model, x = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)), torch.randn(40, 6)
    model, x = model.to(dtype), x.to(dtype)
    exact = gnomon.input_jacobian(model, x).detach().double()
    few = 4 * torch.finfo(dtype).eps
    for function in (gnomon.explained_variance_ratio, gnomon.stable_rank, gnomon.jacobian_norm, gnomon.agop):
        found, expected = function(gnomon.JacobianOperator(model, x)), function(exact)
        assert found.value.dtype == dtype
        torch.testing.assert_close(found.value.double(), expected, rtol=few, atol=few * float(expected.abs().max()))


def test_sums_over_samples_may_exceed_what_half_precision_holds():
    """Though neither the mean does, nor any of the samples."""
    layer = torch.nn.Linear(2, 1, bias=False).half()
    layer.weight.data = torch.tensor([[64.0, 0.0]]).half()
    found = gnomon.agop(gnomon.JacobianOperator(layer, torch.zeros(100, 2).half()))
    torch.testing.assert_close(found.value, torch.tensor([[4096.0, 0.0], [0.0, 0.0]]).half())
    layer.weight.data *= 8
    with pytest.raises(RangeError, match=r"^agop: expected a result that torch.float16 can hold, got one up to 2.62e"):
        gnomon.agop(gnomon.JacobianOperator(layer, torch.zeros(100, 2).half()))


def test_half_precision_of_many_numbers():
    values = torch.rand(3072, generator=torch.Generator().manual_seed(0)).half()
    expected = gnomon.gini(values.double())
    torch.testing.assert_close(gnomon.gini(values).double(), expected, rtol=1e-3, atol=0)


def test_a_result_beyond_half_precision_is_refused():
    large = torch.full((1, 2, 2), 6e4, dtype=torch.float16)
    with pytest.raises(
        RangeError, match=r"jacobian_norm: expected a result that torch.float16 can hold, got .*1.2e\+05"
    ):
        gnomon.jacobian_norm(large)
    torch.testing.assert_close(gnomon.jacobian_norm(large.float()), torch.tensor([1.2e5]), rtol=1e-3, atol=0)


def test_results_are_in_the_widest_dtype_that_came():
    jacobian, x = torch.randn(3, 2, 4).bfloat16(), torch.randn(3, 4)
    assert gnomon.jacobian_alignment(jacobian, x).dtype == torch.float32
    assert gnomon.jacobian_alignment(jacobian, x.half()).dtype == torch.float32
    assert gnomon.jacobian_alignment(jacobian, x.bfloat16()).dtype == torch.bfloat16


def test_gradients_pass_through_half_precision():
    jacobian = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
    (gradient,) = torch.autograd.grad(gnomon.explained_variance_ratio(jacobian).sum(), jacobian)
    exact = jacobian.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(gnomon.explained_variance_ratio(exact).sum(), exact)
    torch.testing.assert_close(gradient.double(), expected, rtol=0.03, atol=0.01)


@pytest.mark.unchecked
@pytest.mark.parametrize("name", sorted(EVERY))
def test_tensors_made_in_inference_mode_are_taken_beside_those_with_gradients(name):
    function, arguments = EVERY[name]
    given = arguments(torch.Generator().manual_seed(0))
    floating = [key for key, value in given.items() if isinstance(value, torch.Tensor) and value.is_floating_point()]
    for key in floating:
        mixed = {other: inference(given[other]) for other in floating} | {key: given[key].detach().requires_grad_()}
        expected = list(tensors(function(**arguments(torch.Generator().manual_seed(0)))))
        found = list(tensors(function(**arguments(torch.Generator().manual_seed(0)) | mixed)))
        torch.testing.assert_close(found, expected, equal_nan=True)
