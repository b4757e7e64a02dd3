"""Experiments whose settings name a device train and read there, with the records of the processor."""

import pytest
import torch

from gnomon_lab.papers.grokalign import delayed_robustness
from gnomon_lab.papers.grokalign.modular_addition import run as modular_addition
from gnomon_lab.runs import Run
from tests.lab.resuming import records_of
from tests.standin_device import DEVICE, standin


def trained(experiment, config, device, folder):
    """The records of a run on this device, which need not be one that users may name."""
    folder.mkdir()
    object.__setattr__(config, "device", str(device))
    experiment.run(config, Run(folder, 0))
    return records_of(folder)


def compare(experiment, make, folder):
    here = trained(experiment, make(), "cpu", folder / "here")
    with standin():
        there = trained(experiment, make(), DEVICE, folder / "there")
    assert [record.pop("arm") for record in there] == [record.pop("arm") for record in here]
    torch.testing.assert_close(there, here, rtol=1e-5, atol=1e-6)  # float32's roundings: records are of plain numbers


def test_modular_addition_on_a_device(tmp_path):
    def make():
        return modular_addition.Config(
            embeddings=("learned",), prime=5, width=8, heads=2, hidden=8, steps=2, jacobians=4
        )

    compare(modular_addition, make, tmp_path)


@pytest.mark.data
def test_delayed_robustness_on_a_device(tmp_path):
    def make():
        return delayed_robustness.Config(train=16, test=4, widths=(2, 2, 2), steps=2)

    compare(delayed_robustness, make, tmp_path)
