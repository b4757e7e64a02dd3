"""All neural-collapse metrics of 60,000 x 512 features, beside the product HᵀH and the plain way in three passes."""

import torch
from torch.nn import functional

from gnomon import (
    ClassStatistics,
    equiangularity,
    equinorm,
    maximal_equiangularity,
    nc1,
    nc1_trace_ratio,
    nearest_mean_disagreement,
    self_duality,
)
from timing import compare

N, P, K, BATCH = 60_000, 512, 10, 512
generator = torch.Generator().manual_seed(0)
labels = torch.randint(K, (N,), generator=generator)
features = torch.randn(N, P, generator=generator) + torch.randn(K, P, generator=generator)[labels]
weight = torch.randn(K, P, generator=generator)
logits = features @ weight.mT


def batches():
    """Features and labels, as a data loader would bring them."""
    return zip(features.split(BATCH), labels.split(BATCH), strict=True)


def ours():
    """One pass, then a look at the features for the nearest means."""
    statistics = ClassStatistics(K)
    statistics.update(features, labels)
    return metrics(statistics)


def in_batches():
    """The same from batches, as they come from a network."""
    statistics = ClassStatistics(K)
    for part, its in batches():
        statistics.update(part, its)
    return metrics(statistics)


def metrics(statistics):
    """Every quantity of the figures, for means and classifiers."""
    moments = statistics.compute()
    means = moments.centred_means
    return torch.stack(
        [
            nc1(moments),
            nc1_trace_ratio(moments),
            *(of(vectors) for of in (equinorm, equiangularity, maximal_equiangularity) for vectors in (means, weight)),
            self_duality(weight, moments),
            nearest_mean_disagreement(features, logits, moments).mean(),
        ]
    )


def three_passes():
    """The public `neural-collapse` package's way, written plainly: means, covariance within, nearest means."""
    sums, counts = torch.zeros(K, P), torch.zeros(K)
    for part, its in batches():
        members = (its.unsqueeze(1) == torch.arange(K)).float()
        counts += members.sum(0)
        sums += members.mT @ part
    means = sums / counts.unsqueeze(1)
    within = torch.zeros(P, P)
    for part, its in batches():
        deviations = part - means[its]
        within += deviations.mT @ deviations
    differ = 0
    for part, its in zip(features.split(BATCH), logits.split(BATCH), strict=True):
        apart = part.norm(dim=1, keepdim=True) ** 2 + means.norm(dim=1) ** 2 - 2 * part @ means.mT
        differ += (apart.argmin(1) != its.argmax(1)).sum()
    return plain_metrics(means, within / N, differ / N)


def plain_metrics(means, within, disagreement):
    """The definitions, in torch."""
    share = labels.bincount(minlength=K) / N
    centred = means - share @ means
    between = (share.unsqueeze(1) * centred).mT @ centred
    values = [(within @ torch.linalg.pinv(between, rtol=1e-5, hermitian=True)).trace() / K]
    values.append(within.trace() / between.trace())
    geometry = []
    for vectors in (centred, weight):
        lengths = vectors.norm(dim=1)
        cosines = functional.normalize(vectors) @ functional.normalize(vectors).mT
        cosines = cosines[~torch.eye(K, dtype=torch.bool)]
        geometry.append((lengths.std(correction=0) / lengths.mean(), cosines.std(correction=0)))
        geometry[-1] += ((cosines + 1 / (K - 1)).abs().mean(),)
    values += [side[which] for which in range(3) for side in geometry]
    values.append((weight / weight.norm() - centred / centred.norm()).square().sum())
    return torch.stack([*values, disagreement])


def the_product():
    """The one product that no way to NC1 goes without."""
    return features.mT @ features


if __name__ == "__main__":
    for way in (ours, in_batches):
        torch.testing.assert_close(way().float(), three_passes(), rtol=1e-3, atol=1e-5)
    contenders = {
        "the product HᵀH alone": the_product,
        "ClassStatistics and all metrics": ours,
        "the same, in batches of 512": in_batches,
        "three plain passes, in batches of 512": three_passes,
    }
    compare("All metrics of 60,000 x 512 features, 10 classes", contenders, rounds=9, calls=1)
    contenders = {"three plain passes, in batches of 512": three_passes, "ClassStatistics and all metrics": ours}
    compare("One pass beside three", contenders, rounds=9, calls=1)
