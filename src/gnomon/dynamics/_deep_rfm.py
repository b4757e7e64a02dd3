"""Deep recursive feature machines: a network without backpropagation, that collapses layer by layer."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional

from gnomon import _checks
from gnomon._extras import missing
from gnomon.dynamics._rfm_layer import DeepRFMReading, DeepRFMStage, RFMLayer, fit_layer, interpolate, require_distinct
from gnomon.errors import CheckpointError, EmptyError, RangeError, public
from gnomon.kernels import FeatureMap, Kernel, LaplaceKernel, ReLUFeatures, kernel_gram
from gnomon.linalg import unit

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except Exception as cause:
    raise missing("gnomon.DeepRFM", "sklearn", "lab", cause) from cause

BLOCK = 2**25
"""Kernel values that a fit processes at once."""
PREDICTED = 2**20
"""Kernel values at new samples that are processed at once; more of them do not fit into a cache and take longer."""


class DeepRFM(ClassifierMixin, TransformerMixin, BaseEstimator):
    r"""A deep recursive feature machine, as a scikit-learn estimator (scikit-learn comes with the extra `lab`).

    $X_{l+1} = \Phi_l(M_l^{1/2}X_l)$ with $M_l = \frac1n\sum_{i,c}\nabla f_{l,c}(x_i)\nabla f_{l,c}(x_i)^\top$

    where $f_l$ is the kernel machine fitted to the layer's inputs $X_l$, each scaled to unit length, with targets of 1
    at the class and -1 elsewhere. A last kernel machine on $X_{L+1}$ makes the predictions. Before the first layer each
    input is centred and divided by its standard deviation; one that is constant up to rounding, or whose variance
    underflows, becomes 0. Everything is in float64.

    Source:
        Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728, algorithm 1 and appendix C. Departs from it in the
        factor 1/n of the AGOP, that of its section 3.3: ReLU features do not depend on it, cosine features do. The
        authors' code divides the AGOP by its largest entry and adds a ridge of 1e-3 under "ridgeless"; here no ridge is
        added, and the matrix that maps a layer's inputs is not rescaled. Algorithm 1 has one iteration; several are
        from Beaglehole et al., arXiv:2309.00570.
    Args:
        kernel: the kernel of every layer.
        feature_map: the random features of every layer, drawn separately for each.
        depth: the number L of layers; with 0 there is only the last kernel machine.
        ridge: $\mu$, added to the Gram matrix's diagonal; unit: of the kernel, whose diagonal is 1.
        iterations: kernel machines fitted in each layer, each with the AGOP of the one before as its metric, scaled to
            the trace of the identity, d, so that the bandwidth keeps its meaning. $f_l$ is the last one, and its AGOP
            $M_l$ is not scaled.
        random_state: the seed; each layer has its own random stream.
        device: where to compute, as torch names it.
    Attributes:
        classes_: the labels, sorted.
        readings_: a `DeepRFMReading` for each layer. With the Gaussian kernel an NC1 below 1e-6 depends on the
            jitter and on the order of the samples: with 500 digits of MNIST up to 2.5-fold.
        n_features_in_: the number of inputs.
    Raises:
        RangeError: from `fit`, if a setting is out of range, if there is only one class, if a variance overflows, if
            inputs of a layer, scaled to unit length, are equal and there is no ridge, as with a single feature, which
            leaves 1 and -1 (the points are named), or if a kernel machine does not change at its points, as with too
            small a bandwidth.
        ConvergenceError: from `fit`, if the Gram matrix is not positive definite with the largest jitter, 1e6 n
            epsilons. The jitter is 0 unless the Cholesky factorisation fails, and is recorded in the readings.
        CheckpointError: from `fit`, if the state is not from this model and these data.
    Cost: O(n³ + n²d + nd² + d³) per layer; three n x n matrices at once, in float64 2.4 GB for 10,000 points.
    Example:
        >>> import numpy as np, gnomon
        >>> from gnomon.kernels import LaplaceKernel, ReLUFeatures
        >>> X = np.random.default_rng(0).normal(size=(40, 5))
        >>> y = X[:, 0] > 0
        >>> model = gnomon.DeepRFM(LaplaceKernel(2.0), ReLUFeatures(64), depth=4).fit(X, y)
        >>> model.score(X, y)
        1.0
        >>> bool(model.readings_[-1].mapped.nc1 < 0.1 * model.readings_[0].inputs.nc1)
        True
    """

    def __init__(
        self,
        kernel: Kernel = LaplaceKernel(2.0),  # noqa: B008  (frozen)
        feature_map: FeatureMap = ReLUFeatures(1024),  # noqa: B008  (frozen)
        depth: int = 10,
        ridge: float | int = 0.0,
        *,
        iterations: int = 1,
        random_state: int = 0,
        device: str = "cpu",
    ) -> None:
        self.kernel = kernel
        self.feature_map = feature_map
        self.depth = depth
        self.ridge = ridge
        self.iterations = iterations
        self.random_state = random_state
        self.device = device

    @public
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        callback: Callable[[DeepRFMReading], None] | None = None,
        state: Mapping[str, Tensor] | None = None,
    ) -> "DeepRFM":
        """Fits layer after layer, then the last kernel machine.

        Args:
            X: samples in rows.
            y: their labels.
            callback: called with each layer's reading; `state_dict` then returns the layers so far.
            state: a `state_dict` of this model on these data, whose layers are reused and not fitted again. Depth and
                device may be others. Kernel and feature map are compared as they are printed.
        """
        # Not fitted until the end: what an earlier fit left does not go with these samples.
        self.__dict__.pop("points_", None)
        inputs, labels = self._checked(X, y)
        self.layers_: list[RFMLayer] = []
        spread = inputs.std(0, correction=0)
        _checks.held("X", "variances", spread)
        self.mean_ = inputs.mean(0)
        # As scikit-learn's StandardScaler has it: what rounding of the mean explains is constant.
        varies = spread > len(inputs) * torch.finfo(inputs.dtype).eps * self.mean_.abs()
        self.scale_ = torch.where(varies, 1 / torch.where(varies, spread, 1), 0)
        self.readings_: tuple[DeepRFMReading, ...] = ()
        if state is not None:
            self.layers_ = self._layers_of(state)
        classes = len(self.classes_)
        targets = 2 * functional.one_hot(labels, classes).to(inputs.dtype) - 1
        x = (inputs - self.mean_) * self.scale_
        for layer in range(self.depth):
            if layer == len(self.layers_):
                self.layers_.append(self._fit_layer(layer, x, targets))
            stage = self.layers_[layer].run(layer, x, self.feature_map)
            self.readings_ += (self.layers_[layer].read(stage, labels, classes),)
            x = stage.features
            if callback is not None:
                callback(self.readings_[-1])
        self.points_ = unit(x)
        if self.ridge == 0:
            require_distinct(self.points_, "the last kernel machine")
        self.coefficients_, jitter, _ = interpolate(
            self.kernel, self.points_, targets, self.ridge, None, _rows_of(len(x))
        )
        self.jitter_ = float(jitter)
        return self

    def _fit_layer(self, layer: int, x: Float[Tensor, "n d"], targets: Float[Tensor, "n k"]) -> RFMLayer:
        # A separate stream for each layer, on the CPU, so that a resumed run on any device draws the same.
        seed = int(np.random.SeedSequence((int(self.random_state), layer)).generate_state(1, np.uint64)[0]) >> 1
        drawn = self.feature_map.draw(x.shape[1], torch.Generator().manual_seed(seed))
        return fit_layer(
            layer,
            self.kernel,
            x,
            targets,
            ridge=self.ridge,
            iterations=self.iterations,
            drawn={name: tensor.to(x) for name, tensor in drawn.items()},
            block=_rows_of(len(x)),
        )

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Float[Tensor, "n d"], Tensor]:
        """Samples and class indices, after a check of the settings."""
        _checks.settings(
            _checks.instance("kernel", self.kernel, Kernel, "with value and slope, such as LaplaceKernel(2.0)"),
            _checks.instance(
                "feature_map", self.feature_map, FeatureMap, "with draw and apply, such as ReLUFeatures(64)"
            ),
            _checks.whole_number("depth", self.depth, 0),
            _checks.at_least_0("ridge", self.ridge),
            _checks.whole_number("iterations", self.iterations, 1),
            _checks.whole_number("random_state", self.random_state, 0),
            ("device", self.device, "one of this machine, such as 'cpu'", _is_here(self.device)),
        )
        samples, given = validate_data(self, X, y, dtype=np.float64, order="C", ensure_min_samples=2)
        check_classification_targets(given)
        self.classes_, labels = np.unique(given, return_inverse=True)
        if len(self.classes_) < 2:
            raise RangeError("y", "at least two classes", "one class only", "Pass samples of more.")
        # All that the layers depend on; the depth says how many there are, and the device only rounds.
        settings = (self.kernel, self.feature_map, float(self.ridge), int(self.iterations), int(self.random_state))
        self.origin_ = repr((settings, *(hashlib.sha256(part.data).hexdigest() for part in (samples, labels))))
        return torch.tensor(samples, device=self.device), torch.tensor(labels, device=self.device)

    @public
    def state_dict(self) -> dict[str, Tensor]:
        """What has been fitted so far, by name, as tensors that share no memory: enough for `fit` to resume from."""
        if not hasattr(self, "layers_"):
            raise EmptyError(None, "a model that is being fitted or is", "none", "Call fit.")
        state = {"mean": self.mean_, "scale": self.scale_}
        for number, layer in enumerate(self.layers_):
            state |= {f"layers.{number}.{name}": getattr(layer, name) for name in ("root", "jitter", "misfit")}
            state |= {f"layers.{number}.drawn.{name}": tensor for name, tensor in layer.drawn.items()}
        state = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in state.items()}
        return state | {"fingerprint": self._fingerprint(state)}

    def _fingerprint(self, state: Mapping[str, Tensor]) -> Tensor:
        """A digest of the settings and the data, and of what a state has: names and shapes."""
        parts = sorted(f"{name}: {_form(value)}" for name, value in state.items())
        return torch.tensor([*hashlib.sha256(repr((self.origin_, parts)).encode()).digest()], dtype=torch.uint8)

    def _layers_of(self, state: Mapping[str, Tensor]) -> list[RFMLayer]:
        """The layers of a `state_dict`, if it is of this model on these data."""
        held = dict(state) if isinstance(state, Mapping) else {}
        given = held.pop("fingerprint", None)
        own = self._fingerprint(held)
        if given is None or _form(given) != _form(own) or given.tolist() != own.tolist():
            raise CheckpointError(
                "state",
                "a whole state_dict of this model, fitted to these samples and labels",
                "one without a fingerprint" if given is None else "one of other settings or data, or a part of one",
                "Fit without it.",
            )
        held = {name: tensor.to(self.mean_) for name, tensor in held.items()}
        numbers = range(sum(name.endswith(".root") for name in held))
        figures = ("root", "jitter", "misfit")
        if len(numbers) > self.depth:
            raise CheckpointError(
                "state", f"at most {self.depth} layers, the depth", len(numbers), "Raise the depth, or fit without it."
            )
        layers = []
        for number in numbers:
            prefix = f"layers.{number}.drawn."
            drawn = {name.removeprefix(prefix): tensor for name, tensor in held.items() if name.startswith(prefix)}
            layers.append(RFMLayer(drawn=drawn, **{name: held[f"layers.{number}.{name}"] for name in figures}))
        return layers

    def stages(self, X: ArrayLike) -> Iterator[DeepRFMStage]:
        """Samples on their way through the layers, one `DeepRFMStage` per layer, on the model's device."""
        check_is_fitted(self, "points_")
        x = self._standardised(X)
        for number, layer in enumerate(self.layers_):
            stage = layer.run(number, x, self.feature_map)
            yield stage
            x = stage.features

    def _standardised(self, X: ArrayLike) -> Float[Tensor, "n d"]:
        samples = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        return (torch.tensor(samples, device=self.device) - self.mean_) * self.scale_

    def _represented(self, X: ArrayLike) -> Float[Tensor, "n p"]:
        check_is_fitted(self, "points_")
        x = self._standardised(X)
        for number, layer in enumerate(self.layers_):
            x = layer.run(number, x, self.feature_map).features
        return unit(x)

    @public
    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """The features that the last kernel machine sees, (n p), rows of unit length."""
        return self._represented(X).cpu().numpy()

    @public
    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The last kernel machine's outputs, (n k); (n) for two classes, that of the second."""
        x = self._represented(X)
        parts = torch.split(x, max(1, PREDICTED // len(self.points_)))
        outputs = torch.cat([kernel_gram(self.kernel, part, self.points_) @ self.coefficients_ for part in parts])
        return (outputs[:, 1] if len(self.classes_) == 2 else outputs).cpu().numpy()

    @public
    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """The labels of the largest outputs."""
        outputs = self.decision_function(X)
        return self.classes_[outputs.argmax(1) if outputs.ndim == 2 else (outputs > 0).astype(int)]


def _is_here(device: Any) -> bool:  # noqa: ANN401 - scikit-learn's settings may be anything until they are used
    """Whether this machine has the device."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError):
        return False
    return True


def _form(value: object) -> str:
    """The shape of a tensor of numbers and what else it takes to tell it from others, but for its numbers."""
    if not isinstance(value, Tensor) or value.is_meta:
        return "no numbers"
    return f"{value.dtype} {value.layout} {tuple(value.shape)}"


def _rows_of(n: int) -> int:
    """How many rows of n kernel values a fit processes at once: a sixteenth of n, if that is not too many."""
    return max(1, min(-(-n // 16), BLOCK // n))
