"""What `benchmarks/scale.py` measured is what the page says, and it goes on where it ended."""

import importlib.util
import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def scale():
    spec = importlib.util.spec_from_file_location("scale", ROOT / "benchmarks" / "scale.py")
    module = sys.modules["scale"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["scale"]


def test_the_page_says_what_was_measured(scale):
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    found = scale.results()
    assert {point for points in scale.GRID.values() for point in points} == found.keys()
    assert (ROOT / "docs" / "assets" / "scale.svg").stat().st_size < 27_000
    for claim in scale.claims(found):
        assert f"| {claim.said} | {claim.measured} | {'holds' if claim.holds else 'does not hold'} |" in page


def test_a_claim_that_does_not_hold_is_said(scale):
    found = scale.results()
    assert scale.claims(found)[0].holds
    slower = scale.GRID["outputs"][-1]
    seconds = {"processor": 10 * found[slower]["seconds"]["processor"]}
    assert not scale.claims(found | {slower: found[slower] | {"seconds": seconds}})[0].holds


def test_what_stands_in_the_file_is_not_read_again(scale, monkeypatch, tmp_path, capsys):
    first, second = scale.Point("MLP", 10, 2), scale.Point("MLP", 10, 4)
    monkeypatch.setattr(scale, "GRID", {"few": [first, second]})
    monkeypatch.setattr(scale, "RESULTS", tmp_path / "scale.jsonl")
    scale.RESULTS.write_text(json.dumps({"point": asdict(first)}) + "\n", encoding="utf-8")
    asked = []
    monkeypatch.setattr(scale, "measured", lambda point: asked.append(point) or {"seconds": None})
    scale.fill()
    scale.fill()
    assert asked == [second]
    assert scale.results().keys() == {first, second}
    assert capsys.readouterr().out.count("\n") == 2


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system does not tell peaks of memory")
def test_a_point_is_read_and_its_estimates_are_as_exact_as_asked_for(scale):
    with torch.random.fork_rng():
        found = scale.read(scale.Point("MLP", 200, 4, "norm and PC1"), 0, "")
    assert found["parameters"] == 64 * 40 + 40 * 200
    assert found["error"].keys() == found["passes"].keys() == {"jacobian_norm", "explained_variance_ratio"}
    assert max(found["error"].values()) <= 0.05
    assert found["MiB"]["beyond"] < 100
