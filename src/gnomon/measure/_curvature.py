"""The curvature of a loss: its matrices as operators, and eigenvalues and traces from products with them."""

from functools import partial
from typing import TypeVar

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._budget import budget_of
from gnomon.autodiff import RTOL, GaussNewtonOperator, LossOperator
from gnomon.errors import RangeError
from gnomon.linalg import Estimate, generator_of, lanczos, normal, size_of, student
from gnomon.measure._estimates import Accuracy, warn_if_inaccurate
from gnomon.measure._losses import Loss, check_labelled, single_losses
from gnomon.measure._separate_losses import require_separate_losses

FEW = 64
"""The products that are allowed for a trace where no accuracy is requested."""
STEPS = 16
"""The number of vectors that span the space in which a trace is exact."""
BLOCK = 8
"""The number of random vectors between two checks of the error."""
Matrix = LossOperator | GaussNewtonOperator
"""One of the two, as an operator."""
M = TypeVar("M", LossOperator, GaussNewtonOperator)


def hessian(
    model: nn.Module, x: Shaped[Tensor, "n *d"], labels: Shaped[Tensor, "n *y"], loss: Loss, memory: int | None
) -> LossOperator:
    """The Hessian of the mean loss.

    Raises:
        ShapeError, EmptyError, RangeError, UnsupportedModuleError: if network, samples, labels and loss do not match.
    """
    return _matrix(LossOperator, model, x, labels, loss, memory)


def gauss_newton(
    model: nn.Module, x: Shaped[Tensor, "n *d"], labels: Shaped[Tensor, "n *y"], loss: Loss, memory: int | None
) -> GaussNewtonOperator:
    """The Gauss-Newton matrix of the mean loss; raises as `hessian`."""
    return _matrix(GaussNewtonOperator, model, x, labels, loss, memory)


def _matrix(
    kind: type[M],
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    labels: Shaped[Tensor, "n *y"],
    loss: Loss,
    memory: int | None,
) -> M:
    check_labelled(x, labels)
    matrix = kind(model, x, labels, partial(single_losses, loss), memory=_half(memory))
    require_separate_losses(model, x, labels, loss, memory)
    return matrix


def eigenvalues(name: str, matrix: Matrix, k: int, accuracy: Accuracy, memory: int | None) -> Estimate:
    """The k largest eigenvalues, with a warning of this name's if they are less accurate than requested.

    The steps are as many as the memory holds vectors, but not below two for each eigenvalue.

    Raises:
        RangeError: if there are fewer than k.
    """
    p = matrix.vectors.size
    if not _checks.whole(k, 1) or k > min(p, accuracy.passes):
        advice = "Ask for fewer." if k > 1 else "Ask for one."
        raise RangeError("k", f"1 to {min(p, accuracy.passes)}, the parameters or the passes", k, advice)
    fitting = max(2 * k, _room(matrix, memory))
    most = min(accuracy.passes, fitting)
    found = lanczos(matrix.multiply, matrix.vectors.zeros(), k, accuracy.rtol, most, accuracy.seed)
    estimate = Estimate(found.values, found.errors, torch.tensor(found.passes, device=found.values.device))
    return warn_if_inaccurate(name, estimate, accuracy, size_of(found.values), fitting=fitting)


def accuracy_of_trace(rtol: float | int | None, passes: int | None, seed: int) -> Accuracy:
    """What a trace may cost: fewer passes where no accuracy is requested.

    Raises:
        RangeError: if one of them is out of range.
    """
    if rtol is None:
        return Accuracy.of(RTOL, FEW if passes is None else passes, seed)
    return Accuracy.of(rtol, passes, seed)


def trace(name: str, matrix: Matrix, accuracy: Accuracy, memory: int | None, *, requested: bool) -> Estimate:
    r"""The trace: exact in a Krylov space, where the matrix is large, and by Hutchinson's estimate elsewhere.

    For a normal z, orthogonal to that space, the mean of $z^\top Hz$ is the trace of the remaining part of the matrix,
    and its variance is twice the squared norm of that part, which is estimated from the squares of $z_i^\top Hz_j$ for
    different vectors. Where there are no more parameters than products, and memory for as many vectors, the Krylov
    space is the complete space, and the trace is exact. Where the accuracy was requested, a warning of this name's says
    if it was not reached.

    Source:
        Hutchinson 1990; Meyer et al. 2021 (Hutch++) for computing a part exactly, Chen and Hallman 2023 for taking that
        part from a Krylov space.
    """
    like = matrix.vectors.zeros()
    p, most = len(like), accuracy.passes
    room = max(2, _room(matrix, memory) - 2 * BLOCK)
    # Of fewer passes than parameters, some are left for random vectors.
    steps = p if p <= min(most, max(STEPS, room)) else min(STEPS, room, most - BLOCK)
    space = lanczos(matrix.multiply, like, 0, 0, steps, accuracy.seed)
    inside = space.trace.double()
    value, error, count = inside, torch.zeros_like(inside), 0
    # In double precision, as squares of what single precision can hold; drawn as in `lanczos`, but others.
    total, squares = torch.zeros_like(inside), torch.zeros_like(inside)
    generator = generator_of(accuracy.seed, 1)
    while space.passes < p and space.passes + count + BLOCK <= most:
        z = normal(BLOCK, p, generator=generator, like=like)
        for rows in space.basis:
            z -= (z @ rows.mT) @ rows
        gram = torch.stack([z @ matrix.multiply(row) for row in z]).double()
        diagonal, count = gram.diagonal(), count + BLOCK
        total = total + diagonal.sum()
        squares = squares + (gram.square().sum() - diagonal.square().sum()) / (BLOCK - 1)
        value, error = inside + total / count, student(count - 1) * (2 * squares / count).sqrt() / count**0.5
        if error <= accuracy.rtol * value.abs():
            break
    passes = torch.tensor(space.passes + count, device=like.device)
    found = Estimate(value.to(like.dtype), error.to(like.dtype), passes)
    return warn_if_inaccurate(name, found, accuracy, found.value.abs()) if requested else found


def _room(matrix: Matrix, memory: int | None) -> int:
    """How many vectors over all parameters fit into half of the memory."""
    return _half(memory) // (matrix.vectors.size * matrix.vectors.like.element_size())


def _half(memory: int | None) -> int:
    """Half of the memory, for the vectors in addition to a graph, or for a second graph."""
    budget = budget_of(memory)
    return budget - budget // 2
