"""`gnomon …` in this process, its output caught, and whether it ended as a command may end."""

import contextlib
import io
import sys
import traceback
from collections.abc import Sequence
from unittest import mock

from gnomon_lab import cli
from soak.forked import Ended

LONGEST = 4000
"""Letters of an error: one line, but not a whole file in it."""


def command(arguments: Sequence[str]) -> None:
    """Calls it as the shell would."""
    with mock.patch.object(sys, "argv", ["gnomon", *arguments]):
        cli.main()


def called(arguments: Sequence[str], encoding: str = "utf-8") -> Ended:
    """The same, with what it said; a terminal of that encoding shows it. 70 stands for an exception."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding, how, newline="\n") for how in ("strict", "backslashreplace")]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            command(arguments)
            code: object = 0
        except SystemExit as ending:
            code = 0 if ending.code is None else ending.code
        except BaseException:  # noqa: BLE001 - whatever it is, it is what the case shows
            traceback.print_exc()
            code = 70
    texts = []
    for stream in streams:
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))
    return Ended(code if isinstance(code, int) else 70, *texts)


def unfit(ended: Ended, codes: Sequence[int] = (0, 2)) -> tuple[str, str]:
    """The verdict on a command's end and what was seen; two empty strings if it is one of the codes, and said well.

    Exit 2 is one line of plain letters, which begins with gnomon's name.
    """
    if ended.code is None:
        return "hung", ended.err[-LONGEST:]
    if ended.code not in codes or "Traceback" in ended.err:
        return "raw", f"exit {ended.code}: {ended.err[-LONGEST:] or ended.out[-LONGEST:]}"
    if ended.code == 2:
        last = ended.err.removesuffix("\n").split("\n")[-1]
        lines = [line for line in ended.err.splitlines() if line.startswith("gnomon: ")]
        plain = last.isprintable() and len(last) <= LONGEST and "-" * 20 not in last  # the rules of tyro's boxes
        if len(lines) != 1 or last != lines[0] or not plain:
            return "raw", f"exit 2, but not one plain line: {ended.err[-LONGEST:]!r}"
    if ended.code == 0 and not ended.out.strip():
        return "wrong", f"exit 0, and nothing on stdout: {ended.err[-LONGEST:]!r}"
    return "", ""
