"""Gradient flow of features whose classifier is always the least-squares one: the way into neural collapse."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.dynamics._integration import increasing_times, integrated, require_rtol, require_times
from gnomon.dynamics._snr_growth import Projection, constants, snr_growth
from gnomon.errors import ConvergenceError, RangeError, ShapeError

DRIFT = 1e-6
"""How far the within-class covariance may be from the identity, in its largest entry: more than rounding adds up to."""


@dataclass(frozen=True)
class CentralPathRun:
    r"""The flow at the requested times.

    Attributes:
        times: (t).
        features: (t k n p), the renormalised features $X$.
        snr: (t p k), their class means as columns: the signal-to-noise ratio.
        singular_values: (t k-1), of the signal-to-noise ratio, the largest first.
        loss: (t), of the least-squares classifier with bias, summed over outputs, averaged over samples and halved.
        drift: (t), the largest entry of $\Sigma_W - I$.
    """

    times: Float[Tensor, "t"]
    features: Float[Tensor, "t k n p"]
    snr: Float[Tensor, "t p k"]
    singular_values: Float[Tensor, "t j"]
    loss: Float[Tensor, "t"]
    drift: Float[Tensor, "t"]


class CentralPath:
    r"""Continually renormalised gradient flow of free features, under their own least-squares classifier.

    $\dot X = -\Pi_X\big(\nabla\mathcal L_{LS}(X)\big)$ on the features with $\Sigma_W(X) = I$

    where $\mathcal L_{LS}$ is the MSE that the best classifier with bias reaches, without weight decay. Write R for the
    features minus their class means and $S = \frac1{CN}(R^\top Z + Z^\top R)$, samples in rows. Two projections are
    tangent, and lead to two flows with two laws of growth, both of which end in neural collapse:

    - "orthogonal", $\Pi_X(Z) = Z - \frac12 RS$: the gradient flow on the manifold, for which proposition 2 holds;
      $\omega\sim(4t/N)^{1/4}$.
    - "renormalised", $\Pi_X(Z) = Z - \frac12 XS$, the paper's proposition 4: the limit of gradient steps with a
      renormalisation after each (its section D.1); $\omega\sim(2t/CN)^{1/2}$.

    In both, the singular vectors and the residuals R stay fixed, and only the class means move.

    Source:
        Han, Papyan, Donoho, arXiv:2106.02073, equation 5 and appendix D. Departs from its lemma 4 and, for
        "renormalised", from lemma 5 and proposition 2 (docs/errata.md).
    Args:
        features: (k n p), equally many samples of each class; or (m p) with labels. In float64.
        labels: the classes of the samples (m p), all equally frequent.
        projection: "orthogonal" or "renormalised".
    Attributes:
        features: (k n p), the given ones with zero global mean and identity within-class covariance.
        projection: as given.
    Raises:
        ShapeError: if features are not (k n p), or labels not (m).
        EmptyError: if there are no samples.
        RangeError: if features are not in float64, hold NaN or infinity, or have a within-class covariance or class
            means of less than full rank; if labels are not whole numbers, or classes differ in size.
    Example:
        >>> import torch, gnomon
        >>> features = torch.randn(3, 20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> path = gnomon.CentralPath(features)
        >>> times = torch.tensor([0.0, 10.0, 1000.0], dtype=torch.float64)
        >>> torch.testing.assert_close(path.flow(times).singular_values, path.closed_form(times))
    """

    @full_precision
    def __init__(
        self,
        features: Float[Tensor, "k n p"] | Float[Tensor, "m p"],
        labels: Int[Tensor, "m"] | None = None,
        *,
        projection: Projection = "orthogonal",
    ) -> None:
        _checks.samples(features=features)
        _checks.finite(features=features)
        if labels is not None:
            features = _by_class(features, labels)
        if features.ndim != 3:
            raise ShapeError(
                "features",
                "(k, n, p)",
                f"shape {_checks.shape_of(features)}",
                "Pass classes first, or the labels of samples (m, p).",
            )
        classes, _, width = features.shape
        _checks.settings(
            ("features", features.dtype, "in float64", features.dtype == torch.float64),
            ("classes", classes, "at least 2", classes >= 2),
            ("width of features", width, f"at least {classes - 1}, the rank of the means", width >= classes - 1),
            ("projection", projection, "'orthogonal' or 'renormalised'", projection in ("orthogonal", "renormalised")),
        )
        features = features.detach()
        # It drops out, and the squares of what remains neither overflow nor underflow.
        features = features / features.abs().amax().clamp(min=torch.finfo(features.dtype).tiny)
        _of_full_rank(features)
        self.features = _renormalised(_whitened(features))
        self.projection = projection

    @full_precision
    def flow(self, times: Float[Tensor, "t"], *, rtol: float = 1e-10) -> CentralPathRun:
        """The flow integrated by SciPy's Runge-Kutta method of order 8, from time 0, at increasing times.

        The field is evaluated at the renormalised features, where it leaves the residuals unchanged. Runge-Kutta
        methods preserve linear invariants, so the within-class covariance drifts by rounding alone; if the field is
        evaluated off the manifold, errors grow exponentially in the square root of the time. Not differentiable.

        Args:
            times: from 0 on, strictly increasing, the last above 0; unit: of gradient flow on `loss`.
            rtol: the integrator's relative tolerance; its absolute one is a thousandth of it.
        Returns:
            The features at all times, from which everything else is computed.
        Raises:
            RangeError: if the times are not as described, or rtol is not from 1e-13 to 0.001.
            ConvergenceError: if the integrator gives up or needs more than 20,000 evaluations, or the drift from the
                manifold exceeds 1e-6. It is rounding that adds up, about in proportion to the time and at any rtol, and
                most in small data. At time 1e12 it was 2e-10 to 2e-7 for two classes of two samples (145 draws, rtol
                from 1e-12 to 1e-6), 1e-9 to 1.4e-8 for four of six (48 draws), 9e-11 for ten of a hundred (3), and
                below 3e-10 for all in the flow "renormalised".
        Cost: a thousand evaluations of the field for times up to 1e8, O(k n p² + p³) each; O(t k n p) memory.
        """
        moments = increasing_times(times.detach())
        require_rtol(rtol)

        def field(features: Float[Tensor, "k n p"]) -> Float[Tensor, "k n p"]:
            at = _renormalised(features)
            return -_project(at, _loss_and_gradient(at)[1], self.projection)

        features = integrated(field, self.features, moments, rtol, torch.ones_like(self.features))
        return self._reading(times.detach().to(features), features)

    def _reading(self, times: Tensor, features: Tensor) -> CentralPathRun:
        """What is read from the features at all times, (t k n p)."""
        identity = torch.eye(features.shape[-1], dtype=features.dtype, device=features.device)
        drift = torch.stack([(_covariance(_residuals(part)) - identity).abs().max() for part in features])
        if drift.max() > DRIFT:
            first = int((drift > DRIFT).nonzero()[0])
            raise ConvergenceError(
                "times",
                f"a within-class covariance within {DRIFT} of the identity",
                f"{float(drift[first]):.1e} at time {float(times[first]):.4g}",
                "Ask for earlier times: rounding adds up.",
            )
        snr = features.mean(2).mT
        return CentralPathRun(
            times=times,
            features=features,
            snr=snr,
            singular_values=torch.linalg.svdvals(snr)[:, : features.shape[1] - 1],
            loss=torch.stack([_loss_and_gradient(part)[0] for part in features]),
            drift=drift,
        )

    @full_precision
    def closed_form(self, times: Float[Tensor, "t"]) -> Float[Tensor, "t j"]:
        """The singular values of the signal-to-noise ratio at all times, by `snr_growth`, the largest first."""
        classes, samples, _ = self.features.shape
        initial = torch.linalg.svdvals(self.features.mean(1))[: classes - 1]
        return snr_growth(initial, times, classes, samples, projection=self.projection)

    @full_precision
    def asymptote(self, times: Float[Tensor, "t"]) -> Float[Tensor, "t"]:
        """The function that each singular value is asymptotic to: (t/c₃)^¼ (corollary 1), or (t/c₂)^½ where c₃ = 0."""
        require_times(times)
        classes, samples, _ = self.features.shape
        _, c2, c3 = constants(classes, samples, self.projection)
        times = times.to(self.features.device)
        return (times / c3) ** 0.25 if c3 > 0 else (times / c2).sqrt()

    @full_precision
    def limit(self) -> Float[Tensor, "p k"]:
        """The limit of the signal-to-noise ratio over its largest singular value, a simplex ETF (equation 10)."""
        left, _, right = torch.linalg.svd(self.features.mean(1).mT, full_matrices=False)
        rank = len(self.features) - 1
        return left[:, :rank] @ right[:rank]


def _by_class(features: Tensor, labels: Tensor) -> Tensor:
    """Samples (m p) as (k n p)."""
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ShapeError(
            "labels",
            "features (m, p) and labels (m,)",
            f"{_checks.shape_of(features)} and {_checks.shape_of(labels)}",
            "Pass one label per sample.",
        )
    if labels.is_floating_point():
        raise RangeError("labels", "whole numbers", labels.dtype, "Pass one class per sample.")
    counts = torch.unique(labels, return_counts=True)[1]
    if counts.min() != counts.max():
        raise RangeError(
            "labels",
            "as many samples of each class",
            counts.tolist(),
            f"The central path is solved for balanced classes only; take {int(counts.min())} of each.",
        )
    return features[labels.argsort(stable=True)].view(len(counts), int(counts[0]), -1)


def _residuals(features: Float[Tensor, "k n p"]) -> Float[Tensor, "k n p"]:
    """The features minus their class means."""
    return features - features.mean(1, keepdim=True)


def _covariance(features: Float[Tensor, "k n p"]) -> Float[Tensor, "p p"]:
    """The mean of their products."""
    flat = features.flatten(0, 1)
    return flat.mT @ flat / len(flat)


def _of_full_rank(features: Float[Tensor, "k n p"]) -> None:
    """Raises unless the within-class covariance has rank p and the class means, minus the global one, rank k - 1."""
    means = features.mean(1)
    # The rounding error that centring leaves does not count as rank.
    eps = torch.finfo(features.dtype).eps
    noise = 10 * eps * float(torch.linalg.vector_norm(features.detach()))
    for name, matrix, rank in (
        ("within-class covariance", _residuals(features).flatten(0, 1), features.shape[2]),
        ("class means", means - means.mean(0), len(features) - 1),
    ):
        got = int(torch.linalg.matrix_rank(matrix, atol=noise, rtol=eps * max(matrix.shape)))
        if got < rank:
            raise RangeError(
                "features",
                f"{name} of rank {rank}",
                got,
                "Take more samples, or fewer directions of the features.",
            )


def _whitened(features: Float[Tensor, "k n p"]) -> Float[Tensor, "k n p"]:
    """As `_renormalised`, from the residuals themselves.

    Rounding grows with the ratio of their largest spread to the least, and in their covariance with its square.
    """
    rest = _residuals(features).flatten(0, 1)
    _, values, vectors = torch.linalg.svd(rest, full_matrices=False)
    return (features - features.mean((0, 1))) @ (vectors.mT * (len(rest) ** 0.5 / values)) @ vectors


def _renormalised(features: Float[Tensor, "k n p"]) -> Float[Tensor, "k n p"]:
    """The features with zero global mean and identity within-class covariance, by its symmetric inverse root."""
    values, vectors = torch.linalg.eigh(_covariance(_residuals(features)))
    return (features - features.mean((0, 1))) @ (vectors * values.rsqrt()) @ vectors.mT


def _loss_and_gradient(features: Float[Tensor, "k n p"]) -> tuple[Float[Tensor, ""], Float[Tensor, "k n p"]]:
    r"""Loss of the least-squares classifier of renormalised features, and its gradient with respect to the features.

    The classifier is stationary, so the gradient is the one at a fixed classifier. With the class means as the rows of
    M and $\Phi = I - \frac1C\mathbf{1}\mathbf{1}^\top$, its weight is $(CI + MM^\top)^{-1}M$ and it misses the centred
    targets $\Phi$ at the means by $-C(CI + MM^\top)^{-1}\Phi$, without a difference of numbers near one.
    """
    classes, samples, width = features.shape
    means = features.mean(1)
    eye = torch.eye(classes, dtype=features.dtype, device=features.device)
    solved = torch.linalg.solve(classes * eye + means @ means.mT, torch.cat([means, classes * eye - 1], 1))
    weight, missed = solved.split([width, classes], 1)
    errors = _residuals(features) @ weight.mT - missed.mT[:, None]
    return errors.square().sum() / (2 * classes * samples), errors @ weight / (classes * samples)


def _project(
    features: Float[Tensor, "k n p"], direction: Float[Tensor, "k n p"], projection: Projection
) -> Float[Tensor, "k n p"]:
    """The direction in the tangent space of the features of identity within-class covariance, at such features."""
    rest = _residuals(features)
    change = rest.flatten(0, 1).mT @ direction.flatten(0, 1) / (features.shape[0] * features.shape[1])
    normal = rest if projection == "orthogonal" else features
    return direction - normal @ (change + change.mT) / 2
