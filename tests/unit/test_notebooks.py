"""The notebooks of docs/notebooks: `make notebooks` executes all of them, the suite the first."""

import re
from pathlib import Path

import nbformat
import pytest
from tools.notebooks import executed

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NUMBER = re.compile(r"-?\d+\.?\d*")


def cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell):
    """Of what it shows: pictures, tables, text."""
    return sorted(kind for output in cell.outputs for kind in output.get("data", ()))


def printed(notebook):
    """All numbers that it prints."""
    outputs = [output for cell in cells(notebook) for output in cell.outputs]
    return [float(number) for output in outputs for number in NUMBER.findall(output.get("text", ""))]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_what_it_printed_and_drew(path):
    notebook = nbformat.read(path, as_version=4)
    assert [cell.execution_count for cell in cells(notebook)] == list(range(1, len(cells(notebook)) + 1))
    for cell in cells(notebook):
        assert ("image/png" in kinds(cell)) == bool(re.search(r"\.plot\(|subplots\(", cell.source)), cell.source
        assert bool(cell.outputs) == bool(kinds(cell) or "print(" in cell.source), cell.source
    assert path.stat().st_size < 700_000


@pytest.mark.once
def test_the_first_notebook_runs_and_prints_what_it_holds():
    path = FOLDER / "first-reading.ipynb"
    now, then = executed(path), nbformat.read(path, as_version=4)
    assert [kinds(cell) for cell in cells(now)] == [kinds(cell) for cell in cells(then)]
    assert printed(now) == pytest.approx(printed(then), rel=0.05)  # other processors round otherwise
