"""Readings draw themselves, each quantity as its shape asks for."""

import itertools
import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor

import gnomon
from gnomon import Reading, plot
from gnomon.errors import EmptyError, RangeError, ShapeError
from tests.contract import CONTRACTS, Sizes, Source


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def ax():
    return Figure().add_subplot()


def reading(**values):
    return Reading(0, {name.replace("__", "/"): torch.as_tensor(value) for name, value in values.items()}, {})


def titles(axes):
    return [own.get_title(loc="left") for own in axes]


def legend(axes):
    return axes.get_legend_handles_labels()[1]


def offsets(axes):
    return np.asarray(axes.collections[0].get_offsets())


@pytest.mark.unchecked
@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS.keys())
def test_every_quantity_has_a_plot(contract):
    """What a probe reads of it is drawn: each panel shows something."""
    source = Source(Sizes(n=16, k=4), torch.Generator().manual_seed(0))  # all pairs of four residues
    model, x, labels = source.network(), source.normal("n", "d"), source.labels()
    arguments = contract.sample(source)
    settings = {name: arguments[name] for name in contract.settings}
    asked = partial(contract.quantity, **settings) if settings else contract.quantity
    found = gnomon.Probe(model, {"test": (x, labels)}, [asked]).read()
    _, axes = found.plot()
    for own in axes if isinstance(axes, list) else [axes]:
        # Of some samples the gradient cannot be told from 0, and its noise scale is infinite.
        assert own.has_data() or [text.get_text() for text in own.texts] == ["no finite value"]
        assert contract.quantity.__name__.replace("_", " ") in own.get_title(loc="left").replace("\n", " ")


def test_one_value_a_sample_is_a_histogram_and_right_ones_stand_apart():
    right = torch.tensor([1.0] * 6 + [0.0] * 4)
    norm = torch.arange(1.0, 11.0)
    found = reading(test__accuracy=right, test__jacobian_norm=norm, train__jacobian_norm=norm)
    _, axes = found.plot("jacobian_norm")
    assert titles(axes) == ["test/jacobian norm", "train/jacobian norm"]
    assert legend(axes[0]) == ["6 correct: mean 3.5", "4 wrong: mean 8.5"]
    assert legend(axes[1]) == ["mean 5.5"]
    shares = [patch.get_data().values.sum() for patch in axes[0].patches]
    np.testing.assert_allclose(shares, 100)
    assert [patch.get_data().values.sum() for patch in axes[1].patches] == [10, 10]
    # Of a layer, the samples are those of its split; other samples' accuracy says nothing.
    _, axes = reading(test__accuracy=right, test__fc__jacobian_norm=norm, other__jacobian_norm=norm).plot(
        "jacobian_norm"
    )
    assert [legend(own)[0] for own in axes] == ["6 correct: mean 3.5", "mean 5.5"]
    _, axes = reading(accuracy=[1.0, 0.0, 1.0], of_pairs=[1.0, 3.0, 2.0, 6.0]).plot("of_pairs")
    assert legend(axes) == ["mean 3"]


def test_splits_share_a_histogram_where_no_sample_is_wrong():
    _, axes = reading(test__stable_rank=[1.0, 2.0], train__stable_rank=[3.0, 3.0]).plot()
    assert axes.get_title(loc="left") == "stable rank"
    assert legend(axes) == ["test: mean 1.5", "train: mean 3"]


def test_one_number_is_a_point_beside_those_of_other_splits():
    _, axes = reading(train__nc1=0.1, test__nc1=0.3, accuracy=[1.0, 0.0, 1.0, 1.0]).plot()
    np.testing.assert_allclose(offsets(axes[0]), [[0.1, 0], [0.3, 1]], rtol=1e-6)
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["train", "test"]
    assert [text.get_text() for text in axes[0].texts] == ["0.1", "0.3"]
    _, other = reading(train__nc1=0.9996, test__nc1=123456.0).plot()
    assert [text.get_text() for text in other.texts] == ["0.9996", "123,456"]
    assert axes[0].get_xscale() == "log"
    np.testing.assert_allclose(offsets(axes[1]), [[0.75, 0]])


@pytest.mark.parametrize("names", [("nc1",), ("nc1", "rank_me"), ("nc1", "rank_me", "cdnv")])
def test_layers_with_long_names_are_all_named_and_leave_room_for_their_points(names):
    layers = [f"bert.encoder.layer.{place}.{part}.dense" for place in range(12) for part in ("output", "intermediate")]
    numbers = {f"train/{layer}/{name}": float(place + 1) for name in names for place, layer in enumerate(layers)}
    figure, axes = plot.quantities({name: torch.tensor(value) for name, value in numbers.items()})
    figure.canvas.draw()  # a layout that collapses warns, which is an error here
    for own in axes if len(names) > 1 else [axes]:
        assert own.bbox.width / figure.dpi > 1.5
        labels = own.get_yticklabels()
        assert len({label.get_text() for label in labels}) == len(layers)
        ends = [label.get_window_extent() for label in labels]
        assert all(above.y0 >= below.y1 - 1 for above, below in itertools.pairwise(ends))


def test_parts_of_one_number_share_a_panel():
    features, labels = torch.tensor([[0.0], [2.0], [10.0], [13.0]]), torch.tensor([0, 0, 1, 1])
    moments = gnomon.class_moments(features, labels, 2)
    parts = gnomon.mse_decomposition(torch.zeros(2, 1), torch.zeros(2), moments)
    _, axes = Reading(0, {"mse_decomposition": parts}, {}).plot()
    assert [label.get_text() for label in axes.get_yticklabels()][-1] == "total"
    np.testing.assert_allclose(offsets(axes)[-1, 0], parts.total, rtol=1e-6)


def test_values_that_fall_are_a_spectrum_and_others_of_unknown_kind_a_histogram():
    _, axes = reading(mine=[4.0, 2.0, 1.0], other=[1.0, 4.0, 2.0], singular_values=[[3.0, 1.0], [1.0, 0.5]]).plot()
    np.testing.assert_allclose(axes[0].get_lines()[0].get_data(), [[1, 2, 3], [4, 2, 1]])
    assert axes[0].get_yscale() == "log"
    assert legend(axes[1]) == ["mean 2.33"]
    np.testing.assert_allclose(axes[2].get_lines()[0].get_ydata(), [2, 0.75])
    assert len(axes[2].collections) == 1


def test_means_on_a_logarithmic_axis_are_those_of_all_samples():
    """Those that are zero too, which the axis cannot show."""
    values = torch.tensor([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [4.0, 2.0, 1.0]])
    _, axes = reading(singular_values=values).plot()
    assert axes.get_yscale() == "log"
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), [3, 1.5, 0.25])


def test_values_that_are_all_equal_are_one_bar():
    _, axes = reading(radius=[2.0] * 20).plot()
    assert max(patch.get_data().values.max() for patch in axes.patches) == 20
    assert axes.patches[0].get_data().edges[0] == 1.5


def test_chains_are_no_classes_and_every_number_of_a_reading_can_be_drawn():
    model, x, labels = torch.nn.Linear(3, 2), torch.randn(8, 3), torch.arange(8) % 2
    quantity = partial(gnomon.local_learning_coefficient, chains=2, draws=4, burn_in=2)
    read = gnomon.Probe(model, (x, labels), {"local_learning_coefficient": quantity}).read(1)
    _, axes = read.plot()
    assert axes[1].get_title(loc="left").split()[-1] == "chain"
    assert axes[1].get_xlabel() == "chain"
    name = "local_learning_coefficient.estimate.error"
    history = gnomon.History()
    history.append(read)
    _, axes = plot.histories({"": history}, [name])
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), [read.scalars()[name]], rtol=1e-5)


def test_batches_are_no_classes_and_no_line_joins_them():
    model, x, labels = torch.nn.Linear(3, 2), torch.randn(40, 3), torch.arange(40) % 2
    read = gnomon.Probe(model, (x, labels), [gnomon.batch_gradients]).read()
    _, axes = read.plot("batch_gradients.deviations")
    assert axes.get_xlabel() == "batch"
    (line,) = axes.get_lines()
    assert (line.get_marker(), line.get_linestyle()) == ("o", "None")
    np.testing.assert_array_equal(line.get_xdata(), range(1, 17))


def test_each_of_many_classes_is_a_dot():
    _, axes = plot.quantities({"of_class": torch.rand(100)}, axes_of={"of_class": ("k",)}, ax=ax())
    (line,) = axes.get_lines()
    assert (line.get_marker(), line.get_markevery(), len(line.get_xdata())) == ("o", None, 100)


def test_zeros_are_drawn_though_a_logarithm_has_no_place_for_them():
    zeros = {"of_layer": torch.zeros(2, 3)}
    _, axes = plot.quantities(zeros, axes_of={"of_layer": ("n", "l")}, logarithmic=["of_layer"], ax=ax())
    assert axes.get_yscale() == "linear"
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), [0, 0, 0])


@dataclass(frozen=True)
class Own:
    """A result of someone's own."""

    kernel: Tensor
    maps: Tensor


def test_matrices_are_colours_and_what_has_more_axes_images():
    maps = torch.arange(24.0).reshape(2, 3, 2, 2)
    _, axes = Reading(0, {"own": Own(torch.eye(3), maps)}, {}).plot()
    assert titles(axes) == ["own.kernel", "own.maps"]
    np.testing.assert_allclose(axes[0].get_images()[0].get_array(), np.eye(3))
    shown = axes[1].get_images()[0].get_array()
    np.testing.assert_allclose(shown[:, :2].filled(np.nan), maps[0].mean(0) / maps[0].mean(0).max())


def test_what_is_not_finite_is_left_out():
    nan = math.nan
    _, axes = reading(nc1=nan, jacobian_norm=[1.0, nan, 3.0], ntk=[[1.0, nan], [nan, -1.0]]).plot()
    assert axes[0].texts[0].get_text() == "no finite value"
    assert legend(axes[1]) == ["mean 2"]
    assert axes[1].get_xlabel() == "1 of 3 not finite"
    assert axes[2].get_images()[0].get_array().mask.sum() == 2
    whole = torch.ones(3, 4, 4)
    whole[:, 0, 0] = nan
    _, axes = reading(maps=whole).plot()
    assert axes.texts[0].get_text() == "no finite sample"
    assert not axes.axison
    # Equal up to rounding is one bar, not too many bins for the range.
    _, axes = reading(jacobian_alignment=torch.tensor([1.0, 1 - 2e-16, 1 + 4e-16], dtype=torch.float64)).plot()
    assert axes.patches[0].get_data().values.max() == 3


def test_a_kernel_is_ordered_by_class():
    labels = torch.tensor([1, 0, 1, 0])
    same = (labels[:, None] == labels).double()
    _, axes = plot.kernel(same, labels, ax=ax())
    np.testing.assert_allclose(axes.get_images()[0].get_array(), np.kron(np.eye(2), np.ones((2, 2))))
    assert [line.get_xdata()[0] for line in axes.get_lines()[1::2]] == [1.5]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1"]
    blocks = same[:, :, None, None] * torch.diag(torch.tensor([2.0, -3.0])).double()
    _, axes = plot.kernel(blocks, ax=ax())
    np.testing.assert_allclose(axes.get_images()[0].get_array(), -same)
    assert axes.get_images()[0].get_clim() == (-1, 1)


def test_a_kernel_of_many_classes_is_not_buried_below_lines_and_numbers():
    for sizes, lines in (([10] * 100, 0), ([2] * 1000, 0), ([20] * 10, 18), ([300] + [3] * 20, 40)):
        labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
        figure, axes = plot.kernel(torch.ones(len(labels), len(labels)), labels)
        figure.canvas.draw()
        assert len(axes.lines) == lines
        boxes = [text.get_window_extent() for text in axes.get_xticklabels()]
        assert 2 <= len(boxes) <= 10
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_ten_classes_of_unequal_sizes_all_have_their_numbers():
    labels = torch.arange(10).repeat_interleave(torch.tensor([27, 21, 17, 33, 21, 27, 22, 32, 22, 24]))
    _, axes = plot.kernel(torch.ones(len(labels), len(labels)), labels)
    assert [text.get_text() for text in axes.get_xticklabels()] == [*"0123456789"]


def test_few_large_entries_do_not_leave_the_others_one_colour():
    entries = torch.ones(20, 20)
    entries[3, 3] = 100
    _, axes = plot.kernel(entries, ax=ax())
    assert axes.get_images()[0].get_clim() == (0, 1)
    assert axes.get_images()[0].colorbar.extend == "max"
    _, axes = plot.kernel(entries.clamp_max(4), ax=ax())
    assert axes.get_images()[0].get_clim() == (0, 4)
    assert axes.get_images()[0].colorbar.extend == "neither"


def test_one_quantity_is_drawn_into_axes_that_are_given():
    own = ax()
    figure, axes = reading(nc1=0.5, equinorm=0.1).plot("nc1", ax=own)
    assert axes is own
    assert figure is own.figure


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: reading(nc1=0.5, equinorm=0.1).plot(ax=ax()),
            RangeError,
            r"^quantities\(ax\): expected one panel, got nc1, equinorm. Name one of them",
        ),
        (lambda: reading(nc1=0.5).plot("nc2"), RangeError, r"^Reading\(names\): expected some of nc1, got 'nc2'"),
        (lambda: Reading(0, {}, {}).plot(), EmptyError, r"expected some, got none. Read a quantity"),
        (
            lambda: plot.kernel(torch.ones(2, 2), torch.tensor([0, 1, 0]), ax=ax()),
            ShapeError,
            r"^kernel\(labels\): expected one for each row, and each column, of the matrix, got \(3,?\) for \(2, 2\)",
        ),
        (
            lambda: plot.quantities({"norm": torch.rand(5)}, right={"norm": torch.ones(4)}),
            ShapeError,
            r"^quantities\(right\['norm'\]\): expected 5 samples as in values\['norm'\], got 4",
        ),
        (
            lambda: plot.quantities({"norm": torch.rand(5)}, right={"norm": torch.ones(5, 1)}),
            ShapeError,
            r"^quantities\(right\['norm'\]\): expected one axis, got shape \(5, 1\)",
        ),
        (lambda: plot.kernel(torch.full((2, 2), math.nan), ax=ax()), RangeError, r"^kernel\(matrix\): expected finite"),
    ],
)
@pytest.mark.bad_input
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("low", [1e-13, 1e-10, 1e-5, 1e-3])
def test_numbers_below_a_logarithmic_axis_stand_apart(low):
    losses = np.geomspace(low, 0.5, 200)
    many = {f"{split}__training_loss": losses for split in ("a", "b", "c", "d")} | {"a__jacobian_norm": losses}
    figure, axes = reading(**many).plot()
    figure.canvas.draw()
    for own in axes:
        boxes = [text.get_window_extent() for text in own.get_xticklabels() if text.get_text()]
        seen = [box for box in boxes if own.bbox.x0 - 1 <= (box.x0 + box.x1) / 2 <= own.bbox.x1 + 1]
        assert len(seen) >= 2
        assert min(after.x0 - before.x1 for before, after in itertools.pairwise(seen)) > 3
