"""What only an extra brings: gnomon measures, steers and solves without it, and says what is missing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gnomon._extras import missing, require
from gnomon.errors import MissingExtraError

PROGRAM = Path(__file__).parents[1] / "empty_environment.py"
SOURCES = Path(__file__).parents[2] / "src"


@pytest.mark.unchecked
def test_without_the_extras_gnomon_measures_steers_and_solves():
    """`make empty` runs the same program where they are not installed."""
    done = subprocess.run([sys.executable, PROGRAM, "--hidden"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pip install '.[lab]' in the folder of gnomon's sources") == 3


def test_a_broken_package_is_not_a_missing_one():
    absent = ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
    assert str(missing("gnomon.plot", "matplotlib", "plot", absent)) == (
        "gnomon.plot needs matplotlib: pip install '.[plot]' in the folder of gnomon's sources."
    )
    inside = ModuleNotFoundError("No module named 'kiwisolver'", name="kiwisolver")
    for cause in (inside, OSError("bad wheel")):
        with pytest.raises(
            MissingExtraError, match=rf"does not import \({type(cause).__name__}: {cause}\). Install it"
        ):
            raise missing("gnomon.plot", "matplotlib", "plot", cause)


def test_a_command_names_the_first_package_that_it_lacks():
    require("gnomon", ("math", "torch"), "lab")
    with pytest.raises(MissingExtraError, match=r"^gnomon needs no_such: pip install '.\[lab\]' in the folder"):
        require("gnomon", ("torch", "no_such", "none_either"), "lab")


@pytest.mark.unchecked
def test_arrays_in_shapes_are_classes():
    """From NumPy 2.5 on `NDArray` is a type alias, which jaxtyping takes for no class: gnomon could not be imported."""
    shapes = re.compile(r"\b(Float|Int|Bool|Shaped|Num|Real)\[(npt\.)?NDArray")
    assert [path for path in SOURCES.rglob("*.py") if shapes.search(path.read_text("utf-8"))] == []
    assert shapes.search('Float[NDArray[Any], "q"]')
