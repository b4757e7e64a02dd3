"""Deep RFM against the plainest loop over algorithm 1, scikit-learn's own checks, and what it is said to show."""

import math
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils.estimator_checks import check_estimator

import gnomon
from gnomon import DeepRFM
from gnomon.dynamics import _deep_rfm as deep_rfm
from gnomon.dynamics import _rfm_layer as rfm_layer
from gnomon.dynamics._rfm_layer import _collapse
from gnomon.errors import CheckpointError, ConvergenceError, EmptyError, RangeError
from gnomon.kernels import FourierFeatures, GaussianKernel, LaplaceKernel, ReLUFeatures, kernel_agop, kernel_gram


def clusters(n=30, d=5, classes=3, seed=0, noise=0.7):
    generator = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return generator.normal(size=(classes, d))[y] + noise * generator.normal(size=(n, d)), y


def plain(model, X, y, weights):
    """Algorithm 1 in loops and autodiff; the random weights are given."""
    x = torch.tensor((X - X.mean(0)) / X.std(0))
    targets = torch.tensor(2.0 * (y[:, None] == np.unique(y)) - 1)
    length = model.kernel.bandwidth

    def kernel(a, b, metric):
        square = (a - b) @ metric @ (a - b)
        if isinstance(model.kernel, GaussianKernel):
            return (-square / (2 * length**2)).exp()
        return (-square.sqrt() / length).exp() if square > 0 else torch.ones((), dtype=torch.float64) + 0 * square

    def fitted(x, metric):
        gram = torch.stack([torch.stack([kernel(a, b, metric) for b in x]) for a in x])
        return torch.linalg.solve(gram + model.ridge * torch.eye(len(x)).double(), targets)

    for weight in weights:
        x = x / x.norm(dim=1, keepdim=True)
        metric = torch.eye(x.shape[1]).double()
        for _ in range(model.iterations):
            points, alpha, agop = x, fitted(x, metric), torch.zeros(x.shape[1], x.shape[1]).double()
            for point in x:
                others = points[(points != point).any(1)]
                rest = alpha[(points != point).any(1)]

                def f(p, others=others, rest=rest, metric=metric):
                    return sum(kernel(p, b, metric) * a for b, a in zip(others, rest, strict=True))

                for row in torch.autograd.functional.jacobian(f, point):
                    agop += torch.outer(row, row) / len(x)
            metric = agop * len(agop) / agop.trace()
        values, vectors = torch.linalg.eigh(agop)
        x = (x @ (vectors * values.clamp(min=0).sqrt()) @ vectors.mT @ weight.mT).relu()
    x = x / x.norm(dim=1, keepdim=True)
    identity = torch.eye(x.shape[1]).double()
    gram = torch.stack([torch.stack([kernel(a, b, identity) for b in x]) for a in x])
    return x, gram @ fitted(x, identity)


@pytest.mark.parametrize("kernel", [LaplaceKernel(2.0), GaussianKernel(0.7)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize(("ridge", "iterations"), [(0.1, 1), (0.3, 2)])
def test_is_algorithm_1(kernel, ridge, iterations):
    X, y = clusters(12, 4)
    model = DeepRFM(kernel, ReLUFeatures(16), depth=2, ridge=ridge, iterations=iterations).fit(X, y)
    state = model.state_dict()
    features, outputs = plain(model, X, y, [state[f"layers.{number}.drawn.weight"] for number in range(2)])
    torch.testing.assert_close(torch.from_numpy(model.transform(X)), features, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(torch.from_numpy(model.decision_function(X)), outputs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("iterations", [1, 2, 4])
def test_each_machine_has_the_agop_before_scaled_to_the_trace_of_the_identity_and_the_last_one_s_is_not(iterations):
    """As the docstring has it; with the AGOP itself as metric the inputs would be mapped by another matrix."""
    X, y = clusters(24, 5)
    kernel, targets = LaplaceKernel(2.0), torch.from_numpy(2.0 * (y[:, None] == np.arange(3)) - 1)
    model = DeepRFM(kernel, ReLUFeatures(16), depth=1, ridge=0.05, iterations=iterations).fit(X, y)
    (stage,) = model.stages(X)
    mapped = []
    for scaled in (True, False):
        metric = torch.eye(5).double()
        for _ in range(iterations):
            gram = kernel_gram(kernel, stage.inputs, stage.inputs, metric)
            coefficients = torch.linalg.solve(gram + 0.05 * torch.eye(24), targets)
            agop = kernel_agop(kernel, stage.inputs, coefficients, metric)
            metric = agop * 5 / agop.trace() if scaled else agop
        mapped.append(stage.inputs @ gnomon.psd_root(agop))
    torch.testing.assert_close(stage.mapped, mapped[0])
    assert iterations == 1 or (mapped[1] - mapped[0]).norm() > 0.01 * mapped[0].norm()


def test_without_layers_it_is_kernel_ridge_regression():
    X, y = clusters()
    model = DeepRFM(GaussianKernel(0.8), depth=0, ridge=0.01).fit(X, y)
    new = clusters(8, seed=1)[0]
    unit = [(z - X.mean(0)) / X.std(0) for z in (X, new)]
    unit = [z / np.linalg.norm(z, axis=1, keepdims=True) for z in unit]
    rbf = RBF(0.8)
    alpha = np.linalg.solve(rbf(unit[0]) + 0.01 * np.eye(30), 2.0 * (y[:, None] == np.arange(3)) - 1)
    np.testing.assert_allclose(model.decision_function(new), rbf(unit[1], unit[0]) @ alpha)
    np.testing.assert_allclose(model.transform(new), unit[1])
    assert model.readings_ == ()


@pytest.mark.bad_input
def test_scikit_learns_own_checks():
    """All, but for the one that allows only numbers and strings as defaults."""
    model = DeepRFM(LaplaceKernel(2.0), ReLUFeatures(32), depth=1, ridge=1e-3)
    why = {"check_parameters_default_constructible": "the defaults are a kernel and a feature map"}
    results = check_estimator(model, expected_failed_checks=why, on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "xfail", "skipped"}
    assert sum(result["status"] == "passed" for result in results) > 50


def test_clones_and_pickles_are_equal():
    X, y = clusters()
    model = DeepRFM(GaussianKernel(1.5), FourierFeatures(32, 2.0, "l1"), 2, 1e-6, iterations=2, random_state=3).fit(
        X, y
    )
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "layers_")
    np.testing.assert_array_equal(fresh.fit(X, y).decision_function(X), model.decision_function(X))
    other = clone(model).set_params(random_state=4).fit(X, y)
    assert abs(other.transform(X) - model.transform(X)).max() > 0.01
    other.set_params(random_state=torch.tensor(3))
    np.testing.assert_array_equal(other.fit(X, y).decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(clone(model).fit(torch.from_numpy(X), torch.from_numpy(y)).predict(X), y)


class StoppedError(Exception):
    """Stands for a killed run."""


def test_a_stopped_run_goes_on_to_the_same_end():
    X, y = clusters()
    settings = {"kernel": LaplaceKernel(2.0), "feature_map": ReLUFeatures(24), "depth": 4}
    whole, seen = DeepRFM(**settings).fit(X, y), []

    def stop(reading):
        seen.append(reading.layer)
        if reading.layer == 1:
            raise StoppedError

    stopped = DeepRFM(**settings)
    with pytest.raises(StoppedError):
        stopped.fit(X, y, callback=stop)
    state = stopped.state_dict()
    assert seen == [0, 1]
    assert {name.split(".")[1] for name in state if "." in name} == {"0", "1"}
    resumed = DeepRFM(**settings).fit(X, y, state=state)
    np.testing.assert_array_equal(resumed.decision_function(X), whole.decision_function(X))
    assert resumed.readings_ == whole.readings_
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], tensor, rtol=0, atol=0)
        assert tensor.is_contiguous()


def test_collapse_on_digits_falls_with_every_layer_by_the_root_of_the_agop_alone():
    """Figures 3 and 4; the random features raise NC1 a little each time, proposition A.1."""
    digits = load_digits()
    X, y = digits.data[:300], digits.target[:300]
    for kernel, end in ((LaplaceKernel(2.0), 0.01), (GaussianKernel(2.0), 0.002)):
        model = DeepRFM(kernel, ReLUFeatures(256), depth=6).fit(X, y)
        nc1 = torch.tensor([[float(c.nc1) for c in (r.inputs, r.mapped, r.features)] for r in model.readings_])
        assert (nc1[:, 1] < 0.6 * nc1[:, 0]).all()
        assert (nc1[:, 2] > nc1[:, 1]).all()
        assert (nc1[:, 2] < 2 * nc1[:, 1]).all()
        assert nc1[-1, 1] < end
        assert model.readings_[-1].mapped.nc2_etf < 0.5 * model.readings_[0].inputs.nc2_etf
        assert max(reading.misfit for reading in model.readings_) < 1e-6
        assert model.score(X, y) == 1
        assert model.score(digits.data[300:], digits.target[300:]) > 0.8


def test_readings_are_those_of_the_stages():
    X, y = clusters()
    model = DeepRFM(LaplaceKernel(2.0), ReLUFeatures(24), depth=2).fit(X, y)
    stages = list(model.stages(X))
    torch.testing.assert_close(stages[0].inputs.norm(dim=1), torch.ones(30).double())
    for stage, reading in zip(stages, model.readings_, strict=True):
        labels = torch.from_numpy(y)
        assert stage.layer == reading.layer
        assert _collapse(stage.mapped, labels, 3) == reading.mapped
        moments = gnomon.class_moments(stage.features, labels, 3)
        torch.testing.assert_close(gnomon.nc1_trace_ratio(moments), reading.features.nc1)
    last = stages[-1].features
    np.testing.assert_allclose(model.transform(X), (last / last.norm(dim=1, keepdim=True)).numpy())


def test_nc1_is_unchanged_by_a_unitary_map():
    X, y = clusters()
    labels, x = torch.from_numpy(y), torch.from_numpy(X)
    turn = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
    torch.testing.assert_close(_collapse(x @ turn, labels, 3).nc1, _collapse(x, labels, 3).nc1)
    torch.testing.assert_close(_collapse(x @ turn, labels, 3).nc2_etf, _collapse(x, labels, 3).nc2_etf)


def test_an_input_that_does_not_vary_counts_for_nothing():
    X, y = clusters()
    more = np.concatenate([X, np.full((30, 1), 7.0)], 1)
    model = DeepRFM(LaplaceKernel(2.0), ReLUFeatures(24), depth=1).fit(more, y)
    moved = more.copy()
    moved[:, -1] = 1e6
    np.testing.assert_allclose(model.transform(moved), model.transform(more))


def test_after_a_stopped_fit_an_earlier_one_does_not_predict():
    X, y = clusters()
    model = DeepRFM(LaplaceKernel(2.0), ReLUFeatures(24), depth=1).fit(X, y)

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(3 * X + 5, y + 7, callback=stop)
    with pytest.raises(NotFittedError, match=r"^This DeepRFM instance is not fitted yet"):
        model.predict(X)


def test_two_classes_have_one_output():
    X, y = clusters(classes=2)
    model = DeepRFM(LaplaceKernel(2.0), ReLUFeatures(24), depth=2).fit(X, np.array(["no", "yes"])[y])
    np.testing.assert_allclose(model.decision_function(X), 2.0 * y - 1, atol=1e-9)
    assert model.predict(X)[:2].tolist() == ["no", "yes"]


def test_a_column_that_is_constant_up_to_rounding_is_no_feature():
    """Such as a sum of probabilities, 1 ± 1e-16, which would be divided by 1e-16."""
    X, y = clusters()
    shares = np.random.default_rng(0).dirichlet(np.ones(7), len(X)).sum(1, keepdims=True)
    assert 0 < shares.std() < 1e-15
    fitted = [
        DeepRFM(LaplaceKernel(2.0), ReLUFeatures(24), depth=1).fit(np.hstack([X, column]), y)
        for column in (shares, np.ones_like(shares))
    ]
    assert float(fitted[0].scale_[-1]) == 0
    np.testing.assert_allclose(*(model.decision_function(np.hstack([X, shares + 1e-8])) for model in fitted))


def test_new_samples_are_predicted_many_at_a_time_however_few_the_points(monkeypatch):
    """Split as the n x n matrix of a fit is, they were 2 at a time after one to 30 points: 30 times as slow."""
    X, y = clusters()
    model, new = DeepRFM(LaplaceKernel(2.0), ReLUFeatures(24), depth=1).fit(X, y), clusters(1000, seed=1)[0]
    whole, sizes = kernel_gram(model.kernel, model._represented(new), model.points_) @ model.coefficients_, []
    monkeypatch.setattr(deep_rfm, "kernel_gram", lambda k, x, z: sizes.append(len(x)) or kernel_gram(k, x, z))
    np.testing.assert_allclose(model.decision_function(new), whole.numpy(), rtol=1e-9, atol=1e-12)
    assert sizes == [1000]
    monkeypatch.setattr(deep_rfm, "PREDICTED", 300 * 30)
    np.testing.assert_allclose(model.decision_function(new), whole.numpy(), rtol=1e-9, atol=1e-12)
    assert sizes == [1000, 300, 300, 300, 100]


def test_jitter_comes_only_when_needed_and_is_told():
    X, y = clusters(40, 2)
    smooth = DeepRFM(GaussianKernel(3.0), ReLUFeatures(24), depth=1).fit(X, y)
    assert 0 < smooth.readings_[0].jitter <= 1e6 * 40 * np.finfo(float).eps
    assert smooth.readings_[0].misfit > 1e-6
    sharp = DeepRFM(LaplaceKernel(2.0), ReLUFeatures(24), depth=1).fit(X, y)
    assert sharp.readings_[0].jitter == 0
    assert sharp.readings_[0].misfit < 1e-10


def test_equal_points_are_named(monkeypatch):
    X, y = clusters()
    X[[7, 19]] = X[[2, 2]]
    with pytest.raises(RangeError, match=r"inputs of layer 0 .* points 2 and 7, 2 and 19, 7 and 19\. Take a ridge"):
        DeepRFM(depth=1).fit(X, y)
    X[11] = X[2]
    with pytest.raises(RangeError, match=r"2 and 7, 2 and 11, 2 and 19 and 3 more pairs"):
        DeepRFM(depth=0).fit(X, y)
    assert DeepRFM(LaplaceKernel(2.0), ReLUFeatures(24), depth=1, ridge=1e-3).fit(X, y).readings_[0].jitter == 0
    with pytest.raises(RangeError, match=r"inputs of layer 1 that .* unit length.* or more features that vary"):
        DeepRFM(feature_map=ReLUFeatures(1), depth=2).fit(*clusters())
    monkeypatch.setattr(rfm_layer, "JITTERS", 0)
    with pytest.raises(ConvergenceError, match="expected a positive definite Gram matrix, got one that is not"):
        DeepRFM(GaussianKernel(3.0), depth=0).fit(*clusters(40, 2))


@pytest.mark.bad_input
def test_points_of_one_direction_are_named_as_what_they_are():
    """Of one feature, standardised and scaled to unit length, only the sign is left."""
    y = np.array([0, 0, 1, 1])
    centred, single = np.array([[1.0, 2], [2, 4], [-1, 1], [-2, -7]]), np.array([[1.0], [2], [4], [5]])
    one = r"points 0 and 1, 2 and 3\. Take a ridge above 0, or more features that vary: one alone has two directions\."
    for X, says in (
        (centred, r"points 0 and 1\. Take a ridge above 0, or leave one of each out\."),
        (single, one),
        (np.concatenate([single, np.full((4, 1), 3.0)], 1), one),
    ):
        for depth, where in ((0, "the last kernel machine"), (1, "layer 0")):
            with pytest.raises(RangeError, match=rf"\(X\): expected inputs of {where} that differ .* got .* {says}"):
                DeepRFM(depth=depth).fit(X, y)
    assert DeepRFM(depth=1, ridge=1e-3).fit(single, y).score(single, y) == 1


@pytest.mark.bad_input
def test_bad_input_is_named():
    X, y = clusters()
    with pytest.raises(
        RangeError,
        match=r"depth a whole number of at least 0, got -1; ridge finite and at least 0, got inf; iterations",
    ):
        DeepRFM(depth=-1, ridge=math.inf, iterations=0).fit(X, y)
    with pytest.raises(
        RangeError, match=r"depth a whole number of at least 0, got 1.5; .* random_state a whole .*, got None"
    ):
        DeepRFM(depth=1.5, iterations=1.5, random_state=None).fit(X, y)
    with pytest.raises(
        RangeError, match=r"DeepRFM.fit\(X\): expected variances that torch.float64 can hold, got larger"
    ):
        DeepRFM(depth=0).fit(np.concatenate([X, 1e170 * X[:, :1]], 1), y)
    kernel, features = "kernel an object with value and slope", "feature_map an object with draw and apply"
    with pytest.raises(RangeError, match=rf"{kernel}, such as .*, got 'rbf'; {features}, such as ReLUFeatures"):
        DeepRFM("rbf", "relu").fit(X, y)
    with pytest.raises(RangeError, match=rf"{kernel}, .* got <class .*LaplaceKernel'>; {features}, .* got <class"):
        DeepRFM(LaplaceKernel, ReLUFeatures).fit(X, y)
    with pytest.raises(
        RangeError, match=r"ridge finite and at least 0, got 'a'; device one of this machine, .*, got 'gpu'"
    ):
        DeepRFM(ridge="a", device="gpu").fit(X, y)
    with pytest.raises(RangeError, match=r"expected at least two classes, got one class only"):
        DeepRFM().fit(X, 0 * y)
    with pytest.raises(RangeError, match=r"got an AGOP of trace 0.0 at iteration 0. Take a larger bandwidth"):
        DeepRFM(LaplaceKernel(1e-5), depth=1).fit(X, y)
    with pytest.raises(EmptyError, match=r"DeepRFM.state_dict: expected a model that is being fitted"):
        DeepRFM().state_dict()
    for use in (DeepRFM().predict, DeepRFM().transform, lambda X: list(DeepRFM().stages(X))):
        with pytest.raises(NotFittedError, match=r"^This DeepRFM instance is not fitted yet"):
            use(X)


X, Y = clusters()
SETTINGS = {"kernel": LaplaceKernel(2.0), "feature_map": ReLUFeatures(24), "depth": 2, "ridge": 1e-3}


@pytest.mark.parametrize(
    ("settings", "data"),
    [
        ({"kernel": LaplaceKernel(3.0)}, (X, Y)),
        ({"kernel": GaussianKernel(2.0)}, (X, Y)),
        ({"feature_map": ReLUFeatures(25)}, (X, Y)),
        ({"feature_map": FourierFeatures(24, 2.0)}, (X, Y)),
        ({"ridge": 2e-3}, (X, Y)),
        ({"iterations": 2}, (X, Y)),
        ({"random_state": 1}, (X, Y)),
        ({}, (X, (Y + 1) % 3)),
        ({}, (3 * (X - X.mean(0)) + X.mean(0), Y)),
        ({}, (X[:, :4], Y)),
        ({}, (X[::-1], Y[::-1])),
    ],
    ids=[
        "bandwidth",
        "kernel",
        "width",
        "features",
        "ridge",
        "iterations",
        "seed",
        "labels",
        "scale",
        "inputs",
        "order",
    ],
)
def test_a_state_is_of_its_settings_and_data(settings, data):
    """All that the layers depend on is compared; a model that was refused keeps no layers of other data."""
    state = DeepRFM(**SETTINGS).fit(X, Y).state_dict()
    other = DeepRFM(**SETTINGS).fit(X, Y).set_params(**settings)
    with pytest.raises(
        CheckpointError, match=r"DeepRFM.fit\(state\): .* got one of other settings or data, or a part of"
    ):
        other.fit(*data, state=state)
    assert not [name for name in other.state_dict() if name.startswith("layers")]


def test_a_state_goes_on_with_another_depth(monkeypatch):
    """From its last layer: the layers that it holds are not fitted again."""
    state, fitted, fit_one = DeepRFM(**SETTINGS).fit(X, Y).state_dict(), [], DeepRFM._fit_layer
    deeper, whole = (DeepRFM(**SETTINGS | {"depth": 3}) for _ in range(2))
    whole.fit(X, Y)
    monkeypatch.setattr(DeepRFM, "_fit_layer", lambda own, at, *data: fitted.append(at) or fit_one(own, at, *data))
    np.testing.assert_array_equal(deeper.fit(X, Y, state=state).transform(X), whole.transform(X))
    assert fitted == [2]
    with pytest.raises(
        CheckpointError, match=r"DeepRFM.fit\(state\): expected at most 1 layers, the depth, got 2\. Raise"
    ):
        DeepRFM(**SETTINGS | {"depth": 1}).fit(X, Y, state=state)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "change",
    [
        {"layers.1.root": None},
        {"layers.1.jitter": 0.0},
        {"mean": np.zeros(5)},
        {"scale": torch.zeros(4)},
        {"layers.0.root": torch.eye(4)},
        {"layers.0.misfit": torch.zeros((), device="meta")},
        {"layers.2.root": torch.eye(24)},
        {3: torch.zeros(1)},
        {"fingerprint": torch.zeros(32)},
        {"fingerprint": 1},
        {"fingerprint": torch.zeros(32, dtype=torch.uint8, device="meta")},
    ],
    ids=lambda change: str(*change),
)
def test_a_changed_state_is_refused(change):
    model = DeepRFM(**SETTINGS).fit(X, Y)
    changed = model.state_dict() | change
    changed = {name: value for name, value in changed.items() if value is not None}
    with pytest.raises(
        CheckpointError, match=r"expected a whole state_dict of this model.* got one of other settings or"
    ):
        model.fit(X, Y, state=changed)


@pytest.mark.bad_input
@pytest.mark.parametrize("state", [{}, {"mean": 1}, [torch.zeros(5)], "mean", 3])
def test_a_state_without_a_fingerprint_is_refused(state):
    with pytest.raises(CheckpointError, match=r"got one without a fingerprint\. Fit without it"):
        DeepRFM(**SETTINGS).fit(X, Y, state=state)


@pytest.mark.parametrize("view", [np.s_[::-1], np.s_[:, ::-1], np.s_[::2], np.s_[:, ::2]], ids=str)
def test_views_of_arrays_are_as_their_copies(view):
    given, labels = X[view], Y[view[:1] if isinstance(view, tuple) else view]
    viewed, copied = (DeepRFM(**SETTINGS).fit(*data) for data in ((given, labels), (given.copy(), labels.copy())))
    np.testing.assert_array_equal(viewed.decision_function(given), copied.decision_function(given.copy()))
    np.testing.assert_array_equal(copied.predict(given), viewed.predict(given.copy()))
