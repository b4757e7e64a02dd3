"""Of the weights alone."""

import math

import torch

import gnomon
from tests.contract.row import Contract, orthogonal


def entry_by_entry(parameters):
    entries = [entry for parameter in parameters.values() for entry in parameter.flatten().tolist()]
    return torch.tensor(sum(entry**2 for entry in entries) ** 0.5, dtype=torch.float64)


def turned(a):
    return a | {"parameters": {name: orthogonal(len(part)) @ part for name, part in a["parameters"].items()}}


def parameters_of(s):
    return dict(s.network(bias=False).named_parameters())


def with_start(s):
    return {name: dict(s.network().named_parameters()) for name in ("parameters", "start")}


def both_turned(a):
    return turned(a) | {"start": turned({"parameters": a["start"]})["parameters"]}


def entry_from_entry(parameters, start):
    return entry_by_entry({name: part.detach() - start[name].detach() for name, part in parameters.items()})


def spectrum_by_spectrum(parameters):
    """From the eigenvalues of the Gram matrices, which have full rank here."""
    found = {name: [] for name in ("norm", "spectral_norm", "stable_rank", "effective_rank")}
    for weight in parameters.values():
        gram = weight.detach() @ weight.detach().mT
        values = sorted(value**0.5 for value in torch.linalg.eigvals(gram).real.tolist())
        shares = [value / math.fsum(values) for value in values]
        found["norm"].append(math.hypot(*weight.flatten().tolist()))
        found["spectral_norm"].append(values[-1])
        found["stable_rank"].append(float(gram.trace()) / values[-1] ** 2)
        found["effective_rank"].append(math.exp(-math.fsum(share * math.log(share) for share in shares)))
    return {name: torch.tensor(values, dtype=torch.float64) for name, values in found.items()}


def tails_by_loops(parameters):
    """Each candidate in turn, as Clauset, Shalizi and Newman have it."""
    found = {name: [] for name in ("alpha", "smallest", "distance", "edge")}
    tail, spikes = [], []
    for weight in parameters.values():
        gram = weight.detach() @ weight.detach().mT
        values = sorted(torch.linalg.eigvals(gram).real.tolist())
        fits = []
        for i, least in enumerate(values[:-1]):
            n = len(values) - i
            alpha = 1 + n / math.fsum(math.log(value / least) for value in values[i:])
            below = [(1 - (value / least) ** (1 - alpha), j / n) for j, value in enumerate(values[i:])]
            fits.append((max(abs(a - b) for a, b in below), alpha, least, n))
        distance, alpha, smallest, n = min(fits)
        q, p = weight.shape
        edge = (q**0.5 + p**0.5) ** 2 * math.fsum(values) / (q * p)
        for name, value in zip(found, (alpha, smallest, distance, edge), strict=True):
            found[name].append(value)
        tail.append(n)
        spikes.append(sum(value > edge for value in values))
    counts = {"tail": torch.tensor(tail), "spikes": torch.tensor(spikes)}
    return {name: torch.tensor(values, dtype=torch.float64) for name, values in found.items()} | counts


ROWS = [
    Contract(
        gnomon.parameter_norm,
        entry_by_entry,
        lambda s: {"parameters": parameters_of(s)},
        (0, torch.inf),
        {"rotation": turned},
        differentiable=False,
        halves=False,
    ),
    Contract(
        gnomon.distance_from_start,
        entry_from_entry,
        with_start,
        (0, torch.inf),
        {"rotation": both_turned},
        differentiable=False,
        halves=False,
        settings=("start",),
    ),
    Contract(
        gnomon.layer_spectra,
        spectrum_by_spectrum,
        lambda s: {"parameters": parameters_of(s)},
        invariances={"rotation": turned},
        differentiable=False,
        halves=False,
    ),
    Contract(
        gnomon.heavy_tails,
        tails_by_loops,
        lambda s: {"parameters": parameters_of(s) | {"wide": s.normal(9, 20)}},
        invariances={"rotation": turned},
        differentiable=False,
        halves=False,
        single=1e-3,
    ),
]
