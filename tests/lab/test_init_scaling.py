"""init-scaling: what it says of made-up records; the batch of networks; its smallest variant, killed half way."""

import pytest
import torch

from gnomon import centroid
from gnomon.data import Samples
from gnomon.errors import RangeError
from gnomon.models import mlp
from gnomon_lab.papers.grokalign._zeros_and_ones import binary_cross_entropy, zeros_and_ones
from gnomon_lab.papers.grokalign.init_scaling import (
    MECHANISMS,
    Config,
    Scaled,
    centroids,
    claims,
    correlation,
    figures,
    of,
    outputs,
    run,
    stack,
    summary,
    sweep,
    table,
)
from gnomon_lab.runs import Run
from tests.lab.resuming import resumed


def made_up(output=(0.3, 0.6, 0.9), weights=(0.1, 0.2, 0.7)):
    """Records of three scales of each mechanism; the alignment peaks at step 10."""
    start = {
        "mechanism": ["output"] * 3 + ["weights"] * 3,
        "scale": [4.0, 2.0, 1.0] * 2,
        "reciprocal": [0.25, 0.5, 1.0, 0.0625, 0.25, 1.0],
        "rate": [-8.0, 4.0, 1.0, 9.0, 5.0, 1.0],
    }
    best = [*output, *weights]
    rows = ((0, [0.0] * 6), (10, best), (20, [a - 0.1 for a in best]))
    records = [{"arm": "sweep", "step": step, "alignment": alignment} for step, alignment in rows]
    return [records[0] | start, *records[1:]]


def test_the_best_of_each_network():
    assert [(n.scale, n.best, n.step) for n in of(made_up(), "weights")] == [
        (1.0, 0.7, 10),
        (2.0, 0.2, 10),
        (4.0, 0.1, 10),
    ]
    columns, rows = table(made_up())
    assert len(columns) == len(rows[0]) == 5
    assert rows[2] == ("output × 4", "0.25", "8", "0.300", "10")
    assert summary(made_up()).startswith(
        "The best alignment is 0.90 with the output × 1, and 0.70 with the weights × 1."
    )


def test_correlations_are_of_ranks():
    records = made_up(output=(1e-6, 0.4, 0.99), weights=(1e-9, 1e-8, 0.98))
    assert correlation(records) == pytest.approx(0.971, abs=2e-3)  # two ties


def test_claims():
    assert [claim.holds for claim in claims([made_up()])] == [True, True]
    better = made_up(weights=(0.1, 0.31, 0.7))
    assert claims([made_up(), better])[1].measured == "-0.0100 to +0.1000 over 2 seeds"
    assert not claims([made_up(), better])[1].holds
    # What one mechanism reaches at a norm that the other does not have says nothing about them.
    assert claims([made_up(weights=(0.95, 0.2, 0.99))])[1].holds
    unpaired = made_up()
    unpaired[0]["reciprocal"] = [0.25, 0.5, 1.0, 0.05, 0.3, 1.0]
    assert not claims([unpaired])[1].holds
    backwards = claims([made_up(output=(0.9, 0.6, 0.3), weights=(0.9, 0.8, 0.1))])
    assert not backwards[0].holds


@pytest.mark.parametrize("order", [1, -1])
def test_each_claim_fails_with_one_seed_of_two(order):
    whole = made_up()
    assert [claim.expected for claim in claims([whole])] == ["at least 0.5", "above 0"]
    for failing, other in enumerate(
        (
            made_up(output=(0.9, 0.6, 0.3), weights=(0.29, 0.2, 0.1)),
            made_up(weights=(0.1, 0.3, 0.7)),
        )
    ):
        found = [claim.holds for claim in claims([whole, other][::order])]
        assert found == [place != failing for place in range(2)]


def test_the_figure_shows_every_network_twice():
    (scatter,) = figures(made_up())
    above, below = scatter.panels
    assert [points.label for points in above.points] == [f"{mechanism} scaled" for mechanism in MECHANISMS]
    assert above.points[0].y == (1.0, 4.0, 8.0)
    assert above.points[0].values == below.points[0].y == (0.9, 0.6, 0.3)


def test_settings_are_checked_together():
    with pytest.raises(
        RangeError, match=r"Config: expected width at least 1, got 0; scales two or more, .* got \(1.0,\)"
    ):
        Config(scales=(1.0,), width=0)


def test_the_batch_says_what_each_network_says(tmp_path):
    x = torch.randn(20, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    train = Samples(x, (x[:, 0] > 0).double())
    networks = sweep(Config(scales=(0.5, 2.0), width=7), Run(tmp_path, 0), train)
    stacked = stack(networks)
    torch.testing.assert_close(outputs(stacked, x), torch.stack([network(x) for network in networks]))
    torch.testing.assert_close(centroids(stacked, x), torch.stack([centroid(n, x).detach() for n in networks]))
    # The same start: twice the output is twice the network, weights twice as large are four times a two-layer one.
    said = outputs(stacked, x)
    torch.testing.assert_close(said[1], 4 * said[0])
    torch.testing.assert_close(said[3], 16 * said[2])
    torch.testing.assert_close(said[1], said[3] / 2)


@pytest.mark.parametrize(("hidden", "scale"), [(1, 4.0), (2, 8.0)])
def test_scaled_outputs_are_scaled_weights_at_another_learning_rate(hidden, scale):
    """docs/errata.md, figure 10: exactly, as these scales are powers of two."""
    x = torch.randn(20, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    widths, labels = (5, *[7] * hidden, 1), (x[:, 0] > 0).double()

    def trained(of_output, of_weights, learning_rate):
        model = Scaled(mlp(widths, scale=of_weights, generator=torch.Generator().manual_seed(0)).double(), of_output)
        optimizer, said = torch.optim.SGD(model.parameters(), learning_rate), []
        for _ in range(30):
            said.append(model(x))
            optimizer.zero_grad()
            binary_cross_entropy(said[-1], labels).backward()
            optimizer.step()
        return torch.stack(said).detach()

    weights = scale ** (1 / (hidden + 1))
    output = trained(scale, 1.0, 0.01)
    torch.testing.assert_close(output, trained(1.0, weights, 0.01 * weights**2), rtol=0, atol=0)
    assert (output - trained(1.0, weights, 0.01)).abs().max() > 0.01


TINY = Config(scales=(0.5, 2.0), digits=60, width=8, steps=20, readings=6)


@pytest.mark.data
def test_smallest_variant_resumes_exactly(tmp_path):

    resumed(run, TINY, tmp_path, step=10)


@pytest.mark.data
def test_each_network_is_trained_as_if_alone(tmp_path):
    here = Run(tmp_path, 0)
    run(TINY, here)
    train = zeros_and_ones(here, TINY.digits, torch.float32)
    for k, alone in enumerate(sweep(TINY, here, train)):
        optimizer = torch.optim.SGD(alone.parameters(), TINY.learning_rate)
        for _ in range(TINY.steps):
            optimizer.zero_grad()
            binary_cross_entropy(alone(train.x), train.labels).backward()
            optimizer.step()
        point = train.x[train.labels == 1][:1]
        cosine = torch.cosine_similarity(centroid(alone, point).detach(), point)
        torch.testing.assert_close(torch.tensor(here.records()[-1]["alignment"][k]), cosine[0], rtol=1e-4, atol=1e-4)
