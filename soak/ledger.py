"""What was done so far, on disk: a line for each finished unit of cases, and a line for each failure.

Lines are appended and flushed; a unit that was under way when the soak was stopped is made again.
"""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from soak.case import FAULTS, Case

COUNTED = ("tries", "kills", *FAULTS, "seconds")


class Ledger:
    """The position and the counts of one seed and one version of the code; code without a version begins anew."""

    def __init__(self, above: Path, commit: str | None, seed: int) -> None:
        folder = above / f"{commit}-seed{seed}"
        if commit is None or commit.endswith("-dirty"):
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        self._seed = seed
        self.units, self.failures = folder / "units.jsonl", folder / "failures.jsonl"
        self.counts: dict[str, Counter[str]] = {}
        self.done: dict[str, set[int]] = {}
        self.minutes = 0.0
        for line in whole_lines(self.units):
            self._count(line)

    def add(self, kind: str, unit: int, first: int, cases: Sequence[Case], seconds: float, wall: float) -> None:
        """Keeps a finished unit, whose first case has this number."""
        for number, case in enumerate(cases, first):
            if case.verdict:
                again = f'--seed {self._seed} --again "{kind}:{number}"'
                line = {"again": again, "verdict": case.verdict, "did": case.did, "saw": case.saw}
                append(self.failures, line)
        verdicts = Counter(case.verdict for case in cases)
        line = {"kind": kind, "unit": unit, "tries": sum(case.tries for case in cases)}
        line |= {"kills": sum(case.kills for case in cases)}
        line |= {fault: verdicts[fault] for fault in FAULTS} | {"seconds": round(seconds, 3), "wall": round(wall, 3)}
        append(self.units, line)
        self._count(line)

    def free_unit(self, kind: str, taken: set[int]) -> int:
        """The first unit of a kind that was neither made nor taken."""
        known = self.done.get(kind, set()) | taken
        return next(unit for unit in range(len(known) + 1) if unit not in known)

    def total(self) -> Counter[str]:
        """All counts of all kinds."""
        return sum(self.counts.values(), Counter())

    def figures(self) -> str:
        """The counts as a table, in Markdown."""
        columns = ("tries", "kills", *FAULTS)
        lines = [f"| kind | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
        for kind, counts in [*sorted(self.counts.items()), ("all", self.total())]:
            lines.append(f"| {kind} | " + " | ".join(f"{counts[name]:,}" for name in columns) + " |")
        return "\n".join(lines)

    def _count(self, line: dict) -> None:
        self.done.setdefault(line["kind"], set()).add(line["unit"])
        counts = self.counts.setdefault(line["kind"], Counter())
        for name in COUNTED:
            counts[name] += line[name]
        self.minutes += line["wall"] / 60


def append(path: Path, line: dict) -> None:
    """One line, after a torn one that a kill left."""
    with path.open("ab+") as file:
        if file.tell() and (file.seek(-1, 2), file.read())[1] != b"\n":
            file.write(b"\n")
        file.write(json.dumps(line).encode() + b"\n")


def whole_lines(path: Path) -> list[dict]:
    """The lines that a kill did not tear."""
    lines = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines
