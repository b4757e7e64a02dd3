"""Readings and histories in a notebook and in a terminal."""

import math
import re
from html.parser import HTMLParser

import pytest
import torch
from torch import nn

import gnomon
from gnomon import History, Reading, compare
from gnomon.probe._table import rows_by_quantity

VOID = {"polyline", "circle"}


class Page(HTMLParser):
    """The table's cells by row, and whether all that opens closes."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.tags = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data


def history(**more):
    found = History()
    for step in (0, 1, 10, 100):
        values = {
            "train/nc1": torch.tensor(1.0 / (1 + step)),
            "test/nc1": torch.tensor(2.0 / (1 + step)),
            "jacobian_norm": torch.tensor([1.0, 2.0, 3.0, 6.0]),
            "accuracy": torch.tensor([1.0, 1.0, 0.0, 1.0]),
        }
        found.append(Reading(step, values | more, {}))
    return found


def test_a_reading_is_a_table_with_what_each_quantity_is():
    values = {"test/jacobian_norm": torch.tensor([1.0, 2.0, 3.0, 6.0]), "accuracy": torch.tensor([1.0, 0.0])}
    head, norm, accuracy = Page(Reading(1200, values, {})._repr_html_()).rows
    assert head == ["quantity", "mean", "middle half", "what it is", "range, unit"]
    assert norm[:3] == ["test/jacobian_norm", "3", "1.75 to 3.75"]
    assert norm[3].startswith("The Frobenius norm of each Jacobian")
    assert norm[4] == "[0, ∞) outputs per input"
    assert accuracy[:3] == ["accuracy", "0.5", ""]  # right or wrong: the mean says all


def test_a_history_has_a_course_each_and_says_what_a_quantity_is_once():
    page = Page(history()._repr_html_())
    head, train, test, norm, _ = page.rows
    assert head == ["quantity", "last mean", "middle half", "course", "what it is", "range, unit"]
    assert train[:2] == ["train/nc1", "0.0099"]
    assert test[:2] == ["test/nc1", "0.0198"]
    assert (len(train), len(test)) == (6, 4)
    assert ("td", {"class": "gnomon-sentence", "rowspan": "2"}) in page.tags
    assert norm[2] == "1.75 to 3.75"
    courses = [attributes["points"] for tag, attributes in page.tags if tag == "polyline"]
    assert len(courses) == 4
    places = [tuple(map(float, place.split(","))) for place in courses[0].split()]
    (x, y), (right, bottom) = places[0], places[-1]
    assert x == 3
    assert right == 123
    # Logarithmic, as the docstring's range says: each place as far below as its logarithm.
    expected = [y + (bottom - y) * math.log(1 + step) / math.log(101) for step in (0, 1, 10, 100)]
    torch.testing.assert_close(torch.tensor([place[1] for place in places]), torch.tensor(expected), atol=0.06, rtol=0)


def test_a_gap_parts_the_course_and_many_readings_are_no_finer_than_the_screen():
    found = History()
    for step, value in enumerate([1.0, 2.0, math.nan, 3.0]):
        found.append(Reading(step, {"q": torch.tensor(value)}, {}))
    assert [tag for tag, _ in Page(found._repr_html_()).tags].count("polyline") == 2
    for step in range(4, 3000):
        found.append(Reading(step, {"q": torch.tensor(math.sin(step))}, {}))
    assert len(found._repr_html_()) < 10_000


def test_a_step_at_which_another_quantity_was_read_is_no_gap():
    """Places are those of all steps, so that courses are above each other."""
    history = History()
    for step in range(0, 201, 20):
        history.append(Reading(step, {"train/accuracy": torch.tensor(step / 200)}, {}))
    for step in range(0, 201, 50):
        history.append(Reading(step, {"test/accuracy": torch.tensor(step / 400)}, {}))
    assert history._repr_html_().count("<polyline") == 2
    assert len(re.findall("[▁▂▃▄▅▆▇█]+", str(history))) == 2
    (of_test,) = (
        one
        for group in rows_by_quantity({"": history})
        for row in group
        for one in row.courses
        if row.prefix == "test/"
    )
    assert of_test.places == [0, 0.25, 0.5, 0.75, 1]


def test_zero_is_at_the_lower_end_of_a_logarithmic_course():
    found = History()
    for step, norm in enumerate((1.0, 0.1, 0.0, math.nan, 0.1)):
        found.append(Reading(step, {"nc1": torch.tensor(norm)}, {}))
    assert "█▁▁ ▁" in str(found)


def test_the_courses_of_several_histories_share_the_axis_of_the_steps():
    fast, slow = History(), History()
    for step in range(41):
        fast.append(Reading(step, {"q": torch.tensor(1 - 0.9**step)}, {}))
    for step in range(0, 201, 2):
        slow.append(Reading(step, {"q": torch.tensor(1 - 0.95**step)}, {}))
    both = {"fast": fast, "slow": slow}
    (((row,),),) = ([*rows_by_quantity(both)],)
    first, second = (dict(zip(one.steps, one.places, strict=True)) for one in row.courses)
    shared = first.keys() & second.keys()
    assert len(shared) == 21
    assert {step: first[step] for step in shared} == {step: second[step] for step in shared}
    assert (second[0], first[40] < 1, second[200]) == (0, True, 1)
    of_fast, of_slow = (re.search("[▁▂▃▄▅▆▇█]+", line).group() for line in str(compare(**both)).splitlines()[2:])
    assert len(of_slow) == 24
    assert len(of_fast) < 10, "it ends at a fifth of the other's steps"
    assert all(ahead >= behind for ahead, behind in zip(of_fast, of_slow, strict=False))


def test_what_others_named_is_escaped():
    evil = "<script>alert(1)</script>&\"'"
    found = history(**{f"{evil}/{evil}": torch.tensor(1.0)})
    for shown in (found._repr_html_(), compare(**{evil: found})._repr_html_()):
        assert "<script>" not in shown
        assert any(evil in cell for row in Page(shown).rows for cell in row)


def test_the_table_needs_nothing_but_itself_in_light_and_in_dark():
    shown = history()._repr_html_()
    assert "@media(prefers-color-scheme:dark)" in shown
    assert re.search(r"https?:|<script|@import|url\(", shown) is None


def own_rise(logits):
    """How far the largest output is above the mean; as a user writes it.

    Returns:
        At least 0, unit: outputs.
    """
    return logits.max(1).values - logits.mean(1)


def test_a_quantity_of_ones_own_says_what_its_docstring_says(tmp_path):
    model, x = nn.Linear(3, 2), torch.ones(4, 3)
    asked = {"rise": own_rise, "alignment": gnomon.centroid_alignment, "nc1": lambda logits: logits.mean()}
    probe = gnomon.Probe(model, {"test": x}, asked)
    read = probe(0)
    probe.history.save(tmp_path / "history.jsonl")
    assert History.load(tmp_path / "history.jsonl").about("test/rise") == gnomon.probe.About()
    assert probe.history.about("test/rise").unit == "outputs"
    rows = {row[0]: row for row in Page(read._repr_html_()).rows}
    assert rows["test/rise"][3:] == ["How far the largest output is above the mean", "[0, ∞) outputs"]
    assert rows["test/alignment"][3].startswith("The cosine of the angle between each sample and the centroid")
    assert rows["test/nc1"][3:] == ["", " "]  # not gnomon's of that name
    assert gnomon.Probe(model, x, [gnomon.centroid, gnomon.jacobian_norm]).read().docstrings == {}


def test_a_terminal_shows_a_line_a_quantity():
    lines = str(history()).splitlines()
    assert lines[0] == "History of 4 readings, steps 0 to 100"
    assert lines[1].split() == ["quantity", "mean", "middle", "half", "course", "range,", "unit"]
    assert lines[2].split() == ["train/nc1", "0.0099", "█▇▄▁", "[0,", "∞)"]
    assert lines[4].split()[:5] == ["jacobian_norm", "3", "1.75", "to", "3.75"]
    one = Reading(7, {"nc1": torch.tensor(0.5), "ntk": torch.eye(2)}, {})
    assert repr(one) == "Reading(step 7: nc1 0.5, ntk 0.5)"
    assert str(one).splitlines()[2].split() == ["nc1", "0.5", "[0,", "∞)"]
    assert str(compare(a=history(), b=history())).splitlines()[3].split()[:2] == ["train/nc1", "b"]


def test_an_estimate_is_shown_with_its_error():
    """A trace 37 % off was printed as if it were exact."""
    read = Reading(0, {"trace": gnomon.Estimate(*map(torch.tensor, (14.8, 5.53, 40)))}, {})
    assert str(read).splitlines()[2].split()[:4] == ["trace", "14.8", "±", "5.53"]
    assert "14.8 ± 5.53" in read._repr_html_()
    exact = Reading(0, {"trace": gnomon.Estimate(*map(torch.tensor, (14.8, 0.0, 40)))}, {})
    assert "±" not in str(exact)
    lost = Reading(0, {"trace": gnomon.Estimate(*map(torch.tensor, (math.nan, math.nan, 40)))}, {})
    assert str(lost).splitlines()[2].split() == ["trace", "–"]


@pytest.mark.parametrize("spoiled", [math.nan, math.inf])
def test_a_quantity_that_became_nan_has_no_last_mean(spoiled):
    found = History()
    for step, value in enumerate([1.0, 2.0, spoiled]):
        found.append(Reading(step, {"size": torch.tensor([value, value, 0.5]), "norm": torch.tensor(step + 0.5)}, {}))
    found.append(Reading(3, {"norm": torch.tensor(7.0)}, {}))  # which does not have the other
    size, norm = [line.split() for line in str(found).splitlines()[2:]]
    assert size[:2] == ["size", "–"]
    assert "to" not in size
    assert norm[:2] == ["norm", "7"]
    _, size, norm = Page(found._repr_html_()).rows
    assert (size[:3], norm[1]) == (["size", "–", ""], "7")


def test_what_is_empty_says_so():
    assert str(History()) == repr(History()).replace("(", " of ").rstrip(")") == "History of no readings"
    assert "no readings" in History()._repr_html_()
    assert repr(Reading(0, {}, {})) == "Reading(step 0: nothing)"
    assert Page(Reading(0, {"q": torch.tensor(math.nan)}, {})._repr_html_()).rows[1][1] == "–"


@pytest.mark.parametrize(
    ("value", "digits"),
    [
        (999.4, "999"),
        (999.7, "1,000"),
        (1000.2, "1,000"),
        (-0.0, "0"),
        (999_600.0, "999,600"),
        (999_999.7, "1e+06"),
        (0.9994, "0.999"),
        (0.9996, "0.9996"),
        (-0.99996, "-0.99996"),
        (0.99999994, "1"),
        (1.0004, "1"),
    ],
)
def test_numbers_are_rounded_before_they_are_written(value, digits):
    history = History()
    history.append(Reading(0, {"loss": torch.tensor(value, dtype=torch.float64)}, {}))
    assert str(history).splitlines()[2].split()[1] == digits
