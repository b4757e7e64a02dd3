"""What reading cost a run, from its records."""

from collections import Counter
from collections.abc import Sequence

from gnomon_lab.runs import Record, by_arm, duration

NAMED = 3
"""How many of the most expensive quantities are named."""


def cost(records: Sequence[Record]) -> dict[str, str]:
    """For each arm with readings: their seconds, next to those of training, and those of the most expensive quantities.

    A resumed run counts only the seconds of what is left of it: not those after the checkpoint from which it resumed.
    """
    costs = {}
    for arm, own in by_arm(records).items():
        read, trained = own[-1]["seconds"]["read"], own[-1]["seconds"]["trained"]
        parts: Counter[str] = Counter()
        for record in own:
            parts.update(record["seconds"]["cost"])
        if read > 0:
            share = f", {read / trained:.0%} of it" if trained > 0 else ""
            most = ", ".join(f"{name} {duration(took)}" for name, took in parts.most_common(NAMED))
            costs[arm] = f"{duration(read)} of reading beside {duration(trained)} of training{share}; most for {most}"
    return costs
