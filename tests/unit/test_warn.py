"""Warnings name the user's line, not one of gnomon's or of a wrapper's."""

import sys

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


@pytest.mark.parametrize(
    "warned", [too_few_passes, a_class_without_samples, a_line_cut_short, a_quantity_without_a_value]
)
def test_a_warning_names_the_line_of_the_user(warned, tmp_path, monkeypatch):
    # Wrappers around gnomon's functions in tests alone.
    monkeypatch.setattr(_warn, "OURS", (*_warn.OURS, "jaxtyping"))
    monkeypatch.setattr(sys.modules["tests.conftest"], "__name__", "jaxtyping")
    with pytest.warns((RuntimeWarning, UserWarning)) as said:
        warned(tmp_path / "run.jsonl")
    assert {warning.filename for warning in said} == {__file__}
