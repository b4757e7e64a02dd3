"""What pages say of the verdict, computed from the corpus that ships."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from gnomon.history import corpus as shipped_corpus
from gnomon.history import traits, verdict
from gnomon_lab.papers.own._watched import read_corpus
from gnomon_lab.papers.own.verdict.models import BOOSTED, booster, boosting
from gnomon_lab.papers.own.verdict.moments import CORE, VALIDATION, moments
from gnomon_lab.papers.own.verdict.nested import chosen
from gnomon_lab.papers.own.verdict.run import corpus_at

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(("which", "quantities"), [("alone", CORE), ("with_validation", CORE | VALIDATION)])
def test_the_corpus_that_ships_predicts_what_was_fitted_to_the_table_that_ships(which, quantities):
    """At its own moments too, at which many a threshold lies."""
    names, networks = read_corpus(corpus_at(""))
    data = moments(names, [network for network in networks if len(network.steps)], quantities)
    known, model = data.only(data.known & data.whole), getattr(shipped_corpus(), which)
    assert known.names == model.names
    expected = booster().fit(known.traits, known.rises).decision_function(known.traits)
    calibrated = model._slope * expected + model._shift
    found = [model.probability(row) for row in known.traits[::2]]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-calibrated[::2])), atol=1e-4)


@pytest.fixture(scope="module")
def of_corpus():
    """The moments of the corpus that ships, and the family of each."""
    names, networks = read_corpus(corpus_at(""))
    networks = [network for network in networks if len(network.steps)]
    data = moments(names, networks, CORE)
    return data, np.array([network.family for network in networks])[data.network]


@pytest.fixture(scope="module")
def asked(of_corpus):
    """By arm of grok-digits the traits, in each of its five seeds, where 99 % of the training data are fitted."""
    found = {"GrokAlign": [], "baseline": []}
    with tarfile.open(ROOT / "docs" / "records" / "grok-digits.tar.xz") as opened:
        for member in sorted(name for name in opened.getnames() if name.endswith("records.jsonl")):
            records = [json.loads(line) for line in opened.extractfile(member)]
            for arm, rows in found.items():
                read = [record for record in records if record["arm"] == arm]
                end = next(place for place, record in enumerate(read) if record["train/accuracy"] >= 0.99) + 1
                columns = {name: np.array([record[f"train/{name}"] for record in read[:end]]) for name in CORE}
                measured = traits(np.array([record["step"] for record in read[:end]]), columns)
                rows.append([measured[name] for name in of_corpus[0].names])
    return {arm: np.array(rows) for arm, rows in found.items()}


@pytest.mark.parametrize(
    ("families", "lowest", "highest"),
    [
        ((), {"GrokAlign": 68, "baseline": 27}, {"GrokAlign": 80, "baseline": 29}),
        (("digits",), {"GrokAlign": 52, "baseline": 24}, {"GrokAlign": 58, "baseline": 30}),
        (("digits", "images", "images-cnn"), {"GrokAlign": 33, "baseline": 20}, {"GrokAlign": 44, "baseline": 22}),
    ],
)
def test_what_pages_say_of_grok_digits_without_families_like_it(of_corpus, asked, families, lowest, highest):
    """README.md, docs/experiments/verdict.md and the docstring of gnomon.verdict."""
    data, family = of_corpus
    group = np.where(np.isin(family, families), -1, np.unique(family, return_inverse=True)[1])
    learnt = (group >= 0) & data.known
    _, _, calibrate = chosen(data, data.rises, group, BOOSTED)
    predict = boosting(data.traits[learnt], data.rises[learnt], data.network[learnt])
    found = {arm: np.round(100 * calibrate(predict(rows))) for arm, rows in asked.items()}
    assert {arm: percent.min() for arm, percent in found.items()} == lowest
    assert {arm: percent.max() for arm, percent in found.items()} == highest


def test_what_the_page_says_of_settled_and_stuck():
    """docs/experiments/verdict.md: of the corpus's own fitted moments, and how often unseen accuracy agrees."""
    names, networks = read_corpus(corpus_at(""))
    networks = [network for network in networks if len(network.steps)]
    data, model = moments(names, networks, CORE | VALIDATION), shipped_corpus().with_validation
    data = data.only(data.fitted & data.whole)
    found = {"settled": [], "fits and is stuck": []}
    for place in np.flatnonzero([model.probability(row) < model.stop for row in data.traits]):
        network, so_far = networks[data.network[place]], slice(data.place[place] + 1)
        read = {name: network.levels[so_far, list(names).index(number)] for name, number in (CORE | VALIDATION).items()}
        says = verdict(network.steps[so_far], **read).says
        if says in found:  # or the run is unlike the others
            found[says].append(bool(data.closed[place]))
    assert {says: (len(closed), sum(closed)) for says, closed in found.items()} == {
        "settled": (153, 141),
        "fits and is stuck": (248, 2),
    }
