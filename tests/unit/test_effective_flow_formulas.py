"""Formulas of arXiv:2501.07400 that hold as printed, in float64 against automatic differentiation (docs/errata.md).

At the end, the smallest cases of some that do not.
"""

import itertools

import pytest
import torch
from torch.func import grad, jacrev

from tests.drawn import normal, orthogonal

Q = 4
EYE = torch.eye(Q, dtype=torch.float64)


def open_at(heights):
    """H of (3.11)."""
    return torch.diag((heights > 0).to(heights))


def skew(matrix):
    """π₋ of (3.23)."""
    return (matrix - matrix.mT) / 2


def truncated(weight, beta, x):
    return torch.linalg.solve(weight, torch.relu(weight @ (x + beta))) - beta


def half_square(v):
    return v.square().sum() / 2


@pytest.mark.parametrize("seed", range(3))
def test_one_map(seed):
    """(3.15), (3.16), (6.8), (6.15), lemma 6.1; (3.30), (3.38) of any symmetric matrix."""
    weight, rotation, (x, beta, y) = normal(Q, Q, seed=seed), orthogonal(Q, seed), normal(3, Q, seed=10 + seed)
    inverse, h = torch.linalg.inv(weight), open_at(weight @ (x + beta))
    torch.testing.assert_close(
        truncated(weight, beta, x), inverse @ h @ weight @ x - inverse @ (EYE - h) @ weight @ beta
    )
    torch.testing.assert_close(jacrev(truncated, 1)(weight, beta, x), -inverse @ (EYE - h) @ weight)

    def loss(rotation):
        return half_square(rotation.mT @ torch.relu(rotation @ (x + beta)) - beta - y)

    h, off = open_at(rotation @ (x + beta)), truncated(rotation, beta, x) - y
    assert not ((EYE - h) @ torch.relu(rotation @ (x + beta))).any()
    slope = grad(loss)(rotation)
    torch.testing.assert_close(slope, h @ rotation @ (torch.outer(x + beta, off) + torch.outer(off, x + beta)))
    generator = skew(normal(Q, Q, seed=20 + seed))
    along = grad(lambda s: loss(torch.linalg.matrix_exp(s * generator) @ rotation))(torch.zeros(()).double())
    torch.testing.assert_close(along, -torch.trace(generator @ skew(slope @ rotation.mT)))
    symmetric = normal(Q, Q, seed=30 + seed)
    symmetric, nu = symmetric + symmetric.mT, h.diagonal()
    commutator = h @ symmetric - symmetric @ h
    torch.testing.assert_close(commutator, h @ symmetric @ (EYE - h) - (EYE - h) @ symmetric @ h)
    torch.testing.assert_close(commutator, (nu[:, None] - nu) * symmetric)


@pytest.mark.parametrize("seed", range(3))
def test_one_cluster(seed):
    """The split of (3.6), (3.29), (3.39) with the counts of (3.42)."""
    points, rotation, (beta, y) = normal(30, Q, seed=seed), orthogonal(Q, seed), normal(2, Q, seed=10 + seed)

    def images(rotation, beta):
        return torch.relu((points + beta) @ rotation.mT) @ rotation - beta

    def loss(rotation, beta):
        return (images(rotation, beta) - y).square().sum(1).mean() / 2

    found = images(rotation, beta)
    spread = (found - found.mean(0)).square().sum(1).mean() / 2
    torch.testing.assert_close(loss(rotation, beta), spread + half_square(found.mean(0) - y))
    share = ((points + beta) @ rotation.mT <= 0).double().mean(0)
    of_beta = -rotation.mT @ torch.diag(share) @ rotation @ (beta + y)
    torch.testing.assert_close(of_beta, -grad(loss, 1)(rotation, beta))
    slope = grad(loss)(rotation, beta)
    omega = -skew(slope @ rotation.mT)
    torch.testing.assert_close(torch.trace(slope.mT @ omega @ rotation), -omega.square().sum())


@pytest.mark.parametrize("seed", range(5))
def test_maps_one_after_another(seed):
    """Lemma 7.3, (7.13) and (7.14), whose sign (7.11) has lost; (7.2) at what enters its first layer, as in (7.11)."""
    rotations, betas = [orthogonal(Q, 10 * seed + layer) for layer in range(4)], list(normal(4, Q, seed=seed))
    x, y = normal(2, Q, seed=100 + seed)

    def through(rotations, betas):
        points = [x]
        for rotation, beta in zip(rotations, betas, strict=True):
            points.append(rotation.mT @ torch.relu(rotation @ (points[-1] + beta)) - beta)
        return points

    points = through(rotations, betas)
    kept = [r.mT @ open_at(r @ (p + b)) @ r for r, b, p in zip(rotations, betas, points[:-1], strict=True)]

    def plus(first, end):
        """P⁺ over the layers from the first up to the end, from 0, the end not included."""
        found = EYE
        for layer in kept[first:end]:
            found = layer @ found
        return found

    def minus(layer, end):
        return plus(layer + 1, end) @ (EYE - kept[layer])

    for first, end in itertools.combinations(range(5), 2):
        moved = sum(minus(layer, end) @ betas[layer] for layer in range(first, end))
        torch.testing.assert_close(points[end], plus(first, end) @ points[first] - moved)
    for layer in range(4):

        def with_bias(beta, layer=layer):
            return through(rotations, [*betas[:layer], beta, *betas[layer + 1 :]])[-1]

        def with_rotation(rotation, layer=layer):
            return half_square(through([*rotations[:layer], rotation, *rotations[layer + 1 :]], betas)[-1] - y)

        back = minus(layer, 4)
        torch.testing.assert_close(jacrev(with_bias)(betas[layer]), -back)
        of_bias = grad(lambda beta, f=with_bias: half_square(f(beta) - y))(betas[layer])
        torch.testing.assert_close(of_bias, -back.mT @ (points[-1] - y))
        given, off = points[layer] + betas[layer], plus(layer + 1, 4).mT @ (points[-1] - y)
        h = open_at(rotations[layer] @ given)
        expected = h @ rotations[layer] @ (torch.outer(given, off) + torch.outer(off, given))
        torch.testing.assert_close(grad(with_rotation)(rotations[layer]), expected)


@pytest.mark.parametrize("seed", range(3))
def test_lemma_8_2_bounds_the_norm_of_a_product_from_below(seed):
    a, b = normal(2, Q, Q, seed=seed)
    least = torch.linalg.svdvals(b)[-1]
    assert torch.linalg.matrix_norm(a @ b, 2) >= least * torch.linalg.matrix_norm(a, 2)


def in_one_dimension(beta, x):
    """A truncation map with R = 1, and its h of (3.11)."""
    return max(x + beta, 0.0) - beta, float(x + beta > 0)


def test_lemma_7_1_from_a_later_layer_has_its_terms_at_two_points():
    """(7.2) applies P⁺ to x, and (7.5) takes H where the layers before have moved x to."""
    betas, x = (-5.0, 0.0), -1.0
    entering, _ = in_one_dimension(betas[0], x)
    found, own = in_one_dimension(betas[1], x)
    moved, kept = in_one_dimension(betas[1], entering)
    assert (found, kept * x - (1 - kept) * betas[1]) == (0, -1)
    assert own * x - (1 - own) * betas[1] == found
    assert kept * entering - (1 - kept) * betas[1] == moved == 5


def test_on_a_face_the_map_keeps_a_point_that_5_12_does_not():
    """Of the point itself H makes 0 there, as h(0) = 0; of its distance from the face it makes what it should."""
    for beta, x, kept in ((-1.0, 1.0, False), (-1.0, 1.5, True)):
        moved, h = in_one_dimension(beta, x)
        assert moved == x
        assert (h * x == x) is kept
        assert h * (x + beta) == x + beta


def test_the_second_line_of_6_13_has_the_gate_of_another_coordinate():
    swap, x = torch.eye(2).double().flip(0), torch.tensor([1.0, -1.0]).double()

    def moved(rotation):
        return rotation.mT @ torch.relu(rotation @ x)

    h, along = open_at(swap @ x), torch.eye(2).double()
    first = torch.einsum("ki,j->ijk", along, torch.relu(swap @ x))
    of_row_j, of_row_i = (torch.einsum(f"{gate},ji,k->ijk", h.diagonal(), swap, x) for gate in "ji")
    torch.testing.assert_close(jacrev(moved)(swap), first + of_row_j)
    assert ((first + of_row_j)[1, 0, 0], (first + of_row_i)[1, 0, 0]) == (0, 1)
