"""Processes meet before they communicate: one that comes alone gets an error, and does not wait for ever."""

from contextlib import suppress
from datetime import timedelta

from torch.distributed import PrefixStore, ProcessGroup
from torch.distributed.distributed_c10d import _get_default_store

from gnomon.errors import UnsupportedModuleError

PATIENCE = timedelta(seconds=20)
"""How long the first waits for the last."""


def meet(group: ProcessGroup, yes: bool) -> bool:
    """Whether all processes of a group say yes, once all have come.

    They meet in torch's store and not by a collective, which would wait for the backend's minutes, and leave the
    group out of step. Meetings are numbered: one at which some waited in vain is over, and who is late goes to the
    next.

    Raises:
        UnsupportedModuleError: if some do not come.
    """
    store, size = PrefixStore(f"gnomon/{group.group_name}", _get_default_store()), group.size()
    mine = f"of/{group.rank()}"
    number = store.add(mine, 1)
    while store.check([f"{number}/end"]):
        number = store.add(mine, 1)
    end = f"{number}/end"
    store.add(f"{number}/yes", int(yes))
    last = store.add(f"{number}/came", 1) == size
    if not last:
        with suppress(RuntimeError):
            store.wait([end], PATIENCE)
    if store.add(f"{number}/turn", 1) == 1:  # The last one, or the first whose patience is at its end: it says.
        store.set(end, "met" if last else "missed")
    if store.get(end) != b"met":
        raise UnsupportedModuleError(
            "model",
            f"the {size} processes that have a part of it, together",
            f"process {group.rank()} without some of them for {PATIENCE.total_seconds():g} s",
            "Call the probe on each of them at the same steps, behind torch.distributed.barrier() where one is late.",
        )
    return store.add(f"{number}/yes", 0) == size
