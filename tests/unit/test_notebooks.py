"""The notebooks of docs/notebooks: `make notebooks` executes all of them, in a kernel each, the suite the first."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NUMBER = re.compile(r"-?\d+\.?\d*")


def cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell):
    """Of what it shows: pictures, tables, text."""
    return sorted(kind for output in cell.outputs for kind in output.get("data", ()))


def numbers(text):
    return [float(number) for number in NUMBER.findall(text)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_what_it_printed_and_drew(path):
    notebook = nbformat.read(path, as_version=4)
    assert [cell.execution_count for cell in cells(notebook)] == list(range(1, len(cells(notebook)) + 1))
    for cell in cells(notebook):
        assert ("image/png" in kinds(cell)) == bool(re.search(r"\.plot\(|subplots\(", cell.source)), cell.source
        assert bool(cell.outputs) == bool(kinds(cell) or "print(" in cell.source), cell.source
    assert path.stat().st_size < 700_000


@pytest.mark.unchecked
def test_the_first_notebook_runs_and_prints_what_it_holds():
    """In this process, which has imported torch."""
    held = cells(nbformat.read(FOLDER / "first-reading.ipynb", as_version=4))
    own = {"__name__": "notebook"}
    plt.close("all")
    with redirect_stdout(StringIO()) as said:
        for cell in held:
            exec(cell.source, own)
    assert len(plt.get_fignums()) == sum("image/png" in kinds(cell) for cell in held)
    plt.close("all")
    then = "".join(output.get("text", "") for cell in held for output in cell.outputs)
    assert numbers(said.getvalue()) == pytest.approx(numbers(then), rel=0.05)  # other processors round otherwise
