"""Legends of gnomon.plot: they name the lines as they are called, and leave the axes their room."""

import io

import matplotlib
import pytest
import torch
from matplotlib import pyplot

from gnomon import History, Reading, compare, plot
from gnomon._words import apart


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def history(factor=1.0, *names):
    found = History()
    for step in (1, 2, 3):
        found.append(Reading(step, {name: torch.tensor(factor * step) for name in names or ("q",)}, {}))
    return found


def runs(count, name="run {}"):
    return {name.format(place): history(1.0 + place) for place in range(count)}


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


def heights(figure):
    """Of the axes and of the figure as it is drawn, in inches."""
    figure.canvas.draw()
    return figure.axes[0].bbox.height / figure.dpi, figure.get_figheight()


def inside(figure, legend):
    """Whether all of the legend is in the figure."""
    figure.canvas.draw()
    box, whole = legend.get_window_extent(), figure.bbox
    return whole.x0 <= box.x0 and box.x1 <= whole.x1 + 1 and whole.y0 <= box.y0 and box.y1 <= whole.y1 + 1


def test_a_figure_is_white_under_a_dark_style_and_in_a_file():
    with pyplot.style.context("dark_background"):
        figure, axes = compare(**runs(2)).plot()
        figure.savefig(file := io.BytesIO(), format="png", dpi=50)
        page = pyplot.imread(io.BytesIO(file.getvalue()))
    corners = [page[place][:3] for place in ((0, 0), (0, -1), (-1, 0), (-1, -1))]
    assert [tuple(corner) for corner in corners] == [(1, 1, 1)] * 4
    assert figure.get_facecolor()[:3] == axes.get_facecolor()[:3] == (1, 1, 1)
    figure, axes = pyplot.subplots(facecolor="black")
    compare(**runs(2)).plot(ax=axes)
    assert figure.get_facecolor()[:3] == (0, 0, 0), "axes that are given keep their look"


def test_runs_on_one_split_differ_without_colours_too():
    _, axes = compare(**{name: history(1.0, "test/q") for name in "abc"}).plot()
    assert len({(line.get_linestyle(), str(line._dash_pattern)) for line in axes.get_lines()}) == 3


LAYERS = {"_orig_mod.layer0": torch.tensor([3.0, 1.0]), "_body": torch.tensor([2.0, 1.0])}


def test_lines_whose_names_begin_with_an_underscore_are_named():
    of_runs = {name: history() for name in LAYERS}
    of_layers = history(1.0, *(f"{name}/q" for name in LAYERS))
    assert texts(compare(**of_runs).plot()[0].legends[0]) == [*LAYERS]
    assert texts(of_layers.plot()[0].legends[0]) == [*LAYERS]
    assert texts(plot.spectrum(LAYERS)[1].get_legend()) == [*LAYERS]
    of_samples = {f"{name}/q": torch.tensor([1.0, 3.0]) for name in LAYERS}
    assert texts(plot.quantities(of_samples)[1].get_legend()) == ["_orig_mod.layer0: mean 2", "_body: mean 2"]
    assert texts(plot.quantities(of_samples, axes_of=dict.fromkeys(of_samples, ("k",)))[1].get_legend()) == [*LAYERS]


def test_a_dollar_in_a_name_is_a_dollar():
    name = "cost $x^$"
    found = [
        compare(**{name: history(1.0, name), "b": history(1.0, name)}).plot()[0],
        history(1.0, name).plot(ax=pyplot.figure().add_subplot())[0],
        plot.spectrum({name: torch.tensor([2.0, 1.0])})[0],
        plot.quantities({f"{name}/q": torch.tensor(1.0), "b/q": torch.tensor(2.0)})[0],
        plot.quantities({f"{name}/q": torch.tensor([1.0, 3.0]), "b/q": torch.tensor([1.0, 3.0])})[0],
    ]
    for figure in found:
        figure.savefig(io.BytesIO(), format="svg")
    assert texts(found[0].legends[0]) == [name, "b"]


def test_a_new_figure_grows_with_the_rows_of_its_legend():
    (few, least), (many, most) = (heights(compare(**runs(count)).plot()[0]) for count in (3, 12))
    assert most > least
    assert many > 0.95 * few
    one = plot.quantities({"layer0/norm": torch.rand(9)})[0]
    eight = plot.quantities({f"layer{place}/norm": torch.rand(9) for place in range(8)})[0]
    assert heights(eight)[0] > 0.95 * heights(one)[0]


def test_of_many_lines_the_first_are_named_and_the_others_counted():
    for name in ("run {}", "a run of a longer name {}"):
        figure, axes = compare(**runs(40, name)).plot()
        legend = figure.legends[0]
        assert texts(legend) == [*runs(20, name), "… and 20 more"]
        assert inside(figure, legend)
        assert heights(figure)[0] > 1.9
    assert texts(compare(**runs(20)).plot()[0].legends[0]) == [*runs(20)]
    figure, axes = compare(**runs(100)).plot()
    assert texts(figure.legends[0]) == [*runs(20), "… and 80 more"]
    assert inside(figure, figure.legends[0])
    assert figure.legends[0].get_window_extent().y0 > axes.bbox.y1
    figure, axes = plot.quantities({f"layer{place}/norm": torch.rand(9) for place in range(24)})
    assert len(texts(axes.get_legend())) == 9
    assert texts(axes.get_legend())[-1] == "… and 16 more"
    assert inside(figure, axes.get_legend())


def test_a_long_name_is_cut_in_its_middle():
    long = "a very long name of a training run, with weight decay 0.1 and a rate of 0.001, and so on and on"
    figure, axes = compare(**{long: history(), "b": history(2.0)}).plot()
    legend = figure.legends[0]
    (name, other), (begin, end) = texts(legend), texts(legend)[0].split("…")
    assert (long.startswith(begin), long.endswith(end), other) == (True, True, "b")
    assert 30 < len(name) < 60
    assert inside(figure, legend)
    assert axes.bbox.width > 0.8 * figure.bbox.width


SWEEP = [f"resnet18-cifar10-weight-decay-{place}e-4-grokalign-0.1-cross-entropy" for place in range(3)]
GRID = [
    f"resnet18-lr{rate}-wd{decay}-cross-entropy-seed{seed}" for rate in (1, 2) for decay in (3, 4) for seed in (5, 6)
]


def test_names_that_differ_in_their_middle_are_told_apart():
    figure, _ = compare(**dict.fromkeys(SWEEP, history())).plot()
    shown = texts(figure.legends[0])
    assert len({*shown}) == 3
    assert all(f"-{place}e-" in name for place, name in enumerate(shown))
    assert inside(figure, figure.legends[0])
    figure, axes = pyplot.subplots(figsize=(2.5, 2.5), layout="constrained")
    compare(**dict.fromkeys(SWEEP, history())).plot(ax=axes)
    assert len({*texts(axes.get_legend())}) == 3
    assert inside(figure, axes.get_legend())


def test_names_are_shortened_in_what_they_share():
    assert apart(["abXXXXXXXyz", "abQQQQQyz"], 5) == ["1 a…z", "2 a…z"]  # they share too little
    assert apart(SWEEP, 30) == [f"resnet…decay-{place}e-4-gr…ntropy" for place in range(3)]
    assert apart([*SWEEP[:2], "b"], 30) == ["resnet…decay-0e-4-gr…ntropy", "resnet…decay-1e-4-gr…ntropy", "b"]
    for length in range(20, 60):
        shown = apart(GRID, length)
        assert len({*shown}) == 8
        assert max(map(len, shown)) <= length
        for name, short in zip(GRID, shown, strict=True):
            assert [digit for digit in short if digit in "123456"][-3:] == [name[11], name[15], name[-1]]
    names = [letter * 30 + "-" + str(place) + "-" + letter * 30 for letter in "ab" for place in range(12)]
    for length in (-5, 3, 9, 40):  # numbered, where there is no room for what tells them apart
        assert len({*apart(names, length)}) == 24
    assert apart(SWEEP, 4) == ["1 r…y", "2 r…y", "3 r…y"]
    assert apart([], 9) == []


def test_what_all_lines_share_is_said_once():
    on_one_split = {name: history(place, "test/nc1", "test/loss") for place, name in enumerate("ab", 1)}
    both = compare(**on_one_split)
    figure, axes = both.plot()
    assert texts(figure.legends[0]) == ["a", "b"]
    assert [own.get_title(loc="left") for own in axes] == ["test/nc1", "test/loss"]
    axes = both.plot("nc1", ax=pyplot.figure().add_subplot())[1]
    assert (texts(axes.get_legend()), axes.get_ylabel()) == (["a", "b"], "test/nc1")
    axes = both.plot(ax=pyplot.figure().add_subplot())[1]
    assert (texts(axes.get_legend()), axes.get_ylabel()) == (["a, nc1", "b, nc1", "a, loss", "b, loss"], "test")
    layers = history(1.0, "test/0/nc1", "test/1/nc1")
    figure, axes = layers.plot()
    assert (texts(figure.legends[0]), axes.get_title(loc="left")) == (["0", "1"], "test/nc1")
    figure, axes = compare(a=layers, b=history(1.0, "train/0/nc1")).plot()
    assert texts(figure.legends[0]) == ["a, test/0", "a, test/1", "b, train/0"]
    figure, axes = history(1.0, "test/nc1", "test/0/nc1").plot()  # one would be left without a label
    assert (texts(figure.legends[0]), axes.get_title(loc="left")) == (["test", "test/0"], "nc1")


def test_a_figure_of_a_size_has_all_of_it():
    names = ("train/jacobian_alignment", "test/jacobian_alignment", "train/nc1")
    both = compare(**{name: history(1.0, *names) for name in ("plain", "other")})
    for size, labels in (((3.3, 1.6), 2), ((3.3, 2.6), 4)):
        figure, axes = both.plot(size=size)
        assert tuple(figure.get_size_inches()) == size
        assert inside(figure, figure.legends[0])
        assert figure.legends[0].get_window_extent().y0 > axes[0].title.get_window_extent().y1
        assert min(own.bbox.height for own in axes) > 0.25 * figure.dpi
        assert len(texts(figure.legends[0])) == labels
    first = both.plot("train/jacobian_alignment", "train/nc1", size=(3.3, 1.8))[1][0]
    assert first.get_title(loc="left") == "train/jacobian\nalignment"
    figure, axes = Reading(0, {"test/a": torch.rand(9), "test/b": torch.rand(9)}, {}).plot(size=(3.3, 2))
    assert tuple(figure.get_size_inches()) == (3.3, 2)
    assert all(inside(figure, own.get_legend()) for own in axes)


def test_short_names_stand_side_by_side():
    def rows(count, name):
        figure, _ = compare(**runs(count, name)).plot()
        (legend,) = figure.legends
        figure.canvas.draw()
        return len({round(text.get_window_extent().y0) for text in legend.get_texts()})

    assert [rows(4, "run {}"), rows(12, "run {}"), rows(8, "lr 0.0001, wd {}"), rows(3, "x" * 40 + "{}")] == [
        1,
        3,
        4,
        3,
    ]


def test_axes_that_are_given_keep_their_size():
    figure, axes = pyplot.subplots()
    compare(**runs(4)).plot(ax=axes)
    figure.canvas.draw()
    assert axes.get_legend().get_window_extent().y0 >= axes.bbox.y1
    assert inside(figure, axes.get_legend())
    compare(**runs(40)).plot(ax=axes)  # more than there is room for above
    assert inside(figure, axes.get_legend())
    assert axes.get_legend().get_window_extent().y1 < axes.bbox.y1
    figure, panels = pyplot.subplots(2, 3, figsize=(8, 5), layout="constrained")
    for own in panels.flat:
        compare(**runs(18)).plot(ax=own)
        assert 2 < len(texts(own.get_legend())) < 18
    assert heights(figure)[0] > 0.5


def test_all_words_are_in_the_font_of_the_figure():
    partition = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    with matplotlib.rc_context({"font.family": "serif", "font.size": 20}):
        found = [
            plot.spectrum({"a": torch.tensor([2.0, 1.0])})[1].get_legend().get_texts()[0],
            compare(**runs(2)).plot()[0].legends[0].get_texts()[0],
            plot.kernel(partition, label="entries")[1].child_axes[0].yaxis.label,
            plot.quantities({"train/nc1": torch.tensor(0.1), "test/nc1": torch.tensor(0.2)})[1].texts[0],
        ]
        given = compare(**runs(2)).plot(ax=pyplot.figure().add_subplot())[1].get_legend().get_texts()[0]
    assert [text.get_fontfamily() for text in found] == [["sans-serif"]] * 4
    assert [text.get_fontsize() for text in found] == [9.5, 9.5, 9.5, 8.5]
    assert (given.get_fontfamily(), given.get_fontsize()) == (["serif"], 20)


def test_titles_are_as_wide_as_their_axes_are_when_they_are_drawn():
    """They were wrapped to the width before the layout, and cut where numbers then took a part of it."""
    names = (
        "encoder.layers.3.attention.self.query/jacobian_norm",
        "a_name_of_many_words_that_has/no_room",
        "MMMM/W",
    )
    found = History()
    for step in (0, 1, 2):
        found.append(Reading(step, {name: torch.tensor(1e5 + step) for name in names}, {}))
    reading = Reading(0, {f"{name}.{place}": torch.rand(3, 3) for place, name in enumerate(names)}, {})
    for figure, panels in (found.plot(size=(3.3, 2.4)), reading.plot(size=(4, 3)), found.plot(), reading.plot()):
        panels[0].set_title("my own", loc="left")
        for width in (figure.get_figwidth(), 2 * figure.get_figwidth()):
            figure.set_figwidth(width)
            figure.canvas.draw()
            titles = [own._left_title for own in panels]
            for own, text in [*zip(panels, titles, strict=True)][1:]:
                room = own.get_position(original=True).x1 * figure.bbox.width  # a matrix may be narrower than this
                assert text.get_window_extent().x1 <= room + 2
            assert titles[0].get_text() == "my own"


def test_a_quantity_without_a_split_hides_none_with_one():
    """Asked for `accuracy`, a comparison drew the history that has it alone, and left out those with splits."""
    plain, split = History(), History()
    for step in (0, 1):
        plain.append(Reading(step, {"accuracy": torch.tensor(0.5)}, {}))
        values = {"train/accuracy": torch.tensor(0.7), "test/accuracy": torch.tensor(0.6)}
        split.append(Reading(step, values, {}))
    figure, _ = compare(a=split, b=plain).plot("accuracy")
    assert sorted(text.get_text() for text in figure.legends[0].get_texts()) == ["a, test", "a, train", "b"]


@pytest.mark.parametrize("name", ["q", "nc1"], ids=["linear", "logarithmic"])
def test_a_legend_inside_the_axes_covers_no_line(name):
    figure, axes = pyplot.subplots()
    compare(**{f"run {place}": history(1.0 + place, name) for place in range(12)}).plot(ax=axes)
    assert axes.get_yscale() == ("log" if name == "nc1" else "linear")
    figure.canvas.draw()
    highest = axes.transData.transform((0, 36))[1]  # of twelve times step 3
    box = axes.get_legend().get_window_extent()
    assert inside(figure, axes.get_legend())
    assert highest < box.y0 < highest + 40, "and leaves no more room free than needed"
