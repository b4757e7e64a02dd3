"""The circulant deviation, by loops and of what is circulant."""

import pytest
import torch
from torch.testing import assert_close

from gnomon import circulant_deviation
from gnomon.errors import RangeError, ShapeError


def normal(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def by_loops(matrix):
    p, along = len(matrix), 0.0
    for shift in range(p):
        diagonal = torch.stack([matrix[(row + shift) % p, row] for row in range(p)])
        along += float(((diagonal - diagonal.mean()) ** 2).sum())
    return along / float(((matrix - matrix.mean()) ** 2).sum())


def test_it_is_the_share_along_wrapped_diagonals():
    matrix = normal(7, 7)
    assert_close(float(circulant_deviation(matrix)), by_loops(matrix))
    for same in (3 * matrix, matrix + 5, matrix.mT, 1e-200 * matrix):
        assert_close(circulant_deviation(same), circulant_deviation(matrix))
    assert torch.autograd.gradcheck(circulant_deviation, (matrix.requires_grad_(),))


def test_of_circulant_matrices_it_is_zero_and_of_what_depends_on_rows_alone_one():
    row = normal(6)
    circulant = torch.stack([row.roll(shift) for shift in range(6)])
    assert_close(circulant_deviation(circulant), torch.zeros((), dtype=torch.float64))
    assert_close(circulant_deviation(torch.full((4, 4), 0.1)), torch.tensor(0.0))
    assert_close(circulant_deviation(row.unsqueeze(1).expand(6, 6)), torch.ones((), dtype=torch.float64))


@pytest.mark.bad_input
def test_what_is_no_square_matrix_is_refused():
    with pytest.raises(
        ShapeError, match=r"circulant_deviation\(matrix\): expected a square matrix, got shape \(2, 3\)"
    ):
        circulant_deviation(normal(2, 3))
    with pytest.raises(RangeError, match=r"circulant_deviation\(matrix\): expected finite numbers, got nan"):
        circulant_deviation(torch.full((2, 2), torch.nan))
