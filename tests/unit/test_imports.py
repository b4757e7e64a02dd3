"""Imports run downwards only: the contracts in pyproject.toml."""

from importlinter.cli import lint_imports


def test_contracts_are_kept():
    assert lint_imports(cache_dir=None) == 0
