"""`gnomon measure` of checkpoints and networks as others write them: taken where they can be, else one sentence."""

import argparse
import json
import os
import pathlib
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import gnomon
from gnomon_lab.measuring import Data, preprocessed
from gnomon_lab.measuring.preprocessing import preprocessor_of
from tests.lab.measuring import CLASSES, Malicious, N, call, network, numbers

OTHERS = """
import torch
from torch import nn
from gnomon.models import mlp


def softmax():
    return nn.Sequential(*mlp((6, 8, 3), bias=True), nn.Softmax(1))


class LogSoftmax(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp((6, 8, 3), bias=True)

    def forward(self, x):
        return self.body(x).log_softmax(1)


class Inline(LogSoftmax):
    def forward(self, x):
        first, act, last = self.body
        return (act(first(x)) @ last.weight.T + last.bias).softmax(1)


class Two(LogSoftmax):
    def forward(self, x, mask):
        return self.body(x) * mask


class Pair(LogSoftmax):
    def forward(self, x):
        return self.body(x), x


class Named(LogSoftmax):
    def forward(self, x):
        return {"loss": None, "logits": self.body(x)}


class Rows(LogSoftmax):
    def forward(self, x):
        return torch.stack([self.body(x), -self.body(x), self.body(2 * x)], 1)


class Swapped(LogSoftmax):
    def forward(self, x):
        return Rows.forward(self, x).transpose(0, 1)


class Flat(LogSoftmax):
    def forward(self, x):
        return self.body(x)[:, 0]


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.embedding(x).mean(1).relu())
"""


@pytest.fixture
def others(folder, monkeypatch):
    """The folder, with more networks, and weights under `body`."""
    (folder / "others.py").write_text(OTHERS)
    monkeypatch.delitem(sys.modules, "others", raising=False)
    torch.save(begun("body.", network().state_dict()), "body.pt")
    return folder


def begun(prefix, state):
    return {prefix + name: tensor for name, tensor in state.items()}


def changed(state, by=1.0):
    return {name: tensor + by for name, tensor in state.items()}


# Checkpoints


def test_options_of_a_training_script_beside_the_weights(folder, measured):
    """As timm's last.pth.tar has them."""
    state = network().state_dict()
    args = argparse.Namespace(model="small", lr=0.1, betas=(0.9, 0.99), output=pathlib.PosixPath("out"), resume=None)
    content = {"epoch": 3, "arch": "small", "state_dict": state, "args": args, "state_dict_ema": changed(state)}
    torch.save(content, "last.pth.tar")
    found, said = measured("last.pth.tar")
    assert found["quantities"] == measured()[0]["quantities"]
    assert "4 of 4 tensors under state_dict; also there: state_dict_ema (--key); 40 samples" in said
    torch.save(changed(state), "ema.pt")
    found, said = measured("last.pth.tar", "nets:small", "some.npz", "--key", "state_dict_ema")
    assert found["quantities"] == measured("ema.pt")[0]["quantities"]
    assert "4 of 4 tensors under state_dict_ema" in said


def test_paths_have_another_name_in_other_versions_of_python(folder, measured, monkeypatch):
    other = types.ModuleType("pathlib._local")
    other.PosixPath = pathlib.PosixPath
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pathlib._local", other)
        patch.setattr(pathlib.PosixPath, "__module__", "pathlib._local", raising=False)
        torch.save({"state_dict": network().state_dict(), "out": pathlib.PosixPath("out")}, "other.pt")
    assert measured("other.pt")[0]["quantities"] == measured()[0]["quantities"]


def test_options_that_hold_code_are_refused_and_not_run(folder, complaint):
    args = argparse.Namespace(lr=0.1, hook=Malicious(folder / "pwned"))
    torch.save({"state_dict": network().state_dict(), "args": args}, "bad.pt")
    assert "which asks to call exec when it is opened; it was refused" in complaint("bad.pt")
    assert not (folder / "pwned").exists()


def test_options_are_looked_at_by_nobody(folder, measured):
    """They can hold themselves, and what other code would call."""
    args = argparse.Namespace()
    vars(args).update(itself=args, __class__="int", items=3, __reduce__=1)
    torch.save({"state_dict": network().state_dict(), "args": args, "model": args}, "odd.pt")
    assert measured("odd.pt")[0]["quantities"] == measured()[0]["quantities"]


SNAPSHOTS = {
    "ema": ({"epoch": 1}, "ema", "ema"),
    "list": ({}, "snapshots.1", "snapshots.1"),
    "whole numbers": ({}, "10", "10"),
    "within": ({}, "trainer.best.state_dict", "trainer.best"),
}


def within(key, state):
    """Containers around a state dict, by its key: lists where a number stands, the first is another."""
    first, _, rest = key.partition(".")
    inner = within(rest, state) if rest else state
    return [{"other": torch.ones(2)}, inner] if first == "1" else {int(first) if first.isdigit() else first: inner}


@pytest.mark.parametrize("kind", SNAPSHOTS)
def test_snapshots_have_a_key(folder, measured, kind):
    more, place, key = SNAPSHOTS[kind]
    torch.save({**more, **within(place, network().state_dict())}, "kept.pt")
    expected = measured()[0]["quantities"]
    for options in ([], ["--key", key]):  # alone, it is found
        found, said = measured("kept.pt", "nets:small", "some.npz", *options)
        assert found["quantities"] == expected
        assert f"4 of 4 tensors under {place}" in said


def test_of_several_snapshots_one_is_named(folder, measured, complaint):
    state = network().state_dict()
    torch.save({"snapshots": {step: changed(state, step) for step in (0, 10, 20)}}, "kept.pt")
    words = "expected one state dict that is the network's, got 3: snapshots.0, snapshots.10, snapshots.20. Name one"
    assert words in complaint("kept.pt")
    assert "(--key): expected one of snapshots.0, snapshots.10, snapshots.20, got '3'." in complaint(
        "kept.pt", "nets:small", "some.npz", "--key", "3"
    )
    found, _ = measured("kept.pt", "nets:small", "some.npz", "--key", "snapshots.0")
    assert found["quantities"] == measured()[0]["quantities"]
    assert "got 'x'" in complaint("small.pt", "nets:small", "some.npz", "--key", "x")


@pytest.mark.parametrize("prefix", ["backbone.", "net._orig_mod.", "model.encoder.", "module.student.backbone."])
def test_names_may_begin_with_anything(folder, measured, prefix):
    state = network().state_dict()
    torch.save({"state_dict": {**begun(prefix, state), "projection.weight": torch.ones(3, 3)}}, "begun.pt")
    found, said = measured("begun.pt")
    assert found["quantities"] == measured()[0]["quantities"]
    assert f"4 of 5 tensors under state_dict, those that begin with '{prefix}'" in said


def test_of_two_networks_in_one_state_dict_one_is_named(folder, measured, complaint):
    state = network().state_dict()
    both = {**begun("student.backbone.", changed(state)), **begun("teacher.backbone.", state)}
    torch.save({"state_dict": both}, "both.pt")
    assert "got 2: state_dict.student.backbone, state_dict.teacher.backbone. Name one" in complaint("both.pt")
    for key in ("teacher.backbone", "state_dict.teacher.backbone"):
        found, said = measured("both.pt", "nets:small", "some.npz", "--key", key)
        assert found["quantities"] == measured()[0]["quantities"]
        assert "those that begin with 'teacher.backbone.'; also there: state_dict.student.backbone (--key)" in said


def holders(state):
    """Files that have one name outside of a wrapper, where it holds the state, and within one."""
    other = changed(state)
    around = {"state_dict": {**begun("net.", other), **begun("ema.", other)}}
    return {
        "prefix": {**around, "ema": state},
        "container": {"model": {"ema": other}, "ema": state},
        "longer": {"ema.module": other, "ema": state},
        "wrapper after it": {**around, "ema": begun("module.", state)},
    }


@pytest.mark.parametrize("kind", holders({}))
def test_a_key_is_the_place_with_exactly_that_name(folder, measured, kind):
    torch.save(holders(network().state_dict())[kind], "held.pt")
    found, _ = measured("held.pt", "nets:small", "some.npz", "--key", "ema")
    assert found["quantities"] == measured()[0]["quantities"]


def test_what_is_wrong_at_a_key_is_said_though_a_wrapper_has_the_name_too(folder, complaint):
    state = network().state_dict()
    torch.save({"state_dict": begun("ema.", state), "ema": dict([*state.items()][:-1])}, "held.pt")
    assert "expected the 4 tensors of the network, got 3: missing " in complaint(
        "held.pt", "nets:small", "some.npz", "--key", "ema"
    )


def test_many_beginnings_of_names_do_not_take_long(folder, complaint):
    one, names = torch.ones(1), [*network().state_dict()]
    torch.save({f"{k}.{name}": one for k in range(5_000) for name in names}, "many.pt")
    assert "expected the shapes of the network's tensors" in complaint("many.pt")


def test_containers_that_share_what_they_hold_do_not_take_long(folder, complaint):
    inner = {"x": 3}
    for _ in range(5):
        inner = {f"key {k}": inner for k in range(200)}
    torch.save(inner, "shared.pt")
    assert "expected a state dict, tensors by name" in complaint("shared.pt")


# Folders of Hugging Face


@pytest.fixture
def saved(folder):
    """Writes a tiny network as its folder."""
    transformers = pytest.importorskip("transformers")

    def write(kind, config, name="saved"):
        torch.manual_seed(0)
        made = getattr(transformers, kind)(getattr(transformers, config)(**SIZES[config])).eval()
        log = transformers.utils.logging
        log.disable_progress_bar()
        made.save_pretrained(name)
        log.enable_progress_bar()
        return made

    return write


LAYERS = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
SIZES = {
    "ViTConfig": {**LAYERS, "image_size": 4, "patch_size": 2, "num_channels": 1, "num_labels": 3},
    "DeiTConfig": {**LAYERS, "image_size": 4, "patch_size": 2, "num_channels": 1, "num_labels": 3},
    "BertConfig": {**LAYERS, "vocab_size": 9, "num_labels": 3, "max_position_embeddings": 16},
    "LlamaConfig": {**LAYERS, "vocab_size": 9},
}


def images():
    x = numbers(N, 1, 4, 4).float()
    np.savez("images.npz", x=x.numpy(), labels=np.arange(N) % CLASSES)
    return x


def test_folders_of_hugging_face_need_no_factory(saved, measured):
    made, x = saved("ViTForImageClassification", "ViTConfig"), images()
    found, said = measured("saved", None, "images.npz", "--quantities", "accuracy", "jacobian_norm", "nc1")
    logits, labels = made(x).logits.detach(), torch.arange(N) % CLASSES
    torch.testing.assert_close(found["quantities"]["accuracy"]["mean"], gnomon.accuracy(logits, labels).mean().item())
    norms = gnomon.jacobian_norm(gnomon.input_jacobian(lambda x: made(x).logits, x).detach())
    torch.testing.assert_close(found["quantities"]["jacobian_norm"]["mean"], norms.mean().item())
    assert "nc1" in found["quantities"]
    assert "tensors, as ViTForImageClassification of transformers; 40 samples of images.npz" in said
    assert found["model"] == "config.json"


APPLIED = "normalised by the mean and deviation of preprocessor_config.json"
PLAIN = {"do_normalize": True, "image_mean": [0.25], "image_std": [0.5], "do_rescale": True, "rescale_factor": 1 / 255}
OTHERWISE = {
    "reverse": ({**PLAIN, "do_flip_channel_order": True}, "channels in reverse order"),
    "factor": ({**PLAIN, "rescale_factor": 1 / 127.5}, "another scale of images than 0 to 1"),
    "bytes": ({"do_normalize": False, "do_rescale": False}, "another scale of images than 0 to 1"),
    "colours": (
        {**PLAIN, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
        "a normalisation of images with 3 channels, and samples are (1, 4, 4)",
    ),
    **{
        f"deviation {std}": ({**PLAIN, "image_std": std}, "a normalisation, but not by one mean and one deviation per")
        for std in ([0.0], [1.0, 1.0], [True], ["0.5"], [], 0.5, None, [10**400])
    },
}


def prepared(asked, folder="saved"):
    (Path(folder) / "preprocessor_config.json").write_text(json.dumps(asked))


def unit_images():
    """Images from 0 to 1, as gnomon loads them."""
    x = numbers(N, 1, 4, 4).sigmoid().float()
    np.savez("unit.npz", x=x.numpy(), labels=np.arange(N) % CLASSES)
    return x


def norm(found):
    return found["quantities"]["jacobian_norm"]["mean"]


def test_images_are_normalised_as_their_folder_says(saved, measured):
    """As stored, a trained network was reported at chance."""
    made, x = saved("ViTForImageClassification", "ViTConfig"), unit_images()
    stored, said = measured("saved", None, "unit.npz", "--quantities", "jacobian_norm")
    assert (stored["normalised"], "preprocessor" in said) == (None, False)
    prepared(PLAIN)
    found, said = measured("saved", None, "unit.npz", "--quantities", "jacobian_norm")
    expected = gnomon.jacobian_norm(gnomon.input_jacobian(lambda x: made(x).logits, (x - 0.25) / 0.5).detach())
    torch.testing.assert_close(norm(found), expected.mean().item())
    assert abs(norm(found) - norm(stored)) > 1e-4 * norm(stored)
    assert found["normalised"] == {"mean": [0.25], "std": [0.5]}
    assert APPLIED in said.splitlines()
    prepared({**PLAIN, "do_normalize": False})
    found, said = measured("saved", None, "unit.npz", "--quantities", "jacobian_norm")
    assert (norm(found), "preprocessor" in said) == (norm(stored), False)


def test_samples_beyond_images_are_read_as_stored_and_that_is_said(saved, measured):
    """They may be normalised already."""
    saved("ViTForImageClassification", "ViTConfig")
    images()
    stored = measured("saved", None, "images.npz", "--quantities", "jacobian_norm")[0]
    prepared(PLAIN)
    found, said = measured("saved", None, "images.npz", "--quantities", "jacobian_norm")
    assert (norm(found), found["normalised"]) == (norm(stored), None)
    assert re.search(r"of images from 0 to 1, and samples are from -\d\S* to \d\S*: the samples are read as s", said)


@pytest.mark.parametrize("kind", OTHERWISE)
def test_what_a_preprocessor_asks_for_otherwise_is_said_and_not_done(folder, kind):
    asked, words = OTHERWISE[kind]
    Path("saved").mkdir()
    prepared(asked)
    data = Data(numbers(N, 1, 4, 4).sigmoid(), None, "")
    found, said = preprocessed(data, preprocessor_of(Path("saved")))
    assert found is data
    assert said.startswith(f"preprocessor_config.json asks for {words}")
    assert said.endswith(": the samples are read as stored")


def test_checkpoints_are_normalised_alike(saved, measured, monkeypatch, capsys):
    unit_images()
    for step in (1, 2):
        saved("ViTForImageClassification", "ViTConfig", f"checkpoint-{step}")
        prepared(PLAIN, f"checkpoint-{step}")
    asked = ("checkpoint-*", None, "unit.npz", "--quantities", "jacobian_norm", "--steps", "name")
    found, said = measured(*asked, "--history", "h.jsonl")
    assert (found["normalised"], said.count(APPLIED)) == ({"mean": [0.25], "std": [0.5]}, 1)
    prepared({**PLAIN, "image_mean": [0.5]}, "checkpoint-2")
    again = (asked[0], "--data", *asked[2:])
    code, _, said = call(monkeypatch, capsys, *again)
    assert code == 2
    assert "expected the network of checkpoint-1, got one that gets other values, as checkpoint-2/preproc" in said
    prepared({**PLAIN, "image_mean": [0.5]}, "checkpoint-1")
    code, _, said = call(monkeypatch, capsys, *again, "--history", "h.jsonl")
    assert code == 2
    assert "got those of normalised {'mean': [0.25], 'std': [0.5]} and not {'mean': [0.5]" in said


@pytest.mark.bad_input
@pytest.mark.parametrize("content", ["{", "[1]", "[" * 100_000])
def test_a_preprocessor_that_is_no_configuration_is_one_line(saved, complaint, content):
    saved("ViTForImageClassification", "ViTConfig")
    unit_images()
    Path("saved/preprocessor_config.json").write_text(content)
    said = complaint("saved", None, "unit.npz")
    assert "(checkpoint): expected a readable preprocessor_config.json, got " in said
    assert said.endswith("in saved/preprocessor_config.json. Copy it again, or remove it.")


def test_weights_of_a_folder_keep_their_precision(saved, measured):
    made, _ = saved("ViTForImageClassification", "ViTConfig").double(), images()
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(1 + 1e-9)  # which float32 does not hold
    made.save_pretrained("saved")
    found = measured("saved", None, "images.npz", "--quantities", "parameter_norm", "--dtype", "float64")[0]
    expected = gnomon.parameter_norm(dict(made.named_parameters())).item()
    torch.testing.assert_close(found["quantities"]["parameter_norm"]["value"], expected, rtol=1e-13, atol=0.0)


def test_weights_of_a_folder_may_be_pickled_or_in_parts(saved, measured, complaint):
    saved("ViTForImageClassification", "ViTConfig")
    images()
    asked = (None, "images.npz", "--quantities", "jacobian_norm")
    expected = measured("saved", *asked)[0]["quantities"]
    state = load_file("saved/model.safetensors")
    Path("saved/model.safetensors").unlink()
    names = sorted(state)
    for part, some in enumerate((names[:5], names[5:]), 1):
        save_file({name: state[name] for name in some}, f"saved/model-0000{part}-of-00002.safetensors")
    assert measured("saved", *asked)[0]["quantities"] == expected
    Path("saved/model-00001-of-00002.safetensors").unlink()
    words = "expected 2 files such as model-00002-of-00002.safetensors, got 1 in saved"
    assert words in complaint("saved", None, "images.npz")
    Path("saved/model-00002-of-00002.safetensors").unlink()
    assert "a folder with model.safetensors or pytorch_model.bin, got config.json in" in complaint("saved", None)
    torch.save(state, "saved/pytorch_model.bin")
    assert measured("saved", *asked)[0]["quantities"] == expected


def in_parts(folder, of, state):
    """As `save_pretrained` parts weights among files, one tensor each, beside what may be there of another save."""
    names = {name: f"model-{part:05}-of-{of:05}.safetensors" for part, name in enumerate(state, 1)}
    for name, file in names.items():
        save_file({name: state[name]}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return names


def test_an_index_says_which_parts_belong_together(folder, measured, complaint):
    parts, state = Path("parts"), network().state_dict()
    parts.mkdir()
    in_parts(parts, 9, {name: tensor + 1 for name, tensor in state.items()})
    names = in_parts(parts, len(state), state)
    assert measured("parts")[0]["quantities"] == measured()[0]["quantities"]
    first = parts / min(names.values())
    first.rename("elsewhere.safetensors")
    assert f"expected 4 files such as {first.name}, got 3 in parts. Copy all of them." in complaint("parts")
    index = parts / "model.safetensors.index.json"
    for wrong in ("../elsewhere.safetensors", "/etc/passwd", "", 3, ["a"]):
        index.write_text(json.dumps({"weight_map": {"0.weight": wrong}}))
        assert "expected an index that says which file has which tensor, got " in complaint("parts")
    for text in ("", "[]", "{}", '{"weight_map": {}}', '{"weight_map": 3}', "[" * 10**5):
        index.write_text(text)
        assert "expected an index that says which file has which tensor, got " in complaint("parts")


def test_a_factory_takes_the_weights_of_a_folder(folder, measured):
    Path("bare").mkdir()
    save_file(network().state_dict(), "bare/model.safetensors")
    assert measured("bare")[0]["quantities"] == measured()[0]["quantities"]


def test_weights_of_a_folder_must_be_the_networks(saved, complaint):
    saved("ViTForImageClassification", "ViTConfig")
    images()
    state = load_file("saved/model.safetensors")
    bias = state.pop("classifier.bias")
    save_file({**state, "more": bias}, "saved/model.safetensors")
    said = complaint("saved", None, "images.npz")
    assert "missing classifier.bias; unexpected more. Correct config.json." in said
    save_file({**state, "classifier.bias": torch.ones(4)}, "saved/model.safetensors")
    assert "of another shape classifier.bias" in complaint("saved", None, "images.npz")


CONFIGS = {
    "no file": (None, "(--model): expected MODULE:FACTORY, what builds the network"),
    "no json": ("{", "JSONDecodeError"),
    "no names": ("[]", "a config.json with names and what they stand for, got list in saved/config.json"),
    "nothing": ("{}", "such as ViTForImageClassification, got none in saved/config.json. Name what builds yours"),
    "deep": ("[" * 10**5, "RecursionError"),
    "another's": ({"architectures": ["os"]}, "got 'os' in saved/config.json"),
    "no class": ({"architectures": ["MyForCausalLM"]}, "got 'MyForCausalLM' in saved/config.json"),
    "no list": ({"architectures": 3}, "got none in saved/config.json"),
    "no kind": ({"model_type": "x"}, "KeyError: 'x'"),
    "of bodies": ({"architectures": ["ViTModel"]}, "got 'ViTModel' in saved/config.json"),
    "larger": (
        {"hidden_size": 2**16, "intermediate_size": 2**16},
        "with the network whose weights these are, got a larger one in saved/config.json",
    ),
    "deeper": (
        {"num_hidden_layers": 10**6},
        "with the network whose weights these are, got a larger one in saved/config.json",
    ),
    "beyond": (
        {"num_hidden_layers": 2**40},
        "with whole numbers up to 67,108,864, got 1099511627776 in saved/config.json",
    ),
    "negative": ({"hidden_size": -1}, "of which transformers makes a network, got "),
    "words": ({"hidden_size": "many"}, "of which transformers makes a network, got "),
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_configurations_that_are_wrong_are_one_line(saved, complaint, kind):
    saved("ViTForImageClassification", "ViTConfig")
    images()
    path, (wrong, words) = Path("saved/config.json"), CONFIGS[kind]
    right = json.loads(path.read_text())
    path.unlink()
    if wrong is not None:
        path.write_text(wrong if isinstance(wrong, str) else json.dumps(right | wrong))
    assert words in complaint("saved", None, "images.npz")


def test_configurations_run_and_fetch_nothing(saved, measured, monkeypatch):
    """What asks for code or for another place is left out."""
    saved("ViTForImageClassification", "ViTConfig")
    images()
    asked = (None, "images.npz", "--quantities", "jacobian_norm")
    expected = measured("saved", *asked)[0]["quantities"]
    path = Path("saved/config.json")
    Path("saved/theirs.py").write_text("open('pwned', 'w').close()")
    config = json.loads(path.read_text())
    config |= {"auto_map": {"AutoModelForImageClassification": "theirs.Net", "AutoConfig": "theirs.Config"}}
    config |= {"attn_implementation": "evil/kernel", "_attn_implementation": "evil/kernel", "_name_or_path": "../x"}
    config |= {"quantization_config": {"quant_method": "awq"}, "backbone": "evil/net", "dtype": "int8"}
    path.write_text(json.dumps(config))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("it called somebody"))
    assert measured("saved", *asked)[0]["quantities"] == expected
    assert not Path("pwned").exists()


def test_files_of_a_folder_are_not_written_over(saved, complaint):
    saved("ViTForImageClassification", "ViTConfig")
    images()
    for name in ("saved/config.json", "saved/model.safetensors"):
        before = Path(name).read_bytes()
        assert "expected a file that is not read here" in complaint("saved", None, "images.npz", "--out", name)
        assert Path(name).read_bytes() == before


def test_pipes_in_a_folder_are_not_opened(folder, complaint):
    Path("pipes").mkdir()
    os.mkfifo("pipes/model.safetensors")
    os.mkfifo("pipes/config.json")
    assert "a folder with model.safetensors or pytorch_model.bin, got nothing in 'pipes'" in complaint("pipes", None)
    save_file(network().state_dict(), "pipes/pytorch_model.safetensors")
    torch.save(network().state_dict(), "pipes/pytorch_model.bin")
    assert "(--model): expected MODULE:FACTORY" in complaint("pipes", None)


# Tokens


def test_tokens_have_classes_and_no_derivatives(saved, measured):
    made = saved("BertForSequenceClassification", "BertConfig")
    tokens = torch.randint(0, 9, (N, 5), generator=torch.Generator().manual_seed(0))
    np.savez("tokens.npz", x=tokens.numpy(), labels=np.arange(N) % CLASSES)
    found, said = measured("saved", None, "tokens.npz")
    assert {"accuracy", "nc1", "self_duality"} <= found["quantities"].keys()
    assert [*found["left_out"]] == [
        *("centroid_alignment", "jacobian_alignment", "explained_variance_ratio", "jacobian_norm")
    ]
    assert "got torch.int64. Convert it, or, for tokens, pass their embeddings" in said
    expected = gnomon.accuracy(made(tokens).logits.detach(), torch.arange(N) % CLASSES).mean().item()
    torch.testing.assert_close(found["quantities"]["accuracy"]["mean"], expected)


def test_of_a_sequence_one_position_is_measured(saved, measured, complaint):
    made = saved("LlamaForCausalLM", "LlamaConfig")
    tokens = torch.randint(0, 9, (N, 6), generator=torch.Generator().manual_seed(0))
    np.savez("tokens.npz", x=tokens[:, :5].numpy(), labels=tokens[:, 1:].numpy())
    said = complaint("saved", None, "tokens.npz")
    assert "(outputs): expected (8, c) of 8 samples, got (8, 5, 9), rows of 5 positions. Name the one" in said
    for position in (-1, 2):
        found, _ = measured("saved", None, "tokens.npz", "--position", str(position), "--quantities", "accuracy")
        logits = made(tokens[:, :5]).logits[:, position].detach()
        expected = gnomon.accuracy(logits, tokens[:, 1:][:, position]).mean().item()
        torch.testing.assert_close(found["quantities"]["accuracy"]["mean"], expected)
    found, said = measured("saved", None, "tokens.npz", "--position", "all", "--quantities", "accuracy", "nc1")
    with torch.no_grad():
        hidden, logits = made.model(tokens[:, :5]).last_hidden_state, made(tokens[:, :5]).logits
    labels = tokens[:, 1:].flatten()
    expected = gnomon.accuracy(logits.flatten(0, 1), labels).mean().item()
    assert found["quantities"]["accuracy"]["mean"] == pytest.approx(expected)
    nc1 = gnomon.nc1(gnomon.class_moments(hidden.flatten(0, 1), labels, 9)).item()
    assert found["quantities"]["nc1"]["value"] == pytest.approx(nc1, rel=1e-4)
    said = complaint("saved", None, "tokens.npz", "--position", "all", "--quantities", "jacobian_norm")
    assert "for quantities that use its jacobian, got several. Name one, such as 'last'" in said
    named = measured("saved", None, "tokens.npz", "--position", "last", "--quantities", "accuracy")[0]
    counted = measured("saved", None, "tokens.npz", "--position", "-1", "--quantities", "accuracy")[0]
    assert (named["position"], named["quantities"]) == (-1, counted["quantities"])
    said = complaint("saved", None, "tokens.npz", "--position", "5")
    assert "measure(--position): expected -5 to 4, got 5" in said
    np.savez("fewer.npz", x=tokens[:, :5].numpy(), labels=tokens[:, 1:5].numpy())
    for position in ("-1", "4"):
        said = complaint("saved", None, "fewer.npz", "--position", position, "--quantities", "accuracy")
        assert "(--data): expected labels at 5 positions, as the outputs have, got 4. Save one for each" in said


def test_bytes_are_no_tokens(folder, complaint):
    np.savez("bytes.npz", x=np.zeros((3, 6), np.int8))
    assert "or of tokens in int64, got x in int8" in complaint("small.pt", "nets:small", "bytes.npz")


def test_labels_of_another_axis_are_said(folder, complaint):
    np.savez("axes.npz", x=numbers(5, N, 6).numpy(), labels=np.arange(N) % 3)
    words = "expected labels of 5 samples, as in x, got 40 in axes.npz, as many as axis 1 of x has. Save both"
    assert words in complaint("small.pt", "nets:small", "axes.npz")


# Heads


def test_two_heads_that_are_averaged_are_found(saved, measured):
    """As distilled transformers have them."""
    made, x = saved("DeiTForImageClassificationWithTeacher", "DeiTConfig"), images()
    found, _ = measured("saved", None, "images.npz", "--quantities", "nc1", "self_duality", "classifier_equinorm")
    heads, last = (made.cls_classifier, made.distillation_classifier), made.deit(x).last_hidden_state.detach()
    moments = gnomon.class_moments(torch.cat([last[:, 0], last[:, 1]], 1), torch.arange(N) % CLASSES, CLASSES)
    weight = torch.cat([head.weight for head in heads], 1).detach() / 2
    for name, expected in {
        "nc1": gnomon.nc1(moments),
        "self_duality": gnomon.self_duality(weight, moments),
        "classifier_equinorm": gnomon.classifier_equinorm(weight),
    }.items():
        torch.testing.assert_close(found["quantities"][name]["value"], expected.item(), rtol=1e-4, atol=1e-5)


def test_a_head_that_is_called_at_every_position_is_found(saved, measured):
    made = saved("LlamaForCausalLM", "LlamaConfig")
    tokens = torch.randint(0, 9, (N, 5), generator=torch.Generator().manual_seed(0))
    np.savez("tokens.npz", x=tokens.numpy(), labels=np.arange(N) % 9)
    found, _ = measured("saved", None, "tokens.npz", "--position", "-1", "--quantities", "nc1", "self_duality")
    moments = gnomon.class_moments(made.model(tokens).last_hidden_state[:, -1].detach(), torch.arange(N) % 9, 9)
    expected = gnomon.self_duality(made.lm_head.weight.detach(), moments).item()
    torch.testing.assert_close(found["quantities"]["self_duality"]["value"], expected, rtol=1e-4, atol=1e-5)


def test_the_head_may_be_named(others, measured, complaint):
    torch.save(network().state_dict(), "headless.pt")
    asked = ("--quantities", "self_duality", "nc1")
    assert "Name the layer whose input is meant, or the layers" in complaint(
        "headless.pt", "nets:headless", "some.npz", *asked
    )
    found, _ = measured("headless.pt", "nets:headless", "some.npz", "--head", "2", *asked)
    assert found["quantities"] == measured("small.pt", "nets:small", "some.npz", *asked)[0]["quantities"]
    assert found["head"] == ["2"]
    said = complaint("headless.pt", "nets:headless", "some.npz", "--head", "9")
    assert "expected one of 0, 1, 2, 3, got '9'" in said


# Outputs


@pytest.mark.parametrize(
    ("model", "logits", "words"),
    [
        (
            "softmax",
            "2",
            "the outputs are probabilities, as a softmax gives, and what is measured is of these;",
        ),
        ("LogSoftmax", "body", "the outputs are logarithms of probabilities, as log_softmax gives"),
        ("Inline", None, "if a layer outputs what precedes it, name that layer: --logits NAME"),
    ],
)
def test_outputs_behind_a_softmax_are_said_and_the_logits_named(others, measured, model, logits, words):
    checkpoint = "small.pt" if model == "softmax" else "body.pt"
    found, said = measured(checkpoint, f"others:{model}", "some.npz", "--report", "a.html")
    assert words in said
    assert found["outputs"].partition(";")[0] in Path("a.html").read_text(encoding="utf-8")
    assert found["outputs"] in said
    if logits is None:
        return
    assert f"--logits {logits} takes the output of this layer" in said
    expected = measured()
    assert "the outputs are" not in expected[1]
    found, said = measured(checkpoint, f"others:{model}", "some.npz", "--logits", logits)
    assert found["quantities"] == expected[0]["quantities"]
    assert (found["outputs"], found["logits"]) == (None, logits)


def test_logits_in_what_holds_them_are_taken(others, measured):
    assert measured("body.pt", "others:Named")[0]["quantities"] == measured()[0]["quantities"]


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("Two", [], "measure(--model): expected a network of one input, the samples, got one of 2: x, mask. Let the"),
        ("Pair", [], "(outputs): expected one tensor, alone or under the name logits, got tuple. Name the layer"),
        ("Rows", [], "(outputs): expected (8, c) of 8 samples, got (8, 3, 3), rows of 3 positions. Name the one"),
        ("Rows", ["--position", "3"], "(--position): expected -3 to 2, got 3."),
        ("Swapped", [], "(outputs): expected (8, c) of 8 samples, got (3, 8, 3), samples on axis 1. Let a hook"),
        (
            "Flat",
            [],
            "got (8,). Let a hook make one row of outputs per sample, such as outputs[:, None].",
        ),
        ("LogSoftmax", ["--position", "0"], "got (8, 3), without positions in the midst. Leave out --position."),
        ("LogSoftmax", ["--logits", "x"], "(--logits): expected one of body, body.0, body.1, body.2, got 'x'."),
        ("Inline", ["--logits", "body.2"], "expected a layer that the forward pass calls, got 'body.2'."),
        ("LogSoftmax", ["--logits", "body.0"], None),
    ],
)
def test_outputs_that_are_no_rows_of_logits_are_one_line(others, measured, complaint, model, options, words):
    if words is None:
        assert measured("body.pt", f"others:{model}", "some.npz", *options)[0]["logits"] == "body.0"
    else:
        assert words in complaint("body.pt", f"others:{model}", "some.npz", *options)


def test_a_position_is_that_of_the_outputs_and_a_layer_that_of_logits(others, measured):
    expected = measured()[0]["quantities"]
    for options in (["--position", "0"], ["--position", "-3"]):
        found = measured("body.pt", "others:Rows", "some.npz", *options)[0]["quantities"]
        for name in ("jacobian_norm", "accuracy", "jacobian_alignment"):
            torch.testing.assert_close(found[name]["mean"], expected[name]["mean"])
    assert measured("body.pt", "others:Pair", "some.npz", "--logits", "body")[0]["quantities"] == expected


def test_a_look_at_the_outputs_changes_nothing(others, measured):
    Path("counting.py").write_text(
        "import torch\nfrom gnomon.models import mlp\nclass Net(type(mlp((6, 8, 3)))):\n    scale = 1.0\n"
        "    def forward(self, x):\n        y = super().forward(x) * self.scale\n        self.scale = 2 * self.scale\n"
        "        return y\ndef net():\n    return Net(*mlp((6, 8, 3), bias=True))\n"
    )
    found, _ = measured("small.pt", "counting:net", "some.npz", "--samples", "8", "--quantities", "accuracy")
    assert (
        found["quantities"]["accuracy"]["mean"]
        == measured(*("small.pt", "nets:small", "some.npz", "--samples", "8", "--quantities", "accuracy"))[0][
            "quantities"
        ]["accuracy"]["mean"]
    )
