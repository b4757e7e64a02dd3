"""Counts, means and scatter of each class: everything from which neural collapse is measured."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import ArgumentTypeError, RangeError, ShapeError, public
from gnomon.linalg import Covariance, Dense, Factored
from gnomon.measure._by_class import centred


@dataclass(frozen=True)
class ClassMoments:
    r"""Counts, means and scatter of labelled features, k classes of p features.

    Classes are weighted by their number of samples: with $w_c = n_c/n$, the global mean is the mean over samples, and
    $\Sigma_W + \Sigma_B$ is the covariance of all samples, whatever the sizes of the classes. For classes of equal size
    $w_c = 1/k$, and everything is as printed in the papers, which consider no others.

    A class without samples has no mean. Its share is 0, and quantities computed from the moments leave it out; k is
    then the number of the other classes. Where the means alone are passed on, use those of `present()`. A class with
    one sample has no spread: it adds nothing to the scatter.

    Attributes:
        counts: the number $n_c$ of samples of each class; a class may have none.
        means: the class means $\mu_c$, 0 where there are no samples; unit: that of the features. Their dtype is that of
            the features, by whose rounding quantities judge what is noise. It has to hold the squares of the features'
            differences: `class_moments` makes sure of it.
        within: $\sum_i (h_i - \mu_{y_i})(h_i - \mu_{y_i})^\top$, a sum over samples; $n\,\Sigma_W$. In the means' dtype
            or in float64, since a sum may be known in more digits than what is summed.
        rounded_off: what rounding took off the means, or None if they were not known in more digits than they are
            stored in. With it, differences of means keep their digits however far the means are from the origin.
    """

    counts: Int[Tensor, "k"]
    means: Float[Tensor, "k p"]
    within: Covariance
    rounded_off: Float[Tensor, "k p"] | None = field(default=None, repr=False)

    @public
    def __post_init__(self) -> None:
        if not (isinstance(self.counts, Tensor) and isinstance(self.means, Tensor)):
            kinds = f"{type(self.counts).__name__} and {type(self.means).__name__}"
            raise ArgumentTypeError("means", "tensors of counts and means", kinds, "Convert them to tensors.")
        if not isinstance(self.within, Dense | Factored):
            raise ArgumentTypeError(
                "within",
                "a Dense or Factored matrix",
                type(self.within).__name__,
                "Take class_moments, which makes one.",
            )
        _checks.floating(means=self.means)
        _checks.finite(means=self.means)
        held = self.within.held
        if self.counts.is_floating_point() or self.counts.is_complex() or self.counts.dtype == torch.bool:
            raise RangeError("counts", "whole numbers", self.counts.dtype, "Count samples.")
        if self.counts.device != self.means.device or self.counts.layout != self.means.layout:
            raise RangeError(
                "counts",
                f"counts on {self.means.device}, like the means",
                self.counts.device,
                "Move one of them.",
            )
        if held.dtype not in (self.means.dtype, torch.float64):
            raise RangeError("means", f"{held.dtype} as within has", self.means.dtype, "Convert one.")
        if self.means.ndim != 2 or self.counts.shape != self.means.shape[:1] or held.shape[1:] != self.means.shape[1:]:
            raise ShapeError(
                "means",
                "(k, p) with counts (k,) and within (p, p)",
                ", ".join(map(_checks.shape_of, (self.means, self.counts, held))),
                "Take class_moments.",
            )
        if self.rounded_off is not None:
            _checks.floating(rounded_off=self.rounded_off)
            _checks.finite(rounded_off=self.rounded_off)
            _checks.same_shape(means=self.means, rounded_off=self.rounded_off)
            _checks.one_device(means=self.means, rounded_off=self.rounded_off)
            if self.rounded_off.dtype != self.means.dtype:
                raise RangeError(
                    "rounded_off", f"{self.means.dtype} as means have", self.rounded_off.dtype, "Convert one."
                )

    @classmethod
    def rounded(
        cls, counts: Int[Tensor, "k"], means: Float[Tensor, "k p"], within: Covariance, dtype: torch.dtype
    ) -> "ClassMoments":
        """The moments of features in this dtype, of means that may be known in more digits than it holds."""
        held = means.to(dtype)
        rest = None if dtype == means.dtype else (means - held).detach().to(dtype)
        return cls(counts, held, within, rest)

    @classmethod
    def none(cls, classes: int, like: Float[Tensor, "n p"]) -> "ClassMoments":
        """The moments of no samples, with the width, dtype and device of these features."""
        return cls(
            torch.zeros(classes, dtype=torch.long, device=like.device),
            like.new_zeros(classes, like.shape[1]),
            Factored(like.new_zeros(0, like.shape[1])),
        )

    @public
    def __add__(self, other: "ClassMoments") -> "ClassMoments":
        r"""The moments of all samples from those of two parts; exact, and with positive terms only: nothing cancels.

        $S = S_a + S_b + \sum_c \frac{n_{a,c}\,n_{b,c}}{n_c}(\mu_{b,c} - \mu_{a,c})(\mu_{b,c} - \mu_{a,c})^\top$

        Source:
            Chan, Golub, LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances (1979).
        Raises:
            ShapeError: if the two are not of as many classes and features.
        """
        if not isinstance(other, ClassMoments):
            return NotImplemented
        if other.means.shape != self.means.shape:
            raise ShapeError(
                "other",
                f"moments with means of shape {_checks.shape_of(self.means)}",
                f"shape {_checks.shape_of(other.means)}",
                "Add moments of the same features and classes.",
            )
        mine, step = self.precise_means, other.precise_means - self.precise_means
        counts = self.counts + other.counts
        share = (other.counts.to(step.dtype) / counts.clamp(min=1)).unsqueeze(1)
        bridge = (self.counts.to(step.dtype).unsqueeze(1) * share).sqrt() * step
        within = self.within + other.within
        dtype = max(self.means.dtype, other.means.dtype, key=lambda of: torch.finfo(of).eps)
        return self.rounded(counts, mine + share * step, within + Factored(bridge.to(within.held.dtype)), dtype)

    def present(self) -> "ClassMoments":
        """The moments of only those classes that have samples, in their order."""
        there = self.counts > 0
        if there.all():
            return self
        rest = None if self.rounded_off is None else self.rounded_off[there]
        return type(self)(self.counts[there], self.means[there], self.within, rest)

    @property
    def precise_means(self) -> Float[Tensor, "k p"]:
        """The means in all digits in which they are known: in float64 if rounding has taken some off."""
        return self.means if self.rounded_off is None else self.means.double() + self.rounded_off.double()

    def relative_to(self, point: Float[Tensor, "p"]) -> Float[Tensor, "k p"]:
        """The means minus a point near them, in their dtype, with all digits in which they are known."""
        apart = self.means - point
        return apart if self.rounded_off is None else apart + self.rounded_off

    @property
    def classes_present(self) -> Int[Tensor, ""]:
        """How many classes have samples."""
        return (self.counts > 0).sum()

    @property
    def n(self) -> Int[Tensor, ""]:
        """The number of samples."""
        return self.counts.sum()

    @property
    @full_precision
    def weights(self) -> Float[Tensor, "k"]:
        r"""The classes' shares of the samples, $w_c = n_c/n$."""
        return self.counts.to(self.means.dtype) / self.n

    @property
    @full_precision
    def global_mean(self) -> Float[Tensor, "p"]:
        r"""$\mu_G = \sum_c w_c\mu_c$, the mean over samples."""
        return self.weights @ self.means

    @property
    @full_precision
    def centred_means(self) -> Float[Tensor, "k p"]:
        r"""$\mu_c - \mu_G$, 0 where there are no samples; of rank k - 1 at most, since the weighted sum is zero.

        Differences within the rounding of the means are set to 0: means that coincide up to rounding are treated as
        equal.
        """
        apart = centred(self.means, self.weights, self.rounded_off)
        return apart.masked_fill_((self.counts == 0).unsqueeze(1), 0)

    @property
    @full_precision
    def within_covariance(self) -> Covariance:
        r"""$\Sigma_W$, the mean over samples of $(h - \mu_y)(h - \mu_y)^\top$."""
        return self.within / self.n

    @property
    @full_precision
    def between_covariance(self) -> Factored:
        r"""$\Sigma_B = \sum_c w_c(\mu_c - \mu_G)(\mu_c - \mu_G)^\top$."""
        return Factored(self.weights.sqrt().unsqueeze(1) * self.centred_means)
