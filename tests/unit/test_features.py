"""Features: what the contract does not say of the quantities of what a layer puts out."""

import torch
from torch import nn

import gnomon
from gnomon import Probe


def test_units_behind_a_relu_die_with_their_bias():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        model[0].bias[1] = -1e6
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    values = Probe(model, (x, torch.arange(50) % 2), [gnomon.dead_units, gnomon.activation_sparsity]).read().values
    assert values["dead_units"] == 1 / 4
    torch.testing.assert_close(values["activation_sparsity"], (model[:2](x) == 0).float().mean(1))


def test_rank_with_the_paper_s_epsilon_exceeds_the_number_of_directions():
    """docs/errata.md."""

    def printed(values):
        shares = values / values.sum() + 1e-7
        return float((-(shares * shares.log()).sum()).exp())

    equal = torch.ones(2048, dtype=torch.float64)
    one = torch.zeros(2048, dtype=torch.float64).index_fill(0, torch.tensor([0]), 1.0)
    assert round(printed(equal), 1) == 2050.8
    assert round(printed(one), 4) == 1.0033
    for values, rank in ((equal[:64], 64.0), (one[:64], 1.0)):
        torch.testing.assert_close(gnomon.rank_me(values.diag()), torch.tensor(rank, dtype=torch.float64))
