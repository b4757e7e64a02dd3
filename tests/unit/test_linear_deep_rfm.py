"""Theorem 4.3's recursion against its definition, and theorem 4.4 against an optimizer."""

import math

import pytest
import torch
from torch.nn import functional

import gnomon
from gnomon import LinearDeepRFM
from gnomon.errors import EmptyError, RangeError, ShapeError
from tests.drawn import normal

LABELS = torch.arange(36) % 3
GRAM = normal(36, 50) @ normal(36, 50).mT / 10
TARGET = functional.one_hot(LABELS, 3).double()
EYE = torch.eye(36).double()


def plain(rfm, depth):
    """The recursion on whole matrices."""
    a, found = rfm.gram, []
    for _ in range(depth):
        p = a @ torch.linalg.inv(a + rfm.kernel_ridge * EYE)
        found.append(p @ TARGET @ TARGET.mT @ p / rfm.kappa)
        a = found[-1] + rfm.feature_ridge * EYE
    return found


RIDGES = [(0.3, 1.0), (2.0, 0.5), (0.02, 2.0), (0.0, 1.0), (0.05, 10.0)]
# The printed kappa is not above 0 where ridges are large: that is an error, tested below.
CASES = [
    (*ridges, scaling)
    for scaling in ("exact", "printed")
    for ridges in RIDGES
    if scaling == "exact" or ridges[0] * (1 + 1 / ridges[1]) < 0.5
]


@pytest.mark.parametrize(("kernel_ridge", "feature_ridge", "scaling"), CASES)
def test_is_the_recursion(kernel_ridge, feature_ridge, scaling):
    rfm = LinearDeepRFM(GRAM, LABELS, kernel_ridge=kernel_ridge, feature_ridge=feature_ridge, scaling=scaling)
    run = rfm.run(8)
    limit = rfm.fixed_point() * TARGET @ TARGET.mT
    for layer, expected in enumerate(plain(rfm, 8)):
        factor = run.factors[layer]
        torch.testing.assert_close(factor @ factor.mT, expected)
        for name, target in (("distance", TARGET @ TARGET.mT), ("to_limit", limit)):
            norm = torch.linalg.matrix_norm(expected - target, 2)
            torch.testing.assert_close(getattr(run, name)[layer], norm, rtol=1e-6, atol=1e-12)


def test_the_first_layer_is_the_agop_of_the_kernel_machine():
    """With the kernel's linear part alone differentiable: f(x) = xᵀXᵀα, of one gradient everywhere."""
    x, kernel_ridge = normal(36, 50) / 3, 0.3
    alpha = torch.linalg.solve(x @ x.mT + kernel_ridge * EYE, TARGET)
    jacobian = torch.autograd.functional.jacobian(lambda point: point @ x.mT @ alpha, x[0])
    agop = jacobian.mT @ jacobian
    rfm = LinearDeepRFM(x @ x.mT, LABELS, kernel_ridge=kernel_ridge, feature_ridge=1.0)
    first = rfm.run(1).factors[0]
    torch.testing.assert_close(first @ first.mT * rfm.kappa, x @ agop @ x.mT)


@pytest.mark.parametrize(("kernel_ridge", "feature_ridge"), [(0.3, 1.0), (2.0, 0.5), (5.0, 10.0), (10.0, 30.0)])
def test_distances_shrink_by_the_rate_down_to_nothing(kernel_ridge, feature_ridge):
    """No remainder of order (λ_k/λ_Φ)² is left, and the condition of the theorem is far from needed."""
    rfm = LinearDeepRFM(GRAM, LABELS, kernel_ridge=kernel_ridge, feature_ridge=feature_ridge)
    distance = rfm.run(200).distance
    last = int((distance > 1e-9).nonzero()[-1])
    torch.testing.assert_close(float(distance[last] / distance[last - 1]), rfm.rate(), rtol=1e-2, atol=0)
    assert distance[-1] < 1e-12
    assert rfm.fixed_point() == 1


@pytest.mark.parametrize("kernel_ridge", [0.02, 0.05, 0.3])
def test_without_nonlinear_features_nothing_collapses_after_the_first_layer(kernel_ridge):
    """Section 4.2's reason for a nonlinear activation: λ_Φ = 0 keeps what differs within classes."""
    rfm = LinearDeepRFM(GRAM, LABELS, kernel_ridge=kernel_ridge, feature_ridge=0.0)
    factors = rfm.run(200).factors
    for factor, expected in zip(factors[:5], plain(rfm, 5), strict=True):
        torch.testing.assert_close(factor @ factor.mT, expected)
    within = [apart_within_classes(factor) for factor in factors]
    assert within[0] > 0.05
    torch.testing.assert_close(torch.stack(within), within[0].expand(200), rtol=1e-9, atol=0)
    torch.testing.assert_close(rfm.rate(), 1.0)
    little = LinearDeepRFM(GRAM, LABELS, kernel_ridge=kernel_ridge, feature_ridge=1.0).run(200).factors
    assert apart_within_classes(little[-1]) < 1e-12


def apart_within_classes(factor):
    """The sine between the range of the Gram matrix and that of the labels."""
    of_gram, of_labels = (torch.linalg.qr(matrix).Q for matrix in (factor, TARGET))
    return torch.linalg.matrix_norm(of_gram - of_labels @ (of_labels.mT @ of_gram), 2)


def test_one_sample_per_class_has_no_deviations_within_classes():
    gram = torch.eye(4, dtype=torch.float64) + 0.1
    rfm = LinearDeepRFM(gram, torch.arange(4), kernel_ridge=0.3, feature_ridge=0.3)
    distance = rfm.run(12).distance
    torch.testing.assert_close(float(distance[-1] / distance[-2]), rfm.rate(), rtol=1e-3, atol=0)


def test_lemma_b2_and_the_fixed_point():
    collapsed = TARGET @ TARGET.mT + 0.7 * EYE
    printed = EYE / 0.7 - TARGET @ TARGET.mT / (0.7 * (0.7 + 12))
    torch.testing.assert_close(torch.linalg.inv(collapsed), printed)
    # What the proof takes from it: yyᵀA*⁻¹ = (1 + 1/λ_Φ)yyᵀ, is yyᵀ/(λ_Φ + N).
    torch.testing.assert_close(torch.linalg.inv(collapsed) @ TARGET, TARGET / (0.7 + 12))
    rfm = LinearDeepRFM(collapsed, LABELS, kernel_ridge=0.2, feature_ridge=0.7)
    torch.testing.assert_close(rfm.run(3).factors, TARGET.expand(3, 36, 3))


def test_the_printed_scale_leaves_a_distance_of_first_order():
    """docs/errata.md: collapsed too, but at a multiple of yyᵀ that differs from it by order λ_k, not λ_k²."""
    left = []
    for kernel_ridge in (0.004, 0.002, 0.001):
        rfm = LinearDeepRFM(GRAM, LABELS, kernel_ridge=kernel_ridge, feature_ridge=1.0, scaling="printed")
        run = rfm.run(40)
        assert run.to_limit[-1] < 1e-12
        left.append(float(run.distance[-1]))
        torch.testing.assert_close(left[-1], 12 * (rfm.fixed_point() - 1))
        assert left[-1] > 1000 * kernel_ridge**2
    assert left[0] / left[1] == pytest.approx(2, rel=0.02)
    assert left[1] / left[2] == pytest.approx(2, rel=0.02)


def test_the_numbers_of_the_errata():
    labels, x = torch.arange(500) % 10, normal(500, 600)
    gram = x @ x.mT / 600

    def rfm(kernel_ridge, scaling="exact"):
        return LinearDeepRFM(gram, labels, kernel_ridge=kernel_ridge, feature_ridge=1.0, scaling=scaling)

    exact, printed = rfm(0.05), rfm(0.05, "printed")
    assert [round(value, 3) for value in (exact.kappa, printed.kappa, printed.fixed_point())] == [0.998, 0.8, 1.248]
    assert exact.run(30).distance[-1] < 1e-13
    left = [rfm(kernel_ridge, "printed").run(60).distance[-1].item() for kernel_ridge in (0.1, 0.05, 0.025, 0.0125)]
    assert [round(value, 1) for value in left] == [33.1, 12.4, 5.5, 2.6]
    below = [rfm(kernel_ridge, "printed").run(60).distance[-1].item() for kernel_ridge in (0.004, 0.002, 0.001)]
    assert [round(value, 2) for value in below] == [0.81, 0.40, 0.20]
    assert round(rfm(5).rate(), 3) == 0.817
    assert rfm(5).run(100).distance[-1] < 5e-8
    assert round(rfm(20).run(100).distance[-1].item(), 1) == 49.6
    linear = LinearDeepRFM(gram, labels, kernel_ridge=0.05, feature_ridge=0.0).run(100).distance
    assert [round(linear[layer].item(), 1) for layer in (0, 9, 99)] == [22.0, 16.0, 16.0]
    assert rfm(0.0).run(1).distance[0] < 1e-11
    first = LinearDeepRFM(torch.eye(500).double(), labels, kernel_ridge=1e-4, feature_ridge=1.0)
    factor, collapsed = first.run(1).factors[0], functional.one_hot(labels, 10).double()
    away = torch.linalg.matrix_norm(first.kappa * factor @ factor.mT - collapsed @ collapsed.mT, 2)
    assert away.item() == pytest.approx(0.0100, abs=5e-6)


@pytest.mark.parametrize("scaling", ["exact", "printed"])
def test_one_layer_collapses_where_the_kernel_is_linear(scaling):
    rfm = LinearDeepRFM(GRAM, LABELS, kernel_ridge=0, feature_ridge=1.0, scaling=scaling)
    assert rfm.run(1).distance[0] < 1e-10
    assert (rfm.kappa, rfm.rate()) == (1, 0)


def test_the_first_layer_is_right_for_nearly_equal_samples_and_for_small_ones():
    """With P of eigenvalues near 1 the rest is what is computed, and with ones near 0 P itself."""
    twins = normal(36, 50)
    twins[1::6] = twins[2::6] + 1e-5 * twins[1::6]  # of different classes
    rfm = LinearDeepRFM(twins @ twins.mT, LABELS, kernel_ridge=0, feature_ridge=1.0)
    torch.testing.assert_close(rfm.first(), TARGET)
    small = LinearDeepRFM(1e-20 * GRAM, LABELS, kernel_ridge=0.3, feature_ridge=1.0)
    torch.testing.assert_close(small.first() * small.kappa**0.5, 1e-20 / 0.3 * GRAM @ TARGET, atol=0, rtol=1e-9)


def test_the_first_layer_is_right_where_samples_are_large_in_one_direction():
    """Gram eigenvalues 1e9 and 1, exactly: the product with the Gram matrix alone has lost eight digits."""
    large, ridge = 1e9, 1e-3
    gram = torch.tensor([[large + 1, large - 1], [large - 1, large + 1]], dtype=torch.float64) / 2
    rfm = LinearDeepRFM(gram, torch.tensor([0, 1]), kernel_ridge=ridge, feature_ridge=1.0)
    of_sum, of_difference = large / (large + ridge), 1 / (1 + ridge)
    expected = torch.tensor([[of_sum + of_difference, of_sum - of_difference]], dtype=torch.float64) / 2
    found = rfm.first() * rfm.kappa**0.5
    torch.testing.assert_close(found, torch.cat([expected, expected.flip(1)]), rtol=0, atol=1e-10)


def test_gradients_and_dtype():
    gram = (normal(6, 8) @ normal(6, 8).mT).requires_grad_()
    settings = {"kernel_ridge": 0.3, "feature_ridge": 1.0}

    def factors(gram):
        return LinearDeepRFM(gram, torch.arange(6) % 2, **settings).run(3).factors

    assert torch.autograd.gradcheck(factors, gram)
    run = LinearDeepRFM(gram, torch.arange(6) % 2, **settings).run(2)
    assert not run.distance.requires_grad
    assert not run.to_limit.requires_grad
    assert factors(gram.detach().float()).dtype == torch.float32
    assert gnomon.LinearDeepRFM is LinearDeepRFM


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_computed_in_single(dtype):
    gram = GRAM.to(dtype)
    found, exact = (
        LinearDeepRFM(given, LABELS, kernel_ridge=0.3, feature_ridge=1.0).run(3) for given in (gram, gram.double())
    )
    for name in ("factors", "distance", "to_limit"):
        torch.testing.assert_close(getattr(found, name), getattr(exact, name).float(), rtol=1e-4, atol=1e-4)


def test_it_keeps_its_gram_matrix_and_its_graph():
    gram = GRAM.clone().requires_grad_()
    rfm = LinearDeepRFM(gram, LABELS, kernel_ridge=0.3, feature_ridge=1.0)
    with torch.no_grad():
        gram += 5
    torch.testing.assert_close(rfm.gram.detach(), GRAM, rtol=0, atol=0)
    assert torch.autograd.grad(rfm.run(2).factors.sum(), gram)[0].abs().max() > 0


def objective(kernel, labels, ridge):
    """What theorem 4.4 maximises: the sum over classes of yᵀ(k + μI)⁻¹ky."""
    shifted = kernel + ridge * torch.eye(len(kernel)).double()
    return (labels * torch.linalg.solve(shifted, kernel @ labels)).sum()


def best_kernel(labels, ridge, seed):
    """The best kernel of unit diagonal that L-BFGS finds, k = VVᵀ with rows of unit length."""
    free = normal(len(labels), len(labels), seed=seed).requires_grad_()
    settings = {"max_iter": 400, "tolerance_grad": 1e-9, "tolerance_change": 1e-15, "history_size": 50}
    optimizer = torch.optim.LBFGS([free], line_search_fn="strong_wolfe", **settings)

    def closure():
        optimizer.zero_grad()
        rows = functional.normalize(free)
        loss = -objective(rows @ rows.mT, labels, ridge)
        loss.backward()
        return loss

    optimizer.step(closure)
    rows = functional.normalize(free.detach())
    return rows @ rows.mT


@pytest.mark.parametrize("ridge", [0.1, 1.0, 5.0])
def test_theorem_4_4_no_kernel_of_unit_diagonal_does_better_than_the_collapsed_one(ridge):
    classes, samples = 3, 4
    labels = torch.eye(classes).double().repeat_interleave(samples, 0)
    collapsed = labels @ labels.mT
    best = objective(collapsed, labels, ridge)
    torch.testing.assert_close(best.item(), classes * samples * samples / (samples + ridge))
    coefficients = torch.linalg.solve(collapsed + ridge * torch.eye(len(labels)).double(), labels).mT
    least = ((coefficients @ (collapsed @ collapsed + ridge * collapsed)) * coefficients).sum()
    torch.testing.assert_close(least - 2 * (coefficients @ collapsed @ labels).trace(), -best)
    reached = []
    for seed in range(3):
        rows = functional.normalize(normal(classes * samples, 5, seed=seed + 50))
        assert objective(rows @ rows.mT, labels, ridge) < best
        found = best_kernel(labels, ridge, seed)
        reached.append(float(best - objective(found, labels, ridge)))
        assert reached[-1] >= -1e-9
        if reached[-1] < 1e-9:
            torch.testing.assert_close(found, collapsed, rtol=0, atol=1e-3)
    assert min(reached) < 1e-9


def test_theorem_4_4_is_for_labels_of_zero_and_one():
    """With the ±1 of the paper's experiments, and other than four classes, a kernel with k > 0 across does better."""
    samples, ridge = 5, 1.0
    ten = torch.eye(10).double().repeat_interleave(samples, 0)
    within = ten @ ten.mT
    values = [objective(kernel, 2 * ten - 1, ridge).item() for kernel in (within, 0.7 * within + 0.3)]
    assert [round(value, 1) for value in values] == [416.7, 443.6]
    for classes, better in ((10, 0.3), (3, -0.1)):
        labels = torch.eye(classes).double().repeat_interleave(samples, 0)
        within = labels @ labels.mT
        signed = objective(within, 2 * labels - 1, ridge)
        mixed = (1 - better) * within + better
        assert torch.linalg.eigvalsh(mixed)[0] > -1e-9
        assert objective(mixed, 2 * labels - 1, ridge) > signed * 1.001
        assert objective(mixed, labels, ridge) < objective(within, labels, ridge)


@pytest.mark.bad_input
def test_bad_input_is_named():
    good = {"kernel_ridge": 0.1, "feature_ridge": 1.0}
    with pytest.raises(ShapeError, match=r"LinearDeepRFM\(gram\): expected \(n, n\) and labels \(n,\), got \(36, 35\)"):
        LinearDeepRFM(GRAM[:, :-1], LABELS, **good)
    with pytest.raises(ShapeError, match=r"labels \(n,\), got \(36, 36\) and \(35,\)"):
        LinearDeepRFM(GRAM, LABELS[:-1], **good)
    with pytest.raises(EmptyError, match=r"LinearDeepRFM\(gram\): expected at least one sample"):
        LinearDeepRFM(GRAM[:0, :0], LABELS[:0], **good)
    with pytest.raises(RangeError, match=r"gram\): expected finite numbers, got nan"):
        LinearDeepRFM(GRAM * math.nan, LABELS, **good)
    wrong = (
        "kernel_ridge finite and at least 0, got -1; feature_ridge finite and at least 0, above 0 .*, got 0; scaling"
    )
    with pytest.raises(RangeError, match=wrong):
        LinearDeepRFM(GRAM, LABELS, kernel_ridge=-1, feature_ridge=0, scaling="none")
    with pytest.raises(RangeError, match=r"sizes of classes equal, got \[13, 11, 12\]"):
        LinearDeepRFM(GRAM, torch.where(torch.arange(36) == 1, 0, LABELS), **good)
    with pytest.raises(
        RangeError, match=r"feature_ridge finite and at least 0, above 0 without a kernel_ridge, got 0\.0"
    ):
        LinearDeepRFM(GRAM, LABELS, kernel_ridge=0.0, feature_ridge=0.0)
    with pytest.raises(RangeError, match=r"printed kappa above 0 .*, or a feature_ridge\), got -inf"):
        LinearDeepRFM(GRAM, LABELS, kernel_ridge=0.1, feature_ridge=0.0, scaling="printed")
    with pytest.raises(RangeError, match=r"printed kappa above 0 \(take a smaller kernel_ridge, .*\), got -0.19"):
        LinearDeepRFM(GRAM, LABELS, kernel_ridge=0.3, feature_ridge=1.0, scaling="printed")
    for depth in (0, 2.5, math.nan):
        with pytest.raises(
            RangeError, match=rf"LinearDeepRFM.run: expected depth a whole number of at least 1, got {depth!r}"
        ):
            LinearDeepRFM(GRAM, LABELS, **good).run(depth)


@pytest.mark.parametrize(
    ("gram", "kernel_ridge"),
    [(0 * GRAM, 0), (0 * GRAM + 1, 0), (0 * GRAM + 1, 1e-20), (-EYE, 1), (-EYE, 2), (GRAM - 20 * EYE, 0.3)],
    ids=["zero", "one", "one with a ridge below rounding", "minus one", "minus one, solvable", "indefinite"],
)
def test_a_gram_matrix_that_is_none_or_cannot_be_solved_is_refused(gram, kernel_ridge):
    with pytest.raises(
        RangeError, match=rf"LinearDeepRFM\(gram\): expected a positive semi.* is not, with {kernel_ridge}\."
    ):
        LinearDeepRFM(gram, LABELS, kernel_ridge=kernel_ridge, feature_ridge=1.0)


def test_a_gram_matrix_that_is_not_symmetric_is_refused():
    with pytest.raises(
        RangeError, match=r"LinearDeepRFM\(gram\): expected a symmetric matrix, got entries 1.0e-02 apart"
    ):
        LinearDeepRFM(GRAM + 0.01 * torch.ones(36, 36).double().triu(1), LABELS, kernel_ridge=0.1, feature_ridge=1.0)


SINGLE = normal(36, 5).float() @ normal(36, 5).float().mT


@pytest.mark.parametrize(
    "gram",
    [SINGLE, SINGLE.double(), SINGLE.bfloat16(), 1e-20 * SINGLE, 1e20 * SINGLE.double() @ SINGLE.double(), 0 * SINGLE],
    ids=["float32", "from float32", "bfloat16", "small", "large", "zero"],
)
def test_rounding_does_not_make_a_gram_matrix_indefinite(gram):
    """Of rank 5, with eigenvalues a little below 0."""
    rfm = LinearDeepRFM(gram, LABELS, kernel_ridge=0.01 * max(1.0, float(gram.max())), feature_ridge=1.0)
    assert rfm.run(2).distance.isfinite().all()
