"""Pictures stand behind their quantities, and what the caption says of it is what was drawn."""

import importlib.util
import inspect
import re
import sys
from itertools import product
from operator import attrgetter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

import gnomon
import gnomon.regions

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "docs" / "pictures"
FOLDER = ROOT / "docs" / "assets" / "quantities"
PAGES = [ROOT / "docs" / "regions.md", *sorted((ROOT / "docs" / "quantities").glob("*.md"))]


def loaded(name):
    """A module of docs/pictures, by the name under which the others import it."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, SOURCES / f"{name}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="module")
def program():
    """The modules of docs/pictures, from the one that imports none of the others on."""
    names = ("runs", "drawing", "table")
    yield {name: loaded(name) for name in names}
    for name in names:
        del sys.modules[name]


def captions():
    """By the picture, the name of the entry in which it stands, and its caption."""
    picture = r"!\[[^\]]+\]\((?:\.\./)?assets/quantities/([\w.]+)\.svg\)\{ \.quantity \}"
    entry = rf"^::: gnomon\.([\w.]+)\n(?:    .*\n)*\n{picture}\n((?:.+\n)+)"
    found = [part for page in PAGES for part in re.findall(entry, page.read_text(encoding="utf-8"), re.MULTILINE)]
    return {picture: (name, " ".join(caption.split())) for name, picture, caption in found}


def test_every_picture_stands_behind_its_quantity(program):
    assert {picture: name for picture, (name, _) in captions().items()} == {
        name: name for name in program["table"].PICTURES
    }
    used = [name for page in PAGES for name in re.findall(r"quantities/([\w.]+)\.svg", page.read_text("utf-8"))]
    assert sorted(used) == sorted(path.stem for path in FOLDER.glob("*.svg"))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.svg")), ids=lambda path: path.stem)
def test_the_caption_and_the_docstring_name_the_numbers_of_the_picture(path, program):
    root = ElementTree.parse(path).getroot()
    assert root.tag.endswith("svg")
    assert path.stat().st_size < (70_000 if path.stem == "regions.slice_regions" else 27_000)  # some 2,000 regions
    described = root.find(".//{http://purl.org/dc/elements/1.1/}description").text or ""
    numbers = [part.split(": ")[1] for part in described.split("; ")] if described else []
    said = [captions()[path.stem][1]]
    if "Reading:" in (docstring := inspect.getdoc(attrgetter(path.stem)(gnomon))):
        said.append(" ".join(docstring.split("\n\n")[1].split()))
    for number, text in product(numbers, said):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d%])", text), f"{number} is not in: {text}"


def test_the_quantities_that_are_drawn_are_those_that_the_runs_read(program):
    drawn = {}
    for picture in program["table"].PICTURES.values():
        drawn.setdefault(id(picture.pair), (picture.pair, set()))[1].update(picture.keys)
    for pair, keys in drawn.values():
        assert set(pair.quantities(pair.begin(pair.arms[0]))) == keys


def test_a_pair_is_trained_and_drawn(program):
    pair, pictures = program["runs"].CLUSTERS, program["table"].PICTURES
    short = type(pair)(pair.arms, 3, pair.begin, pair.quantities)
    runs = short.runs(["cumulative_parameters", "condition", "truncated_inputs"])
    assert list(runs) == list(pair.arms)
    for run in runs.values():
        assert [reading.step for reading in run.readings] == [0, 1, 2, 3]
        assert run.read("condition").ndim == 0
    for name in ("cumulative_parameters", "truncated_inputs"):
        numbers = pictures[name].draw(Figure(figsize=(3.5, 2.4)), runs)
        assert list(numbers) == list(pair.arms)


def test_the_arms_of_a_pair_start_alike(program):
    for pair in (program["runs"].DIGITS, program["runs"].ADDITION, program["runs"].CLUSTERS):
        first, second = (dict(pair.begin(arm).model.named_parameters()) for arm in pair.arms)
        assert all(first[name].equal(second[name]) for name in first)
