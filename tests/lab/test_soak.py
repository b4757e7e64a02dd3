"""`make soak` has no end of its own; here each of its kinds makes a few cases."""

import os
import re
import sys
from pathlib import Path

from tests.children import child

ROOT = Path(__file__).parents[2]
# "random kills" are those of test_runs.py, and two kinds start sweeps.
QUICK = ("file operations", "altered runs", "measured files", "functions", "command lines")


def soak(folder, *arguments):
    """Its exit code, and what it printed."""
    done = child(_soak, ["soak", "--folder", str(folder), "--workers", "1", *arguments], seconds=250)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def _soak(words):
    from soak.__main__ import main  # which sets the environment

    os.chdir(ROOT)
    sys.argv = words
    sys.exit(main())


def test_every_kind_makes_its_cases(tmp_path):
    code, said = soak(tmp_path, "--cases", "2", "--only", *QUICK)
    assert code in (0, 1), said
    failures = [path.read_text() for path in tmp_path.glob("*/failures.jsonl")]
    for kind in QUICK:
        # Of functions three are too few to say anything: tests/unit/test_fuzz.py goes through them all.
        faults = r"\d \| \d \| \d" if kind == "functions" else r"0 \| 0 \| 0"
        assert re.search(rf"^\| {kind} \| \d+ \| {faults} \| 0 \|$", said, re.MULTILINE), (said, failures)
    assert not (tmp_path / "scratch").exists(), "its scratch is left"
    assert len(next(tmp_path.glob("*/units.jsonl")).read_text().splitlines()) == len(QUICK)
