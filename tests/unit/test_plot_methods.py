"""What is read draws itself: histories, comparisons of them and regions, by the plot floor below."""

import inspect
import math
import sys

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import nn

import gnomon
from gnomon import History, Reading, compare
from gnomon.errors import EmptyError, MissingExtraError, RangeError
from gnomon.probe import about
from gnomon.regions import Plane, slice_regions
from tests.contract import CONTRACTS


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def filled(factor=1.0, steps=(0, 1, 10, 100)):
    """NC1 on two splits, a norm a sample, and whether three samples are right."""
    history = History()
    for step in steps:
        values = {
            "train/nc1": torch.tensor(factor / (1 + step)),
            "test/nc1": torch.tensor(2 * factor / (1 + step)),
            "jacobian_norm": factor * torch.tensor([1.0, 2.0, 4.0]) * (1 + step),
            "accuracy": torch.tensor([0.0, 1.0, 1.0]),
        }
        history.append(Reading(step, values, {}))
    return history


def lines_of(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def look(line):
    return line.get_color(), str(line._unscaled_dash_pattern)


def heights(line):
    return np.asarray(line.get_ydata(), float)


def test_a_whole_without_a_value_at_one_step_is_a_gap_in_its_parts():
    """Where the network is NaN, `mse_decomposition` is one NaN under its own name."""
    features, labels = torch.tensor([[0.0], [2.0], [10.0], [13.0]]), torch.tensor([0, 0, 1, 1])
    moments = gnomon.class_moments(features, labels, 2)
    parts = gnomon.mse_decomposition(torch.zeros(2, 1), torch.zeros(2), moments)
    history = History()
    for step in range(1, 5):
        value, missing = (torch.tensor(math.nan), {"mse_decomposition": "diverged"}) if step == 3 else (parts, {})
        history.append(Reading(step, {"mse_decomposition": value, "nc1": torch.tensor(1.0)}, {}, missing))
    assert "mse_decomposition" not in history.quantities
    assert history.steps_of("mse_decomposition.total") == [1, 2, 3, 4]
    _, axes = history.plot("mse_decomposition")
    assert [panel.get_title(loc="left") for panel in axes][-1] == "mse decomposition.total"
    expected = [parts.total, parts.total, math.nan, parts.total]
    np.testing.assert_allclose(heights(axes[-1].get_lines()[0]), expected, rtol=1e-6)


def test_a_history_draws_a_panel_for_each_quantity_with_splits_as_lines():
    history = filled()
    figure, axes = history.plot()
    assert [panel.get_title(loc="left") for panel in axes] == ["nc1", "jacobian norm", "accuracy"]
    assert all(panel.figure is figure for panel in axes)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["train", "test"]
    for split in ("train", "test"):
        np.testing.assert_allclose(heights(lines_of(axes[0])[split]), history[f"{split}/nc1"])
        np.testing.assert_allclose(lines_of(axes[0])[split].get_xdata(), history.steps)
    (band,) = axes[1].collections
    low, high = band.get_paths()[0].get_extents().intervaly
    assert low == pytest.approx(history["jacobian_norm.q25"].min())
    assert high == pytest.approx(history["jacobian_norm.q75"].max())
    assert not axes[2].collections  # right or wrong
    assert [panel.get_yscale() for panel in axes] == ["log", "log", "linear"]
    assert {panel.get_xscale() for panel in axes} == {"symlog"}  # two decades, and 0


def test_one_quantity_is_one_panel_and_a_name_stands_for_all_its_splits():
    _, axes = filled().plot("test/nc1")
    assert [*lines_of(axes)] == ["test"]
    _, axes = filled().plot("nc1")
    assert [*lines_of(axes)] == ["train", "test"]


@pytest.mark.parametrize(
    ("steps", "scale"), [((0, 20, 40), "linear"), ((1, 10, 100), "log"), ((0, 1, 100), "symlog"), ((0,), "linear")]
)
def test_the_steps_are_logarithmic_where_they_span_two_decades(steps, scale):
    _, axes = filled(steps=steps).plot("nc1")
    assert axes.get_xscale() == scale
    axes.figure.canvas.draw()
    assert len([text for text in axes.get_xticklabels() if text.get_text()]) >= min(2, len(steps))


def test_axes_that_are_given_hold_all_of_it():
    own = Figure().add_subplot()
    figure, axes = filled().plot("nc1", "jacobian_norm", ax=own)
    assert axes is own
    assert figure is own.figure
    assert [*lines_of(own)] == ["train, nc1", "test, nc1", "jacobian norm"]
    assert own.get_yscale() == "log"
    _, axes = filled().plot("nc1", "accuracy", ax=Figure().add_subplot())
    assert axes.get_yscale() == "linear"


def shared(lost=()):
    """Two probes that share a history: accuracy at each step, NC1 at powers of two, NaN at those that are lost."""
    history = History()
    for step in range(41):
        history.append(Reading(step, {"accuracy": torch.tensor(step / 40)}, {}))
        if step in (0, 1, 2, 4, 8, 16, 32):
            history.append(Reading(step, {"nc1": torch.tensor(math.nan if step in lost else 1 / (1 + step))}, {}))
    return history


def test_a_line_joins_the_steps_at_which_its_quantity_was_read():
    _, axes = shared().plot("nc1")
    (line,) = axes.get_lines()
    assert [*line.get_xdata()] == [0, 1, 2, 4, 8, 16, 32]
    assert np.isfinite(heights(line)).all()
    _, axes = shared(lost=(4, 16)).plot("nc1")
    (line,) = axes.get_lines()
    assert [*line.get_xdata()] == [0, 1, 2, 4, 8, 16, 32]
    assert (line.get_marker(), [*line.get_markevery()]) == ("o", [4, 6])


@pytest.mark.parametrize("name", ["nc1", "accuracy"])
@pytest.mark.parametrize("lost", [math.nan, math.inf])
def test_a_cross_ends_what_was_not_finite_from_there_on(name, lost):
    """As on the page of `gnomon watch`; a line that ended with its readings, or came back, has none."""
    history = History()
    for step, value in enumerate([0.5, 0.4, lost, lost]):
        values = {"train": value, "test": 0.3, "validation": 0.2 if step > 2 else value}
        history.append(Reading(step, {f"{split}/{name}": torch.tensor(each) for split, each in values.items()}, {}))
    _, axes = history.plot()
    (cross,) = [line for line in axes.get_lines() if line.get_marker() == "x"]
    np.testing.assert_allclose(cross.get_xydata(), [[1, 0.4]])
    assert cross.get_color() == lines_of(axes)["train"].get_color()
    assert [text.get_text() for text in axes.figure.legends[0].get_texts()] == ["train", "test", "validation"]


def test_panels_share_the_axis_of_all_steps():
    history = filled()
    history.append(Reading(200, {"rise": torch.tensor(1.0)}, {}))
    history.append(Reading(300, {"rise": torch.tensor(2.0)}, {}))
    _, axes = history.plot()
    assert {panel.get_xscale() for panel in axes} == {"symlog"}
    assert {panel.get_xlim() for panel in axes} == {axes[0].get_xlim()}
    assert axes[0].get_xlim()[0] <= 0


def test_what_is_not_above_zero_has_no_place_on_a_logarithmic_axis():
    history = History()
    for step, value in enumerate([1.0, 0.0, 0.1]):
        history.append(Reading(step, {"nc1": torch.tensor(value), "robust": torch.tensor([0.0, value])}, {}))
    _, axes = history.plot("nc1")
    np.testing.assert_allclose(heights(axes.get_lines()[0]), [1, math.nan, 0.1], rtol=1e-6)
    nothing = History()
    nothing.append(Reading(1, {"nc1": torch.tensor(0.0)}, {}))
    _, axes = nothing.plot()
    assert axes.get_yscale() == "linear"
    assert axes.get_lines()[0].get_marker() == "o"


def test_histories_side_by_side_have_colours_and_their_splits_dashes():
    both = compare(plain=filled(), other=filled(3.0))
    figure, axes = both.plot("nc1", "accuracy")
    lines = lines_of(axes[0])
    assert [*lines] == ["plain, train", "other, train", "plain, test", "other, test"]
    assert lines["plain, train"].get_color() == lines["plain, test"].get_color() != lines["other, test"].get_color()
    assert lines["plain, test"].get_linestyle() == lines["other, test"].get_linestyle() == "--"
    np.testing.assert_allclose(heights(lines["other, test"]), 3 * heights(lines["plain, test"]))
    assert len(figure.legends[0].get_texts()) == 6
    assert [panel.get_yscale() for panel in axes] == ["log", "linear"]
    own = lines_of(both.plot("nc1", ax=Figure().add_subplot())[1])
    assert [*map(look, own.values())] == [*map(look, lines.values())]
    own = lines_of(both.plot("nc1", "jacobian_norm", ax=Figure().add_subplot())[1])
    assert len({*map(look, own.values())}) == len(own) == 6
    only = History()
    only.append(Reading(1, {"equinorm": torch.tensor(0.5)}, {}))
    _, axes = compare(filled(), only).plot("equinorm")
    assert [*lines_of(axes)] == ["run 2"]


def test_layers_have_colours_and_splits_dashes():
    history = History()
    for step in (1, 2):
        names = [f"{split}/{layer}/nc1" for split in ("train", "test") for layer in ("conv", "fc")]
        history.append(Reading(step, {name: torch.tensor(1.0 + step) for name in names}, {}))
    _, axes = history.plot()
    looks = {name: (line.get_color(), line.get_linestyle()) for name, line in lines_of(axes).items()}
    assert [looks["train/conv"][0], looks["train/fc"][0]] == [looks["test/conv"][0], looks["test/fc"][0]]
    assert looks["train/conv"][0] != looks["train/fc"][0]
    assert [looks[f"{split}/conv"][1] for split in ("train", "test")] == ["-", "--"]


def test_many_histories_side_by_side_are_told_apart():
    _, axes = compare(*(filled() for _ in range(15))).plot("jacobian_norm")
    assert len({*map(look, axes.get_lines())}) == 15


def test_lines_whose_colour_and_dashes_would_be_those_of_others_have_their_own():
    layers = History()
    for step in (1, 2):
        layers.append(Reading(step, {f"layer{i}/nc1": torch.tensor(1.0 + step) for i in range(6)}, {}))
    for runs in ([layers] * 2, [filled()] * 8):
        _, axes = compare(*runs).plot("nc1")
        lines = axes.get_lines()
        assert len({*map(look, lines)}) == len(lines)


def test_a_long_title_has_two_lines():
    history = History()
    history.append(Reading(1, {"a_name_of_many_words_that_a_panel_has_no_room_for": torch.tensor(1.0)}, {}))
    assert history.plot()[1].get_title(loc="left") == "a name of many words that a panel\nhas no room for"


def test_regions_draw_themselves():
    model = gnomon.models.mlp((2, 6, 3), bias=True, generator=torch.Generator().manual_seed(0)).double()
    found = slice_regions(model, Plane(torch.zeros(2).double(), torch.eye(2).double()), (-2.0, 3.0, -1.0, 2.0))
    figure, axes = found.plot(found.areas, label="area")
    assert len(axes.collections[0].get_paths()) == len(found)
    assert figure.axes[1].get_ylabel() == "area"


BOUNDED_BY_THE_SAMPLE = {"robust_radius"}
"""At most the norm of x, which a plain number does not say."""


@pytest.mark.parametrize("name", [name for name, row in CONTRACTS.items() if row.range != (-math.inf, math.inf)])
def test_the_docstring_says_the_range_of_the_contract(name):
    low, high = CONTRACTS[name].range
    said = about(f"test/layer.1/{name}")
    assert said.range
    assert said.logarithmic == (high == math.inf and name not in BOUNDED_BY_THE_SAMPLE)
    if low == -math.inf:
        assert said.range.startswith("(-∞")
    if low in (0, 1, -1):
        assert said.range.strip("[(").startswith(f"{low:g}")
    if high in (0, 1, 4) and "," in said.range and name not in ("activation_misalignment", "effective_rank"):
        assert said.range.rstrip("])").endswith((f"{high:g}", "d"))


@pytest.mark.parametrize("name", [name for name in CONTRACTS if about(name).range])
def test_a_quantity_under_another_name_says_the_same_range_and_unit(name):
    other = about("mine", inspect.getdoc(getattr(gnomon, name)))
    assert (other.range, other.unit) == (about(name).range, about(name).unit)


def test_parts_of_a_result_say_what_they_are():
    total = about("test/mse_decomposition.total")
    assert total.sentence.startswith("L, the given classifier's MSE with weight decay")
    assert (total.range, total.unit, total.axes) == ("[0, ∞)", "squared outputs", ("*n",))
    assert about("nfa_table.cosine").range == "[-1, 1]"
    assert about("deepfool.norm").sentence == "∥r∥₂, at least 0"
    assert about("classifier_equinorm").range == "[0, √(k-1)]"


def test_what_is_unknown_says_nothing_unless_it_has_a_docstring():
    assert about("rise") == about("measure") == about("Path") == gnomon.probe.About()
    own = about("rise", "How far the label is above.\n\n    Returns:\n        At least 0, unit: outputs.\n    ")
    assert (own.sentence, own.range, own.unit) == ("How far the label is above.", "[0, ∞)", "outputs")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.delattr(gnomon, "plot")
    for name in [name for name in sys.modules if name.startswith("gnomon.plot")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"^gnomon\.plot needs matplotlib.*\.\[plot\]"):
        filled().plot()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: filled().plot("nc2"),
            RangeError,
            r"^History\(names\): expected some of train/nc1.*accuracy, got 'nc2'",
        ),
        (lambda: History().plot(), EmptyError, r"expected readings of at least one quantity, got none. Read the probe"),
        (lambda: compare(), EmptyError, r"^compare\(histories\): expected at least one, got none"),
        (lambda: compare(filled(), **{"run 1": filled()}), RangeError, r"^compare\(named\): expected names of its own"),
        (lambda: compare(a=filled()).plot("b"), RangeError, r"^Comparison\(names\): expected some of .*, got 'b'"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.bad_input
def test_what_is_no_history_is_refused():
    with pytest.raises(RangeError, match=r"^compare\(run 1\): expected a History, got Linear. Pass probe.history"):
        compare(nn.Linear(2, 2))


def test_a_quantity_that_is_nan_throughout_is_said_to_have_no_finite_value():
    """Its panel was empty, with numbers on the value axis that nothing stands for."""
    history = History()
    for step in (0, 1, 10):
        lost = {"jacobian_norm": torch.tensor(math.nan), "own": torch.tensor([math.nan, math.inf])}
        history.append(Reading(step, lost | {"nc1": torch.tensor(1.0)}, {}))
    (norm, own, nc1) = history.plot()[1]
    for axes in (norm, own, history.plot("own", ax=pyplot.figure().add_subplot())[1]):
        axes.figure.canvas.draw()
        assert [text.get_text() for text in axes.texts] == ["no finite value"]
        assert not any(label.get_visible() for label in axes.get_yticklabels())
        assert any(label.get_visible() for label in axes.get_xticklabels())
    assert not nc1.texts
    assert not history.plot("own", ax=nc1)[1].texts  # where something else is drawn, it would be untrue


@pytest.mark.parametrize(
    ("docstring", "told", "logarithmic"),
    [
        ("How far, in [0, inf).", "[0, ∞)", True),
        (r"How far, in $[0, \infty)$. Unit: steps.", "[0, ∞)", True),
        ("How far, in [0, 1].\n\n    Args:\n        x: in [0, inf).\n    ", "[0, 1]", False),
        ("How far, in [0, inf).\n\n    Parameters\n    ----------\n    x: in [0, 1]\n    ", "[0, ∞)", True),
        ("How far.\n\n    Returns:\n        In [0, inf).\n    ", "[0, ∞)", True),
        ("For inputs in [0, 1].\n\n    Returns:\n        How far.\n    ", "", False),
        ("Drop, in [-1, inf).", "[-1, ∞)", False),
        ("As in [1], of classes with at least 1 sample.", "", False),
    ],
)
def test_a_range_is_found_in_a_docstring_of_one_line_too(docstring, told, logarithmic):
    def own(logits):
        return logits.abs().sum(1)

    own.__doc__ = docstring
    said = about("own", docstring)
    assert (said.range, said.logarithmic) == (told, logarithmic)
    probe = gnomon.Probe(
        nn.Linear(2, 2), {"test": (torch.rand(4, 2), torch.tensor([0, 1, 0, 1]))}, [own], gnomon.every(1)
    )
    probe(1)
    assert probe.history.plot()[1].get_yscale() == ("log" if logarithmic else "linear")
    assert told in str(probe.history)
