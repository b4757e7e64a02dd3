"""Embeddings with sparse gradients: what is differentiated in the parameters is as with dense ones."""

from dataclasses import is_dataclass

import pytest
import torch
from torch import nn

import gnomon

QUANTITIES = {
    "batch_gradients": gnomon.batch_gradients,
    "gradient_disparity": gnomon.gradient_disparity,
    "fact_table": lambda *given: gnomon.fact_table(*given, weight_decay=0.1).residual,
    "hessian_eigenvalues": gnomon.hessian_eigenvalues,
    "hessian_trace": gnomon.hessian_trace,
    "gauss_newton_eigenvalues": gnomon.gauss_newton_eigenvalues,
    "gradient_sharpness": gnomon.gradient_sharpness,
    "commutator_defect": gnomon.commutator_defect,
    "ntk": lambda model, x, _: gnomon.ntk(model, x),
    "ntk, with a graph": lambda model, x, _: torch.autograd.grad(gnomon.ntk(model, x).sum(), model.last.weight),
    "local_learning_coefficient": lambda *given: (
        gnomon.local_learning_coefficient(*given, chains=2, draws=4, burn_in=0, step_size=1e-3, localisation=0).losses
    ),
}


class Classifier(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.embedding, self.last = nn.Embedding(5, 3, sparse=sparse), nn.Linear(6, 3)
        self.double()

    def forward(self, tokens):
        return self.last(self.embedding(tokens).flatten(1).tanh())


@pytest.mark.parametrize("name", QUANTITIES)
def test_sparse_gradients_are_read_as_dense_ones(name):
    tokens = torch.randint(0, 5, (24, 2), generator=torch.Generator().manual_seed(0))
    model = Classifier(sparse=True)
    found, expected = (QUANTITIES[name](each, tokens, torch.arange(24) % 3) for each in (model, Classifier(False)))
    found, expected = (vars(each) if is_dataclass(each) else each for each in (found, expected))
    torch.testing.assert_close(found, expected)
    assert model.embedding.sparse
