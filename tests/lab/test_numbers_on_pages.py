"""What pages say of single runs, computed from the runs in docs/records."""

import json
import tarfile
from functools import cache
from pathlib import Path

import pytest

from gnomon_lab.papers._shared import PC1, UNSEEN
from gnomon_lab.papers.own.anatomy.order import ARMS, KERNEL, QUANTITIES, done
from gnomon_lab.runs import last, series

ROOT = Path(__file__).parent.parent.parent


@cache
def seeds(experiment, digest):
    """The records of all kept seeds of a setting."""
    with tarfile.open(ROOT / "docs" / "records" / f"{experiment}.tar.xz") as opened:
        names = sorted(name for name in opened.getnames() if digest in name and name.endswith("records.jsonl"))
        return [[json.loads(line) for line in opened.extractfile(name)] for name in names]


def page(name):
    """A page as one line."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def test_what_the_readme_says_of_both_networks_after_they_fit_their_digits():
    steps, grokked = series(seeds("grok-digits", "805ddd2f")[0], "GrokAlign", UNSEEN)
    _, memorised = series(seeds("grok-digits", "805ddd2f")[0], "baseline", UNSEEN)
    fitted, later = steps.index(464), max(place for place, step in enumerate(steps) if step <= 4 * 464)
    assert (
        f"At step {steps[later]:,.0f}, the last reading within four times the steps, both had risen: from "
        f"{100 * grokked[fitted]:.0f} to {100 * grokked[later]:.0f} % of unseen digits, and from "
        f"{100 * memorised[fitted]:.1f} to {100 * memorised[later]:.1f} %."
    ) in page("README.md")


def test_where_pc1_of_grok_digits_falls():
    steps, shares = series(seeds("grok-digits", "805ddd2f")[0], "GrokAlign", PC1)
    peak, dip = steps.index(2154), steps.index(3162)
    assert max(shares[: dip + 1]) == shares[peak]
    assert min(shares[peak:]) == shares[dip]
    assert (
        f"It rises to {shares[peak]:.2f} at step 2,154, has fallen to {shares[dip]:.2f} at step 3,162, and rises "
        f"again, to {shares[-1]:.2f}."
    ) in page("docs/experiments/grok-digits.md")


@pytest.mark.parametrize("name", ["README.md", "docs/index.md", "docs/results.md", "docs/experiments/anatomy.md"])
def test_how_many_quantities_are_still_changing_when_anatomy_ends(name):
    runs = seeds("anatomy", "3c3d3924")
    late = series(runs[0], ARMS[0], UNSEEN)[0][-2]
    still = [[(at or 0) >= late for at in done(runs, ARMS[0], quantity.name)] for quantity in QUANTITIES]
    assert (len(runs), sum(map(any, still)), sum(map(all, still))) == (3, 10, 8)
    said = page(name)
    assert "nine quantities" not in said
    assert "ten quantities are still changing when" in said or "Ten are still changing with weight decay" in said


def test_how_far_the_kernel_turns_in_anatomy():
    runs = seeds("anatomy", "3c3d3924")
    lowest = sorted(min(series(records, "GrokAlign", KERNEL)[1]) for records in runs)
    ends = {arm: sorted(last(records, arm)[KERNEL] for records in runs) for arm in ARMS}
    (decay_low, *_, decay_high), (low, *_, high) = ends["weight decay"], ends["GrokAlign"]
    assert (
        f"at its lowest it has {lowest[0]:.2f} to {lowest[-1]:.2f}, at the end {low:.2f} to {high:.2f}; with weight "
        f"decay it lags behind, and ends at {decay_low:.2f} to {decay_high:.2f}."
    ) in page("docs/reading-a-training.md")
