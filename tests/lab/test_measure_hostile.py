"""`gnomon measure` under attack: nothing is lost, hangs, grows or runs, and whatever is wrong is one sentence."""

import json
import os
import socket
import stat
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from gnomon_lab.measuring import load_data
from gnomon_lab.runs.checkpoint import save_checkpoint
from gnomon_lab.runs.files import replace_file
from tests.lab.measuring import CLASSES, N, call, network, numbers

USUAL = ("small.pt", "nets:small", "some.npz")

# What is written over


def socket_at(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path)


def device_at(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")


IN_THE_WAY = {
    "a folder": lambda: Path("there").mkdir(),
    "a link": lambda: Path("there").symlink_to("some.npz"),
    "a link to nothing": lambda: Path("there").symlink_to("nothing"),
    "a link to itself": lambda: Path("there").symlink_to("there"),
    "a pipe": lambda: os.mkfifo("there"),
    "a socket": lambda: socket_at("there"),
    "a device": lambda: device_at("there"),
}


def state_of(path):
    status = os.lstat(path)
    return (status.st_ino, status.st_mode, status.st_mtime_ns, status.st_size)


@pytest.mark.parametrize("option", ["--out", "--report"])
@pytest.mark.parametrize("kind", IN_THE_WAY)
def test_what_is_no_file_is_not_written_over(folder, complaint, kind, option):
    IN_THE_WAY[kind]()
    before = state_of("there")
    said = complaint(*USUAL, option, "there")
    assert f"measure({option}): expected a file, or none yet, got 'there', which is {kind.split(' to')[0]}." in said
    assert state_of("there") == before
    Path("there").rename(".a.part")
    assert "got '.a.part', which is a" in complaint(*USUAL, option, "a")


@pytest.mark.parametrize("name", ["small.pt", "./small.pt", "some.npz", "nets.py", "same.pt"])
def test_what_is_read_is_not_written_over(folder, complaint, name):
    os.link("small.pt", "same.pt")
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for option in ("--out", "--report"):
        assert f"measure({option}): expected a file that is not read here, got" in complaint(*USUAL, option, name)
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_tables_that_are_read_are_not_written_over(folder, complaint):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {f"feature {place}": column for place, column in enumerate(numbers(N, 6).numpy().T)}
    parquet.write_table(pyarrow.table(columns), "some.parquet")
    said = complaint("small.pt", "nets:small", "some.parquet", "--out", "some.parquet")
    assert "expected a file that is not read here" in said


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a\0"])
def test_folders_are_no_files_to_write(complaint, name):
    assert "measure(--out): expected a file" in complaint(*USUAL, "--out", name)


@pytest.mark.parametrize("other", ["a", "./a", "{}/a", "linked/a"])
def test_one_file_does_not_take_both(folder, complaint, other):
    Path("linked").symlink_to(".")
    said = complaint(*USUAL, "--out", "a", "--report", other.format(folder))
    assert "measure(--out, --report): expected a file each, got 'a', " in said
    assert said.endswith("Name one for each.")
    assert not Path("a").exists()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
def test_files_keep_their_permissions(folder, measured, mode):
    for name in ("a.json", "a.html"):
        Path(name).write_text("old")
        Path(name).chmod(mode)
    measured(*USUAL, "--out", "a.json", "--report", "a.html")
    assert [stat.S_IMODE(Path(name).stat().st_mode) for name in ("a.json", "a.html")] == [mode, mode]
    assert json.loads(Path("a.json").read_text())["samples"] == N


def test_new_files_have_those_of_the_umask(folder, measured):
    before = os.umask(0o027)
    try:
        measured(*USUAL, "--out", "a.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("a.json").stat().st_mode) == 0o640


def test_secrets_are_kept_while_they_are_written(tmp_path):
    path, seen = tmp_path / "a", []
    path.touch(0o600)
    replace_file(path, lambda beside: seen.append(stat.S_IMODE(beside.stat().st_mode)))
    assert seen == [0o600]


def test_numbers_are_printed_where_they_cannot_be_written(folder, monkeypatch, capsys):
    """The folder is found to be one that cannot be written to when all is computed."""
    monkeypatch.setattr("gnomon_lab.runs.files.replace_text", refused)
    arguments = ("small.pt", "--model", "nets:small", "--data", "some.npz", "--json", "--out", "a.json")
    code, out, said = call(monkeypatch, capsys, *arguments)
    assert code == 2
    assert json.loads(out)["samples"] == N
    assert "got [Errno 28] No space left" in said.splitlines()[-1]


def refused(path, text):
    raise OSError(28, "No space left on device")


# What the user's code does

ENDING = {
    "import of 0": ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
    "import of nothing": ("raise SystemExit\n", "SystemExit"),
    "import of words": ("import sys\nsys.exit('[red]bye')\n", "SystemExit: [red]bye"),
    "import that parses": ("import argparse\nargparse.ArgumentParser().parse_args()\n", "SystemExit: 2"),
    "import that raises": ("class Stop(BaseException): ...\nraise Stop('no')\n", "Stop: no"),
    "import without words": (
        "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\nraise Mute\n",
        "Mute",
    ),
    "factory": ("import sys\ndef net():\n    sys.exit(0)\n", "SystemExit: 0"),
    "attribute": ("def __getattr__(name):\n    raise SystemExit(0)\n", "SystemExit: 0"),
    "forward": (
        "import sys\nfrom torch import nn\nclass Net(nn.Sequential):\n    def forward(self, x):\n        sys.exit(0)\n"
        "def net():\n    return Net(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))\n",
        "SystemExit: 0",
    ),
    "loading": (
        "import sys\nfrom torch import nn\nclass Net(nn.Sequential):\n    def load_state_dict(self, *_):\n"
        "        sys.exit(0)\ndef net():\n    return Net(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))\n",
        "SystemExit: 0",
    ),
}


@pytest.mark.parametrize("kind", ENDING)
def test_what_the_users_code_ends_with_is_no_result(folder, monkeypatch, capsys, kind):
    code, words = ENDING[kind]
    name = f"ending_{[*ENDING].index(kind)}"
    Path(f"{name}.py").write_text(code)
    arguments = ("small.pt", "--model", f"{name}:net", "--data", "some.npz", "--json", "--out", "a.json")
    code, out, said = call(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, ""), said
    assert f"got {words}. " in said.splitlines()[-1]
    assert "Traceback" not in said
    assert not Path("a.json").exists()


def test_interrupts_in_the_users_code_stay_what_they_are(folder, monkeypatch, capsys):
    Path("interrupted.py").write_text("raise KeyboardInterrupt\n")
    code, out, said = call(monkeypatch, capsys, "small.pt", "--model", "interrupted:net", "--data", "some.npz")
    assert (code, out, said) == (130, "", "\ngnomon: stopped.\n")


# Checkpoints


def rewritten(path, change):
    """The archive small.pt, written again with `change(archive, name, content)` a member."""
    with zipfile.ZipFile("small.pt") as old, zipfile.ZipFile(path, "w") as new:
        for member in old.infolist():
            change(new, member.filename, old.read(member))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_checkpoints_are_refused(folder, complaint, method):
    rewritten("small.zip", lambda new, name, content: new.writestr(name, content, method))
    assert "expected an archive without compression, as torch.save writes it, got small.zip" in complaint("small.zip")


def test_parts_that_stand_for_several_are_refused(folder, complaint):
    rewritten("twice.pt", lambda new, name, content: new.writestr(name, content))
    with zipfile.ZipFile("twice.pt", "a") as archive:
        archive.filelist.extend(archive.filelist * 50)
        archive.comment = b"so that the directory is written again"
    assert "expected an archive without compression" in complaint("twice.pt")


def test_flipped_bytes_of_weights_are_found(folder, complaint):
    content = bytearray(Path("small.pt").read_bytes())
    place = content.index(network()[0].weight.detach().numpy().tobytes()) + 9
    content[place] ^= 1
    Path("flipped.pt").write_bytes(content)
    assert "expected the contents that the file was written with, got others in" in complaint("flipped.pt")


@pytest.mark.parametrize("key", [0, 1.5, None, True, (1, "a")])
def test_keys_that_are_no_names_are_refused(folder, complaint, key):
    for state in ({key: torch.ones(2)}, {**network().state_dict(), key: torch.ones(2)}, {key: 3}):
        torch.save(state, "keys.pt")
        said = complaint("keys.pt")
        assert "expected a state dict, tensors by name" in said
        assert f"a key of {type(key).__name__}" in said


def test_names_that_steer_a_terminal_are_written_out(folder, complaint, measured):
    state = network().state_dict()
    torch.save({**state, "\x1b[2J[red]": torch.ones(2), "a\nb": torch.ones(2)}, "names.pt")
    assert "unexpected \\x1b[2J[red], a" in complaint("names.pt")
    for name in ("[red]x.pt", "[b].pt", "\x1b[31m.pt", "a\udcff.pt", "a\nb.pt"):
        torch.save(state, name)
        found, said = measured(name, "nets:small", "some.npz", "--report", "a.html")
        shown = name if name.isprintable() else ascii(name)[1:-1]
        assert found["checkpoint"] == shown
        assert f"{shown}: 4 of 4 tensors" in said


STRUCTURES = ["", "{", "null", "[]", "{}", "3", '{"dict": 3}', '{"dict": [[[], 1]]}', '{"list": null}']
STRUCTURES += ['{"tensor": "9"}', '{"tensor": []}', '{"value": 1, "list": []}', '{"list": [' * 10**5]


@pytest.mark.parametrize("structure", STRUCTURES, ids=range(len(STRUCTURES)))
def test_malformed_structures_of_safetensors_are_one_line(folder, complaint, structure):
    from gnomon_lab.runs.checkpoint import _digest

    tensors = {"0": torch.ones(3)}
    save_file(tensors, "bad.safetensors", {"structure": structure, "sha256": _digest(structure, tensors)})
    assert "expected a " in complaint("bad.safetensors")
    save_file(tensors, "bad.safetensors", {"structure": structure})
    assert "expected a whole " in complaint("bad.safetensors")


def test_runs_checkpoints_still_open(folder, measured):
    save_checkpoint(folder / "run.safetensors", {"state": {"model": network().state_dict()}})
    assert "under state.model" in measured("run.safetensors")[1]


# Samples


@pytest.mark.parametrize("name", ["pipe.npz", "pipe.parquet", "pipe", "folder", "device.npz"])
def test_pipes_and_devices_are_not_opened(folder, complaint, name):
    if name == "folder":
        Path(name).mkdir()
        os.mkfifo("folder/train-00000-of-00001.parquet")
    elif name == "device.npz":
        Path(name).symlink_to("/dev/zero")
    else:
        os.mkfifo(name)
    assert "expected " in complaint("small.pt", "nets:small", name)


def members_of(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def headed(shape="(40, 6)", dtype="<f8", content=b"", version=b"\x01\x00"):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header + content


BAD_ARRAYS = {
    "no magic": b"hello, this is text",
    "nothing": b"",
    "cut": headed()[:-5],
    "too short": headed(content=bytes(100)),
    "too many": headed(f"({10**18}, {10**18})"),
    "negative": headed("(-1, 6)"),
    "no header": headed("__import__('os')"),
    "objects": headed(dtype="|O"),
    "version 3": headed(version=b"\x03\x00"),
    "version 9": headed(version=b"\x09\x00"),
}


@pytest.mark.parametrize("kind", BAD_ARRAYS)
def test_bad_arrays_are_one_line(folder, complaint, kind):
    members_of("bad.npz", x=BAD_ARRAYS[kind])
    assert "expected a readable .npz file 'bad.npz', without pickled objects, got " in complaint(*USUAL[:2], "bad.npz")


def test_names_of_parts_that_are_no_arrays_do_not_matter(folder, measured):
    np.savez("more.npz", x=numbers(N, 6).numpy(), labels=np.arange(N) % CLASSES, meta=np.array([{}], dtype=object))
    with zipfile.ZipFile("more.npz", "a") as archive:
        archive.writestr("README", "hello")
    assert measured("small.pt", "nets:small", "more.npz")[0]["quantities"] == measured()[0]["quantities"]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", "<f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_first_rows_are_those_of_the_whole(tmp_path, order, kind, save):
    whole = np.arange(5 * 2 * 3, dtype=kind).reshape(5, 2, 3)
    save(tmp_path / "a.npz", x=np.array(whole, order=order), y=np.arange(5, dtype=np.uint8))
    for n in (1, 4, 5):
        data = load_data(str(tmp_path / "a.npz"), samples=n, dtype=torch.float64)
        torch.testing.assert_close(data.x, torch.from_numpy(whole[:n].astype(np.float64)), rtol=0, atol=0)
        assert data.labels.tolist() == [*range(n)]


@pytest.mark.parametrize("order", ["C", "F"])
def test_no_more_is_held_than_was_asked_for(tmp_path, order):
    np.savez_compressed(tmp_path / "large.npz", x=np.zeros((400_000, 8), order=order), y=np.zeros(400_000))
    tracemalloc.start()
    try:
        assert load_data(str(tmp_path / "large.npz"), samples=3).x.shape == (3, 8)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 * 2**20  # of 26 MB


def test_no_more_of_a_table_is_decoded_than_was_asked_for(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {str(k): np.zeros(2_000_000, dtype=np.float32) for k in range(4)}
    parquet.write_table(pyarrow.table(columns), tmp_path / "large.parquet", row_group_size=2_000_000)
    del columns
    pool, usual = pyarrow.system_memory_pool(), pyarrow.default_memory_pool()
    pyarrow.set_memory_pool(pool)  # its most is of this test alone
    try:
        before = pool.max_memory()
        assert load_data(str(tmp_path / "large.parquet"), samples=3).x.shape == (3, 4)
        assert pool.max_memory() - before < 4 * 2**20  # of 32 MB
    finally:
        pyarrow.set_memory_pool(usual)


@pytest.mark.parametrize("row", [0, N - 1])
def test_flipped_bytes_of_samples_are_found(folder, complaint, row):
    content = bytearray(Path("some.npz").read_bytes())
    content[content.index(numbers(N, 6)[row].numpy().tobytes()) + 3] ^= 1
    Path("flipped.npz").write_bytes(content)
    assert "got BadZipFile in it" in complaint("small.pt", "nets:small", "flipped.npz", "--samples", "3")


def test_labels_beyond_whole_numbers_are_refused(folder, complaint):
    labels = np.arange(N, dtype=np.uint64)
    labels[3] = 2**64 - 1
    np.savez("labels.npz", x=numbers(N, 6).numpy(), labels=labels)
    words = "expected labels up to 9223372036854775807, got 18446744073709551615 in "
    assert words + "labels.npz" in complaint("small.pt", "nets:small", "labels.npz")
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {f"feature {place}": column for place, column in enumerate(numbers(N, 6).numpy().T)}
    parquet.write_table(pyarrow.table({**columns, "label": labels}), "labels.parquet")
    assert words + "labels.parquet" in complaint("small.pt", "nets:small", "labels.parquet")


@pytest.mark.parametrize("name", ["~nobody-of-this-name/x", "~nobody-of-this-name/x.npz", "~nobody-of-this-name"])
def test_homes_of_nobody_are_one_line(complaint, name):
    assert "of no user here" in complaint("small.pt", "nets:small", name)


def test_seeds_too_large_are_one_line(complaint):
    for seed in (10**22, -(10**22), 2**64):
        said = complaint("small.pt", "nets:small", "digits", "--seed", str(seed))
        assert f"measure(--seed): expected -9223372036854775808 to 18446744073709551615, got {seed}" in said


def test_names_of_any_length_are_cut(folder, complaint):
    torch.save({**network().state_dict(), "a" * 10**6: torch.ones(2)}, "long.pt")
    assert 3000 < len(complaint("long.pt")) < 3100


def test_no_memory_is_one_line(folder, complaint, monkeypatch):
    def none_left(*_, **__):
        raise MemoryError

    monkeypatch.setattr("gnomon_lab.measuring.samples.members", none_left)
    assert "expected memory for what it computes, got none left" in complaint()


def test_cross_entropy_is_spoken_of_where_it_matters(folder, measured):
    found, _ = measured("small.pt", "nets:small", "some.npz", "--report", "a.html")
    words = "Training with cross-entropy leaves it undetermined: use jacobian_alignment there."
    assert found["quantities"]["centroid_alignment"]["explanation"].endswith(words)
    assert [name for name, about in found["quantities"].items() if words in about["explanation"]] == [
        "centroid_alignment"
    ]
    assert words in Path("a.html").read_text(encoding="utf-8")


def test_no_memory_in_the_users_code_is_said_as_such(folder, complaint):
    Path("large.py").write_text(
        "import torch\n"
        "def net():\n    raise MemoryError\n"
        "def large():\n    return torch.nn.Linear(2**40, 2**20)\n"
        "def device():\n    raise torch.OutOfMemoryError('CUDA out of memory')\n"
    )
    for name in ("net", "large", "device"):
        assert "expected memory for what it computes, got none left" in complaint("small.pt", f"large:{name}")
