"""The central path: appendix D step by step against automatic differentiation, the flow against its closed form."""

import sys
from decimal import Decimal, localcontext

import pytest
import torch
from scipy.special import wrightomega

import gnomon
from gnomon.dynamics import CentralPath, snr_growth
from gnomon.dynamics import _central_path as central_path
from gnomon.dynamics._central_path import _covariance, _loss_and_gradient, _project, _renormalised, _residuals
from gnomon.dynamics._snr_growth import constants
from gnomon.errors import ConvergenceError, EmptyError, RangeError, ShapeError
from tests.drawn import normal

both = pytest.mark.parametrize("projection", ["orthogonal", "renormalised"])
SIZES = [(2, 6, 3), (3, 10, 4), (4, 20, 3), (5, 8, 7)]
TIMES = torch.tensor([0.0, 1.0, 30.0, 1e3, 1e5], dtype=torch.float64)


def on_manifold(classes=4, samples=9, width=6, seed=0):
    return _renormalised(normal(classes, samples, width, seed=seed) + normal(classes, 1, width, seed=seed + 50))


class Aligned:
    """The paper's aligned SNR coordinates (definition 5): C rows, samples in columns, class means on the diagonal."""

    def __init__(self, features):
        self.classes, self.samples, _ = features.shape
        eye = torch.eye(self.classes, dtype=torch.float64)
        self.Y = torch.kron(eye, torch.ones(1, self.samples, dtype=torch.float64))
        count = self.classes * self.samples
        self.C = (torch.eye(count, dtype=torch.float64) - self.Y.T @ self.Y / self.samples) / count
        columns = features.flatten(0, 1).T
        left, self.omega, right = torch.linalg.svd(columns @ self.Y.T / self.samples, full_matrices=False)
        self.omega = torch.cat([self.omega[:-1], torch.zeros(1, dtype=torch.float64)])
        self.X = left.T @ columns @ torch.kron(right.T, torch.eye(self.samples, dtype=torch.float64))

    def snr(self, X):
        """Singular values of the signal-to-noise ratio of features that need not be on the manifold."""
        root = torch.linalg.cholesky(X @ self.C @ X.T)
        means = X @ self.Y.T / self.samples
        return torch.linalg.svdvals(torch.linalg.solve_triangular(root, means, upper=False))[: self.classes - 1]

    def gradient(self, X):
        X = X.clone().requires_grad_()
        loss = (1 / (self.snr(X) ** 2 + self.classes)).sum() / 2
        return torch.autograd.grad(loss, X)[0]

    def project(self, Z, projection):
        features = self.X.T.view(self.classes, self.samples, -1)
        return _project(features, Z.T.view_as(features), projection).flatten(0, 1).T

    def growth(self, direction):
        return torch.func.jvp(self.snr, (self.X,), (direction,))[1]


def best_loss(features):
    """The MSE of the best classifier with bias, from an independent least-squares solver."""
    classes, samples, _ = features.shape
    flat = features.flatten(0, 1)
    extended = torch.cat([flat, torch.ones(len(flat), 1, dtype=flat.dtype)], 1)
    target = torch.eye(classes, dtype=flat.dtype).repeat_interleave(samples, 0)
    found = torch.linalg.lstsq(extended, target).solution
    return (extended @ found - target).square().sum() / (2 * len(flat))


def test_loss_and_gradient_against_automatic_differentiation():
    features = on_manifold().requires_grad_()
    expected = best_loss(features)
    loss, gradient = _loss_and_gradient(features.detach())
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, features)[0])


@both
def test_projections_are_tangent_and_only_one_is_orthogonal(projection):
    """Proposition 4 is tangent and idempotent, but not the orthogonal projection that lemma 4 takes it for."""
    features, a, b = on_manifold(), normal(4, 9, 6, seed=1), normal(4, 9, 6, seed=2)
    projected = _project(features, a, projection)
    change = _residuals(features).flatten(0, 1).T @ projected.flatten(0, 1)
    torch.testing.assert_close(change + change.T, torch.zeros(6, 6).double())
    torch.testing.assert_close(_project(features, projected, projection), projected)
    lefts, rights = (projected * b).sum(), (a * _project(features, b, projection)).sum()
    assert torch.isclose(lefts, rights) == (projection == "orthogonal")
    across = ((a - projected) * _project(features, b, projection)).sum()
    assert (across.abs() < 1e-10) == (projection == "orthogonal")


def test_lemma_2_a_renormalised_step_is_proposition_4_and_not_the_orthogonal_projection():
    features, direction = on_manifold(), normal(4, 9, 6, seed=1)
    direction = direction - direction.mean((0, 1))

    def error(step, projection):
        return _renormalised(features + step * direction) - features - step * _project(features, direction, projection)

    sizes = [error(step, "renormalised").norm() for step in (1e-3, 5e-4)]
    assert sizes[0] / sizes[1] == pytest.approx(4, rel=1e-2)
    sizes = [error(step, "orthogonal").norm() for step in (1e-3, 5e-4)]
    assert sizes[0] / sizes[1] == pytest.approx(2, rel=1e-2)


def test_lemma_3_holds_for_proposition_4():
    at, d = Aligned(on_manifold()), normal(4, 36, seed=1)
    printed = ((at.Y / at.samples - at.omega[:, None] * at.X @ at.C) * d).sum(1)[:-1]
    torch.testing.assert_close(at.growth(at.project(d, "renormalised")), printed)
    torch.testing.assert_close(at.growth(at.project(d, "orthogonal")), ((at.Y / at.samples) * d).sum(1)[:-1])


def test_lemma_4_is_the_gradient_without_a_projection_and_leaves_the_manifold():
    at = Aligned(on_manifold())
    factor = (at.omega / (at.classes + at.omega**2) ** 2)[:, None]
    printed = factor * (at.Y / at.samples - at.omega[:, None] * at.X @ at.C)
    gradient = at.gradient(at.X)
    torch.testing.assert_close(printed, -gradient)
    leaves = at.X @ at.C @ printed.T + printed @ at.C @ at.X.T
    weights = at.omega / (at.classes + at.omega**2)
    torch.testing.assert_close(leaves, torch.diag(-2 * weights**2 / (at.classes * at.samples)))
    assert leaves.abs().max() > 1e-4
    # What holds instead: only the class means move.
    torch.testing.assert_close(-at.project(gradient, "orthogonal"), factor * at.Y / at.samples)
    moved = (at.omega / (at.classes + at.omega**2))[:, None] * at.Y / (at.classes * at.samples)
    torch.testing.assert_close(-at.project(gradient, "renormalised"), moved)


def test_the_numbers_of_the_errata():
    """Six features of four classes of nine, from one generator: spread, class means, two directions, in this order."""
    generator = torch.Generator().manual_seed(0)
    spread, means, a, b = (
        torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((6, 36), (6, 4), (6, 36), (6, 36))
    )
    features, a, b = (part.T.reshape(4, 9, 6) for part in (spread + 2 * means.repeat_interleave(9, 1), a, b))
    features = _renormalised(features)

    def sides(projection):
        return [
            float((_project(features, a, projection) * b).sum()),
            float((a * _project(features, b, projection)).sum()),
        ]

    assert sides("renormalised") == pytest.approx([-6.88, -23.08], abs=0.005)
    assert sides("orthogonal") == pytest.approx([-3.65, -3.65], abs=0.005)
    at = Aligned(features)
    ratios = 1 + at.omega[:-1] ** 2 / 4
    assert ratios.tolist() == pytest.approx([11.52, 9.83, 4.46], abs=0.005)
    gradient = at.gradient(at.X)
    leaves = at.X @ at.C @ gradient.T + gradient @ at.C @ at.X.T
    assert float(leaves.abs().max()) == pytest.approx(0.0024, abs=5e-5)
    for projection, off in (("renormalised", 0.92), ("orthogonal", 2.09)):
        flow = -at.project(gradient, projection)
        assert float((-gradient - flow).norm() / flow.norm()) == pytest.approx(off, abs=0.005)
    # A step with a renormalisation, section D.1.
    moved = _renormalised(features - 1e-3 * _loss_and_gradient(features)[1])
    found = (torch.linalg.svdvals(moved.mean(1))[:3] - at.omega[:-1]) / 1e-3
    printed = at.omega[:-1] / (9 * (4 + at.omega[:-1] ** 2) ** 2)
    torch.testing.assert_close(found / printed, ratios, rtol=2e-6, atol=0)
    # The proof of lemma 2, with plus and with the printed minus.
    step = 1e-4 * a
    wanted, cross = _renormalised(features + step), torch.einsum("kni,knj->ij", step, _residuals(features)) / 36
    plus, minus = (features + step - features @ (cross + sign * cross.T).T / 2 for sign in (1, -1))
    centred = step.mean((0, 1))
    errors = [float((wanted - formula + centred).norm()) for formula in (plus, minus)]
    assert errors == pytest.approx([1.4e-7, 1.19e-3], rel=0.05)
    one, late = torch.ones(1).double(), torch.tensor([1e12]).double()
    for projection, size in (("orthogonal", 447), ("renormalised", 44_721)):
        assert round(float(snr_growth(one, late, 10, 100, projection=projection))) == size


@pytest.mark.parametrize("seed", range(3))
def test_lemma_5_holds_for_the_orthogonal_projection_only(seed):
    at = Aligned(on_manifold(seed=seed))
    omega, classes, samples = at.omega[:-1], at.classes, at.samples
    gradient = at.gradient(at.X)
    printed = omega / (samples * (classes + omega**2) ** 2)
    torch.testing.assert_close(-at.growth(at.project(gradient, "orthogonal")), printed)
    holds = omega / (classes * samples * (classes + omega**2))
    torch.testing.assert_close(-at.growth(at.project(gradient, "renormalised")), holds)
    torch.testing.assert_close(holds / printed, 1 + omega**2 / classes)


def test_gradient_steps_with_renormalisation_grow_as_the_renormalised_flow():
    """Section D.1 to the letter: step, renormalise, repeat."""
    features = CentralPath(normal(3, 10, 4)).features
    path, step = CentralPath(features, projection="renormalised"), 0.05
    for _ in range(400):
        features = _renormalised(features - step * _loss_and_gradient(features)[1])
    found = torch.linalg.svdvals(features.mean(1))[:2]
    time = torch.tensor([400 * step], dtype=torch.float64)
    torch.testing.assert_close(found, path.closed_form(time)[0], rtol=1e-4, atol=0)
    printed = CentralPath(normal(3, 10, 4)).closed_form(time)[0]
    assert ((found - printed).abs() > 0.01 * printed).all()


@pytest.mark.unchecked
@both
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_flow_follows_the_closed_form(projection, size, seed):
    """Proposition 2, lemmas 1 and 6, and no drift."""
    path = CentralPath(normal(*size, seed=seed), projection=projection)
    flow, expected = path.flow(TIMES), path.closed_form(TIMES)
    torch.testing.assert_close(flow.singular_values, expected, rtol=1e-8, atol=0)
    torch.testing.assert_close(flow.loss, (1 / (expected**2 + size[0])).sum(1) / 2, rtol=1e-8, atol=0)
    torch.testing.assert_close(flow.loss[2], best_loss(flow.features[2]))
    assert flow.drift.max() < 1e-10
    torch.testing.assert_close(_residuals(flow.features[-1]), _residuals(path.features))
    left, _, right = torch.linalg.svd(flow.snr[0], full_matrices=False)
    turned = left.T @ flow.snr @ right.T / flow.singular_values[:, :1, None]
    off = turned - torch.diag_embed(turned.diagonal(dim1=1, dim2=2))
    torch.testing.assert_close(off, torch.zeros_like(off), rtol=0, atol=1e-10)


def test_without_renormalising_the_field_the_flow_leaves_the_manifold(monkeypatch):
    path = CentralPath(normal(3, 10, 4))
    monkeypatch.setattr(central_path, "_renormalised", lambda features: features)
    with pytest.raises(
        ConvergenceError, match=r"flow\(times\): expected .* within 1e-06 of the identity, got .* at time 2e\+04\. Ask"
    ):
        path.flow(torch.tensor([10.0, 2e4], dtype=torch.float64))


@pytest.mark.unchecked
@pytest.mark.parametrize("size", [(2, 2, 1), (2, 2, 2)], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_rounding_does_not_end_long_flows(size, seed):
    """Of the smallest data, in which it adds up to most, far beyond the limit that larger ones keep."""
    path, times = CentralPath(normal(*size, seed=seed)), torch.tensor([1e12], dtype=torch.float64)
    flow = path.flow(times)
    assert flow.drift.max() < central_path.DRIFT / 4
    torch.testing.assert_close(flow.singular_values, path.closed_form(times), rtol=1e-7, atol=0)


@both
def test_the_limit_is_a_simplex_etf_reached_at_the_stated_rate(projection):
    """Corollaries 1 and 2."""
    path = CentralPath(normal(4, 6, 5), projection=projection)
    times = torch.tensor([1e8, 1e10, 1e12], dtype=torch.float64)
    omega = path.closed_form(times)
    errors = (omega / path.asymptote(times)[:, None] - 1).abs().max(1).values
    assert errors[-1] < 1e-4
    assert (errors.diff() < 0).all()
    torch.testing.assert_close(omega[-1], omega[-1, :1].expand(3), rtol=1e-8, atol=0)
    limit = path.limit()
    torch.testing.assert_close(limit.T @ limit, torch.eye(4).double() - 1 / 4)
    flow = path.flow(times[1:2])
    scaled = flow.features[0] / flow.singular_values[0, 0]
    torch.testing.assert_close(flow.snr[0] / flow.singular_values[0, 0], limit, rtol=0, atol=1e-6)
    torch.testing.assert_close(scaled, limit.T[:, None].expand_as(scaled), rtol=0, atol=5 / omega[1, 0].item())


@both
def test_the_asymptote_is_the_last_term_of_the_equation_alone(projection):
    """c₃ω⁴ = t, or c₂ω² = t where c₃ is 0."""
    path, times = CentralPath(normal(3, 3, 2), projection=projection), torch.tensor([0.0, 10.0]).double()
    _, c2, c3 = constants(3, 3, projection)
    power, factor = (4, c3) if projection == "orthogonal" else (2, c2)
    torch.testing.assert_close(factor * path.asymptote(times) ** power, times)


def exact(initial, time, classes, samples, projection):
    """The root by bisection in 50 decimal digits."""
    with localcontext() as context:
        context.prec = 50
        c1, c2, c3 = (Decimal(c) for c in constants(classes, samples, projection))

        def side(omega):
            return c1 * omega.ln() + c2 * omega**2 + c3 * omega**4

        wanted = side(Decimal(initial)) + Decimal(time)
        low, high = Decimal(initial), Decimal(10) ** 8
        for _ in range(110):
            middle = (low * high).sqrt()
            low, high = (middle, high) if side(middle) < wanted else (low, middle)
        return float(low)


@both
@pytest.mark.parametrize(("classes", "samples"), [(2, 1), (10, 5000)])
def test_closed_form_in_fifty_digits(projection, classes, samples):
    initial = torch.tensor([1e-6, 0.3, 2.0, 700.0], dtype=torch.float64)
    times = torch.tensor([0.0, 1e-3, 1.0, 1e4, 1e8, 1e12], dtype=torch.float64)
    expected = [[exact(w, t, classes, samples, projection) for w in initial.tolist()] for t in times.tolist()]
    found = snr_growth(initial, times, classes, samples, projection=projection)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=0)
    single = snr_growth(initial.float(), times.float(), classes, samples, projection=projection)
    torch.testing.assert_close(single, found.float(), rtol=1e-5, atol=0)


def test_without_the_fourth_power_the_root_is_wrights_omega_function():
    initial, times = normal(5).exp(), torch.linspace(0, 1e4, 20, dtype=torch.float64)
    passed = (initial / 2).log() + (initial / 2) ** 2 / 2 + times[:, None] / (16 * 7)
    expected = 2 * torch.from_numpy(wrightomega(2 * passed.numpy())).sqrt()
    torch.testing.assert_close(snr_growth(initial, times, 4, 7, projection="renormalised"), expected)


@pytest.mark.parametrize(("dtype", "time"), [(torch.float32, 1e30), (torch.float64, 1e200)])
def test_without_the_fourth_power_times_may_be_as_long_as_they_fit(dtype, time):
    """For large t, c₂ ω² is t up to a logarithm of it."""
    found = snr_growth(torch.ones(1, dtype=dtype), torch.tensor([time], dtype=dtype), 4, 7, projection="renormalised")
    torch.testing.assert_close(found, torch.tensor([[(time / (4 * 7 / 2)) ** 0.5]], dtype=dtype))


@both
def test_closed_form_solves_its_equation_of_motion_and_has_gradients(projection):
    initial = normal(3).exp().requires_grad_()
    times = torch.tensor([0.1, 2.0, 500.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w, t: snr_growth(w, t, 3, 5, projection=projection), (initial, times))
    omega = snr_growth(initial[:1], times, 3, 5, projection=projection)[:, 0]
    rate = omega / (5 * (3 + omega**2) ** 2) if projection == "orthogonal" else omega / (15 * (3 + omega**2))
    torch.testing.assert_close(torch.autograd.grad(omega.sum(), times)[0], rate.detach())


def test_labels_shifts_and_any_invertible_map_lead_to_the_same_path():
    features = normal(3, 10, 4)
    path = CentralPath(features)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    for names in ([7, 2, 5], [-1, -7, 0], [3 * 10**18, 0, -(10**18)]):
        labels = torch.tensor(names).repeat_interleave(10)
        shuffled = CentralPath(features.flatten(0, 1)[order], labels[order])
        torch.testing.assert_close(shuffled.closed_form(TIMES), path.closed_form(TIMES))
    mapped = CentralPath(features @ normal(4, 4, seed=3) + 100)
    torch.testing.assert_close(mapped.closed_form(TIMES), path.closed_form(TIMES))
    assert gnomon.CentralPath is CentralPath


@pytest.mark.parametrize("small", [1e-5, 1e-9, 1e-12])
def test_a_direction_in_which_features_hardly_differ_counts_like_any_other(small):
    features, times = normal(3, 10, 4), torch.tensor([0.0, 10.0]).double()
    path = CentralPath(features * torch.tensor([1.0, 1.0, small, 1.0]))
    torch.testing.assert_close(_covariance(_residuals(path.features)), torch.eye(4).double())
    torch.testing.assert_close(path.closed_form(times), CentralPath(features).closed_form(times))
    torch.testing.assert_close(path.flow(times).singular_values, path.closed_form(times))


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
def test_the_unit_of_the_features_drops_out(size):
    features = normal(3, 10, 4)
    torch.testing.assert_close(CentralPath(features * size).features, CentralPath(features).features)


@pytest.mark.bad_input
def test_bad_input_is_named(monkeypatch):
    features, one = normal(3, 10, 4), torch.ones(1).double()
    with pytest.raises(RangeError, match=r"CentralPath: expected features in float64, got torch.float32"):
        CentralPath(features.float())
    with pytest.raises(RangeError, match="width of features at least 2, the rank of the means, got 1"):
        CentralPath(features[..., :1])
    with pytest.raises(RangeError, match="projection 'orthogonal' or 'renormalised', got 'oblique'"):
        CentralPath(features, projection="oblique")
    with pytest.raises(RangeError, match="within-class covariance of rank 4, got 3"):
        CentralPath(torch.cat([features[..., :3], features[..., :1]], -1))
    with pytest.raises(RangeError, match="class means of rank 2, got 0"):
        CentralPath(_residuals(features))
    with pytest.raises(RangeError, match=r"expected finite numbers, got nan at index \(0, 0, 0\)"):
        CentralPath(features * torch.nan)
    with pytest.raises(ShapeError, match=r"CentralPath\(features\): expected \(k, n, p\), got shape \(10, 4\)"):
        CentralPath(features[0])
    with pytest.raises(ShapeError, match=r"CentralPath\(labels\): expected features \(m, p\) and labels \(m,\)"):
        CentralPath(features, torch.zeros(3, dtype=torch.long))
    with pytest.raises(RangeError, match=r"expected as many samples of each class, got \[6, 4\].*take 4 of each"):
        CentralPath(features[0], torch.tensor([0] * 6 + [1] * 4))
    with pytest.raises(
        RangeError, match=r"CentralPath\(labels\): expected whole numbers, got torch.float64\. Pass one"
    ):
        CentralPath(features.flatten(0, 1), torch.zeros(30).double())
    path = CentralPath(features)
    with pytest.raises(RangeError, match=r"times from 0 on, strictly increasing, the last above 0, got \[2.0, 1.0\]"):
        path.flow(torch.tensor([2.0, 1.0]).double())
    with pytest.raises(RangeError, match=r"the last above 0, got \[0.0\]"):
        path.flow(one * 0)
    for rtol in (-1.0, 0.9e-13, 0.0011, 1e6, torch.inf, torch.nan):
        with pytest.raises(RangeError, match=rf"CentralPath.flow: expected rtol from 1e-13 to 0.001, got {rtol}\. Cha"):
            path.flow(one, rtol=rtol)
    for projection in ("orthogonal", "renormalised"):
        with pytest.raises(RangeError, match=r"CentralPath.asymptote: expected times from 0 on, got -1.0\. Change it"):
            CentralPath(features, projection=projection).asymptote(torch.tensor([1.0, -1.0]).double())
    with pytest.raises(EmptyError, match=r"snr_growth\(initial\): expected at least one sample"):
        snr_growth(one[:0], one, 3, 4)
    with pytest.raises(RangeError, match=r"initial above 0, got 0.0; times from 0 on, got -1.0; classes at least 2"):
        snr_growth(one * 0, -one, 1, 4)
    with pytest.raises(RangeError, match=r"projection one of orthogonal, renormalised, got 'oblique'"):
        snr_growth(one, one, 3, 4, projection="oblique")
    monkeypatch.setattr(sys.modules["gnomon.dynamics._snr_growth"], "STEPS", 1)
    for initial, projection in ((1e10, "orthogonal"), (1e20, "renormalised")):
        with pytest.raises(
            RangeError, match=r"snr_growth\(initial\): expected powers that torch.float32 can hold, got"
        ):
            snr_growth(torch.tensor([initial]), torch.ones(1), 3, 4, projection=projection)
    with pytest.raises(ConvergenceError, match=r"Newton's method to converge within 1 steps, got a last step of"):
        snr_growth(one, 1e3 * one, 3, 4)
