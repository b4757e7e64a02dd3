"""Processes meet before they communicate: one that comes alone gets an error instead of waiting indefinitely."""

from contextlib import suppress
from datetime import timedelta

from torch.distributed import ProcessGroup
from torch.distributed.distributed_c10d import _get_default_store

from gnomon.errors import UnsupportedModuleError

PATIENCE = timedelta(seconds=20)
"""How long the first waits for the last."""


def meet(group: ProcessGroup, yes: bool) -> bool:
    """Whether all processes of a group say yes, once all have come.

    They meet in torch's store and not in a collective, which would wait minutes for the backend's timeout, and leave
    the group out of step. Meetings are numbered: one at which some waited in vain is over, and a process that is late
    goes to the next.

    Raises:
        UnsupportedModuleError: if some do not come.
    """
    store, size, here = _get_default_store(), group.size(), f"gnomon/{group.group_name}"
    number = store.add(f"{here}/of/{group.rank()}", 1)
    while store.check([f"{here}/{number}/end"]):
        number = store.add(f"{here}/of/{group.rank()}", 1)
    at = f"{here}/{number}"
    store.add(f"{at}/yes", int(yes))
    last = store.add(f"{at}/came", 1) == size
    if not last:
        with suppress(RuntimeError):
            store.wait([f"{at}/end"], PATIENCE)
    if store.add(f"{at}/turn", 1) == 1:  # The last one, or the first whose patience has run out: it decides.
        store.set(f"{at}/end", "met" if last else "missed")
    if store.get(f"{at}/end") != b"met":
        raise UnsupportedModuleError(
            "model",
            f"the {size} processes that have a part of it, together",
            f"process {group.rank()} without some of them for {PATIENCE.total_seconds():g} s",
            "Call the probe on each of them at the same steps, after torch.distributed.barrier() if one is late.",
        )
    return store.add(f"{at}/yes", 0) == size
