"""What arguments and results are made of, whatever holds it: tensors, networks, dataclasses of tensors."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

import gnomon
from gnomon import regions
from gnomon.data import Samples


def cast(value: Any, dtype: torch.dtype) -> Any:
    """The same in another dtype: tensors, networks, samples, and dataclasses of tensors."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, nn.Module) and not isinstance(value, gnomon.ClassStatistics | gnomon.AGOP):
        return value.to(dtype)
    if isinstance(value, dict):
        return {name: cast(part, dtype) for name, part in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type | regions.Regions):
        made = [field.name for field in dataclasses.fields(value) if field.init]
        return dataclasses.replace(value, **{name: cast(getattr(value, name), dtype) for name in made})
    if isinstance(value, Samples):
        return value._replace(x=cast(value.x, dtype))
    return value


def tensors(result: Any) -> Iterator[Tensor]:
    """All tensors in a result."""
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, dict):
        for part in result.values():
            yield from tensors(part)
    elif isinstance(result, list | tuple):
        for part in result:
            yield from tensors(part)
    elif hasattr(result, "__dict__") and (
        isinstance(result, nn.Module) or type(result).__module__.startswith("gnomon")
    ):
        yield from tensors(vars(result))


def inference(tensor: Tensor) -> Tensor:
    """A copy made in inference mode."""
    with torch.inference_mode():
        return tensor.clone()
