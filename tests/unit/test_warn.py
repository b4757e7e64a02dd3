"""Warnings name the user's line, not one of gnomon's or of a wrapper's."""

import re
import sys
from functools import partial

import pytest
import torch
from torch import nn

import gnomon
from gnomon import History, Probe, _warn, class_moments
from gnomon.models import mlp

X, LABELS = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3


def too_few_passes(path):
    gnomon.hessian_eigenvalues(mlp((4, 32, 3)), X, LABELS, k=5, passes=16, rtol=1e-9)


def a_class_without_samples(path):
    class_moments(X, LABELS, 4)


def a_line_cut_short(path):
    path.write_text('{"step": 1, "acc\n{"step": 2, "accuracy": 1.0}\n')
    History.load(path)


def a_quantity_without_a_value(path):
    model = nn.Linear(4, 3)
    probe = Probe(model, X, [gnomon.jacobian_norm])
    nn.init.constant_(model.weight, torch.nan)
    probe(0)


def outputs_behind_a_softmax(path):
    Probe(nn.Sequential(nn.Linear(4, 3), nn.Softmax(1)), (X, LABELS), [gnomon.log_probability])


def parameters_in_half_precision(path):
    gnomon.SAM(nn.Linear(2, 2).half().parameters())


@pytest.mark.parametrize(
    "warned",
    [
        outputs_behind_a_softmax,
        too_few_passes,
        a_class_without_samples,
        a_line_cut_short,
        a_quantity_without_a_value,
        parameters_in_half_precision,
    ],
)
def test_a_warning_names_the_line_of_the_user(warned, tmp_path, monkeypatch):
    # Wrappers around gnomon's functions in tests alone.
    monkeypatch.setattr(_warn, "OURS", (*_warn.OURS, "jaxtyping"))
    monkeypatch.setattr(sys.modules["tests.conftest"], "__name__", "jaxtyping")
    with pytest.warns((RuntimeWarning, UserWarning)) as said:
        warned(tmp_path / "run.jsonl")
    assert {warning.filename for warning in said} == {__file__}


def test_outputs_behind_a_softmax_are_told_where_they_matter(recwarn):
    linear = nn.Linear(4, 3)
    squared = partial(gnomon.training_loss, loss="mse")
    behind = nn.Sequential(linear, nn.LogSoftmax(1))
    Probe(nn.Sequential(linear, nn.Softmax(1)), (X, LABELS), [gnomon.accuracy, gnomon.parameter_norm, squared])
    Probe(behind, (X, LABELS), [gnomon.log_probability, gnomon.robust_radius, gnomon.gradient_norm])
    Probe(nn.Sequential(linear, nn.ReLU()), (X, LABELS), [gnomon.log_probability, gnomon.jacobian_norm])
    assert not recwarn.list
    with pytest.warns(UserWarning, match="got probabilities, as a softmax gives; training_loss would take a"):
        Probe(nn.Sequential(linear, nn.Softmax(1)), (X, LABELS), [gnomon.accuracy, gnomon.training_loss])
    # The radius is one of differences of logits, which are those of their log_softmax.
    logits, log_probabilities = (Probe(each, (X, LABELS), [gnomon.robust_radius]).read() for each in (linear, behind))
    torch.testing.assert_close(logits.values, log_probabilities.values)


@pytest.mark.parametrize(
    "asked",
    [
        [gnomon.jacobian_norm],
        [gnomon.effective_rank],
        {"norm": partial(gnomon.jacobian_norm, rtol=0.1), "singular": gnomon.singular_values},
        [gnomon.centroid_alignment, gnomon.layer_centroids],
        {"length": lambda jacobian: jacobian.norm()},
    ],
)
@pytest.mark.parametrize(
    ("last", "kind", "softmax"),
    [
        (nn.Softmax(1), "probabilities, as a softmax gives", "softmax"),
        (nn.LogSoftmax(1), "logarithms of probabilities, as log_softmax gives", "log_softmax"),
    ],
)
def test_the_jacobian_of_probabilities_is_said_not_to_be_that_of_logits(asked, last, kind, softmax):
    model = nn.Sequential(nn.Linear(4, 3), last)
    with pytest.warns(UserWarning, match=re.escape(f"Probe(model): expected logits, got {kind}; ")) as said:
        Probe(model, (X, LABELS), asked)
    assert [str(each.message).partition("; ")[2].partition(" would be of these, ")[2] for each in said] == [
        f"and differ from those of logits. Let the network end before its {softmax}: cross_entropy takes that itself."
    ]


def test_outputs_of_one_logit_are_no_probabilities(recwarn):
    """Neither a constant one, nor one beside 0, however sure of class 0."""
    for bias in (0.0, -40.0):
        logit = nn.Linear(4, 1)
        nn.init.zeros_(logit.weight)
        nn.init.constant_(logit.bias, bias)
        for model in (logit, nn.Sequential(logit, nn.ConstantPad1d((1, 0), 0.0))):
            Probe(model, X, [gnomon.jacobian_norm])
    assert not recwarn.list
