"""Traces over the outputs, estimated from random mixtures of the outputs."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon._budget import budget_of
from gnomon.autodiff import FEW_OUTPUTS, forward, gradient_kernel, outputs_of
from gnomon.linalg import Estimate, generator_of, normal, student
from gnomon.measure._estimates import Accuracy, certain

BLOCK = 16
"""The number of mixtures between two checks of the error."""


class Mixtures(nn.Module):
    """A network whose outputs are mixtures of another network's outputs: these times vectors (c m)."""

    def __init__(self, model: nn.Module, vectors: Float[Tensor, "c m"]) -> None:
        super().__init__()
        self.model, self.vectors = model, vectors

    def forward(self, x: Shaped[Tensor, "n *d"]) -> Float[Tensor, "n m"]:
        """The mixtures."""
        return outputs_of(self.model(x), x) @ self.vectors


@torch.no_grad()
def kernel_to_point(
    model: nn.Module, x: Shaped[Tensor, "n *d"], point: Shaped[Tensor, "1 *d"], accuracy: Accuracy, memory: int | None
) -> Estimate:
    """The traces of the kernel's blocks between each sample and a point: exact for few outputs."""
    like = forward(model, x[:2]).logits
    outputs = like.shape[1]
    if outputs <= FEW_OUTPUTS:
        return certain(gradient_kernel(model, x, point, trace=True, memory=memory)[:, 0], outputs)
    budget = budget_of(memory)
    parts = torch.split(x, max(2, budget // (8 * 8 * BLOCK**2)))

    def look(vectors: Float[Tensor, "c m"]) -> Float[Tensor, "n 2"]:
        mixed = Mixtures(model, vectors)
        kernels = (gradient_kernel(mixed, part, point, trace=False, memory=memory)[:, 0] for part in parts)
        return torch.cat([traces_and_squares(kernel.double()) for kernel in kernels])

    return traces(look, like[0], accuracy)


@torch.no_grad()
def kernel_between(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    x2: Shaped[Tensor, "m *d"] | None,
    accuracy: Accuracy,
    memory: int | None,
) -> Estimate:
    r"""The traced kernel between all pairs of samples: exact for few outputs.

    The kernel of one mixture of the outputs is the Gram matrix of its gradients, whose mean over mixtures is the trace.
    The error of each entry is estimated from the variation of the mixtures' kernels: products of different mixtures
    would give a better estimate, as in `traces`, but their number is the square of that of the mixtures.
    """
    like = forward(model, x[:2]).logits[0]
    outputs = len(like)
    if outputs <= FEW_OUTPUTS:
        value = gradient_kernel(model, x, x2, trace=True, memory=memory)
        return Estimate(value, torch.zeros_like(value), torch.tensor(outputs, device=value.device))

    def look(vector: Float[Tensor, "c"]) -> Float[Tensor, "n m"]:
        return gradient_kernel(Mixtures(model, vector[:, None]), x, x2, trace=True, memory=memory)

    return means(look, like, accuracy)


def means(
    look: Callable[[Float[Tensor, "c"]], Float[Tensor, "n m"]], like: Float[Tensor, "c"], accuracy: Accuracy
) -> Estimate:
    """The mean of `look` over normal vectors, entry by entry, until the error is small relative to the largest."""
    generator = generator_of(accuracy.seed)
    mean = squares = like.new_zeros((), dtype=torch.float64)
    for count in range(1, accuracy.passes + 1):
        off = look(normal(len(like), generator=generator, like=like)).double() - mean
        mean = mean + off / count
        squares = squares + (1 - 1 / count) * off.square()
        if count % BLOCK == 0 or count == accuracy.passes:
            error = student(count - 1) * (squares / (count - 1) / count).sqrt()
            if (error <= accuracy.rtol * mean.abs().max()).all():
                break
    return Estimate(mean.to(like.dtype), error.to(like.dtype), torch.tensor(count, device=like.device))


def traces(
    look: Callable[[Float[Tensor, "c m"]], Float[Tensor, "n 2"]], like: Float[Tensor, "c"], accuracy: Accuracy
) -> Estimate:
    r"""The traces $\operatorname{tr}\Theta_i$ of blocks that are known through their mixtures.

    For normal v the mean of $v^\top\Theta_i v$ is the trace, and its variance is $2\|S\|_F^2$, with the symmetric part
    S of $\Theta_i$. Of the $v_j^\top\Theta_i v_l$ for m mixtures, those with j = l give the trace, and the squares of
    the others give $\|S\|_F^2$: there are more of these than of squared deviations. It stops when the error is small
    relative to the largest value.

    Source:
        Hutchinson 1990.
    Args:
        look: from some vectors to the sums over them, for each sample: `traces_and_squares`.
        like: a row of outputs.
        accuracy: the requested accuracy.
    """
    generator = generator_of(accuracy.seed)
    total: Tensor | float = 0.0
    for count in range(BLOCK, accuracy.passes + 1, BLOCK):
        total = total + look(normal(len(like), BLOCK, generator=generator, like=like))
        value, square = (total / count).unbind(1)
        error = student(count - 1) * (2 * square / count).sqrt()
        if (error <= accuracy.rtol * value.abs().max()).all():
            break
    return Estimate(value.to(like.dtype), error.to(like.dtype), torch.full_like(value, count, dtype=torch.long))


def traces_and_squares(kernel: Float[Tensor, "n m m"]) -> Float[Tensor, "n 2"]:
    """M times the mean of each block's diagonal, and of the squares of its symmetrised off-diagonal entries."""
    symmetric = (kernel + kernel.mT) / 2
    diagonal = symmetric.diagonal(dim1=1, dim2=2)
    beside = (symmetric.square().sum((1, 2)) - diagonal.square().sum(1)) / (kernel.shape[1] - 1)
    return torch.stack([diagonal.sum(1), beside], dim=1)
