"""Of the posterior around the parameters."""

import copy
import math

import torch
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import gnomon
from gnomon.linalg import generator_of
from tests.contract.row import Contract

SETTINGS = {"step_size": 0.1, "localisation": 2.0, "chains": 2, "draws": 6, "burn_in": 2, "batch": 5}


def chains_by_loops(model, x, labels, step_size, localisation, chains, draws, burn_in, batch):
    """Chain by chain, sample by sample, with the random numbers that the function draws."""
    generator, start = generator_of(0), parameters_to_vector(model.parameters()).detach()
    drawn = [
        (
            torch.randint(len(x), (chains, batch), generator=generator),
            torch.randn(chains, len(start), generator=generator),
        )
        for _ in range(burn_in + draws)
    ]

    def losses_at(point, rows):
        network = copy.deepcopy(model)
        vector_to_parameters(point, network.parameters())
        losses = [functional.cross_entropy(network(x[row : row + 1]), labels[row : row + 1]) for row in rows]
        mean = sum(losses) / len(losses)
        return mean.detach(), parameters_to_vector(torch.autograd.grad(mean, [*network.parameters()]))

    whole = losses_at(start, range(len(x)))[0]
    n_beta = len(x) / math.log(len(x))
    traces = torch.zeros(chains, burn_in + draws, dtype=torch.float64)
    for chain in range(chains):
        point = start.clone()
        for step, (rows, noise) in enumerate(drawn):
            loss, gradient = losses_at(point, rows[chain])
            traces[chain, step] = loss - losses_at(start, rows[chain])[0] + whole
            force = n_beta * gradient + localisation * (point - start)
            point = point - step_size / 2 * force + step_size**0.5 * noise[chain]
    first, second = (n_beta * (part.mean() - whole) for part in traces[:, burn_in:].split(draws // 2, dim=1))
    by_chain = n_beta * (traces[:, burn_in:].mean(1) - whole)
    return {
        "by_chain": by_chain,
        "losses": traces,
        "start": whole,
        "diverged": torch.zeros((), dtype=torch.float64),
        "below": (by_chain < 0).double().mean(),
        "drift": second - first,
    }


ROWS = [
    Contract(
        gnomon.local_learning_coefficient,
        chains_by_loops,
        lambda s: {"model": s.network(), "x": s.normal("n", "d"), "labels": s.labels(), **SETTINGS},
        differentiable=False,
        halves=False,
        settings=tuple(SETTINGS),
    ),
]
