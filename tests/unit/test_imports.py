"""Imports run downwards only, as in pyproject.toml; no experiment imports another; one floor alone differentiates."""

import ast
import re
import subprocess
import sys
from pathlib import Path

from importlinter.cli import lint_imports

import gnomon
import gnomon_lab

DERIVATIVES = re.compile(
    # A function may state its own derivative anywhere, and to count changes of a tensor is not to differentiate.
    r"torch\.autograd(?!\.Function\b|\.function import|\._unsafe_preserve_version_counter)"
    r"|torch\.func\.(grad|vjp|jvp|jac|hessian|linearize)|\bgrad_fn\b|next_functions"
)


def test_contracts_are_kept():
    assert lint_imports(cache_dir=None) == 0


def experiments_in(path):
    """The experiments whose modules a file imports, as (wing, name); private modules belong to none."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("gnomon_lab.papers."):
            for name in node.names:
                wing, *module = f"{node.module}.{name.name}".split(".")[2:]
                if module and not wing.startswith("_") and not module[0].startswith("_"):
                    yield wing, module[0]


def test_no_experiment_imports_another():
    """What experiments share is in private modules of their wing, which import none of them either."""
    papers = Path(gnomon_lab.__file__).parent / "papers"
    taken = {
        (path.relative_to(papers).as_posix(), *other)
        for path in papers.glob("*/**/*.py")
        for other in experiments_in(path)
        if other != tuple(path.relative_to(papers).with_suffix("").parts[:2])
    }
    assert taken == set()
    assert {*experiments_in(papers / "own" / "anatomy" / "__init__.py")} == {("own", "anatomy")}


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
