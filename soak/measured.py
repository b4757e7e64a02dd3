"""Checkpoints and data that were altered or made by an enemy, measured: a number, or one sentence; nothing is run.

What torch.save, NumPy and safetensors write has no seal, or one of its own: altered numbers are found in gnomon's
checkpoints alone, and only there are they looked for.
"""

import argparse
import json
import os
import pickle
import shutil
import struct
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import torch
from safetensors.torch import save_file

from gnomon.models import mlp
from gnomon_lab.runs.checkpoint import save_checkpoint
from soak.case import Case
from soak.gnomon_command import called, unfit
from soak.hostile import furnish
from soak.kills import same_machine
from soak.mutations import mutate, names_in

CHECKPOINTS = ("plain.pt", "wrapped.ckpt", "plain.safetensors", "sealed.safetensors", "old.pt", "last.pth.tar")
FOLDER, FOLDERS_DATA = "saved", "tokens.npz"
"""What transformers wrote, and what its network takes."""
OF_FOLDERS = 0.15
"""The share of cases with it."""
DATA = ("some.npz", "big.npz", "table.parquet", "images.parquet")
QUANTITIES = ("accuracy", "jacobian_norm", "nc1", "centroid_alignment")
RAN = "something-of-the-file-was-run"


class Enemy:
    """Its pickle makes a file where it is opened."""

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.mkdir, (RAN,)


class Measured:
    """Mutates a checkpoint or the data, or makes hostile ones, and measures."""

    name, share, unit, limit = "measured files", 0.15, 60, 40.0

    def prepare(self, folder: Path) -> None:
        """One of each file, and what they give."""
        same_machine()
        folder.mkdir(parents=True)
        os.chdir(folder)
        furnish(folder)
        network = mlp((6, 8, 3), bias=True, generator=torch.Generator().manual_seed(1))
        weights = network.state_dict()
        torch.save(weights, "plain.pt")
        torch.save(weights, "old.pt", _use_new_zipfile_serialization=False)
        torch.save(
            {"epoch": 3, "state_dict": {f"model.{name}": part for name, part in weights.items()}}, "wrapped.ckpt"
        )
        args = argparse.Namespace(lr=0.1, output=Path("out"), betas=(0.9, 0.99))
        torch.save({"epoch": 3, "args": args, "state_dict": weights, "state_dict_ema": weights}, "last.pth.tar")
        save_file(weights, "plain.safetensors")
        of_transformers()
        save_checkpoint(Path("sealed.safetensors"), {"step": 3, "state": {"model": weights, "other": [1, 0.5, None]}})
        x = torch.randn(20, 6, generator=torch.Generator().manual_seed(0)).numpy()
        np.savez_compressed(
            "big.npz", x=np.zeros((4_000_000, 6), dtype=np.float16), labels=np.zeros(4_000_000, dtype=int)
        )
        pyarrow, parquet = __import__("pyarrow"), __import__("pyarrow.parquet").parquet
        table = {f"f{k}": x[:, k] for k in range(6)} | {"label": np.arange(20) % 3}
        parquet.write_table(pyarrow.table(table), "table.parquet")
        images = [{"bytes": png(chance=Random(k)), "path": None} for k in range(6)]
        parquet.write_table(pyarrow.table({"image": images, "label": [k % 3 for k in range(6)]}), "images.parquet")
        self.home = folder
        self.sealed = called(self.words("sealed.safetensors", "some.npz"))
        if self.sealed.code != 0:
            raise RuntimeError(f"the unaltered files could not be measured: {self.sealed}")

    def case(self, chance: Random, number: int, folder: Path) -> Case:
        """One file altered, or made by an enemy."""
        checkpoint, data = chance.choice(CHECKPOINTS), chance.choice(["some.npz"] * 3 + [*DATA])
        if chance.random() < OF_FOLDERS:
            checkpoint, data = FOLDER, FOLDERS_DATA
        for name in ("nets.py", checkpoint, data):
            (shutil.copytree if name == FOLDER else shutil.copy)(self.home / name, folder / name)
        altered = chance.choice([checkpoint, checkpoint, data])
        if altered == FOLDER:
            altered = f"{FOLDER}/{chance.choice(['config.json', 'config.json', 'model.safetensors'])}"
        did = (enemy if chance.random() < 0.2 else mutate)(Path(altered), chance)
        names = words_for((Path(altered).name,) if " made by " in did else names_in(did))
        path = [*sys.path]
        ended = called(self.words(checkpoint, data))
        sys.path[:] = path
        sys.modules.pop("nets", None)
        did = f"measure {checkpoint} at {data} after {did}"
        verdict, saw = unfit(ended)
        if Path(RAN).exists():
            verdict, saw = "wrong", "something in the file was run"
        named = any(name in ended.err for name in names) or said_otherwise(ended.err)
        if not verdict and ended.code == 2 and not named:
            verdict, saw = "wrong", f"the sentence names none of {names}: {ended.err!r}"
        sealed = (checkpoint, data, altered) == ("sealed.safetensors", "some.npz", checkpoint)
        if sealed and not verdict and ended.code == 0 and values(ended.out) != values(self.sealed.out):
            verdict, saw = "wrong", f"another number: {ended.out[:600]}"
        return Case(did, verdict, saw)

    def words(self, checkpoint: str, data: str) -> list[str]:
        """The command line."""
        built = [] if checkpoint == FOLDER else ["--model", "nets:small"]
        asked = ["accuracy", "nc1"] if checkpoint == FOLDER else QUANTITIES
        return ["measure", checkpoint, *built, "--data", data, "--json", "--quantities", *asked]


def of_transformers() -> None:
    """A tiny network's folder, and tokens for it."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(**size, vocab_size=9, num_labels=3, max_position_embeddings=8)
    transformers.BertForSequenceClassification(config).save_pretrained(FOLDER)
    tokens = torch.randint(0, 9, (20, 5), generator=torch.Generator().manual_seed(0)).numpy()
    np.savez(FOLDERS_DATA, x=tokens, labels=np.arange(20) % 3)


def words_for(files: Sequence[str]) -> list[str]:
    """How a sentence names files: of a folder's tables each is a split, and a module is imported without its suffix."""
    splits = [f"({Path(name).stem})" for name in files if name.endswith(".parquet")]
    return [*files, *splits, *["'nets'" for name in files if name == "nets.py"]]


def said_otherwise(sentence: str) -> bool:
    """What is said of a whole and valid file need not name it: that it does not fit the network, or holds NaN."""
    fits = ("of the network", "the network's", "--quantities", "--samples", "(x)", "labels")
    return any(word in sentence for word in (*fits, "expected finite numbers"))


def values(said: str) -> object:
    """What was measured."""
    return json.loads(said)["quantities"]


def png(chance: Random) -> bytes:
    """A small image."""
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.frombytes("L", (4, 4), chance.randbytes(16)).save(file, "PNG")
    return file.getvalue()


def enemy(path: Path, chance: Random) -> str:
    """What somebody would send who means harm, under the name that is expected."""
    if path.suffix != ".json":
        path.unlink()
    pickled = dict.fromkeys(("pt", "ckpt", "tar"), SENT_CHECKPOINTS)
    kinds = {**pickled, "npz": SENT_ARRAYS, "parquet": SENT_TABLES, "json": SENT_CONFIGURATIONS}
    made = chance.choice(kinds.get(path.suffix[1:], SENT_SAFETENSORS))
    made(path, chance)
    return f"{path.name} made by {made.__name__}"


def code(path: Path, chance: Random) -> None:
    """A pickle that runs something."""
    path.write_bytes(pickle.dumps(Enemy(), protocol=chance.choice([2, 4])))


def code_in_zip(path: Path, chance: Random) -> None:
    """The same in torch's archive."""
    torch.save({"weight": torch.ones(2), "more": Enemy()}, path)


def odd_keys(path: Path, chance: Random) -> None:
    """State dicts whose keys are no strings, or whose values are no tensors of the network."""
    odd = chance.choice([None, 3, 2.5, b"0.weight", ("a", 1), True])
    tensor = chance.choice(
        [torch.ones(8, 6), torch.ones(8, 6).to_sparse(), torch.empty(8, 6, device="meta"), torch.ones(())]
    )
    torch.save(chance.choice([{odd: tensor}, {"model": {odd: tensor}}, [tensor], {"state_dict": 3}, tensor, odd]), path)


def nested(path: Path, chance: Random) -> None:
    """Wrappers in wrappers, which hold themselves."""
    content: dict[str, object] = {}
    content["model"] = content["state_dict"] = content
    torch.save(content, path)


def expanded(path: Path, chance: Random) -> None:
    """Gigabytes from a few bytes: a tensor whose rows are all the same one."""
    torch.save({"0.weight": torch.ones(1).expand(2 ** chance.choice([3, 34, 44]), 6)}, path)


def options(path: Path, chance: Random) -> None:
    """Options of a training script that hold what is run, or themselves, or what others call."""
    args = argparse.Namespace(lr=0.1)
    odd = chance.choice([Enemy(), args, {"model": args}, torch.ones(2), Path("/dev/zero"), [args] * 3])
    vars(args)[chance.choice(["args", "__class__", "__reduce__", "__setstate__", "keys", "items"])] = odd
    torch.save({chance.choice(["args", "state_dict", "model"]): args, "weight": torch.ones(2)}, path)


def configuration(path: Path, chance: Random) -> None:
    """A network of another size or kind, or one that asks for code or another place."""
    config = json.loads(path.read_text())
    key = chance.choice([*config, "auto_map", "attn_implementation", "quantization_config", "backbone", "id2label"])
    config[key] = chance.choice(
        [
            *(2**10, 2**20, 2**25, 2**40, -1, 0, 0.5, None, True, [], {}, [[0] * 9]),
            *("theirs.Net", "evil/kernel", "http://127.0.0.1:1", "gpt2", ["BertForMaskedLM"], ["os"]),
            {"AutoModel": "theirs.Net"},
        ]
    )
    path.write_text(json.dumps(config))


def bomb(path: Path, chance: Random) -> None:
    """An archive of zeros, a thousand times smaller than what it holds."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in chance.choice([("x.npy",), ("archive/data.pkl", "archive/data/0")]):
            with archive.open(name, "w") as member:
                for _ in range(chance.choice([1, 50])):
                    member.write(bytes(2**20))


def objects(path: Path, chance: Random) -> None:
    """Arrays of objects, which NumPy would unpickle."""
    np.savez(path, x=np.array([Enemy()], dtype=object), allow_pickle=True)


def header(path: Path, chance: Random) -> None:
    """An array whose header says what is not so."""
    shape = chance.choice(["(20, 6)", "(99999999999, 6)", "(-1, 6)", "(20,)", "()", "(20, 6", "(2**9, 6)", "[20]"])
    kind = chance.choice(["<f4", "<f8", "|O", "<c16", "<f2", "<U9", "V1", ">f4", "<M8[s]", "x"])
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    magic = chance.choice([b"\x93NUMPY\x01\x00", b"\x93NUMPY\x09\x00", b"not its magic"])
    content = magic + struct.pack("<H", len(text)) + text.encode() + bytes(chance.choice([0, 480, 960]))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", content)
        archive.writestr(chance.choice(["labels.npy", "y.npy", "../../labels.npy"]), content)


def odd_labels(path: Path, chance: Random) -> None:
    """Labels that are none."""
    x = np.ones((6, 6), dtype=np.float32) * chance.choice([1.0, 0.0, float("nan"), float("inf"), 3e38, 1e-45])
    labels = np.array([chance.choice([0, 1, 2, 5, 7, 2**62, 2**64 - 1]) for _ in range(6)], dtype=np.uint64)
    np.savez(path, x=x, labels=chance.choice([labels, labels.astype(float), labels.astype(str), labels[:3], labels[0]]))


def structure(path: Path, chance: Random) -> None:
    """The metadata of gnomon's own, malformed."""
    text = chance.choice(
        ["", "{}", "[]", "null", '{"dict": 3}', '{"tensor": "9"}', "[" * 100_000, '{"dict": [["a"]]}', "{"]
    )
    seal = chance.choice(["", "0" * 64, "x"])
    save_file({"0": torch.ones(2)}, path, {"structure": text, "sha256": seal})


def long_header(path: Path, chance: Random) -> None:
    """A safetensors header of a wrong length, or with tensors that lie elsewhere."""
    head = {
        "a": {"dtype": "F32", "shape": [chance.choice([2, 2**60, -1])], "data_offsets": [0, chance.choice([8, 2**63])]}
    }
    text = json.dumps(head).encode()
    length = chance.choice([len(text), 2**62, 0, len(text) - 3])
    path.write_bytes(struct.pack("<Q", length) + text + bytes(8))


def cells(path: Path, chance: Random) -> None:
    """Images that are paths, other formats, or nothing."""
    import pyarrow
    import pyarrow.parquet

    os.mkfifo("pipe")
    odd = chance.choice(
        [b"", b"GIF89a", b"%!PS-Adobe EPSF\n", b"P5 99999 99999 255\n", b"\x89PNG\r\n\x1a\n", None, b"\xff\xd8\xff"]
    )
    place = chance.choice([None, "nets.py", "pipe", "/dev/zero", "http://127.0.0.1:1/x.png"])
    cells = [{"bytes": odd, "path": place}] * 3
    column = chance.choice([cells, [place or ""] * 3, [odd] * 3, [1, 2, 3], [None] * 3, [[1, 2]] * 3])
    labels = chance.choice([[0, 1, 2], ["a", "b", "c"], [None, 1, 2], [2**62, 0, 1], [0.5, 1.0, 2.0]])
    pyarrow.parquet.write_table(pyarrow.table({"image": column, "label": labels}), path)


SENT_CHECKPOINTS = (code, code_in_zip, odd_keys, nested, expanded, options, bomb)
SENT_CONFIGURATIONS = (configuration,)
SENT_ARRAYS = (objects, header, odd_labels, bomb)
SENT_SAFETENSORS = (structure, long_header)
SENT_TABLES = (cells,)
