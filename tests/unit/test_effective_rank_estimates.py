"""The AGOP's effective rank of many outputs, estimated from an operator: its interval holds, and no AGOP is made."""

import pytest
import torch
from torch.utils.data import DataLoader

import gnomon
from gnomon import Estimate, JacobianOperator, Probe
from gnomon.linalg import krylov, squared_norm
from gnomon.measure._estimates import Accuracy, FirstAndNorm
from gnomon.measure._stacked import first_and_norm_of_all
from tests.unit.test_agop_estimates import jacobians, products
from tests.unit.test_estimates import OUTPUTS, SEEDS, every_network, jacobian_of, many_outputs, of_matrix


def ranks(jacobian, accuracy):
    def parts():
        return iter([products(jacobian, accuracy.seed)])

    return first_and_norm_of_all(parts, tuple(jacobian.shape), jacobian, accuracy).stable_rank()


@pytest.mark.unchecked
@every_network
def test_the_interval_holds(name):
    """In 90 % or more of 200 seeds, by `benchmarks/coverage.py`; it may hold always, since a part of it is a bound."""
    jacobian = jacobians(name, 16)
    truth = gnomon.effective_rank(gnomon.agop(jacobian))
    found = [ranks(jacobian, Accuracy.of(0.1, 512, seed)) for seed in range(10)]
    assert sum(bool((each.value - truth).abs() <= each.error) for each in found) >= 8
    assert all(each.error <= 0.1001 * each.value and each.passes < OUTPUTS / 4 for each in found)


@pytest.mark.parametrize("values", [[1.1, *[1.0] * 99], [1.03, *torch.linspace(1, 0.2, 99)], [2.0, 1.99, 1.98, 0.1]])
@pytest.mark.parametrize("tolerance", [0.1, 0.01])
def test_no_first_value_is_missed_however_close_others_lie(values, tolerance):
    """The bound holds after any number of steps, of a random vector that has not less than its 5 % quantile of it."""
    values = torch.tensor(values, dtype=torch.float64)
    found = krylov(of_matrix(values.diag(), SEEDS), 1, tolerance, 200)
    assert ((found.values + found.errors)[:, 0] >= (1 - 1e-9) * values[0]).double().mean() >= 0.93
    assert (found.errors <= tolerance * found.values).all()


@pytest.mark.unchecked
@every_network
def test_the_first_value_is_bounded_after_few_steps(name):
    jacobian = jacobian_of(name)
    first = torch.linalg.svdvals(jacobian)[0]
    for most in (8, 12):
        found = krylov(of_matrix(jacobian, 2 * SEEDS), 1, 1e-9, most)
        assert (
            (found.values + found.errors)[:, 0] >= first
        ).double().mean() >= 0.93  # which is where chance may take 95 %


def test_a_quotient_takes_the_middle_of_what_the_first_value_may_be():
    """Of the bounds as factors, so that the share and its inverse agree."""
    products = of_matrix(jacobian_of("untrained"), 5)
    known = krylov(products, 1, 0.1, 12)
    both = FirstAndNorm.beside(known, 0.1, lambda tolerance: squared_norm(products, tolerance, 32, known))
    low, high = known.values[:, 0] / known.scale, (known.values + known.errors)[:, 0] / known.scale
    assert (high > 1.01 * low).all()
    torch.testing.assert_close(both.share().value, low * high / both.norm.value)
    torch.testing.assert_close(both.stable_rank().value, both.norm.value / (low * high))


def test_an_estimate_is_near_the_rank_in_chunks_too_and_disturbs_nothing():
    model, x = many_outputs(32)
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    found = gnomon.effective_rank(JacobianOperator(model, x))
    assert torch.equal(torch.random.get_rng_state(), before)
    exact = gnomon.effective_rank(gnomon.agop(gnomon.input_jacobian(model, x))).detach()
    assert type(found) is Estimate
    assert found.value.dtype == torch.float32
    assert (found.value - exact).abs() <= found.error <= 0.0501 * found.value
    assert found.passes < OUTPUTS / 4
    again = gnomon.effective_rank(JacobianOperator(model, x, memory=2**16))
    torch.testing.assert_close(again.value, found.value)
    torch.testing.assert_close(again.error, found.error)


def test_an_accuracy_that_is_not_met_gives_the_estimate_its_error_and_a_warning():
    model, x = many_outputs()
    with pytest.warns(RuntimeWarning, match=r"effective_rank: expected an error of at most 0.001 of the value"):
        found = gnomon.effective_rank(JacobianOperator(model, x), rtol=0.001, passes=16)
    assert found.error > 0.001 * found.value


def test_jacobians_that_are_zero_have_no_rank():
    found = ranks(torch.zeros(3, OUTPUTS, 5), Accuracy.of(0.05, None, 0))
    assert found.value.tolist() == found.error.tolist() == [0]


def test_a_probe_takes_products_where_it_holds_the_samples_and_nothing_else_looks_at_the_agop():
    model, x = many_outputs(16)
    exact = gnomon.effective_rank(gnomon.agop(gnomon.input_jacobian(model, x))).detach()
    both = Probe(model, x, [gnomon.effective_rank, gnomon.jacobian_norm]).read().values
    found = both["effective_rank"]
    assert (found.value - exact).abs() <= found.error
    assert torch.equal(found.value, gnomon.effective_rank(JacobianOperator(model, x)).value)
    assert type(both["jacobian_norm"]) is Estimate
    weights = [gnomon.effective_rank, gnomon.nfa_correlation, gnomon.jacobian_norm]
    for data, asked, rtol in ((DataLoader(x, 8), weights[:1], 0.05), (x, weights, 0.05), (x, weights[:1], 0)):
        values = Probe(model, data, asked, rtol=rtol).read().values
        torch.testing.assert_close(values["effective_rank"].float(), exact)
        assert "jacobian_norm" not in values or type(values["jacobian_norm"]) is Estimate
