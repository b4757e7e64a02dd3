"""Imports run downwards only: the contracts in pyproject.toml; and one floor alone differentiates."""

import re
import subprocess
import sys
from pathlib import Path

from importlinter.cli import lint_imports

import gnomon

DERIVATIVES = re.compile(
    # A function may state its own derivative anywhere, and to count changes of a tensor is not to differentiate.
    r"torch\.autograd(?!\.Function\b|\.function import|\._unsafe_preserve_version_counter)"
    r"|torch\.func\.(grad|vjp|jvp|jac|hessian|linearize)|\bgrad_fn\b|next_functions"
)


def test_contracts_are_kept():
    assert lint_imports(cache_dir=None) == 0


def test_modules_are_there_once_gnomon_is_imported():
    code = "import gnomon; print(gnomon.regions.slice_regions.__name__, gnomon.measure.nc1 is gnomon.nc1)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "slice_regions True\n"


def test_autodiff_alone_differentiates():
    package = Path(gnomon.__file__).parent
    names = {
        f"{path.relative_to(package)}: {found.group()}"
        for path in package.rglob("*.py")
        if path.parent != package / "autodiff"
        for found in DERIVATIVES.finditer(path.read_text())
    }
    assert names == set()
    assert DERIVATIVES.search((package / "autodiff" / "_tape.py").read_text())
