"""A folder in which `gnomon measure` works, calls of it there that are right, and wrong; and a browser."""

import json
import re
import shutil
import sys

import numpy as np
import pytest
import torch

from tests.lab.measuring import CLASSES, NETS, N, call, network, numbers

CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-angle=swiftshader",  # WebGL without a graphics card
    "--enable-unsafe-swiftshader",
]


@pytest.fixture(scope="module")
def browser():
    """Chromium, in which each test has a context of its own; it ends with the module, since asyncio waits for it."""
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no Chromium: there is no `chromium` on PATH")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGS)
        yield running
        running.close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with networks, weights and samples, in which one works."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    (tmp_path / "nets.py").write_text(NETS)
    torch.save(network().state_dict(), "small.pt")
    np.savez("some.npz", x=numbers(N, 6).numpy(), labels=(torch.arange(N) % CLASSES).numpy())
    return tmp_path


@pytest.fixture
def measured(folder, monkeypatch, capsys):
    """Measures and returns the JSON, and what was said beside it."""

    def ask(checkpoint="small.pt", model="nets:small", data="some.npz", *options):
        code, out, said = call(monkeypatch, capsys, checkpoint, *built(model), "--data", data, "--json", *options)
        assert code == 0, said
        return json.loads(out), said

    return ask


@pytest.fixture
def complaint(folder, monkeypatch, capsys):
    """The one line said to a call that is wrong."""

    def ask(checkpoint="small.pt", model="nets:small", data="some.npz", *options):
        code, out, said = call(monkeypatch, capsys, checkpoint, *built(model), "--data", data, *options)
        last = said.splitlines()[-1]
        assert (code, out) == (2, ""), said
        assert "Traceback" not in said
        assert last.startswith("gnomon: ")
        # Before it at most what was taken, what it will cost, and what the user's own module prints.
        assert all(
            re.match(r"a word at import$|reading \d+ |\S+: (\d+ of )?\d+ tensors", line)
            for line in said.splitlines()[:-1]
        )
        return last

    return ask


def built(model):
    """The option that names the factory; none where the checkpoint says the network."""
    return [] if model is None else ["--model", model]
