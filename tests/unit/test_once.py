"""Functions with one derivative: a second is refused, and the first is taken wherever that of torch is."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import gnomon
from gnomon.errors import UnsupportedModuleError

LABELS = torch.arange(12) % 3
WEIGHT = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def moments(rows):
    return gnomon.class_moments(rows, LABELS, 3)


ONCE = {
    "psd_root": lambda rows: gnomon.psd_root(rows.mT @ rows).square().sum() + gnomon.psd_root(rows.mT @ rows)[0, 1],
    "snr": lambda rows: gnomon.snr(moments(rows))[0].sum(),
    "snr_singular_values": lambda rows: gnomon.snr_singular_values(moments(rows)).sum(),
    "nfa_correlation": lambda rows: gnomon.nfa_correlation(WEIGHT, rows.mT @ rows),
}


def rows():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(12, 4, dtype=torch.float64, generator=generator).requires_grad_()


@pytest.mark.parametrize("name", ONCE)
def test_a_second_derivative_is_refused_on_any_path(name):
    """By `autograd.grad` too, where another part of the loss has one."""
    x = rows()
    loss = ONCE[name](x) + x.pow(3).sum()
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(UnsupportedModuleError, match="expected to be differentiated once, got a second derivative"):
        torch.autograd.grad(gradient.sum(), x)


@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("create_graph", [False, True])
def test_within_a_checkpoint(name, create_graph):
    x = rows()
    (expected,) = torch.autograd.grad(ONCE[name](x), x)
    inside = checkpoint(ONCE[name], x, use_reentrant=False)
    (found,) = torch.autograd.grad(inside, x, create_graph=create_graph)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_the_matrix_may_change_before_the_gradient_of_its_root_is_taken():
    x = rows()
    (expected,) = torch.autograd.grad(gnomon.psd_root(x.mT @ x).sum(), x)
    running = (x.mT @ x) * 1
    total = gnomon.psd_root(running).sum()
    running.detach().mul_(0.9)
    (found,) = torch.autograd.grad(total, x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
