"""Empirical kernels of the gradients as sums of products of Gram matrices, in blocks that fit a memory budget."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon._budget import budget_of
from gnomon._precision import outside_inference, single
from gnomon.autodiff._layer_factors import Factor, eligible, layer_factors, own_parameters, record
from gnomon.autodiff._memory import kept_by
from gnomon.autodiff._operations import forward_flops
from gnomon.autodiff._parameter_jacobian import differentiable, parameter_jacobian, trainable
from gnomon.autodiff._parameter_products import add_products
from gnomon.errors import UnsupportedModuleError

TILE = 64
"""Rows and columns of a symmetric result that are computed at once: the smaller, the less is computed twice."""
CALL = 2e7
"""What one small Jacobian-vector product costs beyond its arithmetic, in floating-point operations."""


@dataclass(frozen=True)
class Plan:
    """How to compute the kernel.

    Attributes:
        layers: the layers that contribute Gram products.
        contracted: the parameters that contribute contractions of their Jacobians.
        multiplied: those that contribute products with their Jacobians.
        outputs: the number of outputs.
        dtype: their dtype.
        block: the samples per block.
    """

    layers: frozenset[str]
    contracted: dict[str, Tensor]
    multiplied: dict[str, Tensor]
    outputs: int
    dtype: torch.dtype
    block: int


def gradient_kernel(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    x2: Shaped[Tensor, "m *d"] | None,
    *,
    trace: bool,
    memory: int | None,
) -> Float[Tensor, "n m"] | Float[Tensor, "n m c c"]:
    """The kernel of the gradients of the outputs with respect to the parameters, full or summed over equal outputs.

    Every `nn.Linear` that is called once, on one row per sample in the samples' order, contributes the product of two
    Gram matrices, of its inputs and of the gradients propagated back to its outputs: the gradient itself is never
    formed. The other parameters contribute the contraction of their Jacobians, or products with them where these are
    cheaper.
    """
    parameters = trainable(model, x)
    x = outside_inference(x)
    x2 = None if x2 is None else outside_inference(x2)
    create_graph = torch.is_grad_enabled()
    budget = budget_of(memory)
    with differentiable(recording=True):
        plan = make_plan(model, parameters, x, x2, trace=trace, budget=budget, create_graph=create_graph)
    if create_graph:
        first = factors(model, plan, x, create_graph=True)
        second = first if x2 is None else factors(model, plan, x2, create_graph=True)
        pairs = [grams(a, b, trace=trace) for a, b in zip(first, second, strict=True)]
        kernel = torch.stack([gram if weight is None else weight * gram for gram, weight in pairs]).sum(0)
        return kernel.to(plan.dtype)
    kernel = assemble(model, plan, x, x2, trace=trace, budget=budget)
    if plan.multiplied:
        add_products(model, plan.multiplied, x, x if x2 is None else x2, kernel, block=plan.block)
    return kernel


def make_plan(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    x: Tensor,
    x2: Tensor | None,
    *,
    trace: bool,
    budget: int,
    create_graph: bool,
) -> Plan:
    """Determines from the graph of two samples which layers allow Gram products, and what the others cost."""
    # A clone, because a slice would be counted with the storage of all samples.
    two = torch.cat([x[:1], x[:1]]) if len(x) == 1 else x[:2].detach().clone()
    tape, kept = kept_by(lambda: record(model, two), model)
    kept = math.ceil(kept / 2)
    c, dtype = tape.logits.shape[1], tape.logits.dtype
    # In half precision they are held beside what single precision makes of them.
    itemsize = sum({dtype.itemsize, single(dtype).itemsize})
    found = eligible(tape)
    own = [own_parameters(call.module) for call in found.values()]
    covered = {id(p) for weight_and_bias in own for p in weight_and_bias}
    rest = {name: p for name, p in parameters.items() if id(p) not in covered}
    count = sum(p.numel() for p in rest.values())
    # The graph counts twice, for what it saves and for the gradients in flight; for the other parameters, one graph for
    # each output, and the Jacobian once more while its parts are put in order.
    sample = 2 * kept + itemsize * sum(weight.shape[1] + c * weight.shape[0] for weight, *_ in own)
    wide = sample + (2 * itemsize * c * count + 2 * c * kept if rest else 0)
    n, m = len(x), len(x if x2 is None else x2)
    # An eighth is left for the tiles; two blocks are held at once.
    fits = (7 * budget // 8) // 2
    products = False
    if rest and not create_graph:
        forward = forward_flops(lambda: model(two)) // 2
        passes = math.ceil(n / max(1, fits // wide))
        contraction = 2 * n * m * count * c ** (1 if trace else 2) + 3 * forward * c * (n + m * passes) + CALL
        products = fits < 2 * wide or m * c * (3 * forward * (n + 1) + CALL) < contraction
    # Never one sample, which would be run with a copy of itself. Products also traverse the graph of a backward pass.
    block = max(2, fits // max(1, 2 * sample if products else wide))
    contracted, multiplied = ({}, rest) if products else (rest, {})
    return Plan(frozenset(found), contracted, multiplied, c, dtype, block)


def factors(model: nn.Module, plan: Plan, x: Tensor, *, create_graph: bool) -> list[Factor]:
    """The gradients of these samples, as the factors whose Gram matrices form the kernel."""
    if len(x) == 1:
        # Never alone, as in `run`.
        return [factor.part(0, 1) for factor in factors(model, plan, torch.cat([x, x]), create_graph=create_graph)]
    made: list[Factor] = []
    if plan.layers:
        with differentiable(recording=True):
            tape = record(model, x)
            found = eligible(tape)
            if not plan.layers.issubset(found):
                raise UnsupportedModuleError(
                    "model",
                    "a forward pass that calls the same layers for every sample",
                    "one that changes",
                    "Split the samples by the path they take.",
                )
            made += layer_factors(tape, [found[name] for name in sorted(plan.layers)], create_graph=create_graph)
    if plan.contracted:
        with differentiable(recording=create_graph):
            made += [Factor(None, block.transpose(0, 1)) for block in parameter_jacobian(model, plan.contracted, x)]
    return made


def grams(first: Factor, second: Factor, *, trace: bool) -> tuple[Tensor, Tensor | None]:
    """The Gram matrix of the right factors, and that of the left ones, shaped to multiply it; in float32 at least.

    Half precision would stop growing where a sum over outputs is some hundred times what the next of them adds.
    """
    first, second = first.in_single(), second.in_single()
    if trace and first.scale is not None and second.scale is not None:
        gram = (first.scale * first.right.square().sum((0, 1))) @ second.scale.T
    elif trace:
        gram = torch.addbmm(first.right.new_zeros(()), first.right, second.right.mT)
    else:
        one, other = first.whole(), second.whole()
        gram = one.flatten(0, 1) @ other.flatten(0, 1).T
        gram = gram.view(*one.shape[:2], *other.shape[:2]).permute(1, 3, 0, 2)
    if first.left is None or second.left is None:
        return gram, None
    weight = first.left @ second.left.T
    if first.constant:
        weight = weight + 1
    return gram, weight if trace else weight[:, :, None, None]


def assemble(model: nn.Module, plan: Plan, x: Tensor, x2: Tensor | None, *, trace: bool, budget: int) -> Tensor:
    """The kernel, block by block and tile by tile; if symmetric, its upper triangle and the mirror image of that."""
    symmetric, columns = x2 is None, x if x2 is None else x2
    n, m, c = len(x), len(columns), plan.outputs
    kernel = torch.zeros((n, m) if trace else (n, m, c, c), dtype=plan.dtype, device=x.device)
    entry = 4 * single(plan.dtype).itemsize * (1 if trace else c**2)
    tile = max(1, math.isqrt(budget // 8 // entry))
    if symmetric:
        tile = min(tile, TILE)
    only = factors(model, plan, columns, create_graph=False) if m <= plan.block and not symmetric else None
    with torch.no_grad():
        for i in range(0, n, plan.block):
            first = factors(model, plan, x[i : i + plan.block], create_graph=False)
            for j in range(i if symmetric else 0, m, plan.block):
                if symmetric and i == j:
                    second = first
                else:
                    second = only or factors(model, plan, columns[j : j + plan.block], create_graph=False)
                target = kernel[i : i + plan.block, j : j + plan.block]
                fill(target, first, second, tile, trace=trace, symmetric=symmetric and i == j)
                if symmetric and i != j:
                    kernel[j : j + plan.block, i : i + plan.block] = mirror(target)
                # Otherwise it would stay in memory while the next is computed.
                del second
    return kernel


def fill(target: Tensor, first: list[Factor], second: list[Factor], tile: int, *, trace: bool, symmetric: bool) -> None:
    """Fills a block of the kernel with the sums of the factors' products, each rounded once."""
    n, m = target.shape[:2]
    for i in range(0, n, tile):
        rows = [factor.part(i, i + tile) for factor in first]
        for j in range(i if symmetric else 0, m, tile):
            part = target[i : i + tile, j : j + tile]
            total = torch.zeros_like(part, dtype=single(part.dtype))
            for row, factor in zip(rows, second, strict=True):
                gram, weight = grams(row, factor.part(j, j + tile), trace=trace)
                if weight is None:
                    total += gram
                else:
                    total.addcmul_(weight, gram)
            part.copy_(total)
            if symmetric and i != j:
                target[j : j + tile, i : i + tile] = mirror(part)


def mirror(block: Tensor) -> Tensor:
    """The block on the other side of the diagonal: samples exchanged, and outputs with them."""
    return block.mT if block.ndim == 2 else block.permute(1, 0, 3, 2)
