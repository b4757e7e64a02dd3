"""The local learning coefficient beside what is known of it, its interval, and what a reading costs.

Prints the tables of `docs/quantities/posterior.md`, in ten minutes of one core.
"""

import math
import time
import warnings

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gnomon import local_learning_coefficient
from gnomon.data import digits, standardise
from gnomon.models import cnn, mlp

N, SEEDS = 1000, 200


def normal(*shape, seed=0):
    """Numbers that are the same each time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def regression(inputs=10, n=N, spread=1):
    """At its least squares, and half its parameters, which is the coefficient."""
    layer, x = nn.Linear(inputs, 1, bias=False).double(), normal(n, inputs)
    y = x.sum(1, keepdim=True) + spread * normal(n, 1, seed=1)
    layer.weight.data = torch.linalg.lstsq(x, y).solution.mT.contiguous()
    return layer, x, y, inputs / 2


def deep_linear(inputs, outputs, hidden, rank):
    """Two layers that are a map of lower rank, at its sparsest minimum."""
    x = normal(N, inputs)
    model = nn.Sequential(nn.Linear(inputs, hidden, bias=False), nn.Linear(hidden, outputs, bias=False)).double()
    with torch.no_grad():
        for layer in model:
            layer.weight.zero_()
            layer.weight[range(rank), range(rank)] = 1
        return model, x, model(x), reduced_rank(inputs, outputs, hidden, rank)


def reduced_rank(inputs, outputs, hidden, rank):
    """Aoyagi and Watanabe's coefficient of reduced rank regression, 2005."""
    m, n, h, r = inputs, outputs, hidden, rank
    if m + h < n + r:
        return (h * m - h * r + n * r) / 2
    if n + h < m + r:
        return (h * n - h * r + m * r) / 2
    if m + n < h + r:
        return m * n / 2
    even = 2 * (h + r) * (m + n) + 2 * m * n - (h + r) ** 2 - m**2 - n**2
    return (even + (m + h + n + r) % 2) / 8


def known():
    """Coefficients that are known, and what is found."""
    models = {"linear regression": regression()}
    for sizes in ((4, 4, 2, 1), (5, 5, 3, 2), (4, 4, 3, 0), (6, 6, 6, 2)):
        models["{}-{}-{}, rank {}".format(*(sizes[i] for i in (0, 2, 1, 3)))] = deep_linear(*sizes)
    print("| model | parameters / 2 | coefficient | γ = 1 | γ = 100 |\n| --- | --- | --- | --- | --- |")
    for name, (model, x, y, coefficient) in models.items():
        half = sum(parameter.numel() for parameter in model.parameters()) / 2
        found = [
            local_learning_coefficient(
                model, x, y, loss="mse", localisation=pull, chains=16, draws=4000, burn_in=4000, batch=N
            ).estimate
            for pull in (1, 100)
        ]
        said = [f"{each.value:.2f} ± {each.error:.2f}" for each in found]
        print(f"| {name} | {half:g} | {coefficient:g} | {' | '.join(said)} |", flush=True)


def coverage():
    """In how many of 200 seeds the interval, with all samples at each step, holds what the chains come to."""
    layer, x, y, _ = regression()
    found = [
        local_learning_coefficient(layer, x, y, loss="mse", batch=N, step_size=2e-4, seed=seed).estimate
        for seed in range(SEEDS)
    ]
    bends = N / math.log(N) * torch.linalg.eigvalsh(2 * x.mT @ x / N)
    truth = (bends / (bends + 100) / (1 - 5e-5 * (bends + 100))).sum() / 2
    held = sum(abs(each.value - truth) <= each.error for each in found)
    print(f"linear regression: the interval holds {truth:.3f} in {held} of {SEEDS} seeds")


def batches():
    """What batches that are smaller than n beta add to the coefficient of linear regression, which is 5."""
    print("| samples | nβ | batches of 128 | by default | all samples |\n| --- | --- | --- | --- | --- |")
    for n in (500, 2000, 20_000, 50_000):
        layer, x, y, _ = regression(n=n)
        found = [
            local_learning_coefficient(layer, x, y, loss="mse", chains=16, burn_in=800, batch=batch).estimate
            for batch in (128, None, n)
        ]
        said = [f"{each.value:.1f} ± {each.error:.1f}" for each in found]
        print(f"| {n:,} | {n / math.log(n):,.0f} | {' | '.join(said)} |", flush=True)


def residuals():
    """What batches as large as n beta add to that coefficient where residuals are not near 1."""
    print("| residuals | default | standardised targets | all samples |\n| --- | --- | --- | --- |")
    settings = {"loss": "mse", "chains": 16, "burn_in": 800}
    for spread in (1, 3, 10):
        layer, x, y, _ = regression(n=2000, spread=spread)
        own, whole = (local_learning_coefficient(layer, x, y, batch=batch, **settings) for batch in (None, 2000))
        layer.weight.data /= y.std()
        scaled = local_learning_coefficient(layer, x, y / y.std(), **settings)
        said = [f"{each.estimate.value:.1f} ± {each.estimate.error:.1f}" for each in (own, scaled, whole)]
        print(f"| {spread} | {' | '.join(said)} |", flush=True)


def trained():
    """Digits with true and with shuffled labels, and the seconds of a core that a reading takes."""
    seen, unseen = standardise(*digits(500, generator=torch.Generator().manual_seed(0)))
    shuffled = seen.labels[torch.randperm(500, generator=torch.Generator().manual_seed(1))]
    builders = {
        "64-100-10": lambda seeded: mlp((64, 100, 10), generator=seeded),
        "64-100-100-10, four times the start": lambda seeded: mlp((64, 100, 100, 10), scale=4.0, generator=seeded),
        "convolutional": lambda seeded: cnn((1, 24, 10), generator=seeded),
    }
    print("| network | parameters | labels | step | unseen | coefficient | drift | r_hat | seconds |")
    print("| --- " * 9 + "|")
    for name, build in builders.items():
        images = "convolutional" in name
        x, other = (part.x.unflatten(1, (1, 8, 8)) if images else part.x for part in (seen, unseen))
        for kind, labels in (("true", seen.labels), ("shuffled", shuffled)):
            model = build(torch.Generator().manual_seed(0))
            optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
            for step in range(1001):
                if step in (0, 30, 1000):
                    right = (model(other).argmax(1) == unseen.labels).float().mean()
                    start = time.process_time()
                    found = local_learning_coefficient(model, x, labels)
                    took = time.process_time() - start
                    size = sum(parameter.numel() for parameter in model.parameters())
                    estimate = f"{found.estimate.value:.1f} ± {found.estimate.error:.1f}"
                    said = f"{right:.1%} | {estimate} | {found.drift:.1f} | {found.r_hat:.2f} | {took:.2f}"
                    print(f"| {name} | {size:,} | {kind} | {step} | {said} |", flush=True)
                rows = torch.randint(500, (64,), generator=torch.Generator().manual_seed(step))
                optimizer.zero_grad()
                cross_entropy(model(x[rows]), labels[rows]).backward()
                optimizer.step()


if __name__ == "__main__":
    warnings.simplefilter("error")  # chains that diverge
    warnings.filterwarnings("ignore", "local_learning_coefficient: expected (burn_in|at most a third)")
    torch.set_num_threads(1)
    trained()
    known()
    coverage()
    batches()
    residuals()
