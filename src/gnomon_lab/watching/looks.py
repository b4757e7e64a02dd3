"""Which colour and which dashes a curve has: those of its arm and of its seed, where runs differ in the seed alone."""

import re
from pathlib import Path

RUN = re.compile(r"(?P<setting>[0-9a-f]{8})-seed(?P<seed>\d+)")
"""A run's folder."""


class Looks:
    """The places of colours and dashes, from 0, which stay when others come or go.

    Where several runs differ in the seed alone, each arm has a colour, and each run has dashes. Elsewhere each curve
    has a colour, with the dashes of the same place.
    """

    def __init__(self) -> None:
        self._colours: dict[tuple[Path, str | None], int] = {}
        self._alike: dict[Path, dict[Path, int]] = {}

    def add(self, path: Path, arm: str | None) -> None:
        """Gives a curve its places, unless it has them."""
        setting = _without_seed(path)
        self._colours.setdefault((setting, arm), len(self._colours))
        runs = self._alike.setdefault(setting, {})
        runs.setdefault(path, len(runs))

    def of(self, path: Path, arm: str | None) -> tuple[int, int]:
        """The places of a curve's colour and of its dashes."""
        setting = _without_seed(path)
        colour, runs = self._colours[setting, arm], self._alike[setting]
        return colour, runs[path] if len(runs) > 1 else colour


def _without_seed(path: Path) -> Path:
    """What the runs of one setting have in common; of another file the file itself."""
    run = RUN.fullmatch(path.parent.name)
    return path.parent.with_name(run["setting"]) if run else path
