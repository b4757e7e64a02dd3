"""The command line: `gnomon COMMAND …`, one file per command, imported when the command is called."""

import difflib
import importlib
import os
import signal
import sys
from collections.abc import Sequence

from gnomon._extras import require
from gnomon.errors import DataError, GnomonError, within
from gnomon_lab.cli.say import plain, take_any_letter, write_nowhere

COMMANDS = {
    "run": "run an experiment, or resume it where it stopped",
    "list": "the experiments, and the runs on disk",
    "report": "write a run's page again, from its records",
    "verify": "check the papers' claims against the finished runs",
    "measure": "read the geometry of a trained network off its checkpoints, and how it moved",
    "verdict": "say whether more training is worth it, from the readings so far",
    "watch": "follow runs and histories while they grow",
}

LAB = ("jinja2", "matplotlib", "plotly", "rich", "safetensors", "sklearn", "tyro")
"""What the extra installs."""
LONGEST = 3000
"""The most characters of an error message: names in it come from files, and can have any length."""
STOPPED = 130
"""The exit code after Ctrl-C, as shells have it."""


def main() -> None:
    """Runs the command; a mistake of the user's gives one line on stderr and exit code 2."""
    take_any_letter()
    command, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("--help", [])
    try:
        try:
            code = called(command, arguments)
        finally:
            sys.stdout.flush()  # a failed write shows here, not when Python exits
    except GnomonError as error:
        complain(str(error))
    except BrokenPipeError:
        write_nowhere(sys.stdout, sys.stderr)
        sys.exit(1)
    except OSError as error:
        write_nowhere(sys.stdout)
        complain(
            f"gnomon {command}: expected to read and write files, got {error}. "
            "What was written before is kept; mend it and call the same command again."
        )
    except ImportError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:  # NumPy's own message is a page long
            cause = cause.__cause__
        complain(
            f"gnomon {command}: expected to import what gnomon is made of, got {cause}. "
            "Install it again, or allow more memory."
        )
    except (MemoryError, SystemError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        complain(f"gnomon {command}: expected memory for what it computes, got none left. Ask for less, or allow more.")
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, end_at_once)
        goes_on = "; the same command goes on from the last checkpoint, if there is one" if command == "run" else ""
        print(f"\ngnomon: stopped{goes_on}.", file=sys.stderr)
        sys.exit(STOPPED)
    sys.exit(code)


def called(command: str, arguments: Sequence[str]) -> int:
    """Calls one of the commands and returns the exit code."""
    if command == "--version":
        print(version())
        return 0
    require("the command gnomon", LAB, "lab")
    if command in ("--help", "-h"):
        print(usage())
        return 0
    if command not in COMMANDS:
        near = difflib.get_close_matches(command, COMMANDS, 1)
        raise DataError(
            "COMMAND",
            f"one of {', '.join(COMMANDS)}",
            repr(command),
            f"Did you mean {near[0]}?" if near else "See `gnomon --help`.",
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # how a cluster stops a job, which then ends as by Ctrl-C
    with within(command):
        return importlib.import_module(f"gnomon_lab.cli.{command}_command").main(arguments)


def end_at_once(number: int, frame: object) -> None:
    """What a second Ctrl-C does: in what Python calls when it exits, an exception would be printed."""
    os._exit(STOPPED)


def lacks_memory(error: Exception) -> bool:
    """Whether an error is one of those by which Python, its extensions and torch report a lack of memory."""
    in_torch = type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in str(error)
    return in_torch or isinstance(error, MemoryError | SystemError)


def complain(message: str) -> None:
    """Prints what is wrong in one line, and exits with code 2."""
    line = " ".join(line.strip() for line in message.splitlines())
    print(plain(f"gnomon: {line if len(line) <= LONGEST else line[:LONGEST] + ' …'}"), file=sys.stderr)
    sys.exit(2)


def version() -> str:
    """The installed version."""
    from importlib.metadata import version as installed

    return f"gnomon {installed('gnomon')}"


def usage() -> str:
    """The commands, one line each."""
    lines = [f"  {name:<8} {does}" for name, does in COMMANDS.items()]
    return "\n".join(
        [
            "usage: gnomon COMMAND …",
            "",
            "The geometry of neural-network training.",
            "",
            *lines,
            "",
            "`gnomon COMMAND --help` says more; start with `gnomon run grok-digits`.",
        ]
    )
