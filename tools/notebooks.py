"""Executes the notebooks of docs/notebooks, or those that are named, and keeps what they print and draw.

One that raises or warns ends it, and stays as it was. Their pages are made of what they hold: docs/from_notebooks.py.
"""

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

ROOT = Path(__file__).parents[1]
CONFIG = Config({"KernelManager": {"transport": "ipc"}})
"""By sockets of the file system: no port is opened."""
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook as it is after all its cells, each in turn."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata = nbformat.from_dict(METADATA)
    NotebookClient(notebook, timeout=600, record_timing=False, coalesce_streams=True, config=CONFIG).execute()
    notebook.metadata = nbformat.from_dict(METADATA)  # without the versions of this machine
    said = [
        output.text for cell in notebook.cells for output in cell.get("outputs", ()) if output.get("name") == "stderr"
    ]
    if said:
        sys.exit(f"{path.name}: expected no warnings, got\n{''.join(said)}")
    return notebook


def main(names: list[str]) -> int:
    """All, or those of these names, in place."""
    paths = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
    if unknown := {*names} - {path.stem for path in paths}:
        sys.exit(f"expected some of {', '.join(path.stem for path in paths)}, got {', '.join(sorted(unknown))}")
    for path in paths:
        if not names or path.stem in names:
            start = time.perf_counter()
            notebook = executed(path)
            nbformat.write(notebook, path)
            size = path.stat().st_size
            print(f"{path.stem}: {time.perf_counter() - start:.0f} s, {size / 1000:.0f} kB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
