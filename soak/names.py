"""The names in folders, which a power failure may take back as long as their folder was not synced."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable
from os import link, mkdir, rename, unlink  # as they are: those of `os` will be the soak's
from pathlib import Path
from random import Random

from soak.case import Do


class Names:
    """The changes of names since their folders were last synced, in order.

    What a change removes is kept in a folder beside, as a second name of the same file.
    """

    def __init__(self, beside: Path) -> None:
        self._beside, self._kept = beside, 0
        self._changes: list[tuple[str, Do]] = []
        """The folder whose names were changed, and what takes the change back."""

    def before(self, operation: str, path: str, other: str) -> Callable[[], None]:
        """Called before an operation on a path, and to another if it has two; what is returned then notes it."""
        place = other or path
        new = not os.path.lexists(place)
        old = None if new or operation in ("open", "mkdir", "rmdir") else self._second_name(place)

        def back() -> None:
            match operation:
                case "replace" | "rename":
                    rename(place, path)
                case "rmdir":
                    mkdir(place)
                case "open" | "link" | "symlink":
                    unlink(place)
                case "mkdir":
                    rename(place, self._free())  # with all that is in it
            if old is not None:
                rename(old, place)

        changed = operation != "open" or new
        return lambda: self._changes.append((os.path.dirname(place), back)) if changed else None

    def synced(self, folder: str) -> None:
        """Its names are on the disk."""
        self._changes = [change for change in self._changes if change[0] != folder]

    def cut(self, chance: Random) -> None:
        """Takes back the last changes of each folder, some or all of those that are not on the disk."""
        counts = Counter(folder for folder, _ in self._changes)
        left = {folder: chance.choice([count, chance.randint(0, count)]) for folder, count in counts.items()}
        for folder, back in reversed(self._changes):
            if left[folder]:
                left[folder] -= 1
                with contextlib.suppress(FileNotFoundError):  # it lay in a folder that is gone
                    back()

    def _second_name(self, path: str) -> str:
        kept = self._free()
        link(path, kept, follow_symlinks=False)
        return kept

    def _free(self) -> str:
        """A name that nobody has, in the folder beside."""
        with contextlib.suppress(FileExistsError):
            mkdir(self._beside)
        self._kept += 1
        return os.path.join(self._beside, str(self._kept))
