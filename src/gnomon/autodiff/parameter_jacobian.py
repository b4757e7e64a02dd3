"""Derivatives in the parameters: Jacobians of each sample, and products with them on either side."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from gnomon.autodiff.graph import outputs_of, unmixed
from gnomon.errors import UnsupportedModuleError


def trainable(where: str, model: nn.Module) -> dict[str, Tensor]:
    """The parameters that training moves, by name, each once however often it is shared.

    Raises:
        UnsupportedModuleError: if the model is no module, has none, or its samples mix.
    """
    if not isinstance(model, nn.Module):
        raise UnsupportedModuleError(
            f"{where}(model): expected a torch.nn.Module, got {type(model).__name__}. "
            f"Wrap the function in a module that holds its parameters."
        )
    unmixed(where, model)
    parameters: dict[str, Tensor] = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise UnsupportedModuleError(
            f"{where}(model): expected parameters that require gradients, got none. Call model.requires_grad_() first."
        )
    return parameters


@contextmanager
def differentiable(*, recording: bool) -> Iterator[None]:
    """Attention by the kernels that can be differentiated twice and forwards, and autograd recording or not."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.inference_mode(False), torch.set_grad_enabled(recording), sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def outside_inference(x: Tensor) -> Tensor:
    """The same samples, as a tensor that may enter a graph."""
    if not x.is_inference():
        return x
    with torch.inference_mode(False):
        return x.clone()


def outputs(where: str, model: nn.Module, x: Shaped[Tensor, "n *d"]) -> Float[Tensor, "n c"]:
    """The model's outputs, checked to be one row a sample."""
    return outputs_of(where, model(x), x)


def parameter_jacobian(
    where: str, model: nn.Module, parameters: Mapping[str, Tensor], x: Shaped[Tensor, "n *d"]
) -> list[Float[Tensor, "n c _"]]:
    """Each sample's Jacobian in each of the parameters, flattened: exact, and c times the parameters in size.

    Follows the grad mode: where autograd records, the result can be differentiated further.
    """

    def single(values: dict[str, Tensor], sample: Tensor) -> Tensor:
        (row,) = torch.func.functional_call(model, values, (sample.unsqueeze(0),))
        return row

    values = dict(parameters) if torch.is_grad_enabled() else {name: p.detach() for name, p in parameters.items()}
    try:
        blocks: dict[str, Tensor] = torch.func.vmap(torch.func.jacrev(single), in_dims=(None, 0))(values, x)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise UnsupportedModuleError(
            f"{where}(model): expected a forward pass that torch.func.vmap can take, got {error}. "
            f"Replace the operation that it names by one without control flow that depends on the data."
        ) from error
    return [block.flatten(2) for block in blocks.values()]


def vector_parameter_jacobian(
    logits: Float[Tensor, "n c"], parameters: Mapping[str, Tensor], v: Float[Tensor, "n c"], *, keep: bool
) -> dict[str, Tensor]:
    r"""$\sum_i v_i^\top \partial f(x_i)/\partial\theta$ by one backward pass, by the parameters' names."""
    products = torch.autograd.grad(
        logits, list(parameters.values()), v, retain_graph=True, create_graph=keep, materialize_grads=True
    )
    return dict(zip(parameters, products, strict=True))


def parameter_jacobian_vector(
    where: str,
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    tangent: Mapping[str, Tensor],
    x: Shaped[Tensor, "n *d"],
) -> Float[Tensor, "n c"]:
    r"""$\partial f(x_i)/\partial\theta\; u$ for a direction u of the parameters, by one pass forward."""
    values = dict(parameters) if torch.is_grad_enabled() else {name: p.detach() for name, p in parameters.items()}

    def run(values: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(model, values, (x,))

    try:
        result = torch.func.jvp(run, (values,), (dict(tangent),))
    except NotImplementedError as error:
        raise UnsupportedModuleError(
            f"{where}(model): expected layers that can be differentiated forwards, got {error}. "
            f"Replace that layer by one of torch's own operations."
        ) from error
    return result[1]
