"""XOR clusters: shapes, the label, fair and independent signs, reproducible draws, and what is refused."""

import math

import pytest
import torch

from gnomon.data import xor_clusters
from gnomon.errors import RangeError


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entries_and_labels(dtype):
    x, labels = xor_clusters(50, 7, noise=0.25, generator=seeded(), dtype=dtype)
    assert (x.shape, x.dtype, labels.shape, labels.dtype) == ((50, 7), dtype, (50,), torch.int64)
    assert (x[:, :2].abs() == 1).all()
    assert (x[:, 2:].abs() == 0.25).all()
    assert labels.tolist() == [int(one * other > 0) for one, other in x[:, :2].tolist()]
    torch.testing.assert_close(x.norm(dim=1), torch.full((50,), math.sqrt(2 + 5 / 16), dtype=dtype))


def test_signs_are_fair_and_independent():
    """The second moments are those of independent fair signs, and so is the label's product with each coordinate."""
    n = 20_000
    x, labels = xor_clusters(n, 6, noise=1.0, generator=seeded(), dtype=torch.float64)
    signs = torch.cat([x, 2.0 * labels[:, None] - 1], dim=1)
    off = (signs.T @ signs / n - torch.eye(7)).abs().max()
    assert off < 5 / math.sqrt(n)
    assert signs.mean(0).abs().max() < 5 / math.sqrt(n)


def test_the_generator_decides():
    one, same, other = (xor_clusters(5, 40, generator=seeded(seed)) for seed in (0, 0, 1))
    torch.testing.assert_close(one, same, rtol=0, atol=0)
    assert not torch.equal(one.x, other.x)
    assert (one.x[:, 2:].abs() == torch.tensor(0.05)).all()


def test_no_noise_leaves_the_signal():
    x, _ = xor_clusters(5, 4, noise=0.0, generator=seeded())
    assert not x[:, 2:].any()
    assert xor_clusters(3, 2, generator=seeded()).x.shape == (3, 2)


def test_wrong_arguments_are_named_together():
    message = "xor_clusters: expected n .* at least 1, got 0; d .* at least 2, got 1; noise .*, got nan; dtype .*int64"
    with pytest.raises(RangeError, match=message):
        xor_clusters(0, 1, noise=math.nan, generator=seeded(), dtype=torch.int64)


@pytest.mark.parametrize(("dtype", "noise"), [(torch.float16, 1e5), (torch.float32, 1e300)])
def test_noise_that_the_dtype_does_not_hold(dtype, noise):
    with pytest.raises(
        RangeError, match=rf"expected noise at least 0 and finite in {dtype}, got {noise!r}\.".replace("+", r"\+")
    ):
        xor_clusters(3, 4, noise=noise, generator=seeded(), dtype=dtype)
    assert xor_clusters(3, 4, noise=noise, generator=seeded(), dtype=torch.float64).x.isfinite().all()


@pytest.mark.bad_input
@pytest.mark.parametrize("n", [3.5, 3.0])
def test_numbers_of_samples_are_whole(n):
    with pytest.raises(RangeError, match=rf"expected n a whole number of at least 1, got {n!r}"):
        xor_clusters(n, 4, generator=seeded())
