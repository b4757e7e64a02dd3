"""A quantity is two files: docs/adding.md adds one to a copy of the sources, and all else follows."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "adding.md"
PARTS = ("src", "tests", "docs", "tools", "benchmarks")
FOLLOWS = """
from pathlib import Path

import torch, gnomon
from docs.sections import with_new_quantities
from gnomon_lab.measuring.quantities import QUANTITIES, explanation

def test_sensitivity_follows():
    assert "sensitivity" in gnomon.__all__ and "sensitivity" in gnomon.measure.__all__
    assert "sensitivity" in QUANTITIES
    assert explanation("sensitivity").startswith("By how much the outputs move")
    page = with_new_quantities(Path("docs/quantities/jacobian.md").read_text(), "jacobian")
    assert "\\n::: gnomon.sensitivity\\n" in page
    layer, x = torch.nn.Linear(3, 2, bias=False), torch.ones(4, 3)
    probe = gnomon.Probe(layer, x, {"twice": lambda sensitivity: 2 * sensitivity})
    expected = 0.02 * layer(x).norm(dim=1)
    torch.testing.assert_close(probe.read().values["twice"], expected.detach())
"""


def python(where, *arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=where,
        env={"PYTHONPATH": f"{where / 'src'}:{where}", "OMP_NUM_THREADS": "1"},
        text=True,
        capture_output=True,
    )


@pytest.mark.unchecked
def test_two_files_add_a_quantity(tmp_path):
    for part in PARTS:
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("assets", "records"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    files = re.findall(r'^```python title="([^"]+)"\n(.*?)^```', page, re.DOTALL | re.MULTILINE)
    assert len(files) == 2
    for path, text in files:
        with (tmp_path / path).open("a", encoding="utf-8") as file:
            file.write(text)
    made = python(tmp_path, "tools/exports.py")
    assert made.stdout.count("written") == 2, made.stderr
    # One process for both, since each imports torch; pytest fails if it finds no such test.
    (tmp_path / "tests" / "unit" / "test_follows.py").write_text(FOLLOWS, encoding="utf-8")
    files = ("tests/unit/test_follows.py::test_sensitivity_follows", "tests/unit/test_contract.py")
    checked = python(tmp_path, "-m", "pytest", *files, "-k", "sensitivity or row", "-p", "no:cacheprovider")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count(".") > 20
    # Rows that are gone are stale, and so is a table: nothing matched, and nothing was said.
    experiments = tmp_path / "docs" / "experiments.md"
    whole = experiments.read_text(encoding="utf-8")
    for pattern, says in ((r"\| \[.*\n", "docs/experiments.md: stale"), (r"\|.*\n", "expected one part that matches")):
        experiments.write_text(re.sub(pattern, "", whole), encoding="utf-8")
        checked = python(tmp_path, "tools/exports.py", "--check")
        assert checked.returncode == 1
        assert says in checked.stdout + checked.stderr


def test_the_files_of_a_method_are_those_that_the_page_lists():
    """Those that hold one which exists; the list names its own file by NAME."""
    page = PAGE.read_text(encoding="utf-8")
    section = re.search(r"^## A method\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)[1]
    listed = set(re.findall(r"`((?:\w+/)*\w+\.(?:pyi?|md))`", section.partition("\n- ")[2])) - {"tests/waits.py"}
    parts = [ROOT / "CHANGELOG.md", *(path for part in PARTS for path in (ROOT / part).rglob("*"))]
    texts = (path for path in parts if path.suffix in (".py", ".pyi", ".md") and path not in (Path(__file__), PAGE))
    holding = {path.relative_to(ROOT).as_posix() for path in texts if "EgalitarianGradients" in path.read_text("utf-8")}
    assert {path.replace("_NAME", "_egalitarian_gradients") for path in listed} == holding


def test_what_is_exported_follows_from_the_files():
    checked = python(ROOT, "tools/exports.py", "--check")
    assert checked.returncode == 0, checked.stdout
