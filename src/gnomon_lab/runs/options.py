"""Settings as options of `gnomon run`."""

import shlex
from collections.abc import Iterator


def option(name: str, value: object) -> str:
    """The words, as a shell reads them, with which a command line gives a field this value."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"--{flag} {shlex.join(_flat(value))}"


def _flat(value: object) -> Iterator[str]:
    """Lists within lists are written without brackets: how long each is, the type says."""
    if isinstance(value, list):
        for part in value:
            yield from _flat(part)
    else:
        yield str(value)
