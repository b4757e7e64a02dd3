"""`gnomon measure`: what it says is what the quantities give; what cannot be measured is said; no code is run."""

import json
import os
import pickle
import re
import runpy
import shlex
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file, save_model
from torch.testing import assert_close

import gnomon
from gnomon.data import digits, standardise
from gnomon.models import mlp
from gnomon_lab.measuring import load_data
from gnomon_lab.measuring.quantities import CAUTION, DEFAULT, QUANTITIES, explanation
from gnomon_lab.measuring.shown import figures, share_axis
from gnomon_lab.runs.checkpoint import save_checkpoint
from tests.children import child
from tests.lab.measuring import CLASSES, Malicious, N, call, in_folder, network, numbers

NARROWING = {"activation_misalignment", "cumulative_parameters", "truncated_inputs", "truncation_map"}
"""They take networks whose widths do not increase."""


def plainly(model, x, labels):
    """Most quantities, from the functions themselves and all samples at once."""
    head, features = model[-1], model[:-1](x).detach()
    jacobian, logits = gnomon.input_jacobian(model, x).detach(), model(x).detach()
    moments = gnomon.class_moments(features, labels, logits.shape[1])
    centroid, weight = jacobian.sum(1), head.weight.detach()
    means = moments.means - features.mean(0)
    return {
        "accuracy": gnomon.accuracy(logits, labels),
        "centroid_alignment": gnomon.centroid_alignment(centroid, x),
        "jacobian_alignment": gnomon.jacobian_alignment(jacobian, x),
        "explained_variance_ratio": gnomon.explained_variance_ratio(jacobian),
        "jacobian_norm": gnomon.jacobian_norm(jacobian),
        "nc1": gnomon.nc1(moments),
        "equinorm": gnomon.equinorm(means),
        "maximal_equiangularity": gnomon.maximal_equiangularity(means),
        "classifier_equinorm": gnomon.classifier_equinorm(weight),
        "classifier_maximal_equiangularity": gnomon.classifier_maximal_equiangularity(weight),
        "self_duality": gnomon.self_duality(weight, moments),
        "nearest_mean_disagreement": gnomon.nearest_mean_disagreement(features, logits, moments),
        "centroid_inner_product": gnomon.centroid_inner_product(centroid, x),
        "row_alignment": gnomon.row_alignment(jacobian, x),
        "singular_values": torch.linalg.svdvals(jacobian),
        "effective_rank": gnomon.effective_rank(gnomon.agop(jacobian)),
        "nc1_trace_ratio": gnomon.nc1_trace_ratio(moments),
        "equiangularity": gnomon.equiangularity(means),
        "classifier_equiangularity": gnomon.classifier_equiangularity(weight),
    }


def spread(value):
    """As JSON holds it."""
    if value.ndim == 0:
        return {"value": value.item()}
    ordered = value.flatten().sort().values
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    kinds = ("mean", "median", "min", "max")
    return dict(zip(kinds, (v.item() for v in (value.mean(), middle, ordered[0], ordered[-1])), strict=True))


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        got = {kind: number for kind, number in found[name].items() if kind != "explanation"}
        torch.testing.assert_close(got, spread(value), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("batch", [256, 7, 1])
def test_numbers_are_those_of_the_functions(measured, monkeypatch, batch):
    # By its place, since the package has the function under this name.
    monkeypatch.setattr(sys.modules["gnomon_lab.measuring.measure"], "BATCH", batch)
    # Its chains take most of the time, and batches of their own.
    left = NARROWING if batch == 256 else NARROWING | {"local_learning_coefficient"}
    asked = [name for name in QUANTITIES if name not in left]
    found, said = measured(
        "small.pt", "nets:small", "some.npz", "--dtype", "float64", "--memory", "1", "--quantities", *asked
    )
    expected = plainly(network().double(), numbers(N, 6), torch.arange(N) % CLASSES)
    same({name: found["quantities"][name] for name in expected}, expected)
    assert [*dict.fromkeys(name.partition(".")[0] for name in found["quantities"])] == asked
    assert {"mse_decomposition.total", "deepfool.norm", "class_moments.means"} <= found["quantities"].keys()
    assert found["left_out"] == {}
    assert (found["samples"], found["dtype"], found["data"]) == (N, "float64", "some.npz")
    assert "a word at import" in said


def test_progress_is_by_batches_and_jacobians_fit_the_memory(monkeypatch):
    from gnomon_lab.measuring import Data, chosen, measure

    told, model = [], network().eval()
    monkeypatch.setattr(sys.modules["gnomon_lab.measuring.measure"], "BATCH", 15)
    data = Data(numbers(N, 6).float(), torch.arange(N) % CLASSES, "")
    measured = measure(model, data, chosen(["jacobian_norm"]), memory=2_000, show=lambda *s: told.append(s))
    assert told == [(done, 4) for done in range(1, 5)]
    torch.testing.assert_close(
        measured.values["jacobian_norm"], gnomon.jacobian_norm(gnomon.input_jacobian(model, data.x)).detach()
    )


def test_what_it_will_cost_is_said_and_estimates_are_as_accurate_as_asked_for(measured):
    found, said = measured("small.pt", "nets:small", "some.npz", "--rtol", "0.1", "--passes", "32")
    assert re.search(rf"^reading {N} samples, 3 outputs: about [\d.e-]+ s, \d+ MiB$", said, re.MULTILINE)
    assert found["quantities"]["jacobian_norm"]["mean"] > 0

    from gnomon_lab.measuring import Data, measure

    told, model, data = [], mlp((6, 8, 160), generator=torch.Generator().manual_seed(0)), Data(numbers(4, 6), None, "")
    asked = {"jacobian_norm": gnomon.jacobian_norm}
    coarse, fine = (measure(model.double(), data, asked, rtol=rtol, say=told.append).values for rtol in (0.5, 0.1))
    assert (fine["jacobian_norm.error"] < coarse["jacobian_norm.error"]).all()
    assert measure(model, data, asked, rtol=0).values.keys() == asked.keys()
    assert all(words.startswith("reading 4 samples, 160 outputs by products: about ") for words in told)


def test_defaults_are_the_first_samples_and_the_default_quantities(measured):
    found, _ = measured("small.pt", "nets:small", "some.npz", "--samples", "11")
    assert found["samples"] == 11
    assert [*found["quantities"]] == [quantity.__name__ for quantity in DEFAULT]
    x = numbers(N, 6)[:11].float()
    norms = gnomon.jacobian_norm(gnomon.input_jacobian(network(), x)).detach()
    torch.testing.assert_close(found["quantities"]["jacobian_norm"]["mean"], norms.mean().item())
    np.savez("many.npz", x=numbers(1100, 6).numpy(), y=(torch.arange(1100) % CLASSES).numpy())
    assert measured("small.pt", "nets:small", "many.npz", "--quantities", "accuracy")[0]["samples"] == 1024


def test_every_quantity_is_explained_in_one_plain_sentence():
    for name in (*QUANTITIES, "deepfool.norm"):
        words = explanation(name).removesuffix(f" {CAUTION}")
        assert words.endswith(".")
        assert len(words) < 120
        assert not re.search(r"[$\\`\n]", words)


def prefixed(prefix, state, **more):
    return {**{prefix + name: tensor for name, tensor in state.items()}, **more}


WRAPPED = {
    "plain": (lambda s: s, "4 of 4 tensors"),
    "state_dict": (lambda s: {"epoch": 3, "state_dict": s}, "4 of 4 tensors under state_dict"),
    "model_state_dict": (lambda s: {"model_state_dict": s, "loss": 0.5}, "4 of 4 tensors under model_state_dict"),
    "lightning": (
        lambda s: {"state_dict": prefixed("model.", s, **{"loss.weight": torch.ones(3)}), "loops": {}},
        "4 of 5 tensors under state_dict, those that begin with 'model.'",
    ),
    "parallel": (lambda s: prefixed("module.", s), "4 of 4 tensors, those that begin with 'module.'"),
    "beside a step": (lambda s: {"state": {"step": 3}, "model": s}, "4 of 4 tensors under model"),
    "beside an optimizer's": (
        lambda s: {"state": {"momentum": torch.ones(3)}, "state_dict": {}, "model": prefixed("model.", s)},
        "4 of 4 tensors under model, those that begin with 'model.'",
    ),
    "compiled in part": (
        lambda s: {
            "model": prefixed("module.", {name.replace("0.", "0._orig_mod."): part for name, part in s.items()})
        },
        "4 of 4 tensors under model, those that begin with 'module.'",
    ),
    "checkpointed": (
        lambda s: {name.replace(".", "._checkpoint_wrapped_module."): part for name, part in s.items()},
        "4 of 4 tensors",
    ),
    "compiled": (lambda s: {"model": prefixed("_orig_mod.module.", s)}, "under model, those that begin with '_orig_m"),
}


@pytest.mark.parametrize("kind", WRAPPED)
def test_wrapped_checkpoints_are_opened_and_it_is_said(folder, measured, kind):
    wrap, taken = WRAPPED[kind]
    plain = measured()[0]["quantities"]
    torch.save(wrap(network().state_dict()), "wrapped.ckpt")
    found, said = measured("wrapped.ckpt")
    assert found["quantities"] == plain
    assert taken in said
    assert taken in found["taken"]


def test_safetensors_are_read_those_of_runs_too(folder, measured):
    plain, state = measured()[0]["quantities"], network().state_dict()
    save_file(state, "small.safetensors")
    assert measured("small.safetensors")[0]["quantities"] == plain
    save_checkpoint(folder / "run.safetensors", {"run": "x", "step": 3, "state": {"model": state, "generator": None}})
    found, said = measured("run.safetensors")
    assert found["quantities"] == plain
    assert "under state.model" in said


def test_one_of_two_tied_parameters_is_enough(folder, measured):
    from nets import Tied  # made by the fixture

    torch.manual_seed(0)
    tied = Tied()
    save_model(tied, "tied.safetensors")
    np.savez("six.npz", x=numbers(N, 6).numpy(), labels=(torch.arange(N) % 6).numpy())
    found, said = measured("tied.safetensors", "nets:Tied", "six.npz", "--quantities", "jacobian_norm")
    expected = gnomon.jacobian_norm(gnomon.input_jacobian(tied, numbers(N, 6).float()).detach()).mean().item()
    torch.testing.assert_close(found["quantities"]["jacobian_norm"]["mean"], expected)
    assert "3 of 3 tensors" in said


def test_the_number_of_batches_of_a_batch_norm_may_be_missing(folder, measured, complaint):
    """As in files of before torch 0.4.1, which torch loads strictly; in eval mode nothing depends on it."""
    from nets import normalised  # made by the fixture

    torch.manual_seed(0)
    model = normalised()
    model(numbers(N, 6).float())
    old = {name: tensor for name, tensor in model.state_dict().items() if name != "1.num_batches_tracked"}
    normalised().load_state_dict(old, strict=True)
    torch.save(old, "old.pt")
    found, said = measured("old.pt", "nets:normalised", "some.npz", "--quantities", "jacobian_norm")
    expected = gnomon.jacobian_norm(gnomon.input_jacobian(model.eval(), numbers(N, 6).float()).detach()).mean().item()
    torch.testing.assert_close(found["quantities"]["jacobian_norm"]["mean"], expected)
    assert "8 of 8 tensors" in said
    torch.save({name: tensor for name, tensor in old.items() if name != "1.running_mean"}, "less.pt")
    assert "the 9 tensors of the network, got 7: missing 1.running_mean. " in complaint("less.pt", "nets:normalised")


def pickled(protocol):
    def write(path, thing):
        path.write_bytes(pickle.dumps(thing, protocol=protocol))

    return write


MALICIOUS = {
    "zip": lambda path, thing: torch.save({"state_dict": thing}, path),
    "legacy": lambda path, thing: torch.save(thing, path, _use_new_zipfile_serialization=False),
    "protocol 2": pickled(2),
    "protocol 5": pickled(5),
}


@pytest.mark.parametrize("kind", MALICIOUS)
def test_malicious_pickle_is_refused_and_not_run(folder, complaint, kind):
    pwned = folder / "pwned"
    MALICIOUS[kind](folder / "bad.pt", Malicious(pwned))
    said = complaint("bad.pt")
    assert not pwned.exists()
    assert "it was refused, and nothing of it was run" in said
    assert "save the weights alone: torch.save(model.state_dict(), ...)" in said
    assert "weights_only" not in said  # torch's own advice is to run it
    if kind.startswith("protocol"):
        # It would have made the file.
        pickle.loads((folder / "bad.pt").read_bytes())
        assert pwned.exists()
    if kind != "protocol 5":
        assert "which asks to call exec when it is opened" in said


def test_malicious_pickle_is_one_line_of_a_process(folder):
    torch.save({"state_dict": Malicious(folder / "pwned")}, "bad.pt")
    done = child(in_folder, folder, "measure", "bad.pt", "--model", "nets:small", "--data", "some.npz")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert not (folder / "pwned").exists()


def test_arrays_of_objects_are_refused_and_not_run(folder, complaint):
    np.savez("bad.npz", x=np.array([Malicious(folder / "pwned")], dtype=object))
    assert "without pickled objects, got ValueError in it" in complaint("small.pt", "nets:small", "bad.npz")
    assert not (folder / "pwned").exists()


def test_metrics_and_states_of_generators_beside_the_weights_are_read(folder, measured):
    beside = {
        "epoch": np.int64(3),
        "best": np.float32(0.5),
        "losses": np.arange(5.0),
        "generator": np.random.get_state(),
        "saved": datetime(2026, 1, 1),
    }
    torch.save({"model": network().state_dict(), **beside}, "trained.pt")
    assert measured("trained.pt")[0]["quantities"] == measured("small.pt")[0]["quantities"]


def test_arrays_of_objects_in_a_checkpoint_are_refused_and_not_run(folder, complaint):
    hidden = np.array([Malicious(folder / "pwned")], dtype=object)
    torch.save({"model": network().state_dict(), "losses": hidden}, "bad.pt")
    assert "which asks to call exec when it is opened" in complaint("bad.pt")
    assert not (folder / "pwned").exists()


def test_whole_network_is_refused(folder, complaint):
    torch.save(network(), "whole.pt")
    assert "asks to call torch.nn.modules" in complaint("whole.pt")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hello", "or one of safetensors whose name says so, got other.pt, which begins as neither does. Name"),
        (b"", "got other.pt, which is empty. Name a checkpoint"),
        (pickle.dumps({"weight": 1.0}, 4), "got other.pt, a pickle of more than tensors; it was refused"),
    ],
)
def test_what_torch_never_wrote_is_said_to_be_so(folder, complaint, content, said):
    Path("other.pt").write_bytes(content)
    assert said in complaint("other.pt")


def test_archives_of_others_are_no_damaged_checkpoints(folder, complaint):
    assert "got some.npz, an archive of x.npy and others. Name a checkpoint" in complaint("some.npz")


@pytest.mark.parametrize("name", ["other.pt", "other.safetensors"])
def test_a_checkpoint_that_may_not_be_read_is_not_called_damaged(folder, complaint, monkeypatch, name):
    """As another user's; root, as whom tests may run, reads any file."""
    Path(name).write_bytes(b"PK\3\4")
    monkeypatch.setattr(os, "access", lambda path, mode: path != Path(name))
    assert f"(checkpoint): expected a file that may be read, got {name}, which may not. Change" in complaint(name)


@pytest.mark.parametrize(("name", "content"), [("cut.pt", None), ("empty.safetensors", b"")])
def test_damaged_checkpoints_are_one_line(folder, complaint, name, content):
    Path(name).write_bytes(Path("small.pt").read_bytes()[:300] if content is None else content)
    assert f"expected a whole file of {'safetensors' if 'safe' in name else 'torch.save'}, got" in complaint(name)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("deep", "expected the 6 tensors of the network, got 4: missing 4.weight, 4.bias."),
        ("one", "shapes of the network's tensors, got size mismatch for 2.weight: copying a param with shape"),
        ("normalised", "missing 1.weight, 1.bias, 1.running_mean and 3 more; unexpected 2.weight, 2.bias."),
    ],
)
def test_mismatch_names_the_first_tensors(complaint, model, words):
    assert words in complaint("small.pt", f"nets:{model}")


def test_what_holds_no_state_dict_is_said(folder, complaint):
    torch.save({"epoch": 3, "loss": 0.1}, "other.pt")
    assert "expected a state dict, tensors by name" in complaint("other.pt")
    torch.save([1, 2], "list.pt")
    assert "got list in list.pt" in complaint("list.pt")
    torch.save({"state": {"step": 3}, "state_dict": {}}, "empty.pt")
    assert "got state, state_dict in empty.pt" in complaint("empty.pt")
    endless = {"epoch": 3}
    endless["model"] = endless
    torch.save(endless, "endless.pt")
    assert "got epoch, model in endless.pt" in complaint("endless.pt")


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.bool, torch.complex64])
def test_what_are_no_floating_point_numbers_is_refused(folder, complaint, dtype):
    state = network().state_dict()
    torch.save({**state, "2.weight": (10 * state["2.weight"]).to(dtype)}, "quantised.pt")
    assert f"expected floating-point numbers in 2.weight, got {dtype}. Quantised" in complaint("quantised.pt")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_may_be_of_another_precision(folder, measured, dtype):
    """The number of batches that a BatchNorm has seen is a whole one, and may come as another."""
    from nets import normalised  # made by the fixture

    torch.manual_seed(0)
    model = normalised()
    torch.save({name: tensor.to(dtype) for name, tensor in model.state_dict().items()}, "other.pt")
    found, _ = measured("other.pt", "nets:normalised", "some.npz", "--quantities", "classifier_equinorm")
    expected = gnomon.equinorm(model[-1].weight.detach().to(dtype).float()).item()
    torch.testing.assert_close(found["quantities"]["classifier_equinorm"]["value"], expected)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("nets", "expected MODULE:FACTORY, such as nets:small for small() in nets.py, got 'nets'"),
        ("nest:small", "got ModuleNotFoundError: No module named 'nest'"),
        ("nets:smal", "expected a function 'smal' in 'nets', got none"),
        ("nets.py:small", "expected a module's name, got 'nets.py'. Write nets:small."),
        ("here/nets.py:small", "Write here.nets:small."),
        ("./here/../nets.py:small", "Write nets:small."),
        ("/else/where/nets.py:small", "got '/else/where/nets.py'. Call gnomon in /else/where with --model nets:small."),
        ("v1.2/nets.py:small", "/v1.2 with --model nets:small."),
        ("nets:made", "expected a function that builds one, got a network, 'made' in 'nets'. Name its class, or"),
        ("nets:needy", "without arguments, got TypeError: needy() missing 1 required positional argument"),
        ("nets:nothing", "expected a torch.nn.Module from nets:nothing, got NoneType"),
    ],
)
def test_factories_that_fail_are_one_line(complaint, model, words):
    assert words in complaint("small.pt", model)


@pytest.mark.bad_input
def test_a_file_in_the_place_of_a_module_is_named_from_the_current_folder(folder, complaint):
    here = Path.cwd()
    assert "Write nets:small." in complaint("small.pt", f"{here}/nets.py:small")
    assert f"Call gnomon in {here.parent} with --model nets:small." in complaint("small.pt", "../nets.py:small")


def test_networks_that_do_not_take_the_samples_are_one_line(folder, complaint):
    torch.save(mlp((5, 8, 3), bias=True).state_dict(), "narrow.pt")
    said = complaint("narrow.pt", "nets:narrow")
    assert said.startswith(
        "gnomon: measure(--model): expected a network that takes samples of shape (6,) in torch.float32 on cpu, got "
        "RuntimeError: "
    )
    assert "mat1 and mat2 shapes" in said
    assert said.endswith(
        "Name the samples as the network gets them (--data), or the network that gets these (--model)."
    )
    assert said.count("RuntimeError") == 1
    assert "Leave these out" not in said
    state = network().state_dict()
    state["0.weight"][0, 0] = torch.nan
    torch.save(state, "diverged.pt")
    assert "expected finite numbers, got nan" in complaint("diverged.pt")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--quantities", "nc1", "nc5"], "expected some of accuracy, centroid_alignment"),
        (["--quantities", "nc5"], "got nc5. Did you mean nc1?"),
        (["--quantities", "nfa_table.pearson_root"], "got nfa_table.pearson_root. Did you mean nfa_table?"),
        (["--quantities", "xyz"], "got xyz. Correct it."),
        (["--quantities", "ntk_to_point"], "got ntk_to_point, which also needs point. Correct it."),
        (["--quantities", "fourier_losses"], "got fourier_losses, which also needs trained. Correct it."),
        (["--quantities", "gini"], "got gini, which also needs values. Correct it."),
        (["--samples", "41"], "expected 1 to 40, the samples of some.npz, got 41"),
        (["--samples", "0"], "expected 1 to 40, the samples of some.npz, got 0"),
        (["--split", "test"], "measure(--split): expected none for one file, got 'test'"),
        (["--device", "nowhere"], "expected a device of this machine, got 'nowhere'"),
        (["--dtype", "float16"], "'float16'"),
        (["--memory", "0"], "expected at least 1 MiB, got 0"),
        (["--rtol", "-1"], "measure(--rtol): expected finite and at least 0, got -1"),
        (["--passes", "3"], "measure(--passes): expected at least 16, got 3"),
        (["--layer", "9"], "(layers): expected one of 0, 1, 2, got '9'"),
        (["--out", "nowhere/a.json"], "measure(--out): expected a file in a folder, got 'nowhere/a.json'"),
        (["--report", "nowhere/a.html"], "measure(--report): expected a file in a folder"),
        (["--smaples", "3"], "Did you mean --samples?"),
    ],
)
def test_bad_options_are_one_line(complaint, options, words):
    assert words in complaint("small.pt", "nets:small", "some.npz", *options)


def test_what_one_output_lacks_is_said_in_a_sentence(folder, measured):
    torch.save(mlp((6, 8, 1), bias=True).state_dict(), "one.pt")
    _, said = measured("one.pt", "nets:one", "some.npz")
    assert (
        "expected classes a whole number of at least 2, got 1. For a binary classifier with one logit z, read" in said
    )
    assert "got None" not in said


def test_bad_data_are_one_line(folder, complaint):
    def ask(data, **arrays):
        if arrays:
            np.savez(data, **arrays)
        return complaint("small.pt", "nets:small", data)

    x, labels = numbers(N, 6).numpy(), np.arange(N) % 3
    Path("text.npz").write_text("hello")
    assert "expected a file, got 'none.npz'" in ask("none.npz")
    assert "got BadZipFile in it" in ask("text.npz")
    assert "of floating-point numbers, as the network gets them, or of tokens in int64, got arrays y" in ask(
        "y.npz", y=x
    )
    assert "got x in uint8 in bytes.npz" in ask("bytes.npz", x=np.zeros((3, 6), np.uint8))
    for path, others in (("fewer.npz", labels[:-1]), ("more.npz", np.tile(labels, 3)), ("empty.npz", labels[:0])):
        words = f"expected labels of 40 samples, as in x, got {len(others)} in {path}. Save both"
        assert words in ask(path, x=x, labels=others)
    assert "expected an array labels, or y, got both in both.npz. Save one" in ask("both.npz", x=x, y=x, labels=labels)
    assert "as in x, got 120 in more.npz" in complaint("small.pt", "nets:small", "more.npz", "--samples", "5")
    assert "expected numbers as labels, got int64 in one.npz" in ask("one.npz", x=x, labels=np.array(3))
    assert "expected numbers as labels, got <U21 in words.npz" in ask("words.npz", x=x, labels=labels.astype(str))
    assert "expected finite numbers, got nan at index (0, 0)" in ask("nan.npz", x=x * np.nan)
    assert "expected a file, got 'none.parquet'" in ask("none.parquet")
    assert "(--data): expected digits, an .npz or .parquet file, one of mnist, fashion_mnist" in ask("minst")
    assert "The nearest is 'mnist'." in ask("minst")
    assert "The nearest is 'digits'." in ask("dgits")
    Path("digit/0").mkdir(parents=True)
    assert "got folders without folders, such as '0'. If they are classes, name " in ask("digit")
    assert "expected a folder, got './dgits'. Create it, or name the one that exists." in ask("./dgits")
    assert "(--data): expected an .npz or .parquet file, got 'small.pt'. Save it by np.savez" in ask("small.pt")
    assert "expected train or test of the digits" in complaint("small.pt", "nets:small", "digits", "--split", "dev")


COLLAPSE = [name for name in (q.__name__ for q in DEFAULT) if re.match(r"nc|equi|maximal|self|nearest", name)]
WEIGHT = ["classifier_equinorm", "classifier_maximal_equiangularity"]


@pytest.mark.parametrize(
    ("arrays", "left", "reason"),
    [
        ({}, ["accuracy", *COLLAPSE], "expected labels, got samples alone. --data takes both"),
        (
            {"y": numbers(N).numpy()},
            ["accuracy", *COLLAPSE],
            "in whole numbers, got labels (40,) in torch.float64. Save",
        ),
        ({"y": numbers(N).numpy().astype(">f4")}, ["accuracy", *COLLAPSE], "got labels (40,) in torch.float32. Save"),
        ({"y": numbers(N, 1).numpy()}, ["accuracy", *COLLAPSE], "of targets, as a regression has, nothing is measured"),
        ({"y": np.arange(N) % 4}, ["accuracy", *COLLAPSE], "expected classes 0 to 2, got 0 to 3 in torch.int64"),
        ({"y": np.eye(3)[np.arange(N) % 3]}, ["accuracy", *COLLAPSE], "got labels (40, 3) in torch.float64"),
        ({"y": np.zeros(N, int)}, COLLAPSE, "two classes or more, got those of class 0 alone. Pass more samples"),
    ],
)
def test_what_the_samples_lack_is_said_and_left_out(folder, measured, complaint, arrays, left, reason):
    np.savez("lacking.npz", x=numbers(N, 6).numpy(), **arrays)
    found, said = measured("small.pt", "nets:small", "lacking.npz")
    assert [*found["left_out"]] == left
    assert {*found["quantities"]} == {quantity.__name__ for quantity in DEFAULT} - {*left}
    lines = [line for line in said.splitlines() if line.startswith("left out")]
    assert sorted(", ".join(line.removeprefix("left out ").partition(":")[0] for line in lines).split(", ")) == sorted(
        left
    )
    assert reason in "".join(lines)
    said = complaint("small.pt", "nets:small", "lacking.npz", "--quantities", "jacobian_norm", "nc1")
    assert "expected what can be measured here, got nc1: " in said
    assert reason in said
    assert "functools" not in said
    assert "Pass (x" not in said


def test_a_regression_with_one_output_has_no_rows_to_compare(folder, measured, complaint):
    """It was given 0, which would be collapse."""
    torch.save(mlp((6, 8, 1), bias=True).state_dict(), "one.pt")
    np.savez("targets.npz", x=numbers(N, 6).numpy(), y=numbers(N).numpy())
    found, said = measured("one.pt", "nets:one", "targets.npz")
    assert not found["quantities"].keys() & {*WEIGHT}
    assert f"left out {', '.join(WEIGHT)}: expected vectors (k, p) of at least 2 classes, got shape (1, 8)" in said
    words = complaint("one.pt", "nets:one", "targets.npz", "--quantities", WEIGHT[0])
    assert f"expected what can be measured here, got {WEIGHT[0]}: expected vectors (k, p) of at least 2" in words


def test_a_binary_classifier_with_one_logit_is_read_as_two(folder, measured):
    torch.save(mlp((6, 8, 1), bias=True).state_dict(), "one.pt")
    np.savez("binary.npz", x=numbers(N, 6).numpy(), y=np.arange(N) % 2)
    found, _ = measured("one.pt", "nets:two_logits", "binary.npz", "--head", "2")
    assert (found["left_out"], found["quantities"]["classifier_equinorm"]["value"]) == ({}, 1.0)


def test_what_the_network_lacks_is_said_and_left_out(folder, measured):
    torch.save({f"{name}": tensor for name, tensor in network().state_dict().items()}, "headless.pt")
    found, said = measured("headless.pt", "nets:headless")
    assert sorted(found["left_out"]) == sorted(COLLAPSE + WEIGHT)
    assert (
        "expected a network whose final linear layer outputs the logits, got one in which no linear layer does" in said
    )
    found, _ = measured("headless.pt", "nets:headless", "some.npz", "--layer", "2", "--dtype", "float64")
    assert [*found["left_out"]] == [*WEIGHT, "self_duality"]
    expected = plainly(network().double(), numbers(N, 6), torch.arange(N) % CLASSES)["nc1"].item()
    torch.testing.assert_close(found["quantities"]["nc1"]["value"], expected)
    torch.save(mlp((6, 8, 1), bias=True).state_dict(), "one.pt")
    np.savez("zeros.npz", x=numbers(N, 6).numpy(), y=np.zeros(N, int))
    assert "expected classes a whole number of at least 2, got 1" in measured("one.pt", "nets:one", "zeros.npz")[1]


def test_another_layer_has_its_own_features(measured):
    found, _ = measured("small.pt", "nets:small", "some.npz", "--layer", "0", "--dtype", "float64")
    assert found["left_out"].keys() == {"self_duality"}
    assert "for quantities that use its weight and features together, got '0'" in found["left_out"]["self_duality"]
    moments = gnomon.class_moments(numbers(N, 6), torch.arange(N) % CLASSES, CLASSES)
    torch.testing.assert_close(found["quantities"]["nc1"]["value"], gnomon.nc1(moments).item())


def test_networks_are_measured_in_eval_mode(folder, measured):
    from nets import normalised  # made by the fixture

    torch.manual_seed(0)
    model = normalised()
    model(numbers(N, 6).float())
    torch.save(model.state_dict(), "normalised.pt")
    found, _ = measured("normalised.pt", "nets:normalised", "some.npz", "--quantities", "jacobian_norm")
    jacobian = gnomon.input_jacobian(model.eval(), numbers(N, 6).float()).detach()
    expected = gnomon.jacobian_norm(jacobian).mean().item()
    torch.testing.assert_close(found["quantities"]["jacobian_norm"]["mean"], expected)


def test_convolutions_are_measured_in_float32_where_the_dtype_is(folder, measured):
    """A GPU would round their factors to ten bits."""
    save_file(network().state_dict(), "telling.safetensors")
    allowed = torch.backends.cudnn.allow_tf32
    _, said = measured("telling.safetensors", "nets:telling", "some.npz", "--quantities", "jacobian_norm")
    assert "TF32: False" in said
    assert "TF32: True" not in said
    assert torch.backends.cudnn.allow_tf32 == allowed


def test_table_of_features(folder, measured, complaint):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    x, labels = numbers(N, 6).numpy(), np.arange(N) % 3

    def write(path, **more):
        columns = {f"feature {place}": column for place, column in enumerate(x.T)}
        parquet.write_table(pyarrow.table({"target": labels, **columns, **more}), path, row_group_size=7)

    write("some.parquet")
    expected = measured("small.pt", "nets:small", "some.npz", "--samples", "33")[0]["quantities"]
    assert measured("small.pt", "nets:small", "some.parquet", "--samples", "33")[0]["quantities"] == expected
    parquet.write_table(pyarrow.table({"a": x[:, 0], "fine_label": labels}), "fine.parquet")
    assert load_data("fine.parquet").x.shape == (N, 1)
    write("words.parquet", word=["a"] * N)
    assert "got others, word, in words.parquet" in complaint("small.pt", "nets:small", "words.parquet")
    write("missing.parquet", target=[0, 1, None, *labels[3:]])
    words = "expected a label for each sample, got none for sample 2, counted from 0, in missing.parquet. Add it, or"
    assert words in complaint("small.pt", "nets:small", "missing.parquet")
    measured("small.pt", "nets:small", "missing.parquet", "--samples", "2", "--quantities", "accuracy")
    write("null.parquet", **{"feature 5": [None, *x[1:, 5]]})
    assert "got nan at index (0, 5)" in complaint("small.pt", "nets:small", "null.parquet")
    Path("text.parquet").write_text("hello")
    assert "expected a readable .parquet file" in complaint("small.pt", "nets:small", "text.parquet")


def test_the_index_of_pandas_is_no_feature(folder, measured):
    """Rows that were shuffled carry their former numbers in a column that pandas does not show."""
    pandas, parquet = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet")
    x = pandas.DataFrame(numbers(N, 6).numpy()).add_prefix("f")
    shuffled = x.assign(target=np.arange(N) % 3).sample(frac=1, random_state=0)
    for name, table in {"hidden": shuffled, "named": shuffled.rename_axis("id")}.items():
        table.to_parquet(f"{name}.parquet")
        assert len(parquet.read_schema(f"{name}.parquet").names) == 8
        data = load_data(f"{name}.parquet")
        assert_close(data.x, numbers(N, 6).float()[shuffled.index.to_list()], rtol=0, atol=0)
        assert data.labels.tolist() == shuffled["target"].to_list()
    shuffled.set_index("target").to_parquet("by class.parquet")
    assert load_data("by class.parquet").labels.tolist() == shuffled["target"].to_list()
    said = measured("small.pt", "nets:small", "hidden.parquet", "--quantities", "accuracy")[1]
    assert "hidden.parquet: 6 features, label column target\n" in said
    x.to_parquet("none.parquet")
    said = measured("small.pt", "nets:small", "none.parquet", "--quantities", "jacobian_norm")[1]
    assert "none.parquet: 6 features, no label column\n" in said
    shuffled[["f0", "target"]].to_parquet("one.parquet")
    assert load_data("one.parquet").columns == "1 feature, label column target"


def test_images_of_a_folder_and_of_a_file(folder, measured, complaint, monkeypatch):
    import io

    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    image = pytest.importorskip("PIL.Image")
    from nets import drawn  # made by the fixture

    pixels = np.random.default_rng(0).integers(0, 256, (30, 4, 4), dtype=np.uint8)

    def png(picture):
        buffer = io.BytesIO()
        image.fromarray(picture).save(buffer, "png")
        return {"bytes": buffer.getvalue(), "path": None}

    table = pyarrow.table({"image": [png(picture) for picture in pixels], "label": np.arange(30) % 3})
    Path("images").mkdir()
    parquet.write_table(table, "images/test-00000-of-00001.parquet")
    torch.manual_seed(0)
    model = drawn()
    torch.save(model.state_dict(), "drawn.pt")
    found, _ = measured("drawn.pt", "nets:drawn", "images", "--split", "test", "--samples", "20", "--quantities", "nc1")
    x = torch.from_numpy(pixels[:20])[:, None].float() / 255
    moments = gnomon.class_moments(gnomon.features(model, x).detach(), torch.arange(20) % 3, 3)
    torch.testing.assert_close(found["quantities"]["nc1"]["value"], gnomon.nc1(moments).item(), rtol=1e-4, atol=0)
    file = "images/test-00000-of-00001.parquet"
    again, _ = measured("drawn.pt", "nets:drawn", file, "--samples", "20", "--quantities", "nc1")
    assert again["quantities"] == found["quantities"]
    # A folder that has the name of a data set, of which there is another one.
    others = pyarrow.table({"image": [png(255 - picture) for picture in pixels], "label": np.arange(30) % 3})
    for root, held in ((Path(), table), (Path("data"), others)):
        (root / "mnist").mkdir(parents=True)
        parquet.write_table(held, root / "mnist" / "test-00000-of-00001.parquet")
    monkeypatch.setenv("GNOMON_DATA", "data")
    Path("empty").mkdir()
    said = complaint("drawn.pt", "nets:drawn", "mnist", "--split", "test", "--data-dir", "empty")
    assert "(--data-dir): expected a folder 'mnist' in 'empty', the only place searched, got none" in said
    file = "mnist/test-00000-of-00001.parquet"
    again, _ = measured("drawn.pt", "nets:drawn", file, "--samples", "20", "--quantities", "nc1")
    assert again["quantities"] == found["quantities"]
    # Splits of which a hyphen is a part, or a number.
    for name in ("my-images.parquet", "fold-1.parquet", "fold-2.parquet"):
        parquet.write_table(table, name)
        again, _ = measured("drawn.pt", "nets:drawn", name, "--samples", "20", "--quantities", "nc1")
        assert again["quantities"] == found["quantities"]
    file = "images/test-00000-of-00001.parquet"
    assert "expected one of test, got 'train'" in complaint("drawn.pt", "nets:drawn", "images")
    parquet.write_table(table, "images/test-00001-of-00002.parquet")
    said = complaint("drawn.pt", "nets:drawn", file)
    assert "one of 2 of 'test'. Name the folder, images, and --split test" in said


def test_a_page_draws_what_each_sample_has_alone(folder, measured):
    asked = ("--quantities", "accuracy", "layer_spectra", "jacobian_norm")
    measured("small.pt", "nets:small", "some.npz", *asked, "--report", "page.html")
    page = Path("page.html").read_text()
    assert "jacobian norm" in page
    assert "layer spectra" not in page
    measured("small.pt", "nets:small", "some.npz", "--quantities", "hessian_eigenvalues", "--report", "page.html")
    assert "How the quantities spread" not in Path("page.html").read_text()


@pytest.mark.parametrize("option", [("--seed", "7"), ("--data-dir", ".")])
def test_options_that_one_file_does_not_use_are_refused(folder, complaint, option):
    said = complaint("small.pt", "nets:small", "some.npz", *option)
    assert f"({option[0]}): expected none for " in said


def test_digits_are_those_of_grok_digits(folder, measured):
    train, test = standardise(*digits(500, generator=torch.Generator().manual_seed(3)))
    model = mlp((64, 8, 10), generator=torch.Generator().manual_seed(0))
    Path("wide_nets.py").write_text("from gnomon.models import mlp\n\n\ndef net():\n    return mlp((64, 8, 10))\n")
    torch.save(model.state_dict(), "digits.pt")
    for split, samples in (("train", train), ("test", test)):
        options = ["--seed", "3", "--split", split, "--quantities", "accuracy"]
        found, _ = measured("digits.pt", "wide_nets:net", "digits", *options)
        n = min(1024, len(samples.x))
        expected = (model(samples.x[:n]).argmax(1) == samples.labels[:n]).double().mean().item()
        torch.testing.assert_close(found["quantities"]["accuracy"]["mean"], expected)


def test_table_files_and_page(folder, monkeypatch, capsys):
    given = ("small.pt", "--model", "nets:small", "--data", "some.npz", "--out", "a.json", "--report", "a.html")
    code, out, said = call(monkeypatch, capsys, *given)
    assert code == 0
    assert "a word at import" not in out
    for quantity in DEFAULT:
        assert quantity.__name__ in out
    assert "The Frobenius norm of each Jacobian" in " ".join(out.split())
    assert [line for line in said.splitlines() if line.startswith("written")] == ["written: a.json", "written: a.html"]
    written = json.loads(Path("a.json").read_text())
    page = Path("a.html").read_text(encoding="utf-8")
    norm = f"{written['quantities']['jacobian_norm']['mean']:.4g}"
    assert norm in out
    assert norm in page
    for word in ("nc1<p>The variability within classes", "small.pt at some.npz", "classified wrongly", "nets:small"):
        assert word in page
    assert not re.search(r"<(?:script|img|link)[^>]*\s(?:src|href)=\"(?!data:)", page)


def test_one_sample_and_parts_are_called_so(folder, measured):
    np.savez("one.npz", x=numbers(1, 6).numpy())
    found, said = measured("small.pt", "nets:small", "one.npz", "--quantities", "jacobian_norm", "--report", "a.html")
    assert found["samples"] == 1
    assert "; 1 sample of one.npz\n" in said
    assert "measuring: part 2 of 2\n" in said
    page = Path("a.html").read_text(encoding="utf-8")
    assert "1 sample." in page
    assert "1 samples" not in page


@pytest.mark.parametrize("width", [20, 24, 40, 60, 80])
def test_no_number_and_no_name_is_cut_off(folder, monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = call(
        monkeypatch, capsys, "small.pt", "--model", "nets:small", "--data", "some.npz", "--out", "a.json"
    )
    assert code == 0
    assert max(map(len, out.splitlines())) <= width
    assert "…" not in out
    words = out.split()
    for name, found in json.loads(Path("a.json").read_text())["quantities"].items():
        assert {f"{value:.4g}" for kind, value in found.items() if kind != "explanation"} <= {*words}
        pieces = [word for word in words if word in name]
        assert name in words or name in "".join(pieces)
    assert ("The Frobenius norm of each Jacobian" in " ".join(words)) == (width >= 80)


def test_axes_of_shares_are_from_0_to_1():
    assert share_axis("accuracy", [0.098, 0.098]) == pytest.approx((0.048, 0.148))
    assert share_axis("accuracy", [1.0]) == (0.95, 1.0)
    assert share_axis("explained_variance_ratio", [0.0, 1.0000001]) == (0.0, 1.0)
    assert share_axis("jacobian_alignment", [0.2, 0.4]) == pytest.approx((0.19, 0.41))
    for name in ("centroid_alignment", "jacobian_norm", "self_duality", "log_probability", "another"):
        assert share_axis(name, [0.5]) is None
    values = {"jacobian_alignment": torch.tensor([0.0, 1.0]), "jacobian_norm": torch.tensor([1.0, 2.0])}
    panels = figures(values, 2)[0].panels
    assert [(panel.title, panel.y_range) for panel in panels] == [
        *(("jacobian alignment", (0.0, 1.0)), ("jacobian norm", None))
    ]


def test_page_without_figures_says_what_was_left_out(folder, monkeypatch, capsys):
    np.savez("bare.npz", x=np.zeros((4, 6)))
    given = ("small.pt", "--model", "nets:small", "--data", "bare.npz", "--report", "a.html")
    assert call(monkeypatch, capsys, *given)[0] == 0
    page = Path("a.html").read_text(encoding="utf-8")
    assert "Left out: accuracy, nc1" in page
    assert "all samples" in page
    assert call(monkeypatch, capsys, *given, "--quantities", "classifier_equinorm")[0] == 0
    assert "share of the samples" not in Path("a.html").read_text(encoding="utf-8")


def test_numbers_that_json_lacks_are_null(folder, measured):
    torch.save({name: torch.zeros_like(tensor) for name, tensor in network().state_dict().items()}, "zeros.pt")
    found, _ = measured("zeros.pt", "nets:small", "some.npz", "--quantities", "nc1_trace_ratio")
    assert found["quantities"]["nc1_trace_ratio"]["value"] is None


def test_page_of_the_documentation(tmp_path, monkeypatch, capsys):
    """Its first block is train.py, its commands are called, and what it says they print they print."""
    page = (Path(__file__).parents[2] / "docs" / "measure.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(python|sh|text|console)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "train", raising=False)
    Path("train.py").write_text(next(body for kind, body in blocks if kind == "python"))
    with torch.random.fork_rng():
        runpy.run_path("train.py", run_name="__main__")
    printed, shown = [], []
    for kind, body in blocks:
        if kind in ("text", "console"):
            shown.append(([word for word in body.split() if re.fullmatch(r"[a-z0-9_]+", word)], printed[-1]))
        for line in body.replace("\\\n", "").splitlines() if kind == "sh" else ():
            program, command, *arguments = shlex.split(line)
            assert program == "gnomon"
            code, out, said = call(monkeypatch, capsys, *arguments, command=command)
            assert code == 0, said
            printed.append((said + out).split())
    assert len(shown) == 3
    for words, there in shown:
        assert [word for word in words if word not in there] == []
    assert Path("digits.html").exists()
    assert Path("moved.html").exists()
    assert gnomon.History.load("digits.jsonl").steps == [*range(0, 601, 50)]
    assert json.loads(Path("digits.json").read_text())["samples"] == 100
    for quantity in DEFAULT:
        assert f"`{quantity.__name__}`" in page
