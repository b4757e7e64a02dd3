"""A page's title and introduction stand there whatever came of the run: no outcome is stated in them."""

import re

import pytest

from gnomon_lab.papers import EXPERIMENTS, experiment

OUTCOME = re.compile(
    r"\b(groks? them|its twin|groks: late|stays poor|by heart|makes? .* robust|prevents it|brings generalisation|"
    r"does not help|collapses layer by layer|tend to rank one, sooner|far more than|input noise does not)\b"
)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_title_and_introduction_state_no_outcome(name):
    assert not OUTCOME.search(" ".join((EXPERIMENTS[name].shows, experiment(name).introduction)))
