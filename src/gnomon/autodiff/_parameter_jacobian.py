"""Derivatives with respect to the parameters: per-sample Jacobians, and products with them from either side."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon._precision import single
from gnomon.autodiff._independence import require_one_function
from gnomon.autodiff._run import recorded, run
from gnomon.autodiff._single_steps import in_single_steps
from gnomon.errors import UnsupportedModuleError


def trainable(model: nn.Module, x: Shaped[Tensor, "n *d"]) -> dict[str, Tensor]:
    """The trainable parameters by name, each once however often it is shared.

    Raises:
        UnsupportedModuleError: if the model has none, or complex ones, if its samples mix, or if random numbers change
            its outputs: chunks of samples take second passes, which have to be of the same function.
    """
    require_one_function(model, x)
    parameters: dict[str, Tensor] = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise UnsupportedModuleError(
            "model",
            "parameters that require gradients",
            "none",
            "Call model.requires_grad_(); a copy would not follow training.",
        )
    if some := [name for name, parameter in parameters.items() if parameter.is_complex()]:
        raise UnsupportedModuleError(
            "model", "real parameters", f"{some[0]!r}, which is complex", "Store it as pairs, see torch.view_as_real."
        )
    return parameters


def require_gradient(logits: Tensor) -> None:
    """Raises UnsupportedModuleError unless the outputs depend on the parameters."""
    if not logits.requires_grad:
        raise UnsupportedModuleError(
            "model",
            "outputs that depend on the parameters",
            "outputs without a gradient",
            "Remove the torch.no_grad() or detach() in the model.",
        )


@contextmanager
def differentiable(*, recording: bool) -> Iterator[None]:
    """Inside, what runs has second and forward-mode derivatives, and autograd records or not."""
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        with recorded(), torch.set_grad_enabled(recording):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def parameter_jacobian(
    model: nn.Module, parameters: Mapping[str, Tensor], x: Shaped[Tensor, "n *d"]
) -> list[Float[Tensor, "n c _"]]:
    """Each sample's Jacobian with respect to each parameter, flattened: exact, and c times the parameters in size.

    Follows the grad mode: where autograd records, the result can be differentiated further and is computed by plain
    backward passes, because torch's derivatives of mapped ones are wrong for some layers. Elsewhere samples are mapped
    over, which is many times as fast, provided that the result agrees with a plain backward pass over all of them. It
    does not if the network accesses its parameters other than through its modules, nor for some of torch's own layers.
    """
    if torch.is_grad_enabled():
        with in_single_steps():
            return passed_back(model, parameters, x, create_graph=True)
    with torch.enable_grad():
        logits = run(model, x)
        v = mixture(logits)
        plain = vector_parameter_jacobian(logits, parameters, v, create_graph=False)
    del logits
    try:
        blocks = jacobians_by_vmap(model, parameters, x)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, TypeError, LookupError):
        # torch.func cannot handle the network, or the network cannot handle one sample.
        blocks = None
    if blocks is None or not all(agree(block, v, part) for block, part in zip(blocks, plain.values(), strict=True)):
        return passed_back(model, parameters, x, create_graph=False)
    return blocks


def jacobians_by_vmap(
    model: nn.Module, parameters: Mapping[str, Tensor], x: Shaped[Tensor, "n *d"]
) -> list[Float[Tensor, "n c _"]]:
    """The Jacobians of all samples at once."""

    def of_one(values: dict[str, Tensor], sample: Tensor) -> Tensor:
        with standing_in(model, parameters, values):
            (row,) = model(sample.clone().unsqueeze(0))
        return row

    values = {name: parameter.detach() for name, parameter in parameters.items()}
    blocks: dict[str, Tensor] = torch.func.vmap(torch.func.jacrev(of_one), in_dims=(None, 0))(values, x)
    return [block.flatten(2) if block.ndim > 2 else block.unsqueeze(2) for block in blocks.values()]


@contextmanager
def standing_in(model: nn.Module, parameters: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> Iterator[None]:
    """Replaces each parameter by a value, wherever a module of the network holds it.

    `torch.func.functional_call` does not restore the parameters of a module that occurs in a network twice. What a pass
    keeps in modules, such as attention weights or a pruned weight, is put back too: where samples or points are mapped
    over, it is dead afterwards, and the network could not be copied or saved with it.
    """
    value_of = {id(parameter): values[name] for name, parameter in parameters.items()}
    held = [
        (module, name, parameter)
        for module in model.modules()
        for name, parameter in module._parameters.items()
        if id(parameter) in value_of
    ]
    kept = [
        (each, copy(each))
        for module in model.modules()
        for each in (module.__dict__, *module.__dict__.values())
        if type(each) in (dict, OrderedDict, list)
    ]
    try:
        for module, name, parameter in held:
            module._parameters[name] = value_of[id(parameter)]  # type: ignore[assignment]
            if isinstance(module, nn.Embedding | nn.EmbeddingBag):
                module.sparse = False  # values are parts of a vector, or mapped over
        yield
    finally:
        for module, name, parameter in held:
            module._parameters[name] = parameter
        for each, before in kept:
            restore(each, before)


def restore(held: dict[str, object] | list[object], before: dict[str, object] | list[object]) -> None:
    """Gives a dictionary or a list the entries that it had before."""
    if isinstance(held, list):
        held[:] = before
    elif isinstance(before, dict):
        for name in held.keys() - before.keys():
            del held[name]
        held.update(before)


def mixture(logits: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
    """One vector over all samples and outputs, no two entries alike: what is right for it is right for each."""
    # In float32 at least: half precision does not hold all places.
    places = torch.arange(1, logits.numel() + 1, device=logits.device, dtype=single(logits.dtype))
    return places.cos().to(logits.dtype).view(logits.shape)


def agree(block: Float[Tensor, "n c p"], v: Float[Tensor, "n c"], product: Tensor) -> bool:
    """Whether the Jacobians give the product with v that a plain backward pass gives, up to rounding."""
    plain = product.flatten()
    error = torch.linalg.vector_norm(torch.tensordot(v.to(block), block, dims=2) - plain)
    scale = torch.maximum(torch.linalg.vector_norm(block), torch.linalg.vector_norm(plain))
    return bool(error <= torch.finfo(block.dtype).eps ** 0.5 * scale)


def passed_back(
    model: nn.Module, parameters: Mapping[str, Tensor], x: Shaped[Tensor, "n *d"], *, create_graph: bool
) -> list[Float[Tensor, "n c _"]]:
    """The Jacobians by one backward pass for each sample and output."""
    rows: list[list[Tensor]] = [[] for _ in parameters]
    for _, _, gradient in single_gradients(model, parameters, x, create_graph=create_graph):
        for row, part in zip(rows, gradient.values(), strict=True):
            row.append(part.flatten())
    return [torch.stack(row).view(len(x), -1, row[0].numel()) for row in rows]


def single_gradients(
    model: nn.Module, parameters: Mapping[str, Tensor], x: Shaped[Tensor, "n *d"], *, create_graph: bool
) -> Iterator[tuple[int, int, dict[str, Tensor]]]:
    """Each sample, each output, and its gradient with respect to the parameters; two samples run at a time."""
    for start in range(0, len(x), 2):
        with torch.enable_grad():
            logits = run(model, x[start : start + 2])
        for i in range(len(logits)):
            for k in range(logits.shape[1]):
                unit = torch.zeros_like(logits)
                unit[i, k] = 1
                yield start + i, k, vector_parameter_jacobian(logits, parameters, unit, create_graph=create_graph)


def vector_parameter_jacobian(
    logits: Float[Tensor, "n c"], parameters: Mapping[str, Tensor], v: Float[Tensor, "n c"], *, create_graph: bool
) -> dict[str, Tensor]:
    r"""$\sum_i v_i^\top \partial f(x_i)/\partial\theta$ by one backward pass, keyed by the parameters' names."""
    products = torch.autograd.grad(
        logits, list(parameters.values()), v, retain_graph=True, create_graph=create_graph, materialize_grads=True
    )
    return dict(zip(parameters, map(dense, products), strict=True))


def dense(gradient: Tensor) -> Tensor:
    """A gradient with all its entries: that of an embedding may be sparse."""
    return gradient.to_dense() if gradient.is_sparse else gradient
