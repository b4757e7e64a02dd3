"""`make soak` has no end of its own; here each of its kinds makes a few cases."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# "random kills" are those of test_runs.py, and two kinds start sweeps.
QUICK = ("file operations", "altered runs", "measured files", "functions", "command lines")


def soak(folder, *arguments):
    """Its exit code, and what it printed."""
    command = [sys.executable, "-m", "soak", "--folder", str(folder), "--workers", "1", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


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
