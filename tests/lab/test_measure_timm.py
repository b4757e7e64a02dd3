"""`gnomon measure` of checkpoints as timm writes them: timm makes the network, if it is there, and fetches nothing."""

import argparse
import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import gnomon
from gnomon.models import mlp
from tests.lab.measuring import call, network

ASKED = ("--quantities", "accuracy", "jacobian_norm")


def written(name, epoch, **options):
    """What timm's CheckpointSaver writes."""
    args = argparse.Namespace(model="mlp8", lr=0.1, **options)
    state = {name: tensor * (1 + epoch) for name, tensor in network().state_dict().items()}
    torch.save({"epoch": epoch, "arch": "mlp8", "state_dict": state, "version": 2, "args": args, "metric": 0.5}, name)


@pytest.fixture
def timm(monkeypatch):
    """In the place of timm, one network; what it was asked for."""
    made = []

    def create(name, *, pretrained, **arguments):
        made.append((name, pretrained, arguments))
        if arguments.get("in_chans") == 2:
            raise RuntimeError("two\nchannels")
        return mlp((6, 8, arguments.get("num_classes", 1000)), bias=True)

    module = types.SimpleNamespace(is_model=lambda name: name == "mlp8", create_model=create)
    monkeypatch.setitem(sys.modules, "timm", module)
    return made


def test_a_training_of_timm_needs_no_factory(folder, measured, timm, monkeypatch, capsys):
    for epoch in range(3):
        written(f"checkpoint-{epoch}.pth.tar", epoch, num_classes=3, in_chans=None)
    written("last.pth.tar", 2, num_classes=3)
    found, said = measured("checkpoint-0.pth.tar", None, "some.npz", *ASKED)
    assert found["quantities"] == measured("small.pt", "nets:small", "some.npz", *ASKED)[0]["quantities"]
    assert found["model"] == "timm's mlp8"
    assert "4 of 4 tensors under state_dict" in said
    Path("small.pt").unlink()
    code, out, said = call(monkeypatch, capsys, ".", "--data", "some.npz", *ASKED, "--json")
    assert code == 0, said
    assert json.loads(out)["steps"] == [0, 1, 2]
    assert "left out last.pth.tar: the weights of checkpoint-2.pth.tar" in said
    assert timm == [("mlp8", False, {"num_classes": 3})] * 2


def test_a_folder_of_timm_needs_no_factory(folder, measured, timm):
    Path("hub").mkdir()
    save_file(network().state_dict(), "hub/model.safetensors")
    config = {"architecture": "mlp8", "num_classes": 3, "model_args": {"in_chans": 1}, "pretrained_cfg": {"tag": "x"}}
    Path("hub/config.json").write_text(json.dumps(config))
    found, _ = measured("hub", None, "some.npz", *ASKED)
    assert found["quantities"] == measured("small.pt", "nets:small", "some.npz", *ASKED)[0]["quantities"]
    assert timm == [("mlp8", False, {"num_classes": 3, "in_chans": 1})]


@pytest.mark.usefixtures("folder", "timm")
def test_images_are_normalised_as_a_folder_of_timm_says(measured, monkeypatch, capsys):
    made = nn.Sequential(nn.Flatten(), mlp((6, 8, 3), bias=True, generator=torch.Generator().manual_seed(0)))
    monkeypatch.setattr(sys.modules["timm"], "create_model", lambda name, *, pretrained, **arguments: made)
    x = torch.rand(20, 2, 1, 3, generator=torch.Generator().manual_seed(0))
    np.savez("unit.npz", x=x.numpy(), y=np.arange(20) % 3)

    def saved(name, **values):
        Path(name).mkdir()
        save_file(made.state_dict(), f"{name}/model.safetensors")
        config = {"architecture": "mlp8", "num_classes": 3, "pretrained_cfg": {"tag": "x", **values}}
        Path(f"{name}/config.json").write_text(json.dumps(config))

    saved("checkpoint-1", mean=[0.5, 0.25], std=[0.5, 0.125])
    found, said = measured("checkpoint-1", None, "unit.npz", *ASKED)
    mean, std = (torch.tensor(each).view(2, 1, 1) for each in ([0.5, 0.25], [0.5, 0.125]))
    expected = gnomon.jacobian_norm(gnomon.input_jacobian(made, (x - mean) / std).detach()).mean().item()
    torch.testing.assert_close(found["quantities"]["jacobian_norm"]["mean"], expected)
    assert found["normalised"] == {"mean": [0.5, 0.25], "std": [0.5, 0.125]}
    assert "normalised by the mean and deviation of config.json" in said.splitlines()
    config = {"architecture": "mlp8", "num_classes": 3, "mean": [0.5, 0.25], "std": [0.5, 0.125]}
    Path("checkpoint-1/config.json").write_text(json.dumps(config))
    older, _ = measured("checkpoint-1", None, "unit.npz", *ASKED)
    assert older["quantities"] == found["quantities"]
    saved("checkpoint-2", mean=[0.5, 0.5], std=[0.5, 0.125])
    code, _, said = call(monkeypatch, capsys, "checkpoint-1", "checkpoint-2", "--data", "unit.npz", *ASKED)
    assert code == 2
    assert "got one that gets other values, as checkpoint-2/config.json says" in said


def test_another_network_of_timm_is_named(folder, timm, monkeypatch, capsys):
    written("checkpoint-0.pth.tar", 0, num_classes=3)
    written("checkpoint-1.pth.tar", 1, num_classes=3, in_chans=3)
    names = ["checkpoint-0.pth.tar", "checkpoint-1.pth.tar"]
    code, out, said = call(monkeypatch, capsys, *names, "--data", "some.npz", *ASKED, "--json")
    assert (code, json.loads(out)["steps"]) == (2, [0])
    words = "expected the network of checkpoint-0.pth.tar, got mlp8 with num_classes=3, in_chans=3 in checkpoint-1.pth"
    assert words in said.splitlines()[-1]


def test_what_timm_cannot_make_is_one_line(folder, complaint, timm, monkeypatch):
    written("a.pt", 0, num_classes=2)
    assert "expected the shapes of the network's tensors, got size mismatch for 2.weight" in complaint("a.pt", None)
    written("a.pt", 0, in_chans=2)
    assert "expected what timm makes mlp8 of, got RuntimeError: two. Name what builds yours" in complaint("a.pt", None)
    torch.save({"arch": "other", "state_dict": network().state_dict()}, "a.pt")
    assert "expected a network that timm has, got 'other'. Name what builds yours" in complaint("a.pt", None)
    monkeypatch.setitem(sys.modules, "timm", None)
    assert "expected timm, which makes other, got ModuleNotFoundError" in complaint("a.pt", None)


@pytest.mark.parametrize("name", ["hf-hub:evil/net", "local-dir:/tmp/x", "../x", "", 3, None])
def test_names_of_places_are_not_asked_for(folder, complaint, timm, name):
    torch.save({"arch": name, "state_dict": network().state_dict()}, "a.pt")
    assert "(--model): expected MODULE:FACTORY, what builds the network" in complaint("a.pt", None)
    assert timm == []


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")
def test_what_timm_itself_writes(folder, measured):
    import numpy as np
    import timm
    from timm.utils import CheckpointSaver

    model = timm.create_model("resnet10t", num_classes=3, in_chans=1)
    args = argparse.Namespace(model="resnet10t", num_classes=3, in_chans=1)
    saver = CheckpointSaver(model, torch.optim.SGD(model.parameters(), 0.1), args, checkpoint_dir=".", recovery_dir=".")
    saver.save_checkpoint(4)
    x = np.random.default_rng(0).normal(size=(6, 1, 32, 32)).astype("f")
    np.savez("images.npz", x=x, labels=np.arange(6) % 3)
    found, _ = measured("last.pth.tar", None, "images.npz", *ASKED)
    assert found["model"] == "timm's resnet10t"
