"""Warnings name the user's line, not one of gnomon's or of a wrapper's."""

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
    Probe(nn.Sequential(linear, nn.Softmax(1)), (X, LABELS), [gnomon.accuracy, gnomon.jacobian_norm, squared])
    Probe(nn.Sequential(linear, nn.LogSoftmax(1)), (X, LABELS), [gnomon.log_probability])
    Probe(nn.Sequential(linear, nn.ReLU()), (X, LABELS), [gnomon.log_probability])
    assert not recwarn.list
    with pytest.warns(UserWarning, match="got probabilities, as a softmax puts them out; training_loss would take a"):
        Probe(nn.Sequential(linear, nn.Softmax(1)), (X, LABELS), [gnomon.accuracy, gnomon.training_loss])
