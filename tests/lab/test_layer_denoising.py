"""layer-denoising: its networks and data, what it says of its records, and its smallest variants."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn

from gnomon import layer_collapse
from gnomon.data import Samples
from gnomon.errors import ConvergenceError, RangeError
from gnomon_lab.papers.agop_collapse import _root
from gnomon_lab.papers.agop_collapse import _shared as agop_training
from gnomon_lab.papers.agop_collapse._root import root_collapse
from gnomon_lab.papers.agop_collapse._shared import DATA, TRAININGS, images, linear_layers, loss, network
from gnomon_lab.papers.agop_collapse.layer_denoising import (
    EXPERIMENT,
    PAPER,
    SMALL,
    Config,
    claims,
    figures,
    run,
    share,
    summary,
    table,
)
from gnomon_lab.runs import Run
from tests.lab.resuming import resumed

TINY = Config(samples=60, width=12, learning_rate=0.5, epochs=6, spacing=4)


def made_images(name, split, *, data_dir=None, limit=None):
    """Ten classes, each with a bright row or column of noisy 5 x 5 pixels; three channels but for MNIST."""
    labels = torch.arange(60) % 10
    x = 0.3 * torch.rand(60, 1 if name == "mnist" else 3, 5, 5, generator=torch.Generator().manual_seed(0))
    for place, label in enumerate(labels.tolist()):
        line = x[place, :, label] if label < 5 else x[place, :, :, label - 5]
        line += 0.5
    return Samples(x[:limit], labels[:limit])


@pytest.fixture
def made(monkeypatch):
    """Made-up images for real ones, and batches of 16."""
    monkeypatch.setattr(agop_training, "load_images", made_images)
    monkeypatch.setattr(agop_training, "BATCH", 16)


def test_images_are_standardised_by_pixel(made, tmp_path):
    rows = images(TINY, Run(tmp_path, 0))
    assert rows.x.shape == (60, 25)
    torch.testing.assert_close(rows.x.mean(0), torch.zeros(25), atol=1e-6, rtol=0)
    torch.testing.assert_close(rows.x.std(0, correction=0), torch.ones(25))
    assert images(dataclasses.replace(TINY, model="vgg", dataset="svhn"), Run(tmp_path, 0)).x.shape == (60, 3, 5, 5)


def test_loss_is_that_to_labels_of_one_and_minus_one():
    assert loss(torch.tensor([[-1.0, 1.0, *[-1.0] * 8]]), torch.tensor([1])) == 0
    assert loss(torch.zeros(3, 10), torch.tensor([0, 1, 2])) == 1


@pytest.mark.parametrize(("model", "features"), [("mlp", 20), ("resnet", 512), ("vgg", 512 * 4 * 4)])
def test_networks_end_in_five_hidden_layers_of_small_weights(model, features):
    x = torch.randn(2, 20) if model == "mlp" else torch.randn(2, 3, 32, 32)
    net = network(model, x, 64, 0.2, torch.Generator().manual_seed(0))
    assert net.training
    assert net(x).shape == (2, 10)
    layers = [net.get_submodule(name) for name in linear_layers(net)]
    assert [layer.in_features for layer in layers] == [features, *[64] * 5]
    assert all(layer.bias is None for layer in layers)
    for layer in layers[:5]:
        bound = 0.2 * math.sqrt(6 / sum(layer.weight.shape))
        assert 0.95 * bound < layer.weight.abs().max() <= bound
    assert 0.95 / 8 < layers[5].weight.abs().max() <= 1 / 8
    assert sum(isinstance(layer, nn.ReLU) for layer in net[-11:]) == 5
    again = network(model, x, 64, 0.2, torch.Generator().manual_seed(0))
    for first, second in zip(net.parameters(), again.parameters(), strict=True):
        assert torch.equal(first, second)


def test_bodies_are_the_paper_s():
    x, generator = torch.randn(2, 1, 28, 28), torch.Generator().manual_seed(0)
    resnet, vgg = (network(model, x, 4, 0.2, generator) for model in ("resnet", "vgg"))
    assert resnet[0](x).shape == (2, 64, 14, 14)
    assert sum(isinstance(layer, nn.Conv2d) for layer in resnet.modules()) == 20
    assert [layer.out_channels for layer in vgg if isinstance(layer, nn.Conv2d)] == [64, 128, 256, 256, 512, 512]
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in vgg) == 3
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in vgg)


def test_settings_are_the_paper_s():
    assert {SMALL, PAPER} <= {*EXPERIMENT.settings}
    assert len({*EXPERIMENT.settings}) == 1 + 2 * len(TRAININGS) * len(DATA)
    assert PAPER.training() == (500, 0.05, 0.0, 0.2)
    assert dataclasses.replace(PAPER, model="vgg", dataset="cifar10").training() == (600, 0.01, 0.9, 0.3)
    assert dataclasses.replace(PAPER, model="resnet", dataset="mnist", epochs=7).training() == (7, 0.05, 0.0, 0.2)
    match = r"Config: expected model among \('mlp', .*, got 'cnn'; epochs at least 1, got 0; device among"
    with pytest.raises(RangeError, match=match):
        Config(model="cnn", epochs=0, device="tpu")


def plain_nc1_root(layers, rest, x, labels, power=0.5):
    """NC1 of a power of the AGOP times what `rest` is given, from one gradient and one sample at a time."""
    with torch.no_grad():
        given = [layers(row.unsqueeze(0))[0] for row in x]
    agop = sum(
        torch.outer(gradient, gradient)
        for h in given
        for gradient in torch.autograd.functional.jacobian(lambda h: rest(h.unsqueeze(0))[0], h)
    ) / len(given)
    values, vectors = torch.linalg.eigh(agop)
    projected = torch.stack(given) @ (vectors * values.clamp(min=0) ** power) @ vectors.T
    within, between = 0.0, 0.0
    for label in labels.unique():
        members = projected[labels == label]
        within += sum((row - members.mean(0)).square().sum().item() for row in members)
        between += len(members) * (members.mean(0) - projected.mean(0)).square().sum().item()
    return within / between


@pytest.mark.parametrize("model", ["mlp", "body"])
def test_nc1_behind_the_root_of_the_agop_is_a_plain_loop_s(monkeypatch, model):
    monkeypatch.setattr(_root, "CHUNK", 7)
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(40, 1, 6, 6, generator=generator, dtype=torch.float64)
    labels = torch.arange(40) % 11 % 10  # some classes have more samples
    x += labels.reshape(-1, 1, 1, 1) / 9
    if model == "mlp":
        x = x.flatten(1)
    body = [] if model == "mlp" else [nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten()]
    head = network("mlp", torch.zeros(1, 36 if model == "mlp" else 48), 14, 0.5, generator)
    net = nn.Sequential(*body, *head).double()
    read = root_collapse(net, x, labels, None)
    found, places = read.nc1_root, [int(name) for name in linear_layers(net)]
    # The fourth root has a quarter of the digits where the AGOP, of ten outputs, is 0.
    for values, power, digits in ((found, 0.5, 1e-9), (read.nc1_fourth_root, 0.25, 1e-6)):
        expected = [plain_nc1_root(net[:place], net[place:], x, labels, power) for place in places]
        assert values.tolist() == pytest.approx(expected, rel=digits)
    # Behind the readout nothing comes: the AGOP at its input is its own Gram matrix.
    collapse = layer_collapse(net, x, labels, layers=linear_layers(net))
    assert found[5].item() == pytest.approx(collapse.nc1_right[5].item())
    assert found[0].item() != pytest.approx(collapse.nc1_right[0].item(), rel=0.01)


def made_up(right=0.1, after=0.09, last=0.01, start=8.0, frames=(0.5, 0.5, 0.05)):
    """Records before training, half way and at the end: NC1 1 → right → after a layer, but `last` after the fifth.

    NC2 goes from 2 to `frames` times that, behind four hidden layers, the fifth and the readout; from the other frame,
    up.
    """
    records = []
    for epoch, end in ((0, start), (50, start), (100, last)):
        places = {"nc1_input": [1.0] * 6, "nc1_right": [right] * 6, "nc1_after": [after] * 4 + [end] * 2}
        before, features, outputs = frames if epoch == 100 else (1.0, 1.0, 1.0)
        places["nc2_etf_after"] = [2.0 + epoch] * 5 + [2.0 * outputs]
        places["nc2_orthogonal_after"] = [*[2.0 * before] * 4, 2.0 * features, 2.0 + epoch]
        records.append({"arm": "mlp mnist", "step": epoch, "loss": 0.5, **places})
    return records


def test_share_is_of_the_layers_that_collapse():
    record = made_up(right=0.1, after=0.01, last=2.0)[-1]
    assert share(record) == pytest.approx(0.5), "the fifth layer raises NC1 and does not count"
    record["nc1_right"][0] = 0.01
    assert share(record) == pytest.approx(5 / 8)
    assert share(made_up(after=1.0, last=1.0)[-1]) == 0


def test_table_and_summary_are_of_the_end():
    columns, rows = table(made_up())
    assert len(rows) == 5
    assert len(columns) == len(rows[0])
    assert rows[0] == ("layer 1", "1", "0.1", "0.09", "0.1", "0.9", "0.09")
    assert rows[4][-4:] == ("0.01", "0.1", "0.1", "8")
    assert summary(made_up()).startswith("Behind the last hidden layer NC1 goes from 8 before training to 0.01.")
    assert "lower it 100 times, and the weights' share of that, in logarithms, is 81%" in summary(made_up())


def test_figures_show_the_places_and_both_parts_of_each_layer():
    layers, end, parts, means = figures(made_up())
    assert [panel.title for panel in layers.panels] == [*(f"Layer {layer}" for layer in range(1, 6)), "Training loss"]
    assert [line.y[-1] for line in layers.panels[4].lines] == pytest.approx([0, -1, -2])
    assert layers.panels[0].lines[0].x == (0, 50, 100)
    assert end.panels[0].lines[2].x == (1, 2, 3, 4, 5)
    assert end.panels[0].lines[2].y[-1] == pytest.approx(-2)
    assert end.panels[1].lines[2].y[-1] == pytest.approx(math.log10(8))
    weight, relu = parts.panels
    assert weight.y_range == relu.y_range
    assert len({panel.y_range for panel in layers.panels[:5]}) == 1
    assert [line.label for line in weight.lines] == [f"layer {layer}" for layer in range(1, 6)]
    assert weight.lines[0].y == pytest.approx([-1] * 3)
    assert relu.lines[4].y[-1] == pytest.approx(-1)
    simplex, orthogonal = means.panels
    assert [line.label for line in simplex.lines] == [*(f"layer {layer}" for layer in range(1, 6)), "outputs"]
    assert (simplex.lines[5].y, orthogonal.lines[0].y) == ((2.0, 2.0, 0.1), (2.0, 2.0, 1.0))
    assert len({line.colour for line in simplex.lines}) == 6


def with_root(records, *ends):
    """The records with NC1 behind the root of the AGOP: 2 before the end, and `ends` in the five layers then."""
    return [record | {"nc1_root": [*(ends if record is records[-1] else [2.0] * 5), 1.0]} for record in records]


def test_the_root_of_the_agop_is_shown_and_judged_where_it_was_read():
    records = with_root(made_up(after=0.1, last=2.0), 0.5, 0.1, 0.01, 0.1, 3.0)
    columns, rows = table(records)
    assert columns[-2:] == ("by the AGOP's root", "by it before training")
    assert [row[-2:] for row in (rows[0], rows[4])] == [("0.5", "2"), ("3", "2")]
    assert len(columns) == len(rows[0]) == len(table(made_up())[0]) + 2
    _, end, parts, _ = figures(records)
    dashed = end.panels[0].lines[3]
    assert dashed.dashed
    assert dashed.y[2] == pytest.approx(-2)
    assert parts.panels[2].lines[2].y == pytest.approx([math.log10(2)] * 2 + [-2])
    assert [len(figure.panels) for figure in figures(made_up())[1:3]] == [2, 2]

    every, majority = claims([records])[7:]
    assert (every.measured, every.holds) == ("0.5", True), "the fifth layer raises NC1 and does not count"
    assert majority.holds
    assert majority.measured == "108%"
    weak = with_root(made_up(after=0.1, last=0.1), 0.5, 0.5, 0.5, 0.5, 1.5)
    assert [claim.holds for claim in claims([records, weak])[7:]] == [False, False]
    assert claims([records, weak])[7].measured == "0.5 to 1.5 over 2 seeds"
    flat = with_root(made_up(after=1.0, last=1.0), 0.1, 0.1, 0.1, 0.1, 0.1)
    assert [claim.holds for claim in claims([flat])[7:]] == [False, False], "no layer collapses"
    assert len(claims([records, made_up()])) == 7, "one of the runs lacks it"


def test_claims_are_over_all_seeds_and_can_fail():
    def holds(**changed):
        return [claim.holds for claim in claims([made_up(after=0.1, last=0.1), made_up(**changed)])][:5]

    assert holds(after=0.1, last=0.1) == [True] * 5
    assert holds(after=0.1, last=0.2, start=0.2)[0] is False
    assert holds(right=0.5, after=0.2, last=0.2) == [True, False, False, False, True]
    assert holds(after=0.1, last=0.001) == [True, True, False, False, True]
    assert holds(after=1.0, last=1.0, right=1.0) == [True, False, False, True, True], "no layer collapses"
    assert claims([made_up(), made_up(right=0.2)])[1].measured == "57% to 81% over 2 seeds"


def test_the_very_last_layer_is_taken_as_the_outputs_and_as_the_last_hidden_layer():
    def judged(*frames, place):
        claim = claims([made_up(frames=frame) for frame in frames])[place]
        return claim.measured, claim.holds

    outputs, features = (0.5, 0.4, 0.05), (0.5, 0.05, 0.03)
    assert judged(outputs, (0.25, 0.3, 0.01), place=4) == ("0.01 to 0.05 over 2 seeds; 0.25 to 0.4 over 2 seeds", True)
    assert judged(features, (0.25, 0.01, 0.9), place=5) == ("0.01 to 0.05 over 2 seeds; 0.25 to 0.5 over 2 seeds", True)
    assert not judged(outputs, features, place=4)[1], "in one seed the last hidden layer is as strong"
    assert not judged(outputs, features, place=5)[1]
    for place, weak, early in ((4, (0.5, 0.5, 0.2), (0.08, 0.5, 0.05)), (5, (0.5, 0.2, 0.05), (0.08, 0.05, 0.05))):
        assert not judged(weak, place=place)[1]
        assert not judged(early, place=place)[1]


def test_an_exponential_fall_is_one_by_the_same_factor_in_each_layer():
    def judged(*after):
        records = made_up()
        records[-1]["nc1_after"] = [*after, 1.0]
        return claims([records])[6]

    assert (judged(0.5, 0.25, 0.125, 0.0625, 0.03125).measured, judged(0.1, 0.01, 0.001, 1e-4, 1e-5).holds) == (
        "-1.000",
        True,
    )
    bent = judged(0.1, 0.01, 0.001, 0.001, 0.001)
    assert (bent.measured, bent.holds) == (f"{np.corrcoef(range(6), [0, -1, -2, -3, -3, -3])[0, 1]:.3f}", False)
    assert judged(1.0, 1.0, 1.0, 1.0, 1.0).measured == "0.000"


def test_smallest_variant_resumes_exactly(made, tmp_path):
    records = resumed(run, TINY, tmp_path, step=4)
    assert [record["step"] for record in records] == [0, 4, 6]
    assert records[-1]["loss"] < records[0]["loss"]
    for record in records:
        assert len(record["nc1_after"]) == 6, "five hidden layers and the readout"
        # What a layer puts out, the next is given.
        assert record["nc1_after"][:-1] == pytest.approx(record["nc1_input"][1:], rel=1e-5)
        assert record["nc1_root"][5] == pytest.approx(record["nc1_right"][5], rel=1e-4)
    assert len(figures(records)) == 4
    assert len(claims([records])) == 9


@pytest.mark.parametrize("model", ["resnet", "vgg"])
def test_other_networks_are_trained_and_read_in_their_last_layers(made, tmp_path, model):
    run(dataclasses.replace(TINY, model=model, dataset="cifar10", epochs=1), Run(tmp_path, 0))
    records = Run(tmp_path, 0).records()
    assert [record["arm"] for record in records] == [f"{model} cifar10"] * 2
    assert len(records[-1]["nc1_right"]) == len(records[-1]["nc1_root"]) == 6


def test_divergence_is_told(made, tmp_path):
    with pytest.raises(ConvergenceError, match="expected a finite objective at step"):
        run(dataclasses.replace(TINY, learning_rate=1e30), Run(tmp_path, 0))
