"""How many floating-point operations a forward pass takes."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


def forward_flops(run: Callable[[], Tensor]) -> int:
    """The operations of products and convolutions in `run`, as counted by torch's own counter.

    `FlopCounterMode` is not used: it hooks every module of the process, and an interrupt would leave the hooks there.
    """
    with torch.no_grad(), Flops() as counter:
        run()
    return counter.total


class Flops(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations called inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(
        self,
        function: OpOverload,
        types: object,
        arguments: tuple[object, ...] = (),
        keywords: dict[str, object] | None = None,
    ) -> object:
        """Calls the operation and counts it."""
        keywords = keywords or {}
        result = function(*arguments, **keywords)
        count = flop_registry.get(function.overloadpacket)
        if count is not None:
            self.total += count(*arguments, **keywords, out_val=result)
        return result
