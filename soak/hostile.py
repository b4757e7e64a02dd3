"""Arguments that nobody types on purpose: words, numbers and paths, in every option of every command."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

WORDS = (
    "", " ", "-", "--", "---", "=", "@", "*", "~", ".", "..", "/", "//", "\\", "'", '"', ";", "|", "$(true)", "`true`",
    "[/b]", "[red]x", "[/]", "[link=x]y", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\r", "\n", "a\nb", "\t", "\x7f",
    "\udcff", "\u202etxt", "\u0000"[:0], "ü", "数", "🙂", "a" * 300, "x" * 5000, "%s", "%n", "{}", "{0.__class__}",
    "None", "none", "null", "True", "inf", "-inf", "nan", "NaN", "1e400", "0x10", "1_000", "١٢", "²", "0", "-0", "-1",
    "1", "00", "1.5", "1e3", "99999999999999999999999", "2147483648", "9223372036854775808", "0-9", "9-0", "0-", "-9",
    "0,,1", "0,0", "0-99999999", "0--1", "1 2", "digits", "mnist", "owner/name", "cpu", "cuda", "cuda:99",
    "meta", "mps",
    "float16", "float64", "dask://", "dask://x", "dask://127.0.0.1:1", "dask://127.0.0.1:99999", "slurm:", "slurm:x",
    "--help", "-h", "--version", "--runs", "--json", "--seeds", "help", "grok-digits", "grok_digits", "GROK-DIGITS",
)  # fmt: skip
PATHS = (
    "runs", "runs/", "./runs", "runs/grok-digits", "empty", "file", "missing", "missing/deep", "pipe", "loop",
    "nowhere", "readings.jsonl",
    "file/x", "unreadable", "/dev/null", "/dev/zero", "/proc/self/mem", "/dev/stdin", "/dev/fd/9", "a" * 255, "b" * 256,
    "small.pt", "small.safetensors", "some.npz", "[red]x", "[/b]", "\x1b[31mred", "ü", "🙂", "\udcff", "new\nline",
    "~", "~x",
    "text.npz", "text.pt", "text.safetensors", "text.parquet", "pipe.npz", "pipe.pt", "folder.npz", "nets.py", "-dash",
)  # fmt: skip
MODELS = (
    "nets:small", "nets:missing", "nets:nothing", "nets:raising", "nets:leaving", "nets:needy", "nets:Raising",
    "nets:interrupted", "nets:deep", "nets", ":", "nets:", ":small", "missing:small", "..:small", "nets.small:x",
    "a b:c",
    "leaving:small", "raising:small", "broken:small", "os:getcwd", "math:pi", "nets:small:x", "nets:recursing",
)  # fmt: skip
NETS = '''
"""Factories: good ones and others."""
import sys
from torch import nn
from gnomon.models import mlp

def small():
    return mlp((6, 8, 3), bias=True)

def deep():
    return mlp((6, 8, 8, 3), bias=True)

def nothing():
    return None

def needy(width):
    return mlp((6, width, 3))

def raising():
    raise ValueError("two\\nlines [/b] \\x1b[31m")

def leaving():
    sys.exit(0)

def interrupted():
    raise MemoryError

def recursing():
    return recursing()

class Raising(nn.Module):
    def forward(self, x):
        raise ValueError("no")
'''
OUTWARD = ("dask:", "mnist", "owner/name", "=/")
EXPERIMENT_OPTIONS = ("--steps", "--width", "--loss", "--coefficient", "--learning-rate", "--init-scale", "--threads")
OPTIONS: dict[str, tuple[str, ...]] = {
    "run": ("--seeds", "--small", "--paper", "--runs", "--data-dir", "--workers", "--on", *EXPERIMENT_OPTIONS),
    "list": ("--runs",),
    "report": ("--runs", "--table"),
    "verify": ("--runs",),
    "measure": (
        "--model", "--data", "--key", "--logits", "--position", "--quantities", "--samples", "--split", "--layer",
        "--head", "--memory", "--device", "--dtype",
        "--seed", "--data-dir", "--json", "--out", "--report", "--steps", "--history", "--rtol", "--passes",
    ),
    "verdict": ("--data", "--model", "--arm", "--split", "--validation", "--picture"),
    "watch": ("--only", "--port", "--out", "--terminal"),
}  # fmt: skip
FIRST = {
    "run": ("grok-digits", "xor", "central-path", "rank"),
    "report": ("grok-digits", "runs/grok-digits", "xor"),
    "verify": ("grok-digits", "xor"),
    "measure": ("small.pt", "small.safetensors", "*.pt", "."),
    "verdict": ("readings.jsonl", "readings.jsonl", "runs/grok-digits", "small.pt"),
    "watch": ("readings.jsonl", "runs", ".", "empty"),
}
FLAGS = ("--json", "--small", "--paper", "--terminal")
USUAL = {"--model": "nets:small", "--data": "some.npz", "--quantities": "accuracy", "--samples": "5"}
"""Of measure, as one means it; some of these are then replaced."""


def arguments(chance: Random) -> list[str]:
    """One command line."""
    command = chance.choice([*OPTIONS]) if chance.random() < 0.97 else chance.choice(WORDS)
    words = [command, "--once"] if command == "watch" else [command]  # without it, that would have no end
    if command in FIRST:
        words.append(chance.choice(FIRST[command]) if chance.random() < 0.75 else path_or_word(chance))
    options = dict(USUAL) if command == "measure" else {}
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
        option = chance.choice(OPTIONS.get(command, WORDS))
        options[option] = (
            chance.choice(MODELS) if option == "--model" and chance.random() < 0.8 else path_or_word(chance)
        )
    for option, value in options.items():
        match chance.randrange(12):
            case 0:
                words.append(f"{option}={value}")
            case 1:
                words.append(option)
            case 2:
                words += [option, value, value]
            case _:
                words += [option] if option in FLAGS else [option, value]
    for _ in range(chance.choice([0, 0, 0, 0, 1])):
        words.insert(chance.randrange(1, len(words) + 1), path_or_word(chance))
    return [word.replace("\x00", "") for word in words]


def outward(words: Sequence[str]) -> bool:
    """Whether a command line asks for the network, or for a place elsewhere."""
    return any(word.startswith("/") or any(name in word for name in OUTWARD) for word in words)


def path_or_word(chance: Random) -> str:
    """Either."""
    return chance.choice(PATHS if chance.random() < 0.5 else WORDS)


def furnish(folder: Path) -> None:
    """The things that the paths name: files that are none, pipes, loops, and one of each that is as it should be."""
    import numpy as np
    import torch
    from safetensors.torch import save_file

    from gnomon.history import corpus
    from gnomon.models import mlp

    (folder / "nets.py").write_text(NETS, encoding="utf-8")
    (folder / "leaving.py").write_text("import sys\nsys.exit(0)\n", encoding="utf-8")
    (folder / "raising.py").write_text("raise RuntimeError('[/b]')\n", encoding="utf-8")
    (folder / "broken.py").write_text("def (:\n", encoding="utf-8")
    network = mlp((6, 8, 3), bias=True, generator=torch.Generator().manual_seed(1))
    torch.save(network.state_dict(), folder / "small.pt")
    save_file(network.state_dict(), folder / "small.safetensors")
    x = torch.randn(20, 6, generator=torch.Generator().manual_seed(0)).numpy()
    np.savez(folder / "some.npz", x=x, labels=np.arange(20) % 3)
    readings = [{"step": 2**k} | dict.fromkeys(corpus().quantities, 1 / (1 + k)) for k in range(9)]
    readings = [reading | {"log_probability": -1 / reading["step"]} for reading in readings]
    (folder / "readings.jsonl").write_text("".join(f"{json.dumps(reading)}\n" for reading in readings))
    for name in ("empty", "folder.npz", "runs/grok-digits"):
        (folder / name).mkdir(parents=True)
    for name in ("file", "text.npz", "text.pt", "text.safetensors", "text.parquet", "unreadable", "-dash"):
        (folder / name).write_text("not what its name says\n", encoding="utf-8")
    (folder / "unreadable").chmod(0)
    for name in ("pipe", "pipe.npz", "pipe.pt"):
        os.mkfifo(folder / name)
    (folder / "loop").symlink_to("loop")
    (folder / "nowhere").symlink_to("missing")


def shown(words: Sequence[str]) -> str:
    """A command line in plain letters."""
    return " ".join(ascii(word if len(word) < 60 else f"{word[:20]}…{len(word)}") for word in words)
