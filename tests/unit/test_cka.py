"""The alignment of kernels: the formula written out, closed forms, invariances and refusals."""

import pytest
import torch
from torch.testing import assert_close

from gnomon import cka, start_cka
from gnomon.errors import RangeError, ShapeError
from tests.drawn import normal


def gram(*shape):
    rows = normal(*shape)
    return rows @ rows.mT


def test_it_is_the_cosine_of_the_centred_kernels_whatever_their_scale_means_and_order():
    kernel, other = gram(9, 4), gram(9, 30)
    h = torch.eye(9).double() - 1 / 9
    one, two = h @ kernel @ h, h @ other @ h
    expected = (one * two).sum() / (one.square().sum() * two.square().sum()).sqrt()
    assert_close(cka(kernel, other), expected)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    moved = 1e-200 * (other + normal(9, 1) + normal(1, 9))
    assert_close(cka(kernel[order][:, order], moved[order][:, order]), expected)


def test_closed_forms():
    """Of one direction each it is the squared correlation; against a negative kernel it is negative."""
    a, b = normal(2, 20)
    correlation = torch.corrcoef(torch.stack([a, b]))[0, 1]
    assert_close(cka(a.outer(a), b.outer(b)), correlation.square())
    assert_close(cka(a.outer(a), -a.outer(a)), torch.tensor(-1.0).double())
    assert cka(torch.full((33, 33), 0.7), torch.full((33, 33), 1.1)) == 0
    means = torch.linspace(-1, 2, 7).outer(torch.ones(7)) + torch.linspace(0, 3, 7)
    assert cka(means, means) == 0  # rounding that centring leaves is no pattern
    huge = torch.diag(torch.tensor([3e38, 1e38, 2e38]))
    assert_close(cka(huge, huge), torch.tensor(1.0))


def test_the_numbers_of_its_reading_and_those_of_the_features():
    generator = torch.Generator().manual_seed(0)
    for n, expected in ((100, 0.89), (5000, 0.14)):
        one, two = torch.randn(2, n, 784, generator=generator)
        found = start_cka(one, two)
        assert_close(found, torch.tensor(expected), atol=0.005, rtol=0)
        if n < 5000:  # a kernel of so many takes a second
            assert_close(cka(one @ one.mT, two @ two.mT), found, atol=0, rtol=1e-4)


def test_it_can_be_differentiated():
    assert torch.autograd.gradcheck(cka, (gram(5, 3).requires_grad_(), gram(5, 4).requires_grad_()))


@pytest.mark.bad_input
def test_what_is_no_kernel_is_refused():
    with pytest.raises(ShapeError, match=r"cka\(kernel\): expected a square matrix, got shape \(2, 3\)"):
        cka(normal(2, 3), gram(2, 2))
    with pytest.raises(ShapeError, match=r"cka\(other\): expected a kernel over 4 samples, got 5. Read both at the"):
        cka(gram(4, 2), gram(5, 2))
    with pytest.raises(RangeError, match=r"cka\(other\): expected finite numbers, got nan"):
        cka(gram(2, 2), torch.full((2, 2), torch.nan))
