"""Whether more training was worth it, said of each arm whose records have what the verdict looks at."""

from collections.abc import Sequence

from gnomon import verdict
from gnomon.history import corpus
from gnomon_lab.runs import Record, by_arm


def worth(records: Sequence[Record]) -> dict[str, str]:
    """By arm the verdict at its last reading; none of those that were read otherwise."""
    names = corpus().quantities
    found = {}
    for arm, read in by_arm(records).items():
        whole = [record for record in read if all(record.get(f"train/{name}") is not None for name in names)]
        if whole:
            columns = {name: [record[f"train/{name}"] for record in whole] for name in names}
            found[arm] = verdict([record["step"] for record in whole], **columns).message
    return found
