"""`gnomon measure` of the checkpoints that a trainer wrote."""

import json

import numpy as np

from tests.integrations.plain_loop import LABELS, QUANTITIES, X
from tests.lab.measuring import call

NETWORK = ("--model", "tests.integrations.plain_loop:network")


def timeline(monkeypatch, capsys, *checkpoints, x=X, labels=LABELS, quantities=QUANTITIES, model=NETWORK):
    """The scalars by step, as readings have them, and what was said."""
    folder = checkpoints[0].parent
    np.savez(folder / "samples.npz", x=x.numpy(), labels=labels.numpy())
    names = [quantity.__name__ for quantity in quantities]
    arguments = (*checkpoints, *model, "--data", folder / "samples.npz", "--json", "--quantities", *names)
    code, out, said = call(monkeypatch, capsys, *arguments)
    assert code == 0, said
    found = json.loads(out)
    ends = {"mean": "", "min": ".min", "max": ".max"}
    return {
        step: {
            f"{name}{end}": numbers[kind][place]
            for name, numbers in found["quantities"].items()
            for kind, end in ends.items()
        }
        for place, step in enumerate(found["steps"])
    }, said
