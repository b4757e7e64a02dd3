"""`gnomon measure` of several checkpoints: by step, each measured once, and what is wrong with one harms no other."""

import io
import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import gnomon
from gnomon.errors import CheckpointError
from gnomon.models import mlp
from gnomon.probe import from_records
from gnomon_lab.measuring import Moved, as_columns, as_page, bars, by_step, checkpoints_at, look, some
from gnomon_lab.watching.curves import early
from tests.lab.measuring import NETS, Malicious, call, network

STEPS = (0, 2, 10, 30)
ASKED = ("--quantities", "accuracy", "jacobian_norm", "nc1")
NAMES = [f"ckpt-{step}.pt" for step in STEPS]


def trained(step):
    """Weights that differ from step to step."""
    return {name: tensor * (1 + step / 10) for name, tensor in network().state_dict().items()}


@pytest.fixture(autouse=True)
def ctrl_c():
    """Ends the command also where these tests are a shell's background job, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def many(folder):
    """A folder with checkpoints whose names alone say the step."""
    for step, name in zip(STEPS, NAMES, strict=True):
        torch.save(trained(step), name)
    return folder


@pytest.fixture
def ask(many, monkeypatch, capsys):
    """Measures; the exit code, and what was printed."""

    def run(*checkpoints, options=ASKED, data="some.npz", model=("--model", "nets:small")):
        return call(monkeypatch, capsys, *checkpoints, *model, "--data", data, *options)

    return run


def found(ask, *checkpoints, options=ASKED, **more):
    """The JSON, and what was said beside it."""
    code, out, said = ask(*checkpoints, options=(*options, "--json"), **more)
    assert code == 0, said
    return json.loads(out), said


def without_seconds(path):
    return [{**json.loads(line), "seconds": None} for line in Path(path).read_text().splitlines()]


def test_each_number_is_that_of_the_checkpoint_alone(ask):
    asked = (*ASKED, "class_moments")
    all_of_them, said = found(ask, *NAMES[::-1], options=asked)
    assert (all_of_them["steps"], all_of_them["checkpoints"]) == ([*STEPS], NAMES)
    assert all_of_them["steps_from"] == "the number in the name"
    assert "4 checkpoints, steps 0 to 30: the number in the name" in said
    assert said.count("4 of 4 tensors") == said.count("reading 40 samples") == 1
    for place, name in enumerate(NAMES):
        alone, _ = found(ask, name, options=asked)
        assert alone["quantities"].keys() == all_of_them["quantities"].keys()
        for quantity, values in alone["quantities"].items():
            among = all_of_them["quantities"][quantity]
            kinds = {"value"} if "value" in values else {"mean", "min", "max"}
            assert {kind: among[kind][place] for kind in kinds} == pytest.approx(
                {k: values[k] for k in kinds}, rel=1e-6
            )
            assert among["explanation"] == values["explanation"]
    norms = torch.tensor(all_of_them["quantities"]["jacobian_norm"]["mean"])
    assert (norms.diff() > 0).all()  # of weights that grow


def test_other_weights_in_the_files_are_named_as_for_one(ask):
    """Once, until there are others."""
    for step in STEPS:
        averages = ["ema"] if step < 10 else ["ema", "swa"]
        torch.save({"state_dict": trained(step), **{name: trained(0) for name in averages}}, f"both-{step}.pt")
    files = [f"both-{step}.pt" for step in STEPS]
    said = found(ask, *files)[1].splitlines()
    assert [line for line in said if "tensors under" in line] == [
        "both-0.pt: 4 of 4 tensors under state_dict; also there: ema (--key)",
        "both-10.pt: 4 of 4 tensors under state_dict; also there: ema, swa (--key)",
    ]


def test_one_with_steps_or_a_history_is_a_timeline_of_one(ask):
    assert found(ask, "ckpt-10.pt", options=(*ASKED, "--steps", "name"))[0]["steps"] == [10]
    assert "steps" not in found(ask, "ckpt-10.pt")[0]


def test_table_page_and_files(ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    written = ("--out", "a.json", "--report", "a.html", "--history", "h.jsonl")
    code, out, said = ask(".", options=(*ASKED, *written))
    assert code == 2, "small.pt has no step"
    assert "the number in the name: none in small.pt" in said
    Path("small.pt").unlink()
    code, out, said = ask(".", options=(*ASKED, *written))
    assert code == 0, said
    lines = [line.split() for line in out.splitlines() if line.strip()]
    assert lines[0] == ["step", "0", "2", "10", "30"]
    columns = json.loads(Path("a.json").read_text())["quantities"]
    norm = lines[-2]
    assert norm[0] == "jacobian_norm"
    assert norm[1:5] == [f"{value:.4g}" for value in columns["jacobian_norm"]["mean"]]
    assert (norm[5][0], norm[5][-1]) == ("▁", "█")
    page = Path("a.html").read_text(encoding="utf-8")
    for words in ("4 checkpoints at some.npz", "nc1<p>The variability within classes", "ckpt-30.pt", "nets:small"):
        assert words in page
    assert "No claim" not in page
    assert "is more training worth it?" in page
    assert "No verdict: the readings lack log_probability, parameter_norm, jacobian_alignment" in page
    assert "verdict" not in out, "nothing that is not asked for"
    assert [line for line in said.splitlines() if "written" in line or "kept" in line] == [
        *("written: a.json", "written: a.html", "kept: h.jsonl")
    ]


def test_a_page_names_a_checkpoint_whose_name_is_no_text(ask):
    """Names of files are bytes, which need not be UTF-8."""
    name = os.fsdecode(b"ckpt-\xff-40.pt")
    torch.save(trained(40), name)
    code, _, said = ask(*NAMES, name, options=(*ASKED, "--report", "a.html"))
    assert code == 0, said
    assert r"ckpt-\udcff-40.pt" in Path("a.html").read_text(encoding="utf-8")


def test_several_end_with_a_verdict_or_why_there_is_none(ask, many):
    """What it looks at beside the default quantities is read where there are labels, and no more is asked for."""
    whole, _ = found(ask, *NAMES, options=())
    assert {"log_probability", "parameter_norm"} < whole["quantities"].keys()
    assert whole["verdict"]["message"].startswith("Cannot tell. Too few readings")
    out = ask(*NAMES, options=())[1]
    assert out.splitlines()[-1] == f"is more training worth it? {whole['verdict']['message']}"
    placed, _ = found(ask, *NAMES, options=("--steps", "order"))
    assert placed["verdict"] == {
        "says": None,
        "message": "No verdict: it uses changes over doublings of the training steps, and these are not such steps.",
    }
    np.savez("bare.npz", x=np.load("some.npz")["x"])
    bare, _ = found(ask, *NAMES, options=(), data="bare.npz")
    assert "parameter_norm" not in bare["quantities"]
    assert bare["verdict"]["message"].startswith("No verdict: the readings lack accuracy, log_probability, parameter_n")
    assert Moved({"split": "test"}, [], "the step").worth.endswith("samples, and these are of another split.")


def test_a_network_that_takes_no_samples_is_not_measured_by_its_parameters(ask):
    code, out, said = ask(*NAMES, options=(), model=("--model", "nets:refusing"))
    assert (code, out) == (2, ""), said
    assert "parameter_norm" not in said
    assert "the samples of this network are words" in said


# What is kept


def test_what_was_measured_is_not_measured_again(ask, monkeypatch):
    options = (*ASKED, "--history", "h.jsonl")
    first, _ = found(ask, *NAMES, options=options)
    written = Path("h.jsonl").read_bytes()
    history = gnomon.History.load("h.jsonl")
    assert history.steps == [*STEPS]
    assert history["jacobian_norm"].tolist() == first["quantities"]["jacobian_norm"]["mean"]
    Path("renamed-2.pt").write_bytes(Path("ckpt-2.pt").read_bytes())
    Path("ckpt-2.pt").unlink()
    with monkeypatch.context() as patch:
        patch.setattr("gnomon_lab.measuring.refilled.read_weights", lambda path: pytest.fail("it was read again"))
        again, said = found(ask, "renamed-2.pt", "ckpt-30.pt", options=options)
        assert "h.jsonl: 2 checkpoints measured before, 0 to do" in said
    assert again["quantities"] == first["quantities"]  # the others stay
    assert Path("h.jsonl").read_bytes() == written


def test_one_between_others_is_measured_and_takes_its_place(ask):
    options = (*ASKED, "--history", "h.jsonl")
    found(ask, *NAMES, options=options)
    before = Path("h.jsonl").read_bytes()
    torch.save(trained(5), "ckpt-5.pt")
    # Alone: those behind it are written again, not measured.
    among, said = found(ask, "ckpt-5.pt", options=options)
    assert among["steps"] == [0, 2, 5, 10, 30] == gnomon.History.load("h.jsonl").steps
    assert "0 checkpoints measured before, 1 to do" not in said
    assert Path("h.jsonl").read_bytes().startswith(before)
    lines = without_seconds("h.jsonl")
    assert [line["step"] for line in lines] == [0, 2, 10, 30, 5, 10, 30]
    assert lines[5:] == lines[2:4]
    # Another checkpoint at a step takes the place of the first.
    torch.save(trained(7), "ckpt-10.pt")
    changed, _ = found(ask, "ckpt-10.pt", options=options)
    assert changed["steps"] == [0, 2, 5, 10, 30]
    means = [result["quantities"]["jacobian_norm"]["mean"] for result in (among, changed)]
    assert [a == b for a, b in zip(*means, strict=True)] == [True, True, True, False, True]


OTHERWISE = {
    "samples 40 and not 9": ("--samples", "9"),
    "dtype 'float32' and not 'float64'": ("--dtype", "float64"),
    "rtol 0.05 and not 0.1": ("--rtol", "0.1"),
    "layer None and not '2'": ("--layer", "2"),
    "steps 'name' and not 'order'": ("--steps", "order"),
    "quantities ['accuracy', 'jacobian_norm', 'nc1'] and not ['nc1']": ("--quantities", "nc1"),
}


def test_other_options_are_no_continuation(ask):
    kept = (*ASKED, "--history", "h.jsonl")
    assert ask(NAMES[0], options=kept)[0] == 0
    before = Path("h.jsonl").read_bytes()
    for words, options in OTHERWISE.items():
        code, out, said = ask(NAMES[0], options=(*kept, *options))
        assert (code, out) == (2, "")
        assert "measure(--history): expected readings that were taken as these are to be, got those of " in said
        assert words in said
        assert Path("h.jsonl").read_bytes() == before


def test_the_default_split_may_be_named_and_another_is_what_differs(ask, many):
    (many / "wide_nets.py").write_text("from gnomon.models import mlp\n\n\ndef net():\n    return mlp((64, 8, 10))\n")
    torch.save(mlp((64, 8, 10)).state_dict(), "digits-3.pt")
    kept = ("--quantities", "accuracy", "--history", "h.jsonl")

    def asked(*options):
        return ask("digits-3.pt", options=(*kept, *options), data="digits", model=("--model", "wide_nets:net"))

    assert asked()[0] == 0
    written = Path("h.jsonl").read_text()
    assert '"split":"train"' in written
    Path("h.jsonl").write_text(written.replace('"split":"train"', '"split":null'))  # as earlier versions kept it
    for options in ((), ("--split", "train")):
        code, _, said = asked(*options)
        assert code == 0, said
        assert "1 checkpoint measured before, 0 to do" in said
    said = asked("--split", "test")[2]
    assert "got those of split 'train' and not 'test', data 'digits (train, seed 0)' and not 'digits (test" in said


def test_other_samples_and_another_network_are_no_continuation(ask, many, monkeypatch):
    kept = (*ASKED, "--history", "h.jsonl")
    assert ask(NAMES[0], options=kept)[0] == 0
    arrays = dict(np.load("some.npz"))
    (many / "nets.py").write_text("# a comment above\n" + NETS)
    monkeypatch.delitem(sys.modules, "nets")
    assert ask(NAMES[0], options=kept)[0] == 0
    (many / "nets.py").write_text(NETS.replace("(6, 8, 3), bias=True", "(6, 8, 3), bias = True"))
    monkeypatch.delitem(sys.modules, "nets")
    assert "network_sha256" in ask(NAMES[0], options=kept)[2]
    np.savez("some.npz", x=arrays["x"] + 1e-3, labels=arrays["labels"])
    assert "samples_sha256" in ask(NAMES[0], options=kept)[2]


def test_stopped_it_goes_on_where_it_was(ask, monkeypatch):
    """With the last line torn, as a killed process leaves it."""
    found(ask, *NAMES, options=(*ASKED, "--history", "whole.jsonl"))
    from gnomon_lab.measuring.refilled import Refilled

    fill = Refilled.fill
    options = (*ASKED, "--history", "h.jsonl")
    with monkeypatch.context() as patch:
        stop = lambda self, one: fill(self, one) if one.path.name != NAMES[2] else os.kill(os.getpid(), 2)  # noqa: E731
        patch.setattr(Refilled, "fill", stop)
        code, out, said = ask(*NAMES, options=options)
    assert (code, out) == (130, "")
    assert "h.jsonl: 2 checkpoints measured; the same command goes on from there" in said
    with Path("h.jsonl").open("ab") as file:
        file.write(Path("h.jsonl").read_bytes()[:50])
    _, said = found(ask, *NAMES, options=options)
    assert "h.jsonl: 2 checkpoints measured before, 2 to do" in said
    lines = [line for line in Path("h.jsonl").read_bytes().splitlines() if line.endswith(b"}")]
    assert [json.loads(line)["step"] for line in lines] == [*STEPS]
    Path("h.jsonl").write_bytes(b"\n".join(lines))
    assert without_seconds("h.jsonl") == without_seconds("whole.jsonl")


def test_stopped_between_others_it_loses_none_of_them(ask, monkeypatch):
    from gnomon_lab.measuring.refilled import Refilled

    fill = Refilled.fill
    options = (*ASKED, "--history", "h.jsonl")
    found(ask, *NAMES, options=options)
    for steps in (5, 20):
        torch.save(trained(steps), f"ckpt-{steps}.pt")
    new = ("ckpt-5.pt", "ckpt-20.pt")
    with monkeypatch.context() as patch:
        stop = lambda self, one: fill(self, one) if one.path.name != new[1] else os.kill(os.getpid(), 2)  # noqa: E731
        patch.setattr(Refilled, "fill", stop)
        assert ask(*new, options=options)[0] == 130
    assert gnomon.History.load("h.jsonl").steps == [0, 2, 5, 10]
    assert found(ask, *new, options=options)[0]["steps"] == [0, 2, 5, 10, 20, 30]
    assert gnomon.History.load("h.jsonl").steps == [0, 2, 5, 10, 20, 30]


def test_without_a_history_what_was_measured_is_printed(ask, monkeypatch):
    from gnomon_lab.measuring.refilled import Refilled

    fill = Refilled.fill
    stop = lambda self, one: fill(self, one) if one.path.name != NAMES[2] else os.kill(os.getpid(), 2)  # noqa: E731
    monkeypatch.setattr(Refilled, "fill", stop)
    code, out, _ = ask(*NAMES, options=(*ASKED, "--json"))
    assert (code, json.loads(out)["steps"]) == (130, [0, 2])


@pytest.mark.parametrize(
    "content", [b"hello\n", b'{"step": 3, "nc1": 0.5}\n', b'{"a": 1}', b'{"step":3,"checkpoint":{}}\n', b"\xff\xfe\n"]
)
def test_what_is_no_history_of_checkpoints_is_left_alone(ask, content):
    Path("h.jsonl").write_bytes(content)
    code, _, said = ask(*NAMES, options=(*ASKED, "--history", "h.jsonl"))
    assert code == 2
    assert "(--history): expected a file that gnomon measure made, or none yet, got b" in said
    assert Path("h.jsonl").read_bytes() == content


# What is wrong with one


def test_a_broken_one_is_named_and_the_others_are_measured(ask):
    Path(NAMES[1]).write_bytes(Path(NAMES[1]).read_bytes()[:300])
    torch.save({"other": torch.ones(3)}, NAMES[2])
    code, out, said = ask(*NAMES, options=(*ASKED, "--json", "--history", "h.jsonl", "--report", "a.html"))
    assert (code, json.loads(out)["steps"]) == (2, [0, 30])
    last = said.splitlines()[-1]
    assert last.startswith(
        "gnomon: measure(checkpoint): expected a whole file of torch.save, got BadZipFile in ckpt-2.pt"
    )
    assert last.endswith(
        "; also left out, each for its own reason: ckpt-10.pt. Copy or save it again. Measured: 2 checkpoints."
    )
    assert Path("a.html").exists()
    for step, name in zip(STEPS, NAMES, strict=True):
        torch.save(trained(step), name)
    whole, said = found(ask, *NAMES, options=(*ASKED, "--history", "h.jsonl"))
    assert whole["steps"] == [*STEPS]
    assert "measured before, 2 to do" in said


def test_refused_ones_are_told_where_the_others_have_no_steps(ask):
    """Those with steps are refused: to be told that `best.pt` has none, alone, would say to rename what is right."""
    for name in NAMES[1:]:
        torch.save(torch.nn.Linear(2, 2), name)
    Path(NAMES[0]).rename("best.pt")
    code, _, said = ask("best.pt", *NAMES[1:])
    first, last = said.splitlines()[-2:]
    assert code == 2
    assert first.startswith("left out: expected a file of tensors, got ckpt-2.pt, which asks to call torch.nn.modules.")
    assert first.endswith("; so also ckpt-10.pt, ckpt-30.pt")
    assert "the number in the name: none in best.pt" in last


def test_another_networks_is_named(ask):
    torch.save({f"body.{name}": tensor[:2] for name, tensor in trained(0).items()}, NAMES[2])
    code, _, said = ask(*NAMES)
    assert code == 2
    assert f", of {NAMES[2]}. Name the factory of the network that was saved. Measured: 3" in said.splitlines()[-1]


PICKY = """

class Picky(nn.Sequential):
    def forward(self, x):
        assert self[0].bias[0] != 7
        return super().forward(x)


def made():
    return Picky(*small())
"""


def test_one_that_is_written_over_while_it_is_read_is_named(ask, monkeypatch):
    from gnomon_lab.measuring.refilled import Refilled

    fill = Refilled.fill

    def late(self, one):
        if one.path.name == NAMES[1]:
            torch.save(trained(5), NAMES[1])
        return fill(self, one)

    monkeypatch.setattr(Refilled, "fill", late)
    code, out, said = ask(*NAMES, options=(*ASKED, "--json"))
    assert (code, json.loads(out)["steps"]) == (2, [0, 10, 30])
    words = (
        "measure(checkpoint): expected a file that stays the same while it is read, got ckpt-2.pt, which was written"
    )
    assert words in said.splitlines()[-1]


def test_a_step_that_changes_before_it_is_read_is_named(ask, monkeypatch):
    """Of a training run that writes the same file again and again."""
    from gnomon_lab.measuring.about import Checkpoint

    torch.save({"model": trained(1), "step": 1}, "first.pt")
    torch.save({"model": trained(2), "step": 2}, "last.pt")
    contents = Checkpoint.sha256.func

    def late(one):
        if one.path.name == "last.pt" and one.metadata.step == 2:
            torch.save({"model": trained(3), "step": 3}, "last.pt")
        return contents(one)

    monkeypatch.setattr(Checkpoint, "sha256", property(late))
    code, out, said = ask("first.pt", "last.pt", options=(*ASKED, "--json"))
    assert (code, json.loads(out)["steps"]) == (2, [1])
    assert "got last.pt, which was written meanwhile. " in said.splitlines()[-1]


SCALED = """

class Scaled(nn.Sequential):
    def forward(self, x):
        return self.scale * super().forward(x)


def scaled(scale):
    made = Scaled(*small())
    made.scale = scale
    return made
"""


def test_what_the_network_raises_of_one_is_named(ask, many, monkeypatch):
    """Of the first it is the options or the network, and nothing is tried further."""
    (many / "nets.py").write_text(NETS + PICKY)
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    weights = trained(0)
    weights["0.bias"][0] = 7
    torch.save(weights, NAMES[2])
    code, out, said = ask(*NAMES, options=(*ASKED, "--json"), model=("--model", "nets:made"))
    assert (code, json.loads(out)["steps"]) == (2, [0, 2, 30])
    assert "got AssertionError, of ckpt-10.pt. " in said.splitlines()[-1]
    code, out, said = ask(NAMES[2], NAMES[3], options=(*ASKED, "--json"), model=("--model", "nets:made"))
    assert (code, out) == (2, "")
    code, _, said = ask(*NAMES, options=("--layer", "9"))
    assert said.splitlines()[-1] == "gnomon: Probe(layers): expected one of 0, 1, 2, got '9'. Choose one."


def test_nothing_that_can_be_measured_is_one_line(ask, many):
    for name in NAMES:
        torch.save({"model": Malicious(many / "pwned")}, name)
    code, out, said = ask(*NAMES)
    assert (code, out, len(said.splitlines())) == (2, "", 1)
    assert "in ckpt-0.pt" not in said
    assert "asks to call exec when it is opened; it was refused" in said
    assert "so also ckpt-2.pt, ckpt-10.pt and 1 more" in said
    assert not (many / "pwned").exists()


def test_a_network_that_diverged_has_no_numbers(ask):
    torch.save({name: tensor * torch.nan for name, tensor in trained(0).items()}, NAMES[2])
    result, said = found(ask, *NAMES, options=(*ASKED, "--report", "a.html", "--history", "h.jsonl"))
    assert [value is None for value in result["quantities"]["jacobian_norm"]["mean"]] == [False, False, True, False]
    assert {*result["missing"]["10"]} == {"accuracy", "jacobian_norm", "nc1"}
    assert "accuracy is NaN at step 10: " in said
    assert "So are jacobian_norm, nc1: " in said
    assert "No value at step 10: accuracy, jacobian_norm, nc1" in Path("a.html").read_text(encoding="utf-8")
    assert gnomon.History.load("h.jsonl")["nc1"].isnan().tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("checkpoints", "words"),
    [
        ((), "expected one checkpoint or more, got none. Name them first, before the options."),
        (("no-*.pt",), "expected checkpoints that match 'no-*.pt', got none. Correct the pattern."),
        (
            ("no.pt", "ckpt-2.pt"),
            "expected a file, or a folder, got 'no.pt'. Correct the path. Measured: 1 checkpoint.",
        ),
    ],
)
def test_checkpoints_that_are_not_there_are_one_line(ask, checkpoints, words):
    code, _, said = ask(*checkpoints)
    assert code == 2
    assert words in said.splitlines()[-1]


# Which they are, and their steps


def test_folders_and_patterns_in_the_order_of_people(many):
    made = ["run/ckpt-10.pt", "run/ckpt-9.pt", "run/optimizer.pt", "run/rng_state_0.pth", "run/notes.txt", "run/x.ckpt"]
    for name in made:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    for step in (200, 1000):
        Path(f"out/checkpoint-{step}").mkdir(parents=True)
        Path(f"out/checkpoint-{step}/model.safetensors").touch()
    as_words = lambda *named: [str(path) for path in checkpoints_at(map(Path, named))]  # noqa: E731
    assert as_words("run") == ["run/ckpt-9.pt", "run/ckpt-10.pt", "run/x.ckpt"]
    assert as_words("out") == as_words("out/*") == ["out/checkpoint-200", "out/checkpoint-1000"]
    assert as_words("run/ckpt-*.pt", "run/ckpt-9.pt", "./run/x.ckpt") == as_words("run")
    assert as_words(str(many / "r*n" / "*-9.pt")) == [str(many / "run/ckpt-9.pt")]
    Path("run/best.pt").symlink_to("ckpt-9.pt")
    assert as_words("run") == ["run/ckpt-9.pt", "run/ckpt-10.pt", "run/x.ckpt"]
    Path("out/model.safetensors").touch()
    assert as_words("out") == ["out"]
    Path("a[1].pt").touch()
    assert as_words("a[1].pt") == ["a[1].pt"]
    Path("loop.pt").symlink_to("loop.pt")  # is reported where it is read
    assert as_words("loop.pt", "a[1].pt") == ["loop.pt", "a[1].pt"]


def steps_of(contents, asked=None):
    """The source and the steps of files with these contents beside weights, by name."""
    for place, (name, content) in enumerate(contents.items()):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        torch.save({"model": trained(place), **content}, name)
    steps = by_step([look(Path(name)) for name in contents], asked)
    return steps.source, [*steps.by_step]


def test_steps_are_from_what_tells_all_apart(folder):
    assert steps_of({"a1.pt": {"step": 7, "epoch": 1}, "b0.pt": {"step": torch.tensor(3), "epoch": 0}}) == (
        "step",
        [3, 7],
    )
    named = {"a1.pt": {"global_step": 7}, "b0.pt": {"iteration": 3}, "c9.pt": {"iter_num": 5}}
    assert steps_of(named) == ("step", [3, 5, 7])
    assert steps_of({"a1.pt": {"step": 7, "epoch": 1}, "b0.pt": {"epoch": 0}}) == ("epoch", [0, 1])
    assert steps_of({"a1.pt": {"epoch": 1}, "b0.pt": {"epoch": 1}}) == ("name", [0, 1])
    assert steps_of({"a1.pt": {"epoch": 1}, "b0.pt": {"epoch": 0}}, "name") == ("name", [0, 1])
    assert steps_of({"a.pt": {}, "b.pt": {}}, "order") == ("order", [0, 1])
    assert steps_of({"a10.pt": {}, "a9.pt": {}}, "order") == ("order", [0, 1])
    assert [
        one.path.name for one in by_step([look(Path(p)) for p in ("a10.pt", "a9.pt")], "order").by_step.values()
    ] == [*("a9.pt", "a10.pt")]
    os.utime("a.pt", (2, 2))
    os.utime("b.pt", (1, 1))
    assert [one.path.name for one in by_step([look(Path(p)) for p in ("a.pt", "b.pt")], "time").by_step.values()] == [
        *("b.pt", "a.pt")
    ]
    odd = {"a1.pt": {"step": True, "epoch": -1}, "b0.pt": {"step": "x", "epoch": 2.5}}
    assert steps_of(odd) == ("name", [0, 1])


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        (("epoch=3-step=400.ckpt", "epoch=9-step=1000.ckpt"), [400, 1000]),
        (("step-5-acc-91.pt", "step-7-acc-93.pt"), [5, 7]),
        (("net2-epoch3-acc0.91.pt", "net2-epoch4-acc0.93.pt"), [3, 4]),
        (("run9/step_00100/net.pt", "run9/step_00200/net.pt"), [100, 200]),
        (("epoch1_acc83.pt", "epoch_2-acc_94.pt", "epoch=3-val_acc=71.ckpt"), [1, 2, 3]),
        (("epoch_1_seed_0.pt", "epoch_2_seed_0.pt"), [1, 2]),
        (("epoch_1_batch_100.pt", "epoch_1_batch_200.pt"), [100, 200]),
        (("r18_epochs200_ckpt_5.pt", "r18_epochs200_ckpt_10.pt"), [5, 10]),
        (("epoch_0.5_1.pt", "epoch_1.5_2.pt"), [1, 2]),
        (("checkpoint-5.pth.tar", "checkpoint-12.pth.tar"), [5, 12]),
        (("ckpt_62k.pt", "ckpt_500K_ema.pt", "1m.pt", "1.5M.pt", "1B.pt"), [62_000, 500_000, 10**6, 1_500_000, 10**9]),
        (("step=2.5k-acc=0.9.pt", "step=10k-acc=0.8.pt", "9ksteps.pt"), [2_500, 9_000, 10_000]),
        (("ckpt-1e4.pt", "ckpt-1.5e5.pt", "2E+5steps.pt", "step_5_lr1e-3.pt"), [5, 10_000, 150_000, 200_000]),
        (("run3_lr1e-3.pt", "run4_lr1e-3.pt", "a1e5f.pt"), [3, 4, 5]),
        (("a-1e+05.pt", "b-2e005.pt"), [100_000, 200_000]),
        (("ckpt-7e84520.pt", "model_3e99999.pt"), [84_520, 99_999]),
        (("snapshot-62kimg.pt", "snapshot-125kimg.pt"), [62, 125]),
    ],
)
def test_steps_in_names(folder, names, steps):
    assert steps_of({name: {} for name in names}) == ("name", steps)


def test_steps_of_safetensors_stand_in_their_words(folder):
    for name, step in (("a.safetensors", 20), ("b.safetensors", 3)):
        save_file(trained(step), name, metadata={"step": str(step), "format": "pt"})
    assert [*by_step([look(Path(name)) for name in ("a.safetensors", "b.safetensors")]).by_step] == [3, 20]


def test_the_step_of_a_trainer_stands_beside_the_weights(folder):
    Path("saved").mkdir()
    save_file(trained(0), "saved/model.safetensors")
    assert look(Path("saved")).metadata.step is None
    Path("saved/trainer_state.json").write_text('{"global_step": 30, "epoch": 1.5}')
    assert look(Path("saved")).metadata.step == 30


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("content", "words"), [("{", "Expecting property name"), ("[1]", "list and no names"), ("[" * 100_000, "")]
)
def test_a_trainers_state_that_has_no_names_is_named(folder, content, words):
    Path("saved").mkdir()
    save_file(trained(0), "saved/model.safetensors")
    Path("saved/trainer_state.json").write_text(content)
    with pytest.raises(
        CheckpointError, match=rf"expected a readable trainer_state.json, got {words}.* in saved.*\. Copy it again, or"
    ):
        look(Path("saved"))


def test_missing_steps_and_ties_are_said(folder):
    with pytest.raises(CheckpointError, match=re.escape("the number in the name: none in a.pt, b.pt. Name others")):
        steps_of({"a.pt": {}, "b.pt": {}})
    with pytest.raises(
        CheckpointError, match=r"the step in the file: 5 in both a\.pt and b\.pt; the epoch in the file"
    ):
        steps_of({"a.pt": {"step": 5}, "b.pt": {"step": 5}})
    with pytest.raises(CheckpointError, match="none in a" + "9" * 30):
        steps_of({f"a{'9' * 30}.pt": {}, "b1.pt": {}}, "name")
    with pytest.raises(CheckpointError, match=r"none in 0\.0001k\.pt\. .* or pass --steps order or --steps time"):
        steps_of({"0.0001k.pt": {}, "1k.pt": {}}, "name")


def test_the_same_weights_at_one_step_are_one(ask):
    torch.save({"model": trained(3), "step": 3, "note": "a"}, "best.pt")
    torch.save({"model": trained(3), "step": 3}, "last.pt")
    torch.save({"model": trained(1), "step": 1}, "first.pt")
    result, said = found(ask, "best.pt", "last.pt", "first.pt")
    assert result["checkpoints"] == ["first.pt", "best.pt"]
    assert "left out last.pt: the weights of best.pt, at the same step" in said


@pytest.mark.parametrize("broken", ["best.pt", "last.pt"])
def test_a_damaged_one_of_two_at_one_step_is_named_and_the_others_are_measured(ask, broken):
    torch.save({"model": trained(1), "step": 1}, "first.pt")
    for name in ("best.pt", "last.pt"):
        torch.save({"model": trained(3), "step": 3}, name)
    content = bytearray(Path(broken).read_bytes())
    weights = trained(3)["0.weight"].numpy().tobytes()
    content[content.index(weights)] ^= 1
    Path(broken).write_bytes(content)
    code, out, said = ask("first.pt", "best.pt", "last.pt", options=(*ASKED, "--json"))
    whole = {"best.pt": "last.pt", "last.pt": "best.pt"}[broken]
    assert (code, json.loads(out)["checkpoints"]) == (2, ["first.pt", whole])
    assert f"of {broken}. Copy or save it again. Measured: 2 checkpoints." in said.splitlines()[-1]
    assert [*json.loads(out)["skipped"]] == [broken]


def test_one_that_is_gone_before_it_is_read_is_named_and_the_others_are_measured(ask, monkeypatch):
    from gnomon_lab.measuring import Kept

    for step in (1, 2, 3):
        torch.save({"model": trained(step), "step": step}, f"{step}.pt")
    made = Kept.__init__

    def gone(self, *given):
        Path("2.pt").unlink()
        made(self, *given)

    monkeypatch.setattr(Kept, "__init__", gone)
    code, out, said = ask("1.pt", "2.pt", "3.pt", options=(*ASKED, "--json"))
    assert (code, json.loads(out)["checkpoints"]) == (2, ["1.pt", "3.pt"])
    assert [*json.loads(out)["skipped"]] == ["2.pt"]
    assert "Measured: 2 checkpoints." in said.splitlines()[-1]


def test_where_a_step_is_a_place_only_those_that_are_named_are_shown(ask):
    for step in (1, 2, 3):
        torch.save(trained(step), f"{'abc'[step - 1]}.pt")
    options = (*ASKED, "--steps", "order", "--history", "h.jsonl")
    found(ask, "a.pt", "b.pt", "c.pt", options=options)
    assert found(ask, "a.pt", "b.pt", options=options)[0]["checkpoints"] == ["a.pt", "b.pt"]


@pytest.mark.parametrize(
    "content",
    [
        {"model": {name: tensor * torch.nan for name, tensor in network().state_dict().items()}},
        {"model": trained(3), "graph": {"adjacency": torch.eye(3).to_sparse()}},
    ],
    ids=["NaN", "sparse"],
)
def test_copies_of_a_network_that_diverged_or_of_sparse_tensors_are_one(ask, content):
    torch.save({"model": trained(1), "step": 1}, "first.pt")
    torch.save({**content, "step": 3}, "best.pt")
    torch.save({**content, "step": 3, "note": "a"}, "last.pt")
    result, said = found(ask, "first.pt", "best.pt", "last.pt")
    assert result["checkpoints"] == ["first.pt", "best.pt"]
    assert "left out last.pt: the weights of best.pt, at the same step" in said


def test_what_was_read_at_the_step_of_one_that_broke_since_stays(ask):
    later, earlier = (*NAMES[:2], NAMES[3]), NAMES[2]
    before, _ = found(ask, *later, options=(*ASKED, "--history", "h.jsonl"))
    weights = trained(30)["0.weight"].numpy().tobytes()
    content = bytearray(Path(NAMES[3]).read_bytes())
    content[content.index(weights)] ^= 1
    Path(NAMES[3]).write_bytes(content)
    code, out, said = ask(*later, earlier, options=(*ASKED, "--history", "h.jsonl", "--json"))
    assert (code, json.loads(out)["steps"]) == (2, [*STEPS])
    assert "Measured: 4 checkpoints." in said.splitlines()[-1]
    norms = [gnomon.History.load("h.jsonl")["jacobian_norm"][-1].item(), json.loads(out)["quantities"]["jacobian_norm"]]
    torch.testing.assert_close(
        [norms[0], norms[1]["mean"][-1]], [before["quantities"]["jacobian_norm"]["mean"][-1]] * 2
    )


@pytest.mark.parametrize("factory", ["small", "halved"])
def test_weights_are_rounded_to_the_dtype_of_the_reading_alone(ask, factory):
    """Where the factory's network has another dtype than the checkpoints, or than the reading."""
    for step, name in zip(STEPS, NAMES, strict=True):
        torch.save({key: tensor.double() / 3 for key, tensor in trained(step).items()}, name)
    options = ("--quantities", "jacobian_norm", "--dtype", "float64")
    result, _ = found(ask, *NAMES, options=options, model=("--model", f"nets:{factory}"))
    for name, norm in zip(NAMES, result["quantities"]["jacobian_norm"]["mean"], strict=True):
        model = network().double()
        model.load_state_dict(torch.load(name))
        jacobian = gnomon.input_jacobian(model, torch.from_numpy(np.load("some.npz")["x"]))
        torch.testing.assert_close(norm, gnomon.jacobian_norm(jacobian).mean().item(), rtol=1e-12, atol=0)


def test_each_is_read_with_its_own_weights_where_eval_mode_merges_them(ask):
    """As LoRA does."""
    from nets import merging  # made by the fixture

    names = [f"merging-{step}.pt" for step in range(3)]
    for step, name in enumerate(names):
        torch.manual_seed(step)
        torch.save(merging().state_dict(), name)
    result, _ = found(ask, *names, options=("--quantities", "jacobian_norm"), model=("--model", "nets:merging"))
    for name, norm in zip(names, result["quantities"]["jacobian_norm"]["mean"], strict=True):
        whole = torch.load(name)["whole"] + torch.load(name)["part"]
        torch.testing.assert_close(norm, torch.linalg.matrix_norm(whole).item())


def test_a_number_of_a_history_that_is_no_quantity_has_no_explanation(ask):
    found(ask, *NAMES, options=(*ASKED, "--history", "h.jsonl"))
    lines = Path("h.jsonl").read_text().splitlines()
    Path("h.jsonl").write_text("".join(line[:-1] + ',"mine":1.0}\n' for line in lines))
    written = (*ASKED, "--history", "h.jsonl", "--report", "a.html")
    assert found(ask, *NAMES, options=written)[0]["quantities"]["mine"] == {"explanation": "", "value": [1.0] * 4}


def test_factories_get_what_the_network_was_made_with(ask):
    content = {"state_dict": trained(0), "hyper_parameters": {"width": 8, "lr": 0.1, 3: 4}}
    torch.save({**content, "state_dict": {n: t for n, t in trained(0).items() if "weight" in n}}, "made.pt")
    assert ask("made.pt", model=("--model", "nets:needy"))[0] == 0
    torch.save({**content, "hyper_parameters": {"width": "wide"}}, "made.pt")
    said = ask("made.pt", model=("--model", "nets:needy"))[2]
    assert "expected nets:needy to build a network with width of the checkpoint, got " in said


def test_a_network_made_otherwise_than_the_first_is_named(ask, many, monkeypatch):
    """Its weights fit the first one's network too, but it computes something else."""
    (many / "nets.py").write_text(NETS + SCALED)
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    for name, step, told in zip(
        NAMES, STEPS, ({"scale": 2}, {"scale": 3, "lr": 1}, {"scale": 2, "lr": 2}, {}), strict=True
    ):
        torch.save({"state_dict": trained(step), "hyper_parameters": told}, name)
    options = ("--quantities", "accuracy", "jacobian_norm", "--json")
    code, out, said = ask(*NAMES, options=options, model=("--model", "nets:scaled"))
    assert (code, json.loads(out)["steps"]) == (2, [0, 10, 30])
    words = "expected the network of ckpt-0.pt, got one made with scale=3 and not scale=2, of ckpt-2.pt. Measure them"
    assert words in said.splitlines()[-1]


# How it is shown


def test_bars_and_places():
    assert bars([0, 0.5, float("nan"), 1], 9) == "▁▅ █"
    assert bars([2, 2 + 1e-6], 9) == "▄▄"
    assert len(bars([*range(100)], 7)) == 7
    assert [some(5, most) for most in (9, 3, 2)] == [[0, 1, 2, 3, 4], [0, 2, 4], [0, 4]]


def test_a_pages_axis_is_logarithmic_where_steps_are():
    def axis(steps):
        records = [
            {"step": step, "nc1": 1.0, "checkpoint": {"path": "a"}, "measured": {"left_out": {}, "outputs": None}}
            for step in steps
        ]
        setting = {"model": "a", "data": "b", "samples": 3, "dtype": "float32"}
        curves = as_page(Moved(setting, records, "the step")).figures[0]
        curves_at = curves.panels[0].lines[0].x
        assert [*curves_at[1:]] == steps[1:]
        assert curves.log_x == early(steps), "as the page of gnomon watch"
        return curves

    powers = [2**power for power in range(13)]
    for steps in ([1, 3, 10, 30, 100, 300, 1000], [1, 10, 100, 1000], powers):
        assert axis(steps).log_x
        assert axis(steps).panels[0].marks == ()
    for steps in ([0, 10, 100, 1000], [100, 200, 300, 400], [*range(0, 1000, 50)]):
        assert not axis(steps).log_x
        assert axis(steps).panels[0].lines[0].x[0] == steps[0]
    begun = axis([0, *powers])
    assert begun.log_x
    assert begun.panels[0].lines[0].x[0] == begun.panels[0].marks[0].x == begun.zero == 0.5
    assert begun.panels[0].marks[0].label == "step 0"
    assert "Step 0, which has no place on a logarithmic axis, is at its left end." in begun.caption


def test_panels_are_titled_and_shares_have_their_axis_as_for_one():
    records = [
        {"step": step, "jacobian_alignment": 0.1, "checkpoint": {"path": "a"}, "measured": told}
        for told in ({"left_out": {}, "outputs": None},)
        for step in (1, 2)
    ]
    (panel,) = (
        as_page(Moved({"model": "a", "data": "b", "samples": 1, "dtype": "float32"}, records, "")).figures[0].panels
    )
    assert panel.title == "jacobian alignment"
    assert panel.y_range == pytest.approx((0.05, 0.15))


def test_right_or_wrong_has_no_quartiles_though_a_quarter_is_wrong():
    """They are interpolated: with 75 of 100 right the lower one is 0.75."""

    def spread(name, *numbers):
        return {
            f"{name}{end}": number for end, number in zip(("", ".min", ".q25", ".q75", ".max"), numbers, strict=True)
        }

    readings = (spread("accuracy", 0.7, 0.0, 0.0, 1.0, 1.0), spread("accuracy", 0.75, 0.0, 0.75, 1.0, 1.0))
    records = [told(step, **each, **spread("nc1", 1.0, 0.0, 1.0, 1.0, 2.0)) for step, each in enumerate(readings)]
    moved = Moved({"model": "a", "data": "b", "samples": 100, "dtype": "float32"}, records, "the step")
    accuracy, nc1 = as_page(moved).figures[0].panels
    assert [line.label for line in accuracy.lines] == ["mean"]
    assert [line.label for line in nc1.lines] == ["mean", "quartiles", "quartiles"]


def test_narrow_and_plain_terminals(many):
    from gnomon_lab.cli.measure_several import table
    from gnomon_lab.cli.terminal import Terminal

    records = [{"step": step, "a_long_name_of_a_quantity": step / 7} for step in range(0, 3000, 100)]
    moved = Moved({}, records, "the step")
    for width, columns in ((40, 2), (60, 2), (80, 5)):
        terminal = Terminal(file=io.StringIO(), width=width)
        terminal.print(table(moved, terminal))
        lines = [line for line in terminal.file.getvalue().splitlines() if line.strip()]
        assert max(map(len, lines)) <= width
        assert lines[0].split()[:2] == ["step", "0"]
        assert f"{len(records) * 100 - 100:,}" in lines[0]
        assert len(lines[0].split("all")[0].split()) == columns + 1


def test_no_name_of_many_checkpoints_is_cut_off():
    from gnomon_lab.cli.measure_several import table
    from gnomon_lab.cli.terminal import Terminal

    name = "classifier_maximal_equiangularity"
    moved = Moved({}, [{"step": step, name: -0.01204, "nc1": 1.0} for step in (0, 1, 1000)], "the step")
    for width in (20, 24, 40, 60, 80):
        terminal = Terminal(file=io.StringIO(), width=width)
        terminal.print(table(moved, terminal))
        out = terminal.file.getvalue()
        words = out.split()
        assert max(map(len, out.splitlines())) <= width
        assert "…" not in out
        assert name in "".join(word for word in words if word in name)
        assert {"-0.01204", "1,000"} <= {*words}


def told(step, path="a", **values):
    """A reading as a line of a history."""
    return {"step": step, "checkpoint": {"path": path}, "measured": {"left_out": {}, "outputs": None}, **values}


def test_a_quantity_without_a_value_at_the_last_step_is_not_said_to_end_with_another():
    setting = {"model": "a", "data": "b", "samples": 3, "dtype": "float32"}
    records = [told(0, accuracy=0.1, nc1=2.0), told(300, accuracy=1.0, nc1=1.0), told(700, accuracy=None, nc1=0.5)]
    page = as_page(Moved(setting, records, "the step"))
    assert page.summary.endswith("correctly at first and 100.0% at step 300, the last with a value.")
    (accuracy, nc1) = (row[1:3] for row in page.table.rows)
    assert accuracy == ("0.1", "1\N{NO-BREAK SPACE}at\N{NO-BREAK SPACE}300")
    assert nc1 == ("2", "0.5")
    late = as_page(Moved(setting, [told(0, accuracy=None), *records[1:2]], "the step"))
    assert "100.0% were classified correctly at step 300 and 100.0% at last" in late.summary


def test_quantities_are_those_of_the_history():
    """A dataclass without a value is null under its own name, and may have fields named as spread is."""
    gap = {"gap.mean": 1.0, "gap.max": 2.0, "gap.error": 0.1}
    records = [told(0, nc1=1.0, **gap), told(10, nc1=2.0, gap=None), told(20, nc1=2.0, **{"nc1.max": 3.0}, **gap)]
    moved = Moved({"model": "a", "data": "b", "samples": 3, "dtype": "float32"}, records, "the step")
    assert moved.names == from_records(records).quantities == ["nc1", *gap]
    assert [row[0] for row in as_page(moved).table.rows] == ["nc1", *gap]
    assert as_columns(moved)["quantities"]["gap.max"]["value"] == [2.0, None, 2.0]


def test_what_was_skipped_is_on_the_page(ask):
    Path("half.pt").write_bytes(Path(NAMES[-1]).read_bytes()[:2000])
    code, _, _ = ask(*NAMES, "half.pt", options=(*ASKED, "--report", "page.html", "--out", "all.json"))
    assert code == 2
    reason = json.loads(Path("all.json").read_text())["skipped"]["half.pt"]
    assert "expected" in reason
    assert "Skipped: half.pt. Reason: " in Path("page.html").read_text()
