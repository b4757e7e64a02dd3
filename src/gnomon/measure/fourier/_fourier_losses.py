"""The loss of modular addition with a few waves alone, and without them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import RangeError
from gnomon.linalg import cross_entropies


@dataclass(frozen=True)
class FourierLosses:
    """The losses, and what each frequency carries, in the dtype of the outputs.

    Attributes:
        restricted: the cross-entropy over all pairs, of the key waves and the mean outputs alone; at least 0; unit:
            nats.
        excluded: the cross-entropy over the pairs trained on, of the outputs minus the key waves; at least 0; unit:
            nats.
        shares: for each frequency k = 1, 2, ... up to p/2, its share of what all these waves carry; in [0, 1], with the
            sum 1, or 0 for all.
    """

    restricted: Float[Tensor, ""]
    excluded: Float[Tensor, ""]
    shares: Float[Tensor, "q"]


@full_precision
def fourier_losses(
    logits: Float[Tensor, "n p"],
    labels: Int[Tensor, "n"],
    trained: Bool[Tensor, "m"],
    *,
    frequencies: Sequence[int] | None = None,
) -> FourierLosses:
    r"""The restricted and the excluded loss of a network that adds modulo p: with its key waves alone, and without.

    Reading:
        Low, high: Restricted low: the waves alone do the addition. Excluded high, the training loss low: without the
            waves, little is left that knows the trained pairs, so these are not memorised.
        Generalising: For a + b mod 23, excluded is 0.85 in both networks once the pairs are memorised; then it rises to
            1.3 in the one that adds (98 % of unseen pairs) and falls to 0.46 in the one that does not (58 %).
            Restricted ends at 0.03 and 0.08.
        Misleads: The key frequencies are determined again at each reading, with jumps where one joins; before any stand
            out they are nearly half of all: look at the shares. Unseen pairs are used, so it is not a measure of
            training data alone.

    $f_k(a, b) = \cos(w_k(a + b))\,u_k + \sin(w_k(a + b))\,v_k$, $w_k = 2\pi k/p$, with the vectors u and v of p outputs
    for which this is closest to the outputs f over all p² pairs

    Restricted is the loss of $\bar f + \sum_k f_k$ over all pairs, excluded that of $f - \sum_k f_k$ over those trained
    on, where k runs over the key frequencies: unless they are given, those whose waves carry at least as much,
    $\sum_{a,b}\|f_k\|^2$, as the mean frequency's. Because waves in a + b depend only on its residue, which is the
    label, they are the Fourier components, over the labels, of the mean outputs for each label: the pairs themselves
    are not needed.

    Source:
        Nanda et al., Progress measures for grokking via mechanistic interpretability, arXiv:2301.05217, and their code,
        whose key frequencies are those of the neurons of the network at its end.
    Args:
        logits: the outputs at all p² pairs, p for each.
        labels: $(a + b) \bmod p$ of each pair.
        trained: which of the pairs are trained on. In a probe of all pairs, in this order,
            `functools.partial(fourier_losses, trained=...)`.
        frequencies: the key frequencies, from 1 to p/2; default: found in these outputs.
    Returns:
        Both losses and the shares; without any waves, up to rounding, the shares are 0.
    Raises:
        ShapeError: if the logits are not (n, c), or labels not (n).
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity; if there are not p² samples, p for each of p labels, or not p outputs; if
            `trained` is not a mask over them with one True or more, or a frequency is out of range.
    Cost: O(p³). Precision: in float64, since either loss may be below what float32 distinguishes from 0.
    Example:
        >>> import torch, gnomon
        >>> sums = (torch.arange(5).unsqueeze(1) + torch.arange(5)).flatten() % 5
        >>> logits = 9 * torch.cos(2 * torch.pi / 5 * (sums.unsqueeze(1) - torch.arange(5)))
        >>> found = gnomon.fourier_losses(logits, sums, torch.ones(25, dtype=torch.bool))
        >>> found.shares.round(decimals=3), found.excluded.exp()
        (tensor([1., 0.]), tensor(5.))
    """
    _checks.outputs(logits, labels)
    p = _modulus(logits, labels)
    _check_mask(trained, len(logits))
    of_pairs, residues = logits.double(), labels.long()
    means = of_pairs.new_zeros(p, p).index_add(0, residues, of_pairs) / p
    waves = torch.fft.rfft(means - means.mean(0), dim=0)
    sizes = torch.view_as_real(waves[1:]).square().sum((1, 2))
    if p % 2 == 0:  # for all others the other half of the spectrum holds as much again
        sizes = sizes * (1 - 0.5 * (torch.arange(len(sizes), device=sizes.device) == len(sizes) - 1))
    total = sizes.sum()
    rounding = (p * torch.finfo(means.dtype).eps) ** 2 * means.detach().square().sum()
    shares = torch.where(total > rounding, sizes / torch.where(total > rounding, total, 1), 0)
    key = _leading(shares) if frequencies is None else _given(frequencies, shares)
    kept = torch.fft.irfft(torch.cat([0 * waves[:1], key.unsqueeze(1) * waves[1:]]), p, dim=0)
    restricted = cross_entropies(means.mean(0) + kept, torch.arange(p, device=kept.device)).mean()
    of_each = cross_entropies(of_pairs - kept[residues], residues)
    excluded = torch.where(trained, of_each, 0).sum() / trained.sum()
    return FourierLosses(restricted.to(logits.dtype), excluded.to(logits.dtype), shares.to(logits.dtype))


def _modulus(logits: Float[Tensor, "n p"], labels: Int[Tensor, "n"]) -> int:
    """Raises RangeError unless these are p outputs at all p² pairs; not ShapeError, as a dry run has only a few."""
    n, p = logits.shape
    if n != p**2 or p < 2 or (labels.long().bincount(minlength=p) != p).any():
        raise RangeError(
            "logits",
            "p outputs at all p² pairs of residues, p pairs of each label",
            f"{p} outputs at {n} samples" + (" of labels in other numbers" if n == p**2 else ""),
            "Pass all pairs, those of training and the others.",
        )
    return p


def _check_mask(trained: Bool[Tensor, "m"], n: int) -> None:
    """Raises RangeError unless this says for each pair whether it is trained on."""
    if trained.dtype != torch.bool or trained.shape != (n,) or not trained.any():
        got = f"shape {_checks.shape_of(trained)} in {trained.dtype}, {int(trained.sum())} of them"
        raise RangeError("trained", f"one True or False for each of {n} pairs, some True", got, "Pass a mask.")


def _leading(shares: Float[Tensor, "q"]) -> Bool[Tensor, "q"]:
    """The frequencies at the mean and above; up to rounding, where all are alike."""
    return (shares * len(shares) > 1 - 1e-9) & (shares > 0)


def _given(frequencies: Sequence[int], shares: Float[Tensor, "q"]) -> Bool[Tensor, "q"]:
    """The frequencies that are given."""
    named = [*frequencies] if isinstance(frequencies, Iterable) else []
    right = isinstance(frequencies, Iterable) and all(_checks.whole(k, 1, len(shares)) for k in named)
    _checks.settings(("frequencies", frequencies, f"whole numbers from 1 to {len(shares)}", right))
    return torch.tensor([k in named for k in range(1, len(shares) + 1)], device=shares.device)
