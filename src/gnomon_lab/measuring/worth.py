"""Whether more training was worth it, by the readings of several checkpoints."""

from collections.abc import Mapping, Sequence
from typing import Any

from gnomon import Verdict, verdict
from gnomon.history import corpus


def worth(rows: Sequence[Mapping[str, Any]]) -> Verdict | None:
    """The verdict on readings by rising step; None unless all have what it looks at."""
    names = corpus().quantities
    if not rows or any(row.get(name) is None for row in rows for name in names):
        return None
    return verdict([row["step"] for row in rows], **{name: [row[name] for row in rows] for name in names})
