"""The operations of torch that run: how many of floating-point numbers, and how large their results are."""

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
    with torch.no_grad(), Operations() as operations:
        run()
    return operations.flops


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the operations called inside.

    Attributes:
        flops: the floating-point operations of products and convolutions.
        results: the bytes of the tensor that each operation returns, 0 where that is none.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0
        self.results: list[int] = []

    def __torch_dispatch__(
        self,
        function: OpOverload,
        types: object,
        arguments: tuple[object, ...] = (),
        keywords: dict[str, object] | None = None,
    ) -> object:
        """Calls the operation and notes it."""
        keywords = keywords or {}
        result = function(*arguments, **keywords)
        count = flop_registry.get(function.overloadpacket)
        if count is not None:
            self.flops += count(*arguments, **keywords, out_val=result)
        self.results.append(result.nbytes if isinstance(result, Tensor) else 0)
        return result
